"""docs/coverage.md: what stored runs and unit tests go through of each module of the model.

    make coverage

measures and writes the page, with this module: the two arguments are reports of coverage.py in
JSON, of the stored runs alone and of these with the unit tests.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parent.parent
PAGE = REPOSITORY / "docs/coverage.md"
MODEL = "checkers/model/"

_HEAD = """# What is gone through of the model

Lines and decision points (branches that are taken, of those that there are) of each module, in
percent: by judging the stored runs (`tests/golden/`), and by these and the unit tests of the model
(`tests/checkers/model/`). A room has the sum of its modules. Modules that stored runs go through
wholly are not listed. No stored run goes through `explore/` or `sources.py`, nor through what only
they use. Written by `make coverage`; do not edit.

| module | lines | by stored runs | by all | decision points | by stored runs | by all |
|---|---:|---:|---:|---:|---:|---:|
"""

Counts = Mapping[str, int]


def page(stored: Mapping[str, Any], every: Mapping[str, Any]) -> str:
    """Return the page, from two reports of coverage.py."""
    by_stored, by_all = _modules(stored), _modules(every)
    lines = [_row("**all**", _sum(by_stored.values()), _sum(by_all.values()))]
    for room in sorted({name.rpartition("/")[0] for name in by_all} - {""}):
        inside = [name for name in by_all if name.startswith(f"{room}/")]
        sums = [_sum(modules[name] for name in inside) for modules in (by_stored, by_all)]
        lines.append(_row(f"**{room}/**", *sums))
        lines.extend(
            _row(f"`{name}`", by_stored[name], by_all[name])
            for name in inside
            if name.rpartition("/")[0] == room and not _is_whole(by_stored[name])
        )
    return _HEAD + "\n".join(lines) + "\n"


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


def _row(name: str, stored: Counts, every: Counts) -> str:
    cells = [name]
    for covered, number in (
        ("covered_lines", "num_statements"),
        ("covered_branches", "num_branches"),
    ):
        cells += [str(every[number]), _percent(stored[covered], every[number])]
        cells.append(_percent(every[covered], every[number]))
    return f"| {' | '.join(cells)} |"


def _percent(covered: int, number: int) -> str:
    """Return it rounded down, so that 100 means all; "" where there is nothing to cover."""
    return f"{100 * covered // number}" if number else ""


if __name__ == "__main__":
    reports = [json.loads(Path(file).read_text(encoding="utf-8")) for file in sys.argv[1:3]]
    PAGE.write_text(page(*reports), encoding="utf-8")
