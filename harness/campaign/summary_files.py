"""`kchaos summary`: what the runs in some folders say together, beside an earlier night."""

from collections.abc import Callable, Sequence
from pathlib import Path

from kchaos.checkers.store import Place
from kchaos.harness.errors import UsageError
from kchaos.harness.exits import AS_EXPECTED, FINDING, UNKNOWN
from kchaos.harness.report.whose import last_words
from kchaos.harness.summary.lines import going_on_in, lines_in, of_kafka
from kchaos.harness.summary.rendering import headline, write_summary
from kchaos.harness.summary.summary import (
    BY_DEFAULT,
    FAILS,
    IS_UNKNOWN,
    NEW,
    PASSES,
    Summary,
    summary_of,
)


def summarise(
    folders: Sequence[Place],
    *,
    baseline: Place | None,
    fail_on: Sequence[str],
    output: Path,
    say: Callable[[str], None],
    warnings: Sequence[str] = (),
) -> Summary:
    """Write the summary's files and print their paths.

    `fail_on` has reasons of `summary.FAIL_ON`, or none for the default ones. `warnings` are the
    first lines of the page.

    Raises:
        UsageError: There is no run, the baseline has none, or what is new was asked for without.
        StoreError: An object store does not give what is there.
    """
    require_baseline(baseline, fail_on)
    lines = [line for folder in folders for line in lines_in(folder)]
    going_on = [name for folder in folders for name in going_on_in(folder)]
    running = [f"still running, and not counted: {', '.join(going_on)}"] if going_on else []
    made = summary_of(
        lines,
        baseline=None if baseline is None else of_kafka(lines_in(baseline)),
        baseline_name=_name(baseline),
        fail_on=fail_on or BY_DEFAULT,
        warnings=[*warnings, *running],
    )
    for warning in made.warnings:
        say(warning)
    say(headline(made))
    for words in last_words(line.place for line in made.failing):
        say(words)
    for file in write_summary(made, output):
        say(f"written: {file}")
    return made


def exit_code_of_summary(summary: Summary) -> int:
    """Return 0 if no run fails, 1 if one does, 2 if failures are only unknown, or none is known."""
    return {PASSES: AS_EXPECTED, FAILS: FINDING, IS_UNKNOWN: UNKNOWN}[summary.answer]


def _name(baseline: Place | None) -> str:
    if baseline is None:
        return ""
    return baseline.resolve().name if isinstance(baseline, Path) else str(baseline)


def require_baseline(baseline: Place | None, fail_on: Sequence[str]) -> None:
    """Refuse a baseline or a reason to fail that cannot be used.

    Raises:
        UsageError: What is new is asked for, and there is no baseline.
    """
    if NEW in fail_on and baseline is None:
        raise UsageError("--fail-on new needs --baseline: what is new, since which night?")
