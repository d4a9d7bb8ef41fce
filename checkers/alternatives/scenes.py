"""A document's scenario as a timeline, and what an alternative makes of it.

Broker and epoch numbers are the document's; the controller is broker 9. Decisions that the document
takes are taken here, whatever a controller would do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kchaos.checkers.acts import StartBroker, StopBroker, TopicPartition
from kchaos.checkers.model.epoch_cache import Entries, EpochEnd
from kchaos.checkers.model.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    Event,
    PartitionState,
    Produce,
    TopicCreated,
)
from kchaos.checkers.model.generation import Generation
from kchaos.checkers.model.predicting import left_alone_after
from kchaos.checkers.model.prediction import (
    EpochRound,
    PredictedBatch,
    PredictedReplica,
    Truncation,
)
from kchaos.checkers.model.state import EMPTY, State
from kchaos.checkers.model.views import replicas_of

PARTITION = TopicPartition("t", 0)
CONTROLLER = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One scenario of two brokers, A is 0 and B is 1.

    Attributes:
        before: What leads to the state that the document shows.
        then: What happens then; questions for epochs are counted from here on.
        notes: What else there is to say of how it went.
    """

    before: Sequence[Event]
    then: Sequence[Event]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a scene ended.

    Attributes:
        rounds: Questions for epochs that were answered, in order.
        named_epochs: How many epochs each question named that names several.
        truncations: In order.
        replicas: A's and B's.
        refetched: Records that a follower cut although the leader had committed the same ones.
        difference: Which replicas differ, and where, or "".
        state: Of the machine.
    """

    rounds: tuple[EpochRound, ...]
    named_epochs: tuple[int, ...]
    truncations: tuple[Truncation, ...]
    replicas: Mapping[int, PredictedReplica]
    refetched: int
    difference: str
    state: State

    @property
    def is_right(self) -> bool:
        """Whether both logs are equal, and nothing committed was cut off on the way."""
        return not self.difference and not self.refetched


def play(scene: Scene, generations: Mapping[int, Generation]) -> Ended:
    """Return how a scene ends with brokers that do this; the controller does what broker 0 does."""
    named: list[int] = []
    playing = {broker: _counting(one, named) for broker, one in generations.items()}
    playing.setdefault(CONTROLLER, playing[0])
    state = EMPTY
    for event in scene.before:
        state, _ = left_alone_after(state, event, playing)
    named.clear()
    notes: list[object] = []
    refetched = 0
    for event in scene.then:
        was = _logs(state)
        state, noted = left_alone_after(state, event, playing)
        cuts = [note for note in noted if isinstance(note, Truncation)]
        refetched += sum(_committed_above(was, state, cut) for cut in cuts)
        notes += noted
    replicas = {one.broker: one for one in replicas_of(state)}
    return Ended(
        rounds=tuple(note for note in notes if isinstance(note, EpochRound)),
        named_epochs=tuple(named),
        truncations=tuple(note for note in notes if isinstance(note, Truncation)),
        replicas=replicas,
        refetched=refetched,
        difference=_difference(replicas),
        state=state,
    )


def _counting(generation: Generation, named: list[int]) -> Generation:
    """Return the same generation, which notes how many epochs each question names."""

    def answer_ends(entries: Entries, ends: tuple[EpochEnd, ...], log_end_offset: int) -> EpochEnd:
        named.append(len(ends))
        return generation.answer_ends(entries, ends, log_end_offset)

    return replace(generation, answer_ends=answer_ends)


def _logs(state: State) -> Mapping[int, tuple[PredictedBatch, ...]]:
    return {one.broker: one.batches for one in replicas_of(state)}


def _committed_above(
    was: Mapping[int, tuple[PredictedBatch, ...]], state: State, cut: Truncation
) -> int:
    """Return how many records were cut that are still committed on the other broker."""
    known = state(("state", PARTITION))
    leader = state(("replica", known.leader, PARTITION))
    if leader is None or known.leader == cut.broker:
        return 0
    kept = {batch for batch in leader.log.batches if batch.last_offset < leader.high_watermark}
    return sum(
        batch.last_offset - batch.base_offset + 1
        for batch in was.get(cut.broker, ())
        if batch.last_offset >= cut.target_offset and batch in kept
    )


def _difference(replicas: Mapping[int, PredictedReplica]) -> str:
    first, second = replicas[0], replicas[1]
    if any("dead" in one.fetcher or one.fetcher == "failed" for one in (first, second)):
        stopped = "A" if first.fetcher in ("dead-thread", "failed") else "B"
        return f"{stopped} fetches no more: out of order offset"
    if first.batches == second.batches and first.log_end_offset == second.log_end_offset:
        return ""
    at = _first_difference(first.batches, second.batches)
    return f"A and B differ from offset {at} on"


def _first_difference(first: tuple[PredictedBatch, ...], second: tuple[PredictedBatch, ...]) -> int:
    for one, other in zip(first, second, strict=False):
        if one != other:
            return min(one.base_offset, other.base_offset)
    longer = max(first, second, key=len)
    return longer[min(len(first), len(second))].base_offset


# -- short ways to write events -----------------------------------------------------------------


def started(broker: int, *, czxid: int, release: str, **configuration: object) -> list[Event]:
    """Return the start of a broker."""
    return [
        StartBroker(broker=broker, release=release, **configuration),  # type: ignore[arg-type]
        BrokerRegistered(broker=broker, czxid=czxid),
    ]


def cluster(
    release: str, replicas: Sequence[int], up: Sequence[int], **configuration: object
) -> list[Event]:
    """Return the start of a controller and of those brokers that are up, and the topic."""
    events = started(CONTROLLER, czxid=1, release=release)
    events.append(ControllerElected(broker=CONTROLLER))
    for broker in up:
        events += started(broker, czxid=2 + broker, release=release, **configuration)
    return [*events, TopicCreated(topic=PARTITION.topic, assignment=(tuple(replicas),))]


def leads(leader: int, epoch: int, isr: Iterable[int]) -> PartitionState:
    """Return a decision: who leads, in which epoch, with which ISR."""
    return PartitionState(
        topic=PARTITION.topic,
        partition=PARTITION.partition,
        leader=leader,
        leader_epoch=epoch,
        isr=tuple(isr),
        controller_epoch=1,
        version=-1,
    )


def writes(name: str, broker: int, count: int = 1) -> Produce:
    """Return a batch of so many records that is sent to a broker with acks=1."""
    return Produce(
        operation=name,
        broker=broker,
        topic=PARTITION.topic,
        partition=PARTITION.partition,
        records=tuple(f"{name}-{index}" for index in range(count)),
        acks=1,
    )


def stopped(broker: int, *, clean: bool, high_watermark: int | None = None) -> list[Event]:
    """Return the end of a process, what its checkpoint held if that matters, and of its session."""
    checkpointed = None if high_watermark is None else ((*PARTITION, high_watermark),)
    return [
        StopBroker(broker=broker, clean=clean, checkpointed=checkpointed),
        BrokerUnregistered(broker=broker),
    ]
