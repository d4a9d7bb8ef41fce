"""Terminal output: entries, results, and the table at the end. 80 columns."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kchaos.checkers.evidence.about import marked, short_build
from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.histories.judgement import HistoryJudgement
from kchaos.checkers.results import Results
from kchaos.checkers.run_line import ANSWERS
from kchaos.checkers.store import Place
from kchaos.harness.catalogue import Entry
from kchaos.harness.printable import INDENT, WIDTH, wrapped

_EXPECTED = {
    "model": "no outcome is stated for this run: what the model predicts is expected",
    "safety": "nothing is predicted of this run: it is expected to be safe",
}
"""Origin of an expectation that the scenario does not state, in words."""
_MARKS = {
    frozenset[bool](): "·",
    frozenset({True}): "✓",
    frozenset({False}): "✗",
    frozenset({True, False}): "±",
}
MATRIX_KEY = "✗ the bug shows, ✓ it does not, ± both, by case or patch; · not stated"


def matrix_lines(entries: Iterable[Entry]) -> list[str]:
    """Return the catalogue, a line an entry and a column a release line."""
    from kchaos.clusters.releases import release_of

    rows = {
        entry.name: [
            (release_of(release).line.line, expectation.is_green)
            for (_case, release), expectation in entry.expectations.items()
        ]
        for entry in entries
    }
    known = {line for row in rows.values() for line, _is_green in row}
    columns = sorted(known, key=lambda line: tuple(map(int, line.split("."))))
    names = max(map(len, rows), default=0)
    cells = [line.split(".")[:2] for line in columns]
    before = [None, *(major for major, _minor in cells)]
    # The major number stands once, above the first of its minor numbers.
    majors = [
        major if major != last else "" for last, (major, _minor) in zip(before, cells, strict=False)
    ]
    table = [("", majors), ("", [minor for _major, minor in cells])]
    for name, row in rows.items():
        of_line = [{green for line, green in row if line == column} for column in columns]
        table.append((name, [_MARKS[frozenset(answers)] for answers in of_line]))
    widths = [max(len(marks[column]) for _, marks in table) for column in range(len(columns))]
    return [
        " ".join([f"{name:<{names}}", *map(str.ljust, marks, widths)]).rstrip()
        for name, marks in table
    ]


def last_seen_lines(entries: Iterable[Entry], seen: Mapping[str, str]) -> list[str]:
    """Return the days on which entries were last seen as expected, the newest first."""
    names: dict[str, list[str]] = {}
    for entry in entries:
        names.setdefault(seen.get(entry.name, "never"), []).append(entry.name)
    days = sorted(names.keys() - {"never"}, reverse=True)
    lines = [f"last seen {day}: {', '.join(names[day])}" for day in days]
    if days and "never" in names:
        lines.append(f"never seen: {', '.join(names['never'])}")
    return [part for line in lines for part in wrapped(line)]


def title_lines(entry: Entry) -> list[str]:
    """Return an entry's name and title, and where it is red, with the kinds of findings."""
    red = {
        release: expectation.findings
        for (_case, release), expectation in entry.expectations.items()
        if not expectation.is_green
    }
    kinds = dict.fromkeys(finding[0] for findings in red.values() for finding in findings)
    shows = f"red on {', '.join(red)}: {', '.join(kinds)}" if red else "red on no release"
    titled = textwrap.wrap(f"{entry.name}: {entry.title}", WIDTH, subsequent_indent=INDENT)
    return [*titled, *wrapped(shows)]


def entry_lines(entry: Entry) -> list[str]:
    """One entry of the catalogue: title, story, cases, what is expected where."""
    lines = textwrap.wrap(f"{entry.name}: {entry.title}", WIDTH, subsequent_indent=INDENT)
    lines += textwrap.wrap(entry.story, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)
    lines += wrapped(f"source: {entry.source}")
    for case, what in entry.cases.items():
        lines += wrapped(f"case {case}: {what}")
        for word, is_green in (("red", False), ("green", True)):
            releases = [
                release
                for (name, release), expectation in entry.expectations.items()
                if name == case and expectation.is_green is is_green
            ]
            if releases:
                lines.append(f"{INDENT * 2}{word} on {', '.join(releases)}")
    lines.append(f"{INDENT}on any other release kchaos expects what its model predicts")
    return lines


