"""What people read in the terminal: entries, results, the table at the end. 80 columns."""

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from kchaos.checkers.evidence.about import marked, short_build
from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.results import Results
from kchaos.harness.catalogue import Entry

WIDTH = 80
_INDENT = "  "
_ANSWERS = {True: "yes", False: "no", None: "unknown"}


def entry_lines(entry: Entry) -> list[str]:
    """One entry of the catalogue: title, story, cases, what is expected where."""
    lines = textwrap.wrap(f"{entry.name}: {entry.title}", WIDTH, subsequent_indent=_INDENT)
    lines += textwrap.wrap(entry.story, WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT)
    lines += _wrapped(f"source: {entry.source}")
    for case, what in entry.cases.items():
        lines += _wrapped(f"case {case}: {what}")
        for word, safe in (("red", False), ("green", True)):
            releases = [
                release
                for (name, release), expectation in entry.expectations.items()
                if name == case and expectation.safe is safe
            ]
            if releases:
                lines.append(f"{_INDENT * 2}{word} on {', '.join(releases)}")
    lines.append(f"{_INDENT}elsewhere the model's answer is expected")
    return lines


def result_lines(results: Results) -> list[str]:
    """The verdict on one run, with each safety finding in a sentence."""
    verdict = f"conforms: {_ANSWERS[results.conforms]}, safe: {_ANSWERS[results.safe]}"
    lines = [f"{verdict}, as expected: {_ANSWERS[results.expected]}"]
    partitions = {(finding.topic, finding.partition) for finding in results.findings}
    for finding in results.findings:
        about = f" of {finding.topic}-{finding.partition}" if len(partitions) > 1 else ""
        if finding.question is Question.NEITHER:
            lines += _wrapped(f"({finding.kind}{about}) {finding.message}")
        else:
            lines += _wrapped(f"{finding.kind}{about}: {finding.message}")
    if results.expectation_from == "model":
        lines += _wrapped("the entry says nothing of this release; the model's answer is expected")
    if results.build:
        lines += _wrapped(f"on Kafka {results.release}: {short_build(results.build)}")
    if results.unknown:
        lines += _wrapped(f"unknown: {results.unknown}")
    if results.reason:
        lines += _wrapped(f"not as expected: {results.reason}")
    lines += _wrapped(f"run: {results.path}")
    return lines


def table_text(results: Sequence[Results]) -> str:
    """The table at the end: one row a run."""
    from io import StringIO

    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in ("release", "case", "predicted", "observed", "conforms", "safe"):
        table.add_column(name, overflow="fold")
    table.add_column("s", justify="right", no_wrap=True)
    for one in results:
        predicted = _short(one.predicted_findings)
        observed = _short(one.findings)
        if one.prediction is None:
            predicted = "unknown"
        if one.safe is None and observed == "none":
            observed = "unknown"
        table.add_row(
            marked(one.release, one.build),
            one.case,
            predicted,
            observed,
            _ANSWERS[one.conforms],
            _ANSWERS[one.safe],
            f"{one.seconds:.1f}" if one.seconds is not None else "-",
        )
    output = StringIO()
    Console(file=output, width=WIDTH, highlight=False).print(table)
    text = "\n".join(line.rstrip() for line in output.getvalue().splitlines()).strip("\n")
    builds = sorted({build for one in results for build in one.build.split("; ") if build})
    lines = [line for build in builds for line in _wrapped(f"build: {short_build(build)}")]
    return "\n".join([text, *lines, _expected_text(results)])


def _expected_text(results: Sequence[Results]) -> str:
    surprising = [one for one in results if not one.expected]
    lines = [f"{len(results) - len(surprising)} of {len(results)} as expected"]
    for one in surprising:
        release = marked(one.release, one.build)
        lines += _wrapped(f"{release} {one.case}: {one.reason or one.unknown}")
    return "\n".join(lines)


def _short(findings: Iterable[Finding]) -> str:
    """The safety findings in a few words: kind and offsets."""
    found = [
        f"{one.kind} {_offsets(one)}".strip() for one in findings if one.question is Question.SAFETY
    ]
    return ", ".join(dict.fromkeys(found)) or "none"


def _offsets(finding: Finding) -> str:
    if finding.first_offset < 0:
        return ""
    return f"{finding.first_offset}-{finding.last_offset}"


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=_INDENT,
        subsequent_indent=_INDENT * 2,
        break_long_words=False,
        break_on_hyphens=False,
    )


def line_lines(line: dict[str, Any]) -> list[str]:
    """One run's JSON object for people, where no more than that is known."""
    verdict = f"conforms: {_ANSWERS[line['conforms']]}, safe: {_ANSWERS[line['safe']]}"
    return [f"{line['run']}: {verdict}, as expected: {_ANSWERS[line['expected']]}"]
