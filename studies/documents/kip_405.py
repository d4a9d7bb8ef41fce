"""KIP-405's follower scenarios: each table of the page beside what brokers left in recorded runs.

Nothing is played here: the runs are those of the catalogue's entries KIP-405-1 to KIP-405-5.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ComparisonError
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.tier_tables import Table, tables_of
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.observations import Asked, ConsumerEnded
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.catalogue.kip_405_page import (
    BROKERS,
    TABLES,
    A,
    B,
    PrintedCell,
    PrintedTable,
    column_of,
)
from kchaos.studies.documents.comparison import Cell, Claim, Column, Comparison, Result, Row
from kchaos.studies.documents.searching import Say, SearchBounds

TITLE = "the tables of its follower scenarios, and what real brokers have there"
_ABOUT = TopicPartition("t", 0)
_BUILT = re.compile(r"Updated the epoch cache from remote tier till offset: (\d+) with size: (\d+)")
_ERRORS = {
    -1: "UNKNOWN_SERVER_ERROR",
    0: "no error",
    1: "OFFSET_OUT_OF_RANGE",
    6: "NOT_LEADER_OR_FOLLOWER",
    74: "FENCED_LEADER_EPOCH",
    109: "OFFSET_MOVED_TO_TIERED_STORAGE",
}
_READERS = {"B-follows": "while B follows", "B-leads": "while B leads"}

Runs = Mapping[tuple[int, str], RunEvidence]
"""The newest run of each scenario on each release."""


def compare(bounds: SearchBounds, say: Say) -> Comparison:
    """Refuse, since nothing can be computed without runs.

    Raises:
        ComparisonError: Always; the message says how to make runs.
    """
    raise ComparisonError(
        "KIP-405 is compared with runs: run `kchaos reproduce KIP-405-1` to KIP-405-5, and name "
        "the folder with their runs by --run"
    )


def compare_run(folder: Path, say: Say) -> Comparison:
    """Return each table of the page beside what runs have, and what the page says beside it.

    Args:
        folder: A run directory, or a folder with many; the newest of each scenario and release
            counts.
        say: Is told which runs are read.

    Raises:
        CheckError: A run cannot be read.
        ComparisonError: No run there is of the entries KIP-405-1 to KIP-405-5.
    """
    runs = _runs_in(folder)
    if not runs:
        raise ComparisonError(
            f"{folder} has no run of KIP-405-1 to KIP-405-5; `kchaos reproduce KIP-405-1` makes one"
        )
    releases = sorted({release for _, release in runs}, key=_number)
    observed: dict[tuple[int, str], Mapping[str, Table]] = {}
    for (scenario, release), evidence in sorted(runs.items()):
        say(f"KIP-405-{scenario} on {release}: {evidence.run.path.name}")
        observed[scenario, release] = tables_of(evidence, _ABOUT)
    return Comparison(
        document="KIP-405",
        title=TITLE,
        columns=(
            Column(key="page", title="what the page prints"),
            *(
                Column(key=release, title=f"what a run on {release} had there")
                for release in releases
            ),
        ),
        rows=tuple(_rows(observed, releases)),
        claims=tuple(_claims(runs)),
        notes=tuple(_notes(runs)),
        further=tuple(_readers(runs, releases)),
    )


def _runs_in(folder: Path) -> Runs:
    runs: dict[tuple[int, str], RunEvidence] = {}
    is_run = (folder / "scenario.json").is_file()
    for path in [folder] if is_run else sorted(folder.iterdir()):
        if path.is_symlink() or not (path / "scenario.json").is_file():
            continue
        evidence = RunEvidence(RunDirectory.open(path))
        named = re.fullmatch(r"KIP-405-([1-5])", evidence.scenario.entry)
        if named is None:
            continue
        key = int(named[1]), evidence.description.brokers[0].release
        known = runs.get(key)
        if known is None or _began(known) < _began(evidence):
            runs[key] = evidence
    return runs


def _began(evidence: RunEvidence) -> float:
    return evidence.description.started_at or 0.0


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split(".") if part.isdigit())


def _rows(
    observed: Mapping[tuple[int, str], Mapping[str, Table]], releases: Sequence[str]
) -> Iterator[Row]:
    for table in TABLES:
        for printed in table.cells:
            cells = {"page": Cell(text=printed.page)}
            for release in releases:
                tables = observed.get((table.scenario, release))
                if tables is not None:
                    cells[release] = _cell(table, printed, release, tables)
            yield Row(
                name=f"{table.scenario}, step {table.step}",
                question=_named(table, printed),
                cells=cells,
            )


def _cell(
    table: PrintedTable, printed: PrintedCell, release: str, tables: Mapping[str, Table]
) -> Cell:
    seen = tables.get(table.snapshot, {}).get(column_of(table, printed), ())
    text = "; ".join(seen) or "nothing"
    if seen != printed.lines(release):
        wanted = "; ".join(printed.lines(release))
        return Cell(result=Result.WRONG, text=text, detail=(f"it should be: {wanted}",))
    if text == printed.page:
        return Cell(result=Result.RIGHT, text="as printed")
    return Cell(result=Result.RIGHT, text=f"{text} ({printed.why})")


def _named(table: PrintedTable, printed: PrintedCell) -> str:
    return (
        f"{printed.column} (broker {BROKERS[table.scenario][printed.column[0]]})"
        if (printed.column[0] in (A, B))
        else printed.column
    )


def _claims(runs: Runs) -> Iterator[Claim]:
    """Yield the page's claims, scenario by scenario, against the newest release."""
    newest = {
        scenario: evidence
        for (scenario, _), evidence in sorted(runs.items(), key=lambda run: _number(run[0][1]))
    }
    if 1 in newest:
        yield from _of_a_new_follower(newest[1])
    if 2 in newest:
        yield from _of_an_old_follower(newest[2])
    if 5 in newest:
        yield _of_a_reader(newest[5])


