"""Playing catalogue entries: run, judge, tell, and at the end one Spark job over all of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kchaos.checkers.acts import Mode
from kchaos.checkers.judge import judge
from kchaos.checkers.results import Results, read_judgement, write_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.run_line import line_of
from kchaos.clusters.front.ready import fetch
from kchaos.clusters.releases import release_of
from kchaos.harness.catalogue import Entry, scenario_of, with_brokers
from kchaos.harness.commands.children import play_each
from kchaos.harness.commands.judge_runs import write_report_or_say
from kchaos.harness.errors import UsageError
from kchaos.harness.run.runner import RunOptions, play
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.summary.lines import Line

_MINUTES_FROM_S = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedCase:
    """One play of one case: its directory, its verdict, and its report, if one could be drawn.

    Attributes:
        run: None for a play that was killed, of which nothing is known.
    """

    run: RunDirectory | None
    results: Results
    report: Path | None

    @property
    def line(self) -> dict[str, Any]:
        """The object that `--json` prints for it."""
        line = line_of(self.results, report=self.report).to_json()
        return line if self.run else line | {"run": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class DueCase:
    """A case that is to be played on a Kafka.

    Attributes:
        told: What is said of it when its turn has come.
    """

    scenario: Scenario
    told: str


def reproduce(
    entry: Entry,
    *,
    cases: Sequence[str],
    kafkas: Sequence[str],
    of_brokers: Mapping[int, str] | None = None,
    runs: int,
    judged_as: str | None,
    mode: Mode | None = None,
    side_by_side: int,
    options: RunOptions,
    say: Callable[[str], None],
    done: Callable[[PlayedCase], None],
) -> list[PlayedCase]:
    """Play every case on every Kafka `runs` times, and judge each run at once.

    `cases` is None for all that a release can show. `kafkas` are releases or paths to
    distributions, of which the same is expected as of their releases; `of_brokers` overrides them
    for single brokers. `judged_as` is the release whose rules a patched build follows, or None.
    `mode` overrides where clusters keep their metadata. `side_by_side` is as in `play_cases`.
    `done` is called with each judged run.

    Returns:
        The runs in the order of Kafkas and cases, however they ended.
    """
    due: list[DueCase] = []
    for kafka in (of_brokers or {}).values():
        fetch(kafka, driver=options.driver, offline=options.offline, say=say)
    for kafka in kafkas:
        # A broken or unknown Kafka is refused before the first cluster starts.
        release = fetch(kafka, driver=options.driver, offline=options.offline, say=say).release
        if judged_as is not None and kafka == release:
            raise UsageError(
                f"--protocol says by which rules a build of your own is judged; {kafka} was "
                "published and has its own: leave --protocol out, or give --kafka a path"
            )
        rules = judged_as or release_of(release).judged_as
        for case in cases or cases_shown(entry, rules, say):
            scenario = scenario_of(
                entry, case, kafka, release=rules, judged_as=judged_as, mode=mode
            )
            if of_brokers:
                scenario = with_brokers(scenario, of_brokers)
            name = f"{entry.name} {case}".strip()
            told = f"{name} on {Path(kafka).name}: {entry.cases[case]}"
            due += [DueCase(scenario=scenario, told=told)] * runs
    played: dict[int, PlayedCase] = {}

    def judged_run(number: int, case: PlayedCase) -> None:
        played[number] = case
        done(case)

    play_cases(due, side_by_side=side_by_side, options=options, say=say, done=judged_run)
    return [played[number] for number in sorted(played)]


def play_cases(
    due: Sequence[DueCase],
    *,
    side_by_side: int,
    options: RunOptions,
    say: Callable[[str], None],
    say_steps: Callable[[str], None] | None = None,
    done: Callable[[int, PlayedCase], None],
) -> None:
    """Play cases and judge each run at once.

    Those that are played in turn are played in this process, which tells each step of theirs. Of
    several at once, each in a process of its own, the beginning is told and the end.

    `side_by_side` is the number of parallel plays. `say_steps` receives a play's progress, by
    default as `say`. `done` is called here with each judged case's place in `due`, from 0.

    Raises:
        UsageError, MachineError: A play was refused for that reason.
        KeyboardInterrupt: Ctrl-C; what was under way is healed and stopped.
    """
    began = time.monotonic()
    ended, at_once = 0, min(side_by_side, len(due))

    def begins(number: int) -> Scenario:
        left = time_left(time.monotonic() - began, ended, len(due), at_once=at_once)
        say(f"== {number + 1} of {len(due)}{left}: {due[number].told}")
        return due[number].scenario

    def ends(number: int, line: Line) -> None:
        nonlocal ended
        ended += 1
        say(f"{number + 1} of {len(due)} is over: {due[number].told}")
        done(number, _played_elsewhere(due[number].scenario, line))

    numbers = range(len(due))
    if at_once > 1:
        play_each(
            numbers, begins, name="reproduce", side_by_side=side_by_side, options=options, done=ends
        )
        return
    for number in numbers:
        run = play(begins(number), options=options, say=say_steps or say)
        played = judged(run, say)
        ended += 1
        done(number, played)


def _played_elsewhere(scenario: Scenario, line: Line) -> PlayedCase:
    """Return the case of a child, from the line of its judged run."""
    if line["run"]:
        run = RunDirectory.open(Path(line["run"]))
        report = None if line["report"] is None else Path(line["report"])
        results = read_judgement(run, run.judgements()[-1])
        return PlayedCase(run=run, results=results, report=report)
    lost = Results(
        entry=scenario.entry,
        case=scenario.case,
        release=Path(scenario.release).name,
        seed=scenario.seed,
        conforms=None,
        safe=None,
        expected=False,
        unknown=line["unknown"],
        path=Path(),
        prediction=None,
    )
    return PlayedCase(run=None, results=lost, report=None)


def time_left(spent_s: float, done: int, wanted: int, *, at_once: int = 1) -> str:
    """Return the expected remaining time in brackets; "" before the first ones are done.

    `at_once` plays are parallel, of which the first ends predict nothing.
    """
    if done < at_once or wanted == 1:
        return ""
    left = spent_s / done * (wanted - done)
    told = f"{left / 60:.0f} min" if left >= _MINUTES_FROM_S else f"{left:.0f} s"
    return f" (about {told} left)"


def cases_shown(entry: Entry, release: str, say: Callable[[str], None]) -> list[str]:
    """Return the cases that a release shows; all if it shows none, to be refused by name."""
    why_not = {case: entry.cannot_show(case, release) for case in entry.cases}
    if all(why_not.values()):
        return list(entry.cases)
    for case, why in why_not.items():
        if why:
            say(f"{entry.name} {case} is left out: {why}")
    return [case for case, why in why_not.items() if not why]


def judged(run: RunDirectory, say: Callable[[str], None]) -> PlayedCase:
    """Judge a run in plain Python, and write the judgement and its report."""
    try:
        results = judge(run)
        write_judgement(run, results)
    finally:
        run.let_go()
    return PlayedCase(run=run, results=results, report=write_report_or_say(run, say))
