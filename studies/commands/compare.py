"""`kchaos compare`: a document's alternatives side by side, by the model."""

import dataclasses
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kchaos.harness.errors import UsageError
from kchaos.harness.exits import AS_EXPECTED, UNKNOWN
from kchaos.studies.documents import (
    Claim,
    Comparison,
    Result,
    Row,
    Say,
    SearchBounds,
    document_named,
)

WIDTH = 80
_NAME = 15
_SAID = {True: "confirmed", False: "refuted", None: "unknown"}


def compare_document(name: str, *, run: Path | None, bounds: SearchBounds, say: Say) -> Comparison:
    """Compare a document's alternatives.

    Raises:
        ComparisonError: There is no such document.
        UsageError: It takes no recorded run, or the run directory is none.
    """
    document = document_named(name)
    if run is None:
        return document.compare(bounds, say)
    if document.compare_run is None:
        raise UsageError(f"{document.name} is compared over its own scenarios; leave out --run")
    if not run.is_dir():
        raise UsageError(f"{run} is no run directory; `kchaos reproduce` and `chaos` make them")
    return document.compare_run(run, say)


def exit_code_for(comparison: Comparison) -> int:
    """Return 0 if every question was answered, 2 if a bound ended a search."""
    return AS_EXPECTED if comparison.is_complete else UNKNOWN


def to_json(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison as one JSON object."""
    return {**dataclasses.asdict(comparison), "complete": comparison.is_complete}


def text_of(comparison: Comparison, *, width: int = WIDTH) -> str:
    """Return the comparison as text: columns, table, claims, notes and details."""
    lines = [f"{comparison.document}: {comparison.title}", ""]
    widest = max(len(column.key) for column in comparison.columns)
    for column in comparison.columns:
        lines += _hanging(f"{column.key:{widest}} ", column.title, width)
    lines += ["", *_table(comparison, width)]
    if comparison.claims:
        lines += ["", "What the document says"]
        for claim in comparison.claims:
            lines += _claim(claim, width)
    if comparison.notes:
        lines.append("")
        for note in comparison.notes:
            lines += _hanging("- ", note, width)
    details = list(_details(comparison, width))
    if details:
        lines += ["", "How it went wrong", *details]
    for section in comparison.further:
        lines += ["", "", text_of(section, width=width)]
    return "\n".join(line.rstrip() for line in lines)


def _table(comparison: Comparison, width: int) -> Iterator[str]:
    keys = [column.key for column in comparison.columns]
    cell = max(4, (width - _NAME) // len(keys) - 1)
    yield from _table_row("", keys, cell)
    yield "-" * min(width, _NAME + len(keys) * (cell + 1))
    for row in comparison.rows:
        yield from _table_row(row.name, [_short(row, key) for key in keys], cell)


def _short(row: Row, key: str) -> str:
    cell = row.cells.get(key)
    return "-" if cell is None else cell.text or str(cell.result)


def _table_row(name: str, texts: Sequence[str], cell: int) -> Iterator[str]:
    columns = [textwrap.wrap(name, _NAME - 1) or [""]]
    columns += [textwrap.wrap(text, cell) or [""] for text in texts]
    widths = [_NAME - 1, *[cell] * len(texts)]
    for index in range(max(map(len, columns))):
        parts = [column[index] if index < len(column) else "" for column in columns]
        yield " ".join(f"{part:{size}}" for part, size in zip(parts, widths, strict=True))


def _claim(claim: Claim, width: int) -> Iterator[str]:
    yield from _hanging(f"{_SAID[claim.holds]:9} ", f"“{claim.said}”: {claim.seen}", width)


def _details(comparison: Comparison, width: int) -> Iterator[str]:
    for row in comparison.rows:
        for column in comparison.columns:
            cell = row.cells.get(column.key)
            if cell is None or cell.result in (Result.RIGHT, Result.NONE):
                continue
            yield f"{row.name}, {column.key}:"
            for number, line in enumerate(cell.detail, start=1):
                yield from _hanging(f"{number:4}. ", line, width)


def _hanging(start: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=start, subsequent_indent=" " * len(start)) or [
        start
    ]
