"""Claims of KAFKA-7601, sentence by sentence, against what is computed."""

from kchaos.checkers.model.values.log import Log
from kchaos.checkers.model.values.shared import Shared
from kchaos.studies.documents.comparison import Claim, Result, Row
from kchaos.studies.documents.kafka_7601_columns import NEW, OLD, formats, in_both
from kchaos.studies.documents.kafka_7601_scenes import BASE, FLAPS, A, downgraded, flapping


def claims(rows: tuple[Row, ...]) -> tuple[Claim, ...]:
    """Return what the document says against what was computed."""
    known = {row.name: row.cells for row in rows}
    end = known["issue 2"][BASE]
    old, gone = known["issue 1"][BASE].numbers["unreadable"], _comes_back()
    return (
        Claim(
            said="in the worst case, old clients will see the new format",
            seen=f"on {BASE} after a downgrade an old client gets {old} batches as they are",
            holds=old > 0,
        ),
        Claim(
            said="the log end offset was returned; this resulted in localized log divergence",
            seen="; ".join(end.detail),
            holds=end.result is Result.WRONG,
        ),
        _stabilizes("once the update is completed the message format will stabilize"),
        Claim(
            said="the leader could always use the maximum of the last version written and the "
            "configured one",
            seen=f"then a downgrade comes into force {gone}",
            holds=gone == "only when the log is empty",
        ),
    )


def _stabilizes(said: str) -> Claim:
    ended = in_both(flapping(), BASE, (NEW, OLD), (NEW, NEW))
    magics = [batch.magic for batch in ended.logs[A].batches]
    return Claim(
        said=said,
        seen=f"magic in the flap and, after {FLAPS}, once B is upgraded: "
        f"{', '.join(map(str, magics))}",
        holds=ended.is_right and len(set(magics[FLAPS:])) == 1,
    )


def _comes_back() -> str:
    """Return when option 1 writes the old format again in a log that has had the new one."""
    old = formats("max. format").old
    log = in_both(downgraded(), "max. format", (NEW,), (OLD,)).logs[A]
    kept = [
        len(log.batches) - gone
        for gone in range(len(log.batches) + 1)
        if old.proposed.magic_of_append(_without_first(log, gone), OLD) == OLD
    ]
    return "only when the log is empty" if kept == [0] else f"with {kept} batches left"


def _without_first(log: Log, count: int) -> Log:
    """Return a log of which retention has removed the first batches."""
    kept = log.batches[count:]
    start = kept[0].base_offset if kept else log.log_end_offset
    return Log(batches=Shared(kept), log_start_offset=start, log_end_offset=log.log_end_offset)
