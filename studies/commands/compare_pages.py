"""`kchaos compare --write`: a comparison as a section of a Markdown page."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from kchaos.harness.errors import UsageError
from kchaos.studies.documents import Comparison, Result, Row

_SAID = {True: "confirmed", False: "**refuted**", None: "unknown"}


def begin_mark(document: str) -> str:
    """Return the mark before the section."""
    return f"<!-- begin: kchaos compare {document} -->"


def end_mark(document: str) -> str:
    """Return the mark after the section."""
    return f"<!-- end: kchaos compare {document} -->"


def refuse_page(file: Path, document: str) -> None:
    """Refuse an existing page that has no place for the section.

    Raises:
        UsageError: The message names the marks, or the folder that is missing.
    """
    if not file.absolute().parent.is_dir():
        raise UsageError(f"{file} cannot be written: there is no such folder")
    if file.exists():
        _around(file, file.read_text(), document)


def write_page(file: Path, comparison: Comparison) -> None:
    """Write the section between its marks, or a page that has nothing else.

    Raises:
        UsageError: The page has no marks.
    """
    before, after = f"# {comparison.document}: {comparison.title}\n\n", ""
    if file.exists():
        before, after = _around(file, file.read_text(), comparison.document)
    begin, end = begin_mark(comparison.document), end_mark(comparison.document)
    file.write_text(f"{before}{begin}\n\n{markdown_of(comparison)}\n\n{end}\n{after}")


def _around(file: Path, text: str, document: str) -> tuple[str, str]:
    begin, end = (mark.casefold() for mark in (begin_mark(document), end_mark(document)))
    first, last = text.casefold().find(begin), text.casefold().find(end)
    if first < 0 or last < first:
        raise UsageError(f"{file} has no lines {begin_mark(document)} and {end_mark(document)}")
    return text[:first], text[last + len(end) :].removeprefix("\n")


def markdown_of(comparison: Comparison) -> str:
    """Return the comparison as Markdown: columns, table, claims, notes, and traces."""
    lines = [f"- **{column.key}**: {column.title}" for column in comparison.columns]
    keys = [column.key for column in comparison.columns]
    lines += ["", *_table(["", *keys], [_cells(row, keys) for row in comparison.rows])]
    if comparison.claims:
        said = [[f"“{claim.said}”", _SAID[claim.holds], claim.seen] for claim in comparison.claims]
        lines += ["", *_table(["what the document says", "", "what was computed"], said)]
    if comparison.notes:
        lines += ["", *(f"- {note}" for note in comparison.notes)]
    details = [line for row in comparison.rows for line in _details(row, keys)]
    if details:
        lines += ["", "How it went wrong:", "", *details]
    for section in comparison.further:
        lines += ["", f"### {section.document}: {section.title}", "", markdown_of(section)]
    return "\n".join(lines)


def _cells(row: Row, keys: Sequence[str]) -> list[str]:
    texts = [f"**{row.name}**: {row.question}"]
    for key in keys:
        cell = row.cells.get(key)
        text = "-" if cell is None else cell.text or str(cell.result)
        texts.append(f"**{text}**" if cell is not None and cell.result is Result.WRONG else text)
    return texts


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for row in rows:
        yield f"| {' | '.join(text.replace('|', chr(92) + '|') for text in row)} |"


def _details(row: Row, keys: Sequence[str]) -> Iterator[str]:
    """Yield details of wrong and unknown cells, once for all columns that share one."""
    keys_by_detail: dict[tuple[str, ...], list[str]] = {}
    cells: Mapping[str, object] = row.cells
    for key in keys:
        if key not in cells:
            continue
        cell = row.cells[key]
        if cell.result in (Result.WRONG, Result.UNKNOWN):
            keys_by_detail.setdefault(cell.detail, []).append(key)
    for detail, columns in keys_by_detail.items():
        yield f"- **{row.name}**, {', '.join(columns)}: {'; '.join(detail)}"
