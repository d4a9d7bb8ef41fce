"""KIP-279's two fixes for compaction: what a rebuilt epoch file must not miss.

An epoch all of whose records are compacted away is not in a leader-epoch file that is rebuilt from
the log. Here the leader's file is lost with its process, after a compaction.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from kchaos.checkers.acts import CutLink, HealLink, Hold, LoseEpochs
from kchaos.checkers.model.releases.composition import generation_for
from kchaos.studies.documents.comparison import Cell, Column, Comparison, Result, Row
from kchaos.studies.documents.kip_279_alternatives import AS_WRITTEN
from kchaos.studies.documents.kip_279_scenes import BASE, A, B
from kchaos.studies.documents.proposal import with_proposals
from kchaos.studies.documents.scene_events import (
    PARTITION,
    cluster,
    leads,
    started,
    stopped,
    writes,
)
from kchaos.studies.documents.scenes import Compact, Scene, Step, play

TITLE = "what compaction may remove, so that an epoch file can be rebuilt"
EPOCH_2 = range(11, 21)
"""Offsets of epoch 2; each key is written again, in epoch 3 at 21 to 30."""
REWRITTEN_AFTER = len(EPOCH_2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fix:
    """Limit of compaction.

    Attributes:
        marker: The offset of epoch 2 at which an empty batch stays; None for none.
        stops_at_high_watermark: Whether nothing is removed because of a record beyond it.
    """

    marker: int | None = None
    stops_at_high_watermark: bool = False

    def compact(self, persisted: int) -> Compact:
        """Return what A's cleaner removes with that high watermark on disk."""
        limit = persisted if self.stops_at_high_watermark else EPOCH_2.stop + REWRITTEN_AFTER
        removed = [offset for offset in EPOCH_2 if offset + REWRITTEN_AFTER < limit]
        return Compact(
            broker=A,
            removed=tuple(offset for offset in removed if offset != self.marker),
            emptied=tuple(offset for offset in removed if offset == self.marker),
        )


FIXES: Mapping[str, Fix] = {
    "no fix": Fix(),
    "fix 1, last": Fix(marker=EPOCH_2[-1]),
    "fix 1, first": Fix(marker=EPOCH_2[0]),
    "fix 2": Fix(stops_at_high_watermark=True),
}
COLUMNS = (
    Column(key="no fix", title="the cleaner removes what was written again, wherever"),
    Column(key="fix 1, last", title="an empty batch stays at the last offset of each epoch"),
    Column(key="fix 1, first", title="an empty batch stays at the first offset of each epoch"),
    Column(key="fix 2", title="the cleaner stops at the high watermark that is on disk"),
)


def _rewritten(epoch: int, name: str, acks: int) -> list[Step]:
    return [writes(f"{name}-{epoch}-{number}", A, acks=acks) for number in EPOCH_2]


def old_leader_returns(fix: Fix, persisted: int) -> Scene:
    """Return how B comes back with records 11 to 14 of epoch 1 that A never had.

    Args:
        fix: How A's log was compacted.
        persisted: A's high watermark on disk.
    """
    before: list[Step] = [
        *cluster(BASE, (B, A), (A, B)),
        leads(B, 1, (A, B)),
        writes("both", B, 11),
        CutLink(source=A, target=B),
        writes("lost", B, 4),
        *stopped(B, clean=False),
        leads(A, 2, (A,)),
        *_rewritten(2, "key", 1),
        leads(A, 3, (A,)),
        *_rewritten(3, "key", 1),
        fix.compact(persisted),
        *stopped(A, clean=False),
        LoseEpochs(broker=A, topic=PARTITION.topic, partition=PARTITION.partition),
        *started(A, czxid=11, release=BASE),
        leads(A, 4, (A,)),
        HealLink(source=A, target=B),
    ]
    return Scene(before=before, then=started(B, czxid=12, release=BASE))


def leader_dies_after_truncation(fix: Fix, persisted: int) -> Scene:
    """Return how B loses 11 to 20, acknowledged by both, because A no longer knows epoch 2."""
    fetch = Hold(name="fetch", api="Fetch", source=B, target=A, direction="request")
    before: list[Step] = [
        *cluster(BASE, (A, B), (A, B)),
        leads(A, 1, (A, B)),
        writes("both", A, 11),
        leads(A, 2, (A, B)),
        *_rewritten(2, "key", -1),
        leads(A, 3, (A, B)),
        CutLink(source=A, target=B),
        *_rewritten(3, "key", 1),
        fix.compact(persisted),
        *stopped(A, clean=False, high_watermark=persisted),
        LoseEpochs(broker=A, topic=PARTITION.topic, partition=PARTITION.partition),
        *started(A, czxid=11, release=BASE),
        fetch,
        HealLink(source=A, target=B),
    ]
    then: list[Step] = [
        *stopped(B, clean=False, high_watermark=persisted),
        *started(B, czxid=12, release=BASE),
        *stopped(A, clean=False),
        leads(B, 4, (B,)),
    ]
    return Scene(before=before, then=then)


def _cell(scene: Scene) -> Cell:
    generation = with_proposals(generation_for(BASE), AS_WRITTEN)
    ended = play(scene, {A: generation, B: generation})
    return Cell(
        result=Result.RIGHT if ended.is_right else Result.WRONG,
        text="right" if ended.is_right else "wrong",
        numbers={"lost": ended.lost, "refetched": ended.refetched},
        detail=ended.happened(),
    )


def compare() -> Comparison:
    """Return the comparison, over the proposal as it is written."""
    rows = []
    for persisted in (31, 21):
        cells = {key: _cell(old_leader_returns(fix, persisted)) for key, fix in FIXES.items()}
        question = "B comes back with 11 to 14 of epoch 1: are they cut?"
        rows.append(Row(name=f"return, HW={persisted}", question=question, cells=cells))
    cells = {key: _cell(leader_dies_after_truncation(fix, 21)) for key, fix in FIXES.items()}
    question = "11 to 20 are acknowledged, A no longer knows their epoch, and dies: are they kept?"
    rows.append(Row(name="loss, HW=21", question=question, cells=cells))
    return Comparison(
        document="KIP-279, compaction", title=TITLE, columns=COLUMNS, rows=tuple(rows)
    )
