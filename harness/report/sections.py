"""Sections of a report that other packages add, by entry points."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points

from kchaos.harness.report.loading import Loaded

GROUP = "kchaos.report"
"""Entry points: a function from a loaded run to a `Section`, or to None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionRow:
    """A row of a section.

    Attributes:
        group: What the row is about; rows of a group follow each other.
        cells: One for each column after the first, which is the group.
        text: The same as one line of text.
    """

    group: str
    cells: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table under a heading.

    Attributes:
        name: Letters alone; the anchor on the page.
        note: One sentence about the table.
        lead: A sentence for the head of the report, or "".
    """

    name: str
    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[SectionRow, ...]
    lead: str = ""


@cache
def _makers() -> tuple[Callable[[Loaded], Section | None], ...]:
    return tuple(point.load() for point in entry_points(group=GROUP))


def sections_of(loaded: Loaded) -> Iterator[Section]:
    """Yield the sections that installed packages add to the report of this run."""
    for section_of in _makers():
        section = section_of(loaded)
        if section is not None:
            yield section
