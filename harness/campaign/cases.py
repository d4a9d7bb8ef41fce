"""Cases of the catalogue that a campaign plays: of `kchaos reproduce` and `kchaos measure`."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from statistics import median

from kchaos.checkers.acts import Mode
from kchaos.checkers.run_line import ANSWERS, RunLine, reason_of
from kchaos.clusters.front.ready import fetch
from kchaos.clusters.releases import release_of
from kchaos.harness.campaign.campaign import Campaign, player_in, time_left
from kchaos.harness.campaign.results_file import ResultsFile
from kchaos.harness.catalogue import CATALOGUE, Entry, entry_named, scenario_of, with_brokers
from kchaos.harness.errors import UsageError
from kchaos.harness.run.own_settings import with_settings_beneath
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.run.scenario import Scenario

RESULTS = "measurements.jsonl"
_RUNS = 10
_RUNS_OF = {("KAFKA-6361", "1.1.1"): 20, ("KAFKA-6361", "2.0.1"): 20}


@dataclass(frozen=True, slots=True, kw_only=True)
class DueCase:
    """A case that is to be played on a Kafka.

    Attributes:
        told: What is said of it when its turn has come.
    """

    scenario: Scenario
    told: str


def play_cases(
    due: Sequence[DueCase],
    *,
    side_by_side: int,
    options: RunOptions,
    say: Callable[[str], None],
    say_steps: Callable[[str], None] | None = None,
    done: Callable[[int, RunLine], None],
) -> list[RunLine]:
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
    at_once = max(1, min(side_by_side, len(due)))
    lines: dict[int, RunLine] = {}

    def begins(number: int) -> Scenario:
        left = time_left(time.monotonic() - began, len(lines), len(due), at_once=at_once)
        say(f"== {number + 1} of {len(due)}{left}: {due[number].told}")
        return due[number].scenario

    def keep(number: int, line: RunLine) -> None:
        lines[number] = line
        if at_once > 1:
            say(f"{number + 1} of {len(due)} is over: {due[number].told}")
        done(number, line)

    in_turn = (say_steps or say) if at_once == 1 else None
    with player_in("cases", options, say_steps=in_turn) as player:
        Campaign(player=player, side_by_side=at_once).run(range(len(due)), begins, keep)
    return [lines[number] for number in range(len(due))]


def due_cases(
    entry: Entry,
    *,
    cases: Sequence[str],
    kafkas: Sequence[str],
    of_brokers: Mapping[int, str],
    runs: int,
    judged_as: str | None,
    mode: Mode | None,
    properties: Path | None = None,
    options: RunOptions,
    say: Callable[[str], None],
) -> list[DueCase]:
    """Return every case on every Kafka, so many times each.

    A broken or unknown Kafka is refused here, before the first cluster starts.

    `cases` is empty for all that a release can show. `kafkas` are releases or paths to
    distributions, of which the same is expected as of their releases; `of_brokers` overrides them
    for single brokers. `judged_as` is the release whose rules a patched build follows, or None.
    `mode` overrides where clusters keep their metadata. `properties` is a server.properties, whose
    settings come beneath those of the entry; what is expected is then what the model predicts.
    """
    due: list[DueCase] = []
    once = cache(say)
    for kafka in of_brokers.values():
        fetch(kafka, driver=options.driver, offline=options.offline, say=say)
    for kafka in kafkas:
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
            scenario = with_settings_beneath(scenario, properties, options, once)
            name = f"{entry.name} {case}".strip()
            told = f"{name} on {Path(kafka).name}: {entry.cases[case]}"
            due += [DueCase(scenario=scenario, told=told)] * runs
    return due


def cases_shown(entry: Entry, release: str, say: Callable[[str], None]) -> list[str]:
    """Return the cases that a release can show; all, where it can show none, to be refused."""
    why_not = {case: entry.cannot_show(case, release) for case in entry.cases}
    if all(why_not.values()):
        return list(entry.cases)
    for case, why in why_not.items():
        if why:
            say(f"{entry.name} {case} is left out: {why}")
    return [case for case, why in why_not.items() if not why]


def measure(
    names: Sequence[str],
    *,
    runs: int | None,
    results: Path,
    side_by_side: int,
    options: RunOptions,
    say: Callable[[str], None],
) -> list[RunLine]:
    """Play what the results file lacks, append a line a run, and write the table anew.

    A play that was killed appends no line, so that it is played again; it is told, and unknown.

    `names` are entries, by default all. `runs` is for each case and release, by default the
    documented number. `results` is a file of JSON lines with its table beside it, by default
    `measurements.jsonl` among the runs. `side_by_side` is as in `play_cases`.

    Returns:
        All lines of the file, and those of plays that were killed.
    """
    file = ResultsFile(results)
    entries = [entry_named(name) for name in names] or list(CATALOGUE.values())
    played = Counter(map(_cell, file.lines))
    due: list[DueCase] = []
    for entry, case, release in cells(entries):
        wanted = runs or _RUNS_OF.get((entry.name, release), _RUNS)
        told = f"{entry.name} {case} on {release}"
        missing = wanted - played[entry.name, case, release]
        due += [DueCase(scenario=scenario_of(entry, case, release), told=told)] * missing
    say(f"{sum(played.values())} runs in {results}, {len(due)} to run")

    def keep(_number: int, line: RunLine) -> None:
        file.append(line)
        answer = (
            "as expected"
            if line.expected
            else f"NOT as expected: {line.verdict}; {reason_of(line)}"
        )
        say(answer if line.seconds is None else f"{answer}, {line.seconds:.1f} s")

    def quiet(_text: str) -> None:
        """Unattended runs tell their result only."""

    play_cases(due, side_by_side=side_by_side, options=options, say=say, say_steps=quiet, done=keep)
    file.write_page(table_of, say)
    return file.lines


def cells(entries: Sequence[Entry]) -> Iterator[tuple[Entry, str, str]]:
    """Yield the cells to play: each case of an entry on each release that it says something of.

    One that leaves all to the model has each of its cases on each of its default releases.
    """
    for entry in entries:
        for case, release in entry.expectations or product(entry.cases, entry.default_releases):
            yield entry, case, release


def table_of(lines: Sequence[RunLine], source: str = RESULTS) -> str:
    """Return the measurements as a Markdown page, made from the file called `source`."""
    groups: dict[tuple[str, str, str], list[RunLine]] = defaultdict(list)
    for line in lines:
        groups[_cell(line)].append(line)
    rows = [_row(key, group) for key, group in sorted(groups.items())]
    return "\n".join(
        [
            "# Measurements",
            "",
            f"Made by `kchaos measure` from `{source}`; do not edit.",
            "Seconds are medians on the machine at hand, cluster start and verdict included; they",
            "compare rows, not machines.",
            "",
            "| entry | case | release | safe | as expected | conforms | seconds | findings |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _row(key: tuple[str, str, str], group: Sequence[RunLine]) -> str:
    safe = "/".join(sorted({ANSWERS[line.safe] for line in group}))
    expected = sum(line.expected for line in group)
    conforms = sum(line.conforms is True for line in group)
    seconds = median([line.seconds for line in group if line.seconds] or [0.0])
    findings = sorted({_findings(line) for line in group})
    return (
        f"| {' | '.join(key)} | {safe} | {expected} of {len(group)} | {conforms} of {len(group)} "
        f"| {seconds:.1f} | {'; or '.join(findings)} |"
    )


def _findings(line: RunLine) -> str:
    texts = [
        f"{finding.kind} {finding.first_offset}-{finding.last_offset}"
        if finding.first_offset >= 0
        else finding.kind
        for finding in line.findings
    ]
    return ", ".join(sorted(texts)) or "none"


def _cell(line: RunLine) -> tuple[str, str, str]:
    return line.entry, line.case, line.release
