"""docs/coverage.md: what stored runs go through of each module by which runs are followed.

    make coverage

measures and writes the page, with this module: the two arguments are reports of coverage.py in
JSON, of the stored runs, and of these with changed ones.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
PAGE = REPOSITORY / "docs/coverage.md"
MODEL = "checkers/model/"
SEARCHES = ("explore/", "controller/at_once.py", "releases/sources.py", "releases/probes.py")
"""Rooms and modules by which no run is followed: they are not on the page."""

_HEAD = """# What is gone through of the model

Lines and decision points (branches that are taken, of those that there are) of each module, in
percent. "Stored" is by judging the stored runs (`tests/golden/`). "Changed" adds stored runs with
something of their evidence left out or changed: what the model refuses, no good run shows. A room
has the sum of its modules here. Modules that stored runs go through wholly are not listed, nor is
what follows no run: the explorer, and what compares the rules with Kafka's source. Unit tests and
the published specifications go through those. Written by `make coverage`; do not edit.

Some modules stay below 90 by stored runs alone. Those that refuse what cannot be have nothing to
refuse in a good run: `controller/allowed.py`, `broker/tier.py`, `broker/cleaning.py`,
`settle/apply_event.py`, and `broker/offset_reset.py`, which answers with errors besides. The
columns of changed runs are theirs. `settle/stale_request.py` is for late requests where nothing
was seen at links: of its four kinds stored runs have LeaderAndIsr.

| module | lines | stored | changed | decision points | stored | changed |
|---|---:|---:|---:|---:|---:|---:|
"""

Counts = Mapping[str, int]


def page(*reports: Mapping[str, Any]) -> str:
    """Return the page, from reports of coverage.py, each of which has what the one before has."""
    modules = [_modules(report) for report in reports]
    names = [name for name in modules[-1] if not name.startswith(SEARCHES)]
    return _HEAD + _table(modules, names)


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
