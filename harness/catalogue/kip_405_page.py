"""The tables of KIP-405's follower scenarios, as the page prints them, and its slips.

A cell has the page's lines, with "; " in between; where real brokers have something else, what that
is and why. `checkers.evidence.tier_tables` writes what a run has in the same form.
"""

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType

from kchaos.checkers.evidence.tier_tables import Table

A, B, REMOTE, METADATA = "A", "B", "remote", "metadata"
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

_FOUR = "LE-0, 0; LE-1, 3; LE-2, 5; LE-3, 7"
_LOCAL_1 = "3: msg 3 LE-1; 4: msg 4 LE-1; 5: msg 5 LE-2; 6: msg 6 LE-2; 7: msg 7 LE-3"
_SEG_0_2 = "seg-0-2; 0: msg 0 LE-0; 1: msg 1 LE-0; 2: msg 2 LE-0; epochs: LE-0, 0"
_TWO_SEGMENTS = (
    f"{_SEG_0_2}; seg-3-5; 3: msg 3 LE-1; 4: msg 4 LE-1; 5: msg 5 LE-2; "
    "epochs: LE-0, 0; epochs: LE-1, 3; epochs: LE-2, 5"
)
_TWO_TOLD = "seg-0-2; LE-0, 0; seg-3-5; LE-1, 3; LE-2, 5"
_THREE_SEGMENTS = (
    f"{_TWO_SEGMENTS}; seg-6-8; 6: msg 6 LE-2; 7: msg 7 LE-3; 8: msg 8 LE-3; "
    "epochs: LE-0, 0; epochs: LE-1, 3; epochs: LE-2, 5; epochs: LE-3, 7"
)
_THREE_TOLD = PrintedCell(
    METADATA,
    f"{_TWO_TOLD}; seg-6-8; LE-2, 5; LE-3, 7",
    seen=f"{_TWO_TOLD}; seg-6-8; LE-2, 6; LE-3, 7",
    why="the metadata names where an epoch begins in the segment, not where it begins",
)
_TIERED_1 = (PrintedCell(REMOTE, _TWO_SEGMENTS), PrintedCell(METADATA, _TWO_TOLD))
_LOCAL_2 = "9: msg 9 LE-3; 10: msg 10 LE-3; 11: msg 11 LE-3"
_ALL_2 = f"0: msg 0 LE-0; 1: msg 1 LE-0; 2: msg 2 LE-0; {_LOCAL_1}; 8: msg 8 LE-3; 9: msg 9 LE-3"
_FOLLOWER_2 = "0: msg 0 LE-0; 1: msg 1 LE-0; 2: msg 2 LE-0; 3: msg 3 LE-1"
_TIERED_2 = (PrintedCell(REMOTE, _THREE_SEGMENTS), _THREE_TOLD)


def _cells(**columns: str) -> tuple[PrintedCell, ...]:
    """Return cells in which the page is right."""
    return tuple(PrintedCell(name.replace("_", " "), page) for name, page in columns.items())


_FIRST_AND_SECOND = {
    (1, 1): (*_cells(A=_LOCAL_1, A_epochs=_FOUR), *_TIERED_1),
    (1, 2): (
        *_cells(A=_LOCAL_1),
        PrintedCell(
            f"{A} epochs",
            _FOUR,
            seen=f"{_FOUR}; LE-4, 8",
            why="adding a replica takes leader epochs, and a leader notes its epoch at once",
        ),
        *_cells(B=_LOCAL_1, B_epochs=_FOUR),
        *_TIERED_1,
    ),
    (2, 1): (
        *_cells(A=_ALL_2, A_epochs=_FOUR, B=_FOLLOWER_2, B_epochs="LE-0, 0; LE-1, 3"),
        PrintedCell(
            REMOTE,
            _TWO_SEGMENTS,
            seen=_THREE_SEGMENTS,
            why="a segment is shipped as soon as it is rolled, so that 6 to 8 is there too",
        ),
        PrintedCell(
            METADATA, _TWO_TOLD, seen=f"{_TWO_TOLD}; seg-6-8; LE-2, 6; LE-3, 7", why="likewise"
        ),
    ),
    (2, 2): (
        *_cells(A=_LOCAL_2, A_epochs=_FOUR),
        PrintedCell(
            B,
            _FOLLOWER_2,
            seen="3: msg 3 LE-1",
            why="local retention also runs on a follower that is out of sync",
        ),
        *_cells(B_epochs="LE-0, 0; LE-1, 3"),
        *_TIERED_2,
    ),
    (2, 3): (*_cells(A=_LOCAL_2, A_epochs=_FOUR, B=_LOCAL_2, B_epochs=_FOUR), *_TIERED_2),
}

