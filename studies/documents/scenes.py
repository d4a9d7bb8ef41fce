"""A document's scenario as a timeline, and what an alternative makes of it.

Broker and epoch numbers are the document's; the controller is broker 9. Decisions that the document
takes are taken here, whatever a controller would do.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.settle.predict import left_alone_after
from kchaos.checkers.model.settle.views import replicas_of
from kchaos.checkers.model.state.state import EMPTY, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.epoch_cache import Entries, EpochEnd
from kchaos.checkers.model.values.events import Event
from kchaos.checkers.model.values.log import Log, missing
from kchaos.checkers.model.values.prediction import EpochRound, Promise, Truncation
from kchaos.checkers.model.values.replica import Replica
from kchaos.checkers.model.values.shared import Shared
from kchaos.checkers.segments.batch import payload_digest
from kchaos.studies.documents.scene_events import CONTROLLER, PARTITION
from kchaos.studies.explore.properties import unlike_leader

NAMES = "ABCD"
"""Broker 0 is A, broker 1 is B, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compact:
    """The log cleaner has gone through a broker's log.

    Attributes:
        removed: Base offsets of batches that are gone.
        emptied: Base offsets of batches of which only the header is left.
    """

    broker: int
    removed: tuple[int, ...]
    emptied: tuple[int, ...] = ()


