"""`kchaos measure --planted`: hunts planted bugs with random schedules, and says what it took."""

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.client_history import client_history
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.histories.anomalies import anomalies
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.run_line import RunLine
from kchaos.clusters.agent.planted import PLANTED_BUGS, PlantedBug
from kchaos.clusters.releases import release_of
from kchaos.harness.campaign.campaign import Campaign, player_in
from kchaos.harness.campaign.results_file import ResultsFile
from kchaos.harness.campaign.schedules import DrawnSchedules, Due, releases_of
from kchaos.harness.errors import UsageError
from kchaos.harness.player.candidates import CLIENTS
from kchaos.harness.player.free import FreeRun
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.run.scenario import Scenario, case_planted
from kchaos.harness.summary.lines import of_kafka
from kchaos.harness.summary.summary import schedule_of

RESULTS = "planted.jsonl"
SEED = 4100
STEPS = 15
NEVER_ACTED = "never acted"
Answer = Literal["found", "suspected", "missed", "never acted", "lost"]
_BEST_FIRST: tuple[Answer, ...] = ("found", "suspected", "missed", "never acted", "lost")
_MIXES = (
    *("mixed", CLIENTS, "admin", "holds", "shutdowns", "cuts"),
    *("topics", "elections", "restarts", "rare", "logs", "zombies"),
)
"""In turn, so that one bug's schedules are of several kinds; the controls have the same."""
RUNS = len(_MIXES)
_CLIENTS_RUN = FreeRun(for_s=90.0, rate=20.0, transactions=True)
"""Schedules that disturb clients have clients that run freely, with transactions."""
_NOT_OF_A_RUN = ("unseen", "int-send-skip")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunt:
    """One bug on one release: its runs in their order, at least one, and all controls by seed."""

    bug: PlantedBug
    release: str
    lines: tuple[RunLine, ...]
    controls: Mapping[int | None, RunLine]

    def answer_of(self, line: RunLine) -> Answer:
        """Return what one of its runs says of the bug.

        It is found where an answer is no, and its control, the same schedule without the bug, is
        green. It is suspected where an answer is no or unknown and a finding points at the bug.
        """
        if not line.run:
            return "lost"
        if NEVER_ACTED in (line.unknown or ""):
            return "never acted"
        control = self.controls.get(line.seed)
        if False in (line.conforms, line.safe) and control is not None and is_green(control):
            return "found"
        return "suspected" if points_at(line, self.bug) else "missed"

    @property
    def answer(self) -> Answer:
        """The best that any of its runs gives."""
        return min(map(self.answer_of, self.lines), key=_BEST_FIRST.index)

    @property
    def first(self) -> RunLine | None:
        """The first run that gives its answer, None if none found or suspected the bug."""
        answers = (line for line in self.lines if self.answer_of(line) == self.answer)
        return next(answers, None) if self.answer in ("found", "suspected") else None

    @property
    def until(self) -> tuple[RunLine, ...]:
        """The runs up to and including the first; all of them if there is none."""
        return self.lines if self.first is None else self.lines[: self.lines.index(self.first) + 1]


def is_green(line: RunLine) -> bool:
    """Return whether a run conforms and is safe."""
    return line.conforms is True and line.safe is True


def points_at(line: RunLine, bug: PlantedBug) -> bool:
    """Return whether a finding of the run names the bug's effect."""
    return any(
        finding.kind in bug.kinds and any(word in finding.message for word in bug.words)
        for finding in line.findings
    )


def is_seen_by_clients(run: Path) -> bool | None:
    """Return whether the history of the run's clients alone shows an anomaly; None if it is gone.

    A client that reads everything at the end is assumed: it misses what no replica in sync holds.
    """
    try:
        evidence = RunEvidence(RunDirectory.open(run))
        said = [each for each in evidence.client_operations if not each.is_probe]
        history = client_history((), said=said)
        return any(each.name not in _NOT_OF_A_RUN for each in anomalies(history.operations))
    except CheckError:
        return None


def hunt(
    names: Sequence[str],
    *,
    kafkas: Sequence[str],
    runs: int,
    budget_s: float | None,
    results: Path,
    options: RunOptions,
    say: Callable[[str], None],
) -> None:
    """Hunt each bug on each release that it fits; play each schedule without the bug as well.

    A hunt ends with the first run that finds its bug. `names` are bugs, by default all; `runs` is
    the most of one hunt. No run is begun once `budget_s` is over. `results` is a file of lines that
    a later hunt goes on with; its table is written beside it.

    Raises:
        UsageError: No bug is named so, or it fits none of the releases.
    """
    file, until = ResultsFile(results), time.monotonic() + (budget_s or float("inf"))
    bugs = [_bug(name, kafkas) for name in names] or list(PLANTED_BUGS.values())
    spent = _processor_s()

    def due() -> Iterator[tuple[DrawnSchedules, Due]]:
        hunts = [
            (number, bug, kafka)
            for number in range(runs)
            for kafka in kafkas or _all_releases(bugs)
            for bug in bugs
            if kafka in bug.releases
        ]
        for number, bug, kafka in hunts:
            if any(each.answer == "found" for each in hunts_in(file.lines, [bug], [kafka])):
                continue
            for plan, one in (_schedule(kafka, number, each) for each in ("", bug.short_name)):
                is_known = schedule_of(plan.line_of(one)) in set(map(schedule_of, file.lines))
                if not is_known and time.monotonic() < until:
                    yield plan, one

    def draw(item: tuple[DrawnSchedules, Due]) -> Scenario:
        plan, one = item
        say(f"== {plan.planted or 'control'} on {one.kafka}: seed {one.seed}, {one.mix}")
        return plan.draw(one)

    def keep(item: tuple[DrawnSchedules, Due], line: RunLine) -> None:
        nonlocal spent
        plan, one = item
        now = _processor_s()
        seen = is_seen_by_clients(Path(line.run)) if line.run and plan.planted else None
        line = replace(
            line,
            kafka=one.kafka,
            acts=plan.acts,
            processor_s=round(now - spent, 1),
            seen_by_clients=seen,
        )
        spent = now
        file.append(line)
        bugs = [PLANTED_BUGS[plan.planted]] if plan.planted else []
        answers = [each.answer_of(line) for each in hunts_in(file.lines, bugs, [one.kafka])]
        say(f"{', '.join(answers) or 'control'}: {line.verdict}; {line.unknown or ''}")

    for kafka in kafkas or _all_releases(bugs):
        releases_of(_schedule(kafka, 0, "")[0], options, say)
    with player_in("planted", options) as player:
        Campaign(player=player).run(due(), draw, keep)
    file.write_page(lambda lines, _: page(lines), say)