_LOST = "0: msg 0 LE-0; 1: msg 1 LE-0; 2: msg 2 LE-0"
_SEG_0_1 = "seg-0-1; 0: msg 0 LE-0; 1: msg 1 LE-0; epochs: LE-0, 0"
_TIERED_3 = _cells(remote=_SEG_0_1, metadata="seg-0-1; LE-0, 0")
_KEPT_3 = "0: msg 0 LE-0; 1: msg 3 LE-1"
_THIRD = {
    (3, 1): (*_cells(A=_LOST, A_epochs="LE-0, 0", B=_LOST, B_epochs="LE-0, 0"), *_TIERED_3),
    (3, 2): (
        *_cells(A=_LOST, A_epochs="LE-0, 0", B=_KEPT_3, B_epochs="LE-0, 0; LE-1, 1"),
        *_TIERED_3,
    ),
    (3, 3): (
        PrintedCell(
            A,
            f"{_LOST}; 1: msg 3 LE-1",
            seen=_KEPT_3,
            why="the page's copy has lost that messages 1 and 2 are struck out",
        ),
        *_cells(A_epochs="LE-0, 0; LE-1, 1", B=_KEPT_3, B_epochs="LE-0, 0; LE-1, 1"),
        *_TIERED_3,
    ),
    (3, 4): (
        *(
            cell
            for broker in (A, B)
            for cell in (
                PrintedCell(broker, f"{_KEPT_3}; 2: msg 4 LE-1"),
                PrintedCell(
                    f"{broker} epochs",
                    "LE-0, 0; LE-1, 1; LE-2, 2",
                    seen="LE-0, 0; LE-1, 1",
                    why="nobody was elected in between, and message 4 is of LE-1",
                ),
            )
        ),
        PrintedCell(
            REMOTE,
            f"{_SEG_0_1}; seg-1-1; 1: msg 1 LE-1; epochs: LE-0, 0; epochs: LE-1, 1",
            seen=f"{_SEG_0_1}; seg-0-1; 0: msg 0 LE-0; 1: msg 3 LE-1; epochs: LE-0, 0; "
            "epochs: LE-1, 1",
            before=_SEG_0_1,
            why="the whole local segment is shipped, with message 3; 3.6 ships nothing "
            "(KAFKA-15241)",
        ),
        PrintedCell(
            METADATA,
            "seg-0-1; LE-0, 0; seg-1-1; LE-1, 1",
            seen="seg-0-1; LE-0, 0; seg-0-1; LE-0, 0; LE-1, 1",
            before="seg-0-1; LE-0, 0",
            why="likewise",
        ),
    ),
}

_A_4 = f"{_LOST}; 3: msg 3 LE-0"
_SHIPPED_4 = (
    PrintedCell(
        REMOTE,
        f"{_SEG_0_2}; seg-0-1; 0: msg 0 LE-0; 1: msg 4 LE-1; epochs: LE-0, 0; epochs: LE-1, 1",
        before=_SEG_0_2,
        why="3.6 ships nothing of the new lineage (KAFKA-15241)",
    ),
    PrintedCell(
        METADATA,
        "seg-0-2; LE-0, 0; seg-0-1; LE-0, 0; LE-1, 1",
        before="seg-0-2; LE-0, 0",
        why="likewise",
    ),
)
_FOURTH = {
    (4, 1): _cells(
        A=_A_4,
        A_epochs="LE-0, 0",
        B="0: msg 0 LE-0",
        B_epochs="LE-0, 0",
        remote=_SEG_0_2,
        metadata="seg-0-2; LE-0, 0",
    ),
    (4, 2): (
        *_cells(B="0: msg 0 LE-0; 1: msg 4 LE-1; 2: msg 5 LE-1", B_epochs="LE-0, 0; LE-1, 1"),
        *_SHIPPED_4,
    ),
    (4, 3): (*_cells(B="2: msg 5 LE-1", B_epochs="LE-0, 0; LE-1, 1"), *_SHIPPED_4),
}

