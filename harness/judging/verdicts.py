"""From verdicts to what the command prints for machines, and to its exit code."""

from collections.abc import Iterable, Mapping
from typing import Any

from checkers.judge import Results, results_line
from harness.commands.exits import AS_EXPECTED, FINDING, UNKNOWN


def line_of(results: Results) -> dict[str, Any]:
    """The JSON object of one run; `run` is the path of its directory."""
    return results_line(results)


def exit_code_for(results: Iterable[Results]) -> int:
    """0 if every run is as expected, 1 if one is known not to be, else 2."""
    return exit_code_for_lines([line_of(one) for one in results])


def exit_code_for_lines(lines: Iterable[Mapping[str, Any]]) -> int:
    """The same over objects of `line_of`; no line at all is unknown."""
    codes = [_code(line) for line in lines]
    if not codes:
        return UNKNOWN
    return FINDING if FINDING in codes else max(codes)


def _code(line: Mapping[str, Any]) -> int:
    if line["expected"]:
        return AS_EXPECTED
    return UNKNOWN if line["safe"] is None or line["conforms"] is None else FINDING
