"""The columns of KIP-279's comparison: which rules, and what a scene comes to in one of them."""

from collections import Counter
from collections.abc import Mapping

from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.releases.generation import Generation
from kchaos.studies.documents.comparison import Cell, Column, Result
from kchaos.studies.documents.kip_279_alternatives import (
    ALTERNATIVE_1,
    ALTERNATIVE_2,
    AS_WRITTEN,
    HIGH_WATERMARK_EPOCH,
    OLD_LEADER_LEAVES,
)
from kchaos.studies.documents.kip_279_scenes import BASE
from kchaos.studies.documents.proposal import Proposal, with_proposals
from kchaos.studies.documents.scenes import Scene, play
from kchaos.studies.explore.bounds import Machine

SHIPPED = "2.0.1"
FENCED = "2.5.1"
"""The first release line in which every fetch is fenced, so that only truncation can go wrong."""

COLUMNS = (
    Column(key="KIP-101", title=f"{BASE}: the leader answers without an epoch"),
    Column(key="proposal", title=f"{BASE} with the proposal as it is written"),
    Column(key="alt. 1", title=f"{BASE} with alternative 1: an error, then the next epoch below"),
    Column(key="alt. 2", title=f"{BASE} with alternative 2: several epochs in one request"),
    Column(key="clean 1", title=f"{BASE} that asks for the epoch of its high watermark"),
    Column(key="clean 2", title=f"{BASE} whose preferred election drops the old leader"),
    Column(key=SHIPPED, title=f"what was released, with KAFKA-7415; over {FENCED} that release"),
)
FAILOVERS = (1, 2, 3, 4, 5)
"""Changes of leader in the rows that go on from scenario 3."""
TELLING = ("proposal", SHIPPED)
"""The columns whose responses have an epoch."""

TRUNCATING: Mapping[str, tuple[Proposal, ...]] = {
    "KIP-101": (),
    "proposal": (AS_WRITTEN,),
    "alt. 1": (ALTERNATIVE_1,),
    "alt. 2": (ALTERNATIVE_2,),
    "clean 1": (HIGH_WATERMARK_EPOCH,),
}
"""The columns that truncate in another way; that of KIP-101 only lacks KIP-279."""
_REQUEST_BITS = {"partition": 32, "leader_epoch": 32}
_RESPONSE_BITS = {"error_code": 16, "partition": 32, "end_offset": 64}
_EPOCH_BITS = 32
_END_BITS = _EPOCH_BITS + 64
COUNT_BITS = 32
"""Bytes of Kafka's protocol before the items of an array; the document leaves them out."""


def generations(base: str = BASE) -> Mapping[str, Generation]:
    """Return what a broker does in each column, laid over a release without KIP-279."""
    before = generation_for(base, without=["KIP-279"])
    columns = {**TRUNCATING, "clean 2": (OLD_LEADER_LEAVES,)}
    behaviours = {key: with_proposals(before, *proposals) for key, proposals in columns.items()}
    behaviours[SHIPPED] = generation_for(SHIPPED if base == BASE else base)
    return behaviours


def extra_bits(column: str, rounds: int, named_epochs: tuple[int, ...] = ()) -> int:
    """Return how many bits more than one round of KIP-101 a partition's rounds take.

    The array of alternative 2 is counted as the document counts it, without its length.
    """
    usual = sum(_REQUEST_BITS.values()) + sum(_RESPONSE_BITS.values())
    bits = rounds * (usual + (_EPOCH_BITS if column in TELLING else 0))
    bits += sum(_END_BITS * count - _EPOCH_BITS for count in named_epochs)
    return bits - usual


def cell_of(column: str, scene: Scene, generation: Generation, brokers: int = 2) -> Cell:
    """Return what came of a scene."""
    ended = play(scene, dict.fromkeys(range(brokers), generation))
    rounds = max(Counter(epoch_round.follower for epoch_round in ended.rounds).values(), default=0)
    said = "round" if rounds == 1 else "rounds"
    return Cell(
        result=Result.RIGHT if ended.is_right else Result.WRONG,
        text=f"{'right' if ended.is_right else 'wrong'}, {rounds} {said}",
        numbers={
            "rounds": rounds,
            "epochs named": sum(ended.named_epochs),
            "extra bits": extra_bits(column, rounds, ended.named_epochs),
            "refetched": ended.refetched,
            "lost": ended.lost,
        },
        detail=(*scene.notes, *ended.happened()),
    )


def machine(generation: Generation, size: int = 2) -> Machine:
    """Return two replicas that take three records, and so many leader epochs and offsets."""
    return Machine(
        generations=dict.fromkeys((0, 1), generation), records=3, leader_epoch=size, log_size=size
    )