_A_5 = f"{_A_4}; 4: msg 4 LE-0"
_B_5 = PrintedCell(
    B,
    "0: msg 0 LE-0; 1: msg 1 LE-0; 2: msg 4 LE-1; 3: msg 5 LE-1; 4: msg 6 LE-1",
    seen="0: msg 0 LE-0; 1: msg 1 LE-0; 2: msg 14 LE-1; 3: msg 15 LE-1; 4: msg 16 LE-1",
    why="the page numbers B's own messages 4 to 6, as some of A's; here they are 14 to 16",
)
_OF_A = "seg-0-3; 0: msg 0 LE-0; 1: msg 1 LE-0; 2: msg 2 LE-0; 3: msg 3 LE-0; epochs: LE-0, 0"
_BEGUN = "seg-0-3; 0: msg 0 LE-0; 1: msg 1 LE-0"
_CHAIN = "epochs: LE-0, 0; epochs: LE-1, 2"
_TWO_5 = f"{_OF_A}; {_BEGUN}; 2: msg 4 LE-1; 3: msg 5 LE-1; {_CHAIN}"
_TWO_SEEN_5 = f"{_OF_A}; {_BEGUN}; 2: msg 14 LE-1; 3: msg 15 LE-1; {_CHAIN}"
_TWO_TOLD_5 = "seg-0-3; LE-0, 0; seg-0-3; LE-0, 0; LE-1, 2"
_SEG_4_5 = "epochs: LE-0, 0; epochs: LE-2, 5"
_NUMBERS = "message numbers as above; 3.6 ships nothing of B's (KAFKA-15241)"
_THREE_5 = (
    PrintedCell(
        REMOTE,
        f"{_TWO_5}; seg-4-5; {_SEG_4_5}",
        seen=f"{_TWO_SEEN_5}; seg-4-5; 4: msg 4 LE-0; 5: msg 7 LE-2; {_SEG_4_5}",
        before=f"{_OF_A}; seg-4-5; 4: msg 4 LE-0; 5: msg 7 LE-2; {_SEG_4_5}",
        why=f"the page leaves out what is in seg-4-5; {_NUMBERS}",
    ),
    PrintedCell(
        METADATA,
        f"{_TWO_TOLD_5}; seg-4-5; LE-0, 0; LE-2, 5",
        seen=f"{_TWO_TOLD_5}; seg-4-5; LE-0, 4; LE-2, 5",
        before="seg-0-3; LE-0, 0; seg-4-5; LE-0, 4; LE-2, 5",
        why="the metadata names where an epoch begins in the segment, not where it begins",
    ),
)
_FIFTH = {
    (5, 1): _cells(
        A=_A_5,
        A_epochs="LE-0, 0",
        B="0: msg 0 LE-0; 1: msg 1 LE-0",
        B_epochs="LE-0, 0",
        remote=_OF_A,
        metadata="seg-0-3; LE-0, 0",
    ),
    (5, 2): (
        *_cells(A=_A_5, A_epochs="LE-0, 0"),
        _B_5,
        *_cells(B_epochs="LE-0, 0; LE-1, 2"),
        PrintedCell(REMOTE, _TWO_5, seen=_TWO_SEEN_5, before=_OF_A, why=_NUMBERS),
        PrintedCell(METADATA, _TWO_TOLD_5, before="seg-0-3; LE-0, 0", why="likewise"),
    ),
    (5, 3): (
        *_cells(A=f"{_A_5}; 5: msg 7 LE-2; 6: msg 8 LE-2", A_epochs="LE-0, 0; LE-2, 5"),
        _B_5,
        *_cells(B_epochs="LE-0, 0; LE-1, 2"),
        *_THREE_5,
    ),
    (5, 4): (
        *_cells(
            A="6: msg 8 LE-2",
            A_epochs="LE-0, 0; LE-2, 5",
            B="6: msg 8 LE-2",
            B_epochs="LE-0, 0; LE-2, 5",
        ),
        *_THREE_5,
    ),
}

TABLES: tuple[PrintedTable, ...] = tuple(
    PrintedTable(scenario, step, cells)
    for (scenario, step), cells in (_FIRST_AND_SECOND | _THIRD | _FOURTH | _FIFTH).items()
)
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
