"""Claims of KIP-279, figure by figure, against what is computed."""

from collections.abc import Callable, Mapping
from functools import partial

from kchaos.studies.documents.comparison import Cell, Claim, Result, Row
from kchaos.studies.documents.kip_279_columns import (
    COUNT_BITS,
    FAILOVERS,
    cell_of,
    generations,
    machine,
)
from kchaos.studies.documents.kip_279_scenes import Common, failovers
from kchaos.studies.documents.searching import Say, SearchBounds, explored


def _says_bits(said: str, cell: Cell, wanted: int) -> Claim:
    bits = int(cell.numbers["extra bits"])
    words = f"{bits:+} bits"
    if cell.numbers["epochs named"]:
        words += f", and {bits + COUNT_BITS:+} with the length that Kafka writes before an array"
    return Claim(said=said, seen=words, holds=bits == wanted)


def _says_rounds(said: str, rows: tuple[Row, ...], wanted: Mapping[str, int]) -> Claim:
    known = {row.name: row.cells for row in rows}
    rounds = {key: int(known["1, n=20"][key].numbers["rounds"]) for key in wanted}
    text = ", ".join(f"{key}: {count}" for key, count in rounds.items())
    return Claim(said=said, seen=f"rounds in scenario 1: {text}", holds=rounds == wanted)


def _says_high_watermark(said: str, known: Mapping[str, Mapping[str, Cell]]) -> Claim:
    """Return the claim on scenario 3, with HW=0 for the proposal, HW=2 for alternative 2."""
    told = {
        high_watermark: known[f"3, HW={high_watermark}"]["proposal"] for high_watermark in (0, 2)
    }
    words = "; ".join(
        f"with HW={high_watermark}: {', '.join(cell.detail)}"
        for high_watermark, cell in told.items()
    )
    holds = all(cell.result is Result.RIGHT for cell in told.values())
    return Claim(said=said, seen=words, holds=holds)


def _rounds(key: str, changes: int, common: Common, *, is_checkpointed: bool = False) -> int:
    generation = generations()[key]
    scene = failovers(generation, changes, common=common, is_checkpointed=is_checkpointed)
    return int(cell_of(key, scene, generation).numbers["rounds"])


def _first(wanted: Callable[[int], bool]) -> int | None:
    return next((changes for changes in FAILOVERS if wanted(changes)), None)


def _takes_two(changes: int, common: Common) -> bool:
    return _rounds("proposal", changes, common) >= 2


def _takes_fewer(changes: int, common: Common, *, is_checkpointed: bool) -> bool:
    proposal, alternative = (
        _rounds(key, changes, common, is_checkpointed=is_checkpointed)
        for key in ("proposal", "alt. 2")
    )
    return alternative < proposal


def _failover_claims() -> tuple[Claim, ...]:
    first = {common: _first(partial(_takes_two, common=common)) for common in Common}
    above = _first(lambda n: _takes_fewer(n, Common.NOTHING, is_checkpointed=True))
    with_record = _first(lambda n: _takes_fewer(n, Common.RECORD, is_checkpointed=False))
    return (
        Claim(
            said="2 roundtrips is required starting at 3 consecutive fast leader failovers",
            seen=f"the proposal first takes 2 after {first[Common.NOTHING]} failovers, and after "
            f"{first[Common.EPOCH]} where the epoch also grows when the follower dies, as "
            "controllers have it",
            holds=first[Common.NOTHING] == 3,
        ),
        Claim(
            said="To get the advantage of less roundtrips, the scenario above shoud add one more "
            "step",
            seen="alternative 2 first takes fewer than the proposal after "
            f"{above} failovers where nothing is common and the high watermark is 2 or more; "
            f"it does so after {with_record} with a common record above a high watermark of 0",
            holds=above == 4,
        ),
    )


def scene_claims(rows: tuple[Row, ...]) -> tuple[Claim, ...]:
    """Return the document's figures against what the scenarios took."""
    known = {row.name: row.cells for row in rows}
    return (
        _says_bits("The proposed solution does add 32bits", known["1, n=20"]["proposal"], 32),
        _says_bits("this approach adds minimum 64bits", known["2"]["alt. 2"], 64),
        _says_bits(
            "maximum (clean leader election edge case described above) 160bits",
            known["1, n=20"]["alt. 2"],
            160,
        ),
        _says_rounds(
            "one roundtrip for clean leader election case, while the alternative may result in 2",
            rows,
            {"proposal": 1, "alt. 1": 2, "alt. 2": 1},
        ),
        *_failover_claims(),
        _says_high_watermark("Broker A will truncate to its HW which is offet 0", known),
    )


def searched_claims(bounds: SearchBounds, say: Say) -> tuple[Claim, ...]:
    """Return what the document says of all clean elections, against every interleaving."""
    claims = []
    asked = (
        (
            "proposal",
            "one-round",
            "The proposed solution guarantees one roundtrip for clean leader election case",
        ),
        (
            "alt. 2",
            "two-epochs",
            "maximum 160bits, for at most one epoch is unknown to the new leader",
        ),
    )
    for key, wanted, said in asked if bounds.most_states else ():
        say(f"every interleaving of {key}: {wanted}")
        cell = explored(machine(generations()[key], 3), wanted, bounds, preferred=1)
        steps = f" steps: {'; '.join(cell.detail)}" if cell.result is Result.WRONG else ""
        holds = None if cell.result is Result.UNKNOWN else cell.result is Result.RIGHT
        claims.append(
            Claim(
                said=said,
                seen=f"one preferred replica, every interleaving: {cell.text}{steps}",
                holds=holds,
            )
        )
    return tuple(claims)