def _of_a_new_follower(evidence: RunEvidence) -> Iterator[Claim]:
    follower = BROKERS[1][B]
    moved = [
        message.read_at
        for message in evidence.links or ()
        if message.source == follower
        and message.direction == "response"
        and any(
            part.get("error_code") == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
            for part in (message.detail or {}).get("partitions", ())
        )
    ]
    yield Claim(
        said="the follower will receive the OFFSET_MOVED_TO_TIERED_STORAGE error",
        seen=f"{len(moved)} answers with error 109 ({', '.join(moved[:3]) or 'none'})",
        holds=bool(moved),
    )
    yield _aux_state(
        evidence,
        follower,
        said="builds LE-0,0 LE-1,3 LE-2,5 from the remote tier before it fetches (scenario 1)",
        offset=3,
        size=3,
    )


def _of_an_old_follower(evidence: RunEvidence) -> Iterator[Claim]:
    follower = BROKERS[2][B]
    asked = [
        epoch_round
        for epoch_round in evidence.rounds or ()
        if epoch_round.follower == follower
        and epoch_round.requested_epoch == 1
        and not epoch_round.by_fetch
    ]
    yield Claim(
        said="the follower starts from the Truncating state and asks for the end of LE-1",
        seen=f"{len(asked)} questions OffsetForLeaderEpoch(1) by it: from protocol 2.7 on it "
        "fetches at once, and tiered storage needs 2.8",
        holds=bool(asked),
    )
    yield _aux_state(
        evidence,
        follower,
        said="rebuilds leader epoch sequence up to LE-3 from the remote tier (scenario 2)",
        offset=9,
        size=4,
    )


def _aux_state(evidence: RunEvidence, follower: int, *, said: str, offset: int, size: int) -> Claim:
    caches = [
        (int(match[1]), int(match[2]))
        for line in evidence.server_logs.get(follower, ())
        if (match := _BUILT.search(line)) is not None
    ]
    if not caches:
        return Claim(said=said, seen="its server.log says nothing of it", holds=False)
    count = f"{caches[0][1]} {'entry' if caches[0][1] == 1 else 'entries'}"
    words = f"it built a cache with {count} up to offset {caches[0][0]}"
    if caches[0][1] < size:
        words += "; what is missing came with the batches that it fetched"
    return Claim(said=said, seen=words, holds=caches[0] == (offset, size))


def _of_a_reader(evidence: RunEvidence) -> Claim:
    fenced = [
        asked.operation
        for _, asked in lines_of(evidence.observed, Asked)
        if asked.error_code == ErrorCode.FENCED_LEADER_EPOCH
    ]
    consumed = [
        seen.error or f"{len(seen.records)} records"
        for _, seen in lines_of(evidence.observed, ConsumerEnded)
    ]
    return Claim(
        said="A consumer fetches offset 3, LE-1 from broker B will be fenced",
        seen=f"only a Fetch that itself says epoch 1 is ({len(fenced)} of them); Kafka's own "
        f"consumer says the newest epoch and gets {', then '.join(consumed) or 'nothing'}",
        holds=bool(fenced) and consumed == ["FencedLeaderEpochException"] * len(consumed),
    )


def _readers(runs: Runs, releases: Iterable[str]) -> Iterator[Comparison]:
    """Yield the records of the page's last reader, for each kind of request."""
    of_five = {release: runs[5, release] for release in releases if (5, release) in runs}
    if not of_five:
        return
    answers = {
        release: dict(_answers(runs_of_release)) for release, runs_of_release in of_five.items()
    }
    keys = list(dict.fromkeys(key for texts in answers.values() for key in texts))
    yield Comparison(
        document="KIP-405",
        title="a reader at offset 3 of LE-1 asks broker B (scenario 5, the last sentence)",
        columns=tuple(
            Column(key=release, title=f"what it got on {release}") for release in of_five
        ),
        rows=tuple(
            Row(
                name=_READERS.get(when, when),
                question=request,
                cells={
                    release: Cell(text=texts[when, request])
                    for release, texts in answers.items()
                    if (when, request) in texts
                },
            )
            for when, request in keys
        ),
    )


def _answers(evidence: RunEvidence) -> Iterator[tuple[tuple[str, str], str]]:
    for line in evidence.observed:
        match line.what:
            case Asked() as asked:
                yield (asked.operation.partition("-")[2], asked.request), _answer(asked)
            case ConsumerEnded() as seen:
                request = "Kafka's own consumer, from whoever leads"
                yield (seen.operation.partition("-")[2], request), _got(seen) or seen.error


def _answer(asked: Asked) -> str:
    said = _ERRORS.get(asked.error_code, f"error {asked.error_code}")
    if asked.diverging is not None:
        epoch, end = asked.diverging
        said += f", and that epoch {epoch} ends at {end}"
    if asked.error_code == 0 and asked.answered is not None:
        epoch, end = asked.answered
        return f"epoch {epoch} ends at {end}"
    return ", ".join(text for text in (said, _got(asked)) if text)


def _got(seen: Asked | ConsumerEnded) -> str:
    return "; ".join(f"{offset}: {value}" for offset, value in seen.records or ())


def _notes(runs: Runs) -> Iterator[str]:
    yield (
        "leader epochs are counted in the order in which logs and segments have them, as on the "
        "page. A partition that is offline for a while, and a reassignment, take epochs of their "
        "own"
    )
    yield "messages are numbered by the operations that wrote them; semicolons separate lines"
    named = ", ".join(evidence.run.path.name for _, evidence in sorted(runs.items()))
    yield f"made of these runs: {named}"
