"""build/coverage.md: what stored runs go through of each module by which runs are followed.

    make coverage

measures and writes the page with this module. The two arguments are reports of coverage.py in
JSON, of the stored runs, and of these with changed ones. Where too little of a module is covered,
the command fails.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
PAGE = REPOSITORY / "build/coverage.md"
MODEL = "checkers/model/"
NOT_OF_RUNS = (
    "controller/at_once.py",
    "controller/isr_changes.py",
    "releases/every_rule.py",
    "releases/probes.py",
    "releases/rule.py",
    "releases/rules/kafka_7152.py",
    "releases/sources.py",
    "releases/status.py",
    "releases/versions.py",
)
"""Rooms and modules by which no run is followed: they are not on the page."""
LEAST_PERCENT = 90
BY_CHANGED_RUNS = ("controller/allowed.py", "controller/recorded.py")
"""Modules of which stored runs show less, since in a good run each decision can be made."""

_HEAD = f"""# What is gone through of the model

Lines and decision points (branches that are taken, of those that there are) of each module, in
percent. "Stored" is by judging the stored runs (`tests/golden/`). "Changed" adds stored runs with
something of their evidence left out or changed: what the model refuses, no good run shows. A room
has the sum of its modules here. Modules that stored runs go through wholly are not listed.

At least {LEAST_PERCENT} % of the lines of each module are gone through by stored runs
(`make coverage` fails otherwise). `controller/allowed.py` and `controller/recorded.py` need changed
runs. They say why a decision cannot have been made, and in a good run each can.

What follows no run is not here. That is the one rule that only the explorer asks, and what
compares the rules with Kafka's source. It is also the lists of rules and releases, which are read
and checked once, whatever the run. Unit tests and the published specifications go through those.
Written by `make coverage`; do not edit.

| module | lines | stored | changed | decision points | stored | changed |
|---|---:|---:|---:|---:|---:|---:|
"""

Counts = Mapping[str, int]


def page(*reports: Mapping[str, Any]) -> str:
    """Return the page, from reports of coverage.py, each of which has what the one before has."""
    modules = [_modules(report) for report in reports]
    names = [name for name in modules[-1] if not name.startswith(NOT_OF_RUNS)]
    return _HEAD + _table(modules, names)


def too_low(text: str) -> list[str]:
    """Return the modules of which a page has less than it must, in its order."""
    low = []
    for name, stored, changed in re.findall(
        r"^\| `(\S+)` \| \d+ \| (\d+) \| (\d+) \|", text, re.MULTILINE
    ):
        lines = changed if name in BY_CHANGED_RUNS else stored
        if int(lines) < LEAST_PERCENT:
            low.append(name)
    return low


def _table(modules: Sequence[Mapping[str, Counts]], names: Sequence[str]) -> str:
    lines = [_row("**all**", [_sum(each[name] for name in names) for each in modules])]
    for room in sorted({name.rpartition("/")[0] for name in names} - {""}):
        inside = [name for name in names if name.startswith(f"{room}/")]
        lines.append(
            _row(f"**{room}/**", [_sum(each[name] for name in inside) for each in modules])
        )
        lines.extend(
            _row(f"`{name}`", [each[name] for each in modules])
            for name in inside
            if name.rpartition("/")[0] == room and not _is_whole(modules[0][name])
        )
    return "\n".join(lines) + "\n"


def _modules(report: Mapping[str, Any]) -> dict[str, Counts]:
    """Return the counts of each module that has lines, by its path below the model."""
    modules = {
        name.partition(MODEL)[2]: file["summary"] for name, file in sorted(report["files"].items())
    }
    return {name: summary for name, summary in modules.items() if summary["num_statements"]}


def _sum(summaries: Iterable[Counts]) -> Counts:
    every = list(summaries)
    names = ("num_statements", "covered_lines", "num_branches", "covered_branches")
    return {name: sum(summary[name] for summary in every) for name in names}


def _is_whole(counts: Counts) -> bool:
    return (counts["covered_lines"], counts["covered_branches"]) == (
        counts["num_statements"],
        counts["num_branches"],
    )


def _row(name: str, counts: Sequence[Counts]) -> str:
    cells = [name]
    for covered, number in (
        ("covered_lines", "num_statements"),
        ("covered_branches", "num_branches"),
    ):
        every = counts[-1][number]
        cells += [str(every), *(_percent(each[covered], every) for each in counts)]
    return f"| {' | '.join(cells)} |"


def _percent(covered: int, number: int) -> str:
    """Return it rounded down, so that 100 means all; "" where there is nothing to cover."""
    return f"{100 * covered // number}" if number else ""


if __name__ == "__main__":
    reports = [json.loads(Path(file).read_text(encoding="utf-8")) for file in sys.argv[1:3]]
    PAGE.write_text(page(*reports), encoding="utf-8")
    low = too_low(page(*reports))
    sys.exit(f"{PAGE}: less than {LEAST_PERCENT} % of {', '.join(low)}" if low else 0)