Step = Event | Compact


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One scenario.

    Attributes:
        before: What leads to the state that the document shows.
        then: What happens then; questions for epochs are counted from here on.
        notes: What else there is to say of how it went.
    """

    before: Sequence[Step]
    then: Sequence[Step]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """End of a scene.

    Attributes:
        rounds: Questions for epochs that were answered, in order.
        named_epochs: How many epochs each question named that names several.
        truncations: In order.
        logs: By broker.
        refetched: Records that a follower cut although the leader had committed the same ones.
        lost: Records that were acknowledged with acks=all and that the leader has no more.
        difference: Which replica that runs differs from the leader's, and where, or "".
        state: Of the machine.
    """

    rounds: tuple[EpochRound, ...]
    named_epochs: tuple[int, ...]
    truncations: tuple[Truncation, ...]
    logs: Mapping[int, Log]
    refetched: int
    lost: int
    difference: str
    state: State

    @property
    def is_right(self) -> bool:
        """Whether all logs are equal, nothing is lost, and nothing committed was cut off."""
        return not self.difference and not self.refetched and not self.lost

    def happened(self) -> tuple[str, ...]:
        """Return what was asked, answered and truncated, and what is wrong, as sentences."""
        said = []
        for epoch_round in self.rounds:
            epoch = (
                ""
                if epoch_round.answered_epoch is None
                else f"epoch {epoch_round.answered_epoch}, "
            )
            end = "unknown" if epoch_round.end_offset < 0 else str(epoch_round.end_offset)
            asked = (
                "for no epoch"
                if epoch_round.requested_epoch < 0
                else f"for epoch {epoch_round.requested_epoch}"
            )
            said.append(f"{NAMES[epoch_round.follower]} asks {asked}: {epoch}end {end}")
        said += [
            f"{NAMES[cut.broker]} truncates to {cut.target_offset}" for cut in self.truncations
        ]
        if self.refetched:
            said.append(f"committed records that were cut, to be fetched again: {self.refetched}")
        if self.lost:
            said.append(f"records acknowledged with acks=all that are gone: {self.lost}")
        if self.difference:
            said.append(self.difference)
        return tuple(said)


def play(
    scene: Scene,
    generations: Mapping[int, Generation],
    then: Mapping[int, Generation] | None = None,
) -> Ended:
    """Return how a scene ends; the controller does what broker 0 does.

    Args:
        scene: What is played.
        generations: What each broker does.
        then: What it does after a start in the second part, if that is something else.
    """
    named: list[int] = []
    playing = _playing(generations, named)
    state = EMPTY
    promised: set[Promise] = set()
    for event in scene.before:
        state, noted = _after(state, event, playing)
        promised |= {note for note in noted if isinstance(note, Promise)}
    named.clear()
    playing = playing if then is None else _playing(then, named)
    notes: list[object] = []
    refetched = 0
    for event in scene.then:
        was = _logs(state)
        state, noted = _after(state, event, playing)
        cuts = [note for note in noted if isinstance(note, Truncation)]
        refetched += sum(_committed_above(was, state, cut) for cut in cuts)
        notes += noted
    promised |= {note for note in notes if isinstance(note, Promise)}
    return Ended(
        rounds=tuple(note for note in notes if isinstance(note, EpochRound)),
        named_epochs=tuple(named),
        truncations=tuple(note for note in notes if isinstance(note, Truncation)),
        logs=_logs(state),
        refetched=refetched,
        lost=_lost(state, promised),
        difference=_difference(state),
        state=state,
    )


def _playing(generations: Mapping[int, Generation], named: list[int]) -> dict[int, Generation]:
    playing = {broker: _counting(generation, named) for broker, generation in generations.items()}
    return {CONTROLLER: playing[0], **playing}


def _after(
    state: State, step: Step, generations: Mapping[int, Generation]
) -> tuple[State, list[object]]:
    if not isinstance(step, Compact):
        return left_alone_after(state, step, generations)
    component = ("replica", step.broker, PARTITION)
    replica: Replica = state(component)
    batches = Shared(
        replace(batch, payload=payload_digest([])) if batch.base_offset in step.emptied else batch
        for batch in replica.log.batches
        if batch.base_offset not in step.removed
    )
    compacted = replace(replica, log=replace(replica.log, batches=batches))
    return state.changed({component: compacted}), []


def _counting(generation: Generation, named: list[int]) -> Generation:
    """Return the same generation, which notes how many epochs each question names."""

    def answer_ends(entries: Entries, ends: tuple[EpochEnd, ...], log_end_offset: int) -> EpochEnd:
        named.append(len(ends))
        return generation.proposed.answer_ends(entries, ends, log_end_offset)

    return replace(generation, proposed=replace(generation.proposed, answer_ends=answer_ends))


def _logs(state: State) -> dict[int, Log]:
    world = World(state)
    replicas = {broker: world.replica(broker, PARTITION) for broker in world.assignment(PARTITION)}
    return {broker: replica.log for broker, replica in replicas.items() if replica is not None}


def _leader(state: State) -> Replica | None:
    leader: int = state(("state", PARTITION)).leader
    return World(state).replica(leader, PARTITION)


def _committed_above(was: Mapping[int, Log], state: State, cut: Truncation) -> int:
    """Return how many records were cut that are still committed on the leader."""
    leader = _leader(state)
    if leader is None or leader.leader == cut.broker or cut.broker not in was:
        return 0
    kept = {batch for batch in leader.log.batches if batch.last_offset < leader.high_watermark}
    return sum(
        batch.last_offset - batch.base_offset + 1
        for batch in was[cut.broker].batches
        if batch.last_offset >= cut.target_offset and batch in kept
    )


def _lost(state: State, promised: Iterable[Promise]) -> int:
    leader = _leader(state) or Replica()
    return len(
        missing(leader.log, ((promise.base_offset, promise.payload) for promise in promised))
    )


def _difference(state: State) -> str:
    running = [replica for replica in replicas_of(state) if replica.is_running]
    for replica in running:
        if replica.fetcher in ("dead-thread", "failed"):
            return f"{NAMES[replica.broker]} fetches no more: out of order offset"
    leader: int = state(("state", PARTITION)).leader
    for broker, offset in unlike_leader(World(state), [replica.broker for replica in running]):
        return f"{NAMES[broker]} and its leader {NAMES[leader]} differ from offset {offset} on"
    return ""


# -- short ways to write events -----------------------------------------------------------------