def result_lines(
    results: Results,
    *,
    has_verdict: bool = True,
    is_expected: bool = True,
    place: Place | None = None,
) -> list[str]:
    """Return the outcome of one run, its verdict, and each finding in a sentence.

    `has_verdict` is False if the verdict is printed elsewhere, and `is_expected` True if the run
    has an expectation. `place` is the run's path if it was judged elsewhere; a killed play has
    none.
    """
    lines = textwrap.wrap(results.outcome, WIDTH, subsequent_indent=INDENT)
    if has_verdict:
        verdict = f"conforms: {ANSWERS[results.conforms]}, safe: {ANSWERS[results.safe]}"
        expected = f", as expected: {ANSWERS[results.expected]}" if is_expected else ""
        lines.append(verdict + expected)
    partitions = {(finding.topic, finding.partition) for finding in results.findings}
    for finding in results.findings:
        is_named = finding.topic and len(partitions) > 1
        of_partition = f" of {finding.topic}-{finding.partition}" if is_named else ""
        if finding.question is Question.NEITHER:
            lines += wrapped(f"({finding.kind}{of_partition}) {finding.message}")
        else:
            lines += wrapped(f"{finding.kind}{of_partition}: {finding.message}")
    if results.expectation_from in _EXPECTED and is_expected:
        lines += wrapped(_EXPECTED[results.expectation_from])
    if results.build:
        lines += wrapped(f"on Kafka {results.release}: {short_build(results.build)}")
    if results.unknown:
        lines += wrapped(f"unknown: {results.unknown}")
    if results.reason and is_expected:
        lines += wrapped(f"not as expected: {results.reason}")
    if results.stood_still:
        lines += wrapped(results.stood_still)
    if place or results.path.name:
        lines += wrapped(f"run: {place or results.path}")
    return lines


def table_text(results: Sequence[Results]) -> str:
    """Return the final table: one row a run."""
    from io import StringIO

    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for name in ("release", "case", "predicted", "observed", "conforms", "safe"):
        table.add_column(name, overflow="fold")
    table.add_column("s", justify="right", no_wrap=True)
    for result in results:
        predicted = _short(result.predicted_findings)
        observed = _short(result.findings)
        # A judgement that was read has no prediction, and what came of it.
        if result.conforms is None and predicted == "none":
            predicted = "unknown"
        if result.safe is None and observed == "none":
            observed = "unknown"
        table.add_row(
            result.ran or marked(result.release, result.build),
            result.case,
            predicted,
            observed,
            ANSWERS[result.conforms],
            ANSWERS[result.safe],
            f"{result.seconds:.1f}" if result.seconds is not None else "-",
        )
    output = StringIO()
    Console(file=output, width=WIDTH, highlight=False).print(table)
    text = "\n".join(line.rstrip() for line in output.getvalue().splitlines()).strip("\n")
    builds = sorted({build for result in results for build in result.build.split("; ") if build})
    lines = [line for build in builds for line in wrapped(f"build: {short_build(build)}")]
    return "\n".join([text, *lines, _expected_text(results)])


def _expected_text(results: Sequence[Results]) -> str:
    surprising = [result for result in results if not result.expected]
    lines = [f"{len(results) - len(surprising)} of {len(results)} as expected"]
    for result in surprising:
        release = result.ran or marked(result.release, result.build)
        lines += wrapped(f"{release} {result.case}: {result.reason or result.unknown}")
    return "\n".join(lines)


def _short(findings: Iterable[Finding]) -> str:
    """Return the kind and offsets of each safety finding."""
    texts = [
        f"{finding.kind} {_offsets(finding)}".strip()
        for finding in findings
        if finding.question is Question.SAFETY
    ]
    return ", ".join(dict.fromkeys(texts)) or "none"


def _offsets(finding: Finding) -> str:
    if finding.first_offset < 0:
        return ""
    return f"{finding.first_offset}-{finding.last_offset}"


def history_lines(judged: HistoryJudgement) -> list[str]:
    """Return lines about a history of clients: its anomalies, and whether it is valid."""
    lines = [f"{judged.path}: {judged.operations:,} operations of clients"]
    for finding in judged.findings:
        is_bad = finding.question is not Question.NEITHER
        lines += wrapped(
            f"{finding.kind}: {finding.message}"
            if is_bad
            else f"({finding.kind}) {finding.message}"
        )
    shown = Counter(finding.evidence["what"] for finding in judged.findings)
    for name, count in judged.counts.items():
        if count > shown[name]:
            lines += wrapped(f"{name}: {count - shown[name]:,} more like these")
    if judged.unknown:
        lines += wrapped(f"not known: {judged.unknown}")
    lines.append(f"valid: {ANSWERS[judged.valid]}")
    return lines
