"""The tables of KIP-405's follower scenarios, as the page prints them, and its slips.

A cell has the page's lines, with "; " in between; where real brokers have something else, what that
is and why. `checkers.evidence.tier_tables` writes what a run has in the same form.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from importlib.resources import files
from types import MappingProxyType

from kchaos.checkers.evidence.tier_tables import Table

A, B = "A", "B"
_FIRST_UPLOADED = (3, 7)
"""KAFKA-15241: before, a new leader ships nothing at offsets that another lineage has shipped."""


@dataclass(frozen=True, slots=True)
class PrintedCell:
    """One cell of a table on the page.

    Attributes:
        column: "A", "B", "A epochs", "B epochs", "remote" or "metadata".
        page: The page's lines.
        seen: What real brokers have instead, or "" where it is the same.
        before: What 3.6 has instead of that, or "" where it is the same as on later releases.
        why: Why it is not what the page has, in one sentence.
    """

    column: str
    page: str
    _: KW_ONLY
    seen: str = ""
    before: str = ""
    why: str = ""

    def lines(self, release: str) -> tuple[str, ...]:
        """Return the lines that a release must print there."""
        number = tuple(int(part) for part in release.split(".")[:2])
        text = (number < _FIRST_UPLOADED and self.before) or self.seen or self.page
        return tuple(text.split("; "))


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """One step of one scenario.

    Attributes:
        cells: Those that state what a log, a cache or the remote tier holds.
    """

    scenario: int
    step: int
    cells: tuple[PrintedCell, ...]

    @property
    def snapshot(self) -> str:
        """Return the snapshot of the catalogue's entry that is taken there."""
        return f"step-{self.step}"


BROKERS: Mapping[int, Mapping[str, int]] = MappingProxyType(
    {1: {A: 1, B: 2}, 2: {A: 2, B: 1}, 3: {A: 0, B: 1}, 4: {A: 0, B: 1}, 5: {A: 0, B: 1}}
)
"""By scenario: which broker of the catalogue's entry is A, and which is B."""


def _cell(column: str, cell: str | dict[str, str], texts: Mapping[str, str]) -> PrintedCell:
    def expanded(text: str) -> str:
        while "{" in text:
            text = text.format(**texts)
        return text

    told = {"page": cell} if isinstance(cell, str) else cell
    return PrintedCell(column, **{name: expanded(text) for name, text in told.items()})


def _tables() -> Iterator[PrintedTable]:
    read = tomllib.loads(files(__package__).joinpath("kip_405_page.toml").read_text("utf-8"))
    for scenario, steps in read["tables"].items():
        for step, cells in steps.items():
            made = tuple(_cell(column, cell, read["texts"]) for column, cell in cells.items())
            yield PrintedTable(int(scenario), int(step), made)


TABLES: tuple[PrintedTable, ...] = tuple(_tables())
"""Every table of the page, in its order."""


def wanted(table: PrintedTable, release: str) -> Table:
    """Return what a run of the catalogue's entry must have at that step, by column."""
    return {column_of(table, cell): cell.lines(release) for cell in table.cells}


def column_of(table: PrintedTable, cell: PrintedCell) -> str:
    """Return a cell's column as `checkers.evidence.tier_tables` calls it."""
    name, _, rest = cell.column.partition(" ")
    broker = BROKERS[table.scenario].get(name)
    return cell.column if broker is None else f"broker {broker} {rest}".strip()


def of_scenario(scenario: int) -> Iterator[PrintedTable]:
    """Yield the tables of one scenario, step by step."""
    return (table for table in TABLES if table.scenario == scenario)
