"""Measuring: entries played many times unattended, and the table in the docs."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from kchaos.harness.catalogue import CATALOGUE, Entry, entry_named, scenario_of
from kchaos.harness.commands.exits import exit_code_for_lines
from kchaos.harness.commands.reproduce import DueCase, PlayedCase, play_cases
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.summary.lines import NEEDED, Line, append_line, read_lines

RESULTS = "measurements.jsonl"
_RUNS = 10
_RUNS_OF = {("KAFKA-6361", "1.1.1"): 20, ("KAFKA-6361", "2.0.1"): 20}

_NEEDED = {"entry", "case", "expected", "seconds"}
_OF_ONE_RUN = ("report", "played_by", "judged_by", "witness", "not_checked", "crashes")


def measure(
    names: Sequence[str],
    *,
    runs: int | None,
    results: Path | None,
    side_by_side: int,
    options: RunOptions,
    say: Callable[[str], None],
) -> int:
    """Play what the results file lacks, append a line a run, and write the table anew.

    A play that was killed appends no line, so that it is played again; it is told, and unknown.

    `names` are entries, by default all. `runs` is for each case and release, by default the
    documented number. `results` is a file of JSON lines with its table beside it, by default
    `measurements.jsonl` among the runs. `side_by_side` is as in `play_cases`.

    Returns:
        The exit code over all lines of the file, and what was killed.
    """
    file = results or options.runs_directory / RESULTS
    entries = [entry_named(name) for name in names] or list(CATALOGUE.values())
    done = Counter(_key(line) for line in results_in(file))
    due: list[DueCase] = []
    for entry, case, release in cells(entries):
        told = f"{entry.name} {case} on {release}"
        missing = _wanted(entry, release, runs) - done[(entry.name, case, release)]
        due += [DueCase(scenario=scenario_of(entry, case, release), told=told)] * missing
    say(f"{sum(done.values())} runs in {file}, {len(due)} to play")
    lost: list[Line] = []

    def judged(_number: int, played: PlayedCase) -> None:
        line = played.line
        if played.run is None:
            lost.append(line)
        else:
            append_result(file, line)
        answer = "as expected" if line["expected"] else f"NOT as expected: {json.dumps(line)}"
        took = "" if line["seconds"] is None else f", {line['seconds']:.1f} s"
        say(f"{answer}{took}")

    play_cases(
        due, side_by_side=side_by_side, options=options, say=say, say_steps=_quiet, done=judged
    )
    lines = results_in(file)
    table = file.with_suffix(".md")
    table.write_text(table_of(lines, file.name))
    say(f"table written to {table}")
    return exit_code_for_lines([*lines, *lost])


def results_in(file: Path) -> list[dict[str, Any]]:
    """Return the lines of a results file; none without the file."""
    return list(read_lines(file, NEEDED | _NEEDED)) if file.is_file() else []


def last_seen(lines: Iterable[Line]) -> dict[str, str]:
    """Return the day, in UTC, of each entry's newest run that was as expected."""
    days: dict[str, str] = {}
    for line in lines:
        if line["expected"] is True and line.get("started_at"):
            day = datetime.fromtimestamp(line["started_at"], UTC).date().isoformat()
            days[line["entry"]] = max(day, days.get(line["entry"], day))
    return days


def append_result(file: Path, line: Line) -> None:
    """Append one line, without fields that matter for a single run only.

    The run's path is shortened to its name, which is the same everywhere.
    """
    kept = {name: value for name, value in line.items() if name not in _OF_ONE_RUN}
    findings = [
        {name: value for name, value in finding.items() if name != "message"}
        for finding in line["findings"]
    ]
    name = Path(str(line["run"])).name
    append_line(file, {**kept, "findings": findings, "run": name})


def table_of(lines: Sequence[Line], source: str = RESULTS) -> str:
    """Return the measurements as a Markdown page, made from the file called `source`."""
    groups: dict[tuple[str, str, str], list[Line]] = defaultdict(list)
    for line in lines:
        groups[_key(line)].append(line)
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


def _row(key: tuple[str, str, str], group: Sequence[Line]) -> str:
    safe = "/".join(sorted({_word(line["safe"]) for line in group}))
    expected = sum(line["expected"] is True for line in group)
    conforms = sum(line["conforms"] is True for line in group)
    seconds = median(line["seconds"] for line in group)
    findings = sorted({_findings(line) for line in group})
    return (
        f"| {' | '.join(key)} | {safe} | {expected} of {len(group)} | {conforms} of {len(group)} "
        f"| {seconds:.1f} | {'; or '.join(findings)} |"
    )


def _findings(line: Line) -> str:
    texts = [
        f"{finding['kind']} {finding['first_offset']}-{finding['last_offset']}"
        if finding["first_offset"] >= 0
        else str(finding["kind"])
        for finding in line["findings"]
    ]
    return ", ".join(sorted(texts)) or "none"


def _word(answer: bool | None) -> str:
    return {True: "yes", False: "no", None: "unknown"}[answer]


def cells(entries: Sequence[Entry]) -> Iterator[tuple[Entry, str, str]]:
    """Yield the cells to play: each case of an entry on each release in its expectations.

    One that leaves all to the model has each of its cases on each of its default releases.
    """
    for entry in entries:
        for case, release in entry.expectations or product(entry.cases, entry.default_releases):
            yield entry, case, release


def _wanted(entry: Entry, release: str, runs: int | None) -> int:
    return runs if runs is not None else _RUNS_OF.get((entry.name, release), _RUNS)


def _key(line: Line) -> tuple[str, str, str]:
    return str(line["entry"]), str(line["case"]), str(line["release"])


def _quiet(_text: str) -> None:
    """Ignore progress, since unattended runs print only their result."""