def hunts_in(
    lines: Sequence[RunLine], bugs: Iterable[PlantedBug], releases: Sequence[str] = ()
) -> list[Hunt]:
    """Return the hunts for these bugs that have runs, on all releases if none is named."""
    hunts = []
    for bug in bugs:
        for kafka in bug.releases:
            of_it = [line for line in lines if line.kafka == kafka]
            runs = [line for line in of_it if line.case.endswith(case_planted("", bug.short_name))]
            if runs and (not releases or kafka in releases):
                runs.sort(key=lambda line: line.seed or 0)
                controls = {line.seed: line for line in of_kafka(of_it)}
                hunts.append(Hunt(bug=bug, release=kafka, lines=tuple(runs), controls=controls))
    return hunts


def page(lines: Sequence[RunLine]) -> str:
    """Return the table of all hunts in Markdown, with the controls after it."""
    head = "| bug | release | answer | runs | processor s | points at it | clients alone |"
    rows = [head, "|---|---|---|---|---|---|---|"]
    hunts = hunts_in(lines, PLANTED_BUGS.values())
    for each in hunts:
        spent = sum(line.processor_s or 0.0 for line in each.until)
        first = each.first
        pointed = None if first is None else points_at(first, each.bug)
        rows.append(
            f"| {each.bug.short_name} | {each.release} | {each.answer} | {len(each.until)} | "
            f"{spent:.0f} | {_yes(pointed)} | {_yes(_clients(first))} |"
        )
    controls = of_kafka(lines)
    green = sum(map(is_green, controls))
    answers = Counter(each.answer for each in hunts)
    told = ", ".join(f"{answers[each]} {each}" for each in _BEST_FIRST if answers[each])
    rows += [
        "",
        f"{len(hunts)} hunts: {told or 'none'}.",
        f"{len(controls)} controls: {green} green"
        + "".join(
            f"; of seed {line.seed} on {line.kafka} {line.verdict}"
            for line in controls
            if not is_green(line)
        )
        + ".",
    ]
    return "\n".join(rows) + "\n"


def planted_text(bug: PlantedBug) -> str:
    """Return a planted bug in two lines, for people."""
    return (
        f"{bug.short_name} ({bug.side}; {', '.join(bug.releases)}): {bug.meaning}\n"
        f"    breaks: {bug.breaks}"
    )


def planted_json(bug: PlantedBug) -> dict[str, Any]:
    """Return a planted bug as plain JSON values, its rules by release."""
    return {
        "name": bug.short_name,
        "meaning": bug.meaning,
        "side": bug.side,
        "breaks": bug.breaks,
        "findings": list(bug.kinds),
        "rules": {
            release: {
                "class": place.java_class,
                "method": place.method,
                "if": place.when,
                "do": place.does,
            }
            for release, place in zip(bug.releases, bug.places, strict=True)
        },
    }


def _bug(name: str, kafkas: Sequence[str]) -> PlantedBug:
    bug = PLANTED_BUGS.get(name)
    if bug is None:
        raise UsageError(f"no bug {name!r} is there to plant: kchaos list --planted has them")
    if kafkas and not set(kafkas) & set(bug.releases):
        raise UsageError(f"the bug {name} fits {', '.join(bug.releases)} alone")
    return bug


def _all_releases(bugs: Sequence[PlantedBug]) -> list[str]:
    return sorted({release for bug in bugs for release in bug.releases})


def _schedule(kafka: str, number: int, planted: str) -> tuple[DrawnSchedules, Due]:
    """Return the plan and the schedule of one run of a hunt, by its number from 0."""
    mix = _MIXES[number % len(_MIXES)]
    plan = DrawnSchedules(
        kafkas=(kafka,),
        seed=SEED,
        mixes={mix: 1.0},
        steps=STEPS,
        gated=True,
        free=_CLIENTS_RUN if mix == CLIENTS else None,
        planted=planted,
    )
    release = release_of(kafka).judged_as
    return plan, Due(seed=SEED + number, kafka=kafka, release=release, mix=mix)


def _clients(line: RunLine | None) -> bool | None:
    if line is None or line.seen_by_clients is None:
        return None
    return line.seen_by_clients or any(each.kind == "committed-loss" for each in line.findings)


def _yes(answer: Any) -> str:
    return "" if answer is None else "yes" if answer else "no"


def _processor_s() -> float:
    """Return the processor seconds of this process and of all children that have ended."""
    of = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = [resource.getrusage(each) for each in of]
    return sum(each.ru_utime + each.ru_stime for each in used)
