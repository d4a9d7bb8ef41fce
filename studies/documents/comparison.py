"""The form of a comparison: alternatives beside each other, a question in each row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

Number = int | float


class Result(StrEnum):
    """Result of an alternative in one row."""

    RIGHT = "right"
    WRONG = "wrong"
    UNKNOWN = "unknown"
    """A bound ended the search before it could be said."""
    NONE = ""
    """The row only counts something, or does not concern the alternative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One alternative.

    Attributes:
        key: A short name, which heads its column; at most nine characters a word.
        title: One sentence: what it is.
    """

    key: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Result of one alternative in one row; everything in it is computed.

    Attributes:
        result: Whether that was right.
        text: What the table shows; a few short words.
        numbers: By name, such as "rounds" or "bits".
        detail: Sentences: what happened, step by step where it went wrong.
    """

    result: Result = Result.NONE
    text: str = ""
    numbers: Mapping[str, Number] = field(default_factory=dict)
    detail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One scenario or question.

    Attributes:
        name: Heads the row.
        question: What is asked of every alternative, as one sentence.
        cells: By the column's key; one that is not concerned has none.
    """

    name: str
    question: str
    cells: Mapping[str, Cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Something that the document says, and what was computed.

    Attributes:
        said: The document's own figure or statement.
        seen: What came out here.
        holds: Whether they agree; None where a bound ended the search.
    """

    said: str
    seen: str
    holds: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A document's alternatives side by side.

    Attributes:
        document: Such as "KIP-279".
        title: What is compared, as one line.
        columns: The alternatives, in the document's order.
        claims: What the document says, against what was computed.
        notes: Sentences about how it was computed, and what follows.
        further: Comparisons of the same document with columns of their own.
    """

    document: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = ()
    further: tuple["Comparison", ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether no bound left anything open."""
        cells = [cell for row in self.rows for cell in row.cells.values()]
        is_open = any(cell.result is Result.UNKNOWN for cell in cells) or any(
            claim.holds is None for claim in self.claims
        )
        return not is_open and all(table.is_complete for table in self.further)

    def cell(self, row: str, column: str) -> Cell:
        """Return the cell of a row and a column by their names.

        Raises:
            KeyError: There is none.
        """
        return next(line for line in self.rows if line.name == row).cells[column]
