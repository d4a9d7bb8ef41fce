"""Playing catalogue entries: run, judge, tell, and at the end one Spark job over all of it."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kchaos.checkers.judge import judge
from kchaos.checkers.results import Results, results_line, write_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.clusters.ready import fetch
from kchaos.clusters.releases import Mode, release_of
from kchaos.harness.catalogue import Entry, scenario_of, with_brokers
from kchaos.harness.commands.judge_runs import write_report_or_say
from kchaos.harness.run.runner import RunOptions, play
from kchaos.harness.run.scenario import Scenario

_MINUTES_FROM_S = 90


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedCase:
    """One run of one case: its directory, its verdict, and its report, if one could be drawn."""

    run: RunDirectory
    results: Results
    report: Path | None


def reproduce(
    entry: Entry,
    *,
    cases: Sequence[str],
    kafkas: Sequence[str],
    of_brokers: Mapping[int, str] | None = None,
    runs: int,
    judged_as: str | None,
    mode: Mode | None = None,
    options: RunOptions,
    say: Callable[[str], None],
    done: Callable[[PlayedCase], None],
) -> list[PlayedCase]:
    """Plays every case on every Kafka, so many times each, and judges each run at once.

    Args:
        cases: None means all that a release can show.
        kafkas: Releases or paths to distributions; what is known of a release is also expected
            of a distribution of that release.
        of_brokers: What single brokers run in place of that, by their ids.
        judged_as: The release whose rules a patched build is judged by, or None.
        mode: Where clusters keep their metadata; None for what entry and release say.
        done: Called with each run once it is judged.
    """
    todo: list[tuple[str, str, Scenario]] = []
    for kafka in (of_brokers or {}).values():
        fetch(kafka, driver=options.driver, offline=options.offline, say=say)
    for kafka in kafkas:
        # A broken or unknown Kafka is refused before the first cluster starts.
        release = fetch(kafka, driver=options.driver, offline=options.offline, say=say).release
        rules = judged_as or release_of(release).judged_as
        for case in cases or cases_shown(entry, rules, say):
            scenario = scenario_of(
                entry, case, kafka, release=rules, judged_as=judged_as, mode=mode
            )
            if of_brokers:
                scenario = with_brokers(scenario, of_brokers)
            todo += [(kafka, case, scenario)] * runs
    began = time.monotonic()
    played: list[PlayedCase] = []
    for number, (kafka, case, scenario) in enumerate(todo, start=1):
        name = f"{entry.name} {case}".strip()
        left = time_left(time.monotonic() - began, number - 1, len(todo))
        say(f"== {number} of {len(todo)}{left}: {name} on {Path(kafka).name}: {entry.cases[case]}")
        run = play(scenario, options=options, say=say)
        judged_run = judged(run, say)
        played.append(judged_run)
        done(judged_run)
    return played


def time_left(spent_s: float, done: int, wanted: int) -> str:
    """Time left if it goes on as before, in brackets; "" before the first is done."""
    if not done or wanted == 1:
        return ""
    left = spent_s / done * (wanted - done)
    told = f"{left / 60:.0f} min" if left >= _MINUTES_FROM_S else f"{left:.0f} s"
    return f" (about {told} left)"


def cases_shown(entry: Entry, release: str, say: Callable[[str], None]) -> list[str]:
    """The cases that a release can show; all, where it can show none, to be refused by name."""
    why_not = {case: entry.cannot_show(case, release) for case in entry.cases}
    if all(why_not.values()):
        return list(entry.cases)
    for case, why in why_not.items():
        if why:
            say(f"{entry.name} {case} is left out: {why}")
    return [case for case, why in why_not.items() if not why]


def judged(run: RunDirectory, say: Callable[[str], None]) -> PlayedCase:
    """Judges a run in plain Python, and writes the judgement and its report."""
    results = judge(run)
    write_judgement(run, results)
    return PlayedCase(run=run, results=results, report=write_report_or_say(run, say))


def line_of(run: PlayedCase) -> dict[str, Any]:
    """The object that `--json` prints for it."""
    return results_line(run.results, report=run.report)
