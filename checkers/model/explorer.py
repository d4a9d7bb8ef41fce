"""Plays moves against the model, decides as a cluster would, and looks for broken properties.

A `Move` is what a chaos run could do; the explorer turns it into events, adds the decisions that
controller and leaders would take (elections, changes of the ISR), and so ends with a timeline that
`predict` understands and that can be played on real brokers. A move that is not possible just then
does nothing, so that lists of moves can be cut down freely.

Two properties are checked:

- **agreement**: after every move, each member of the ISR that ZooKeeper holds, running or not, has
  exactly the batches that the leader has below the leader's high watermark; and once everything is
  healed, restarted and settled, all logs are equal as a whole;
- **promises**: once everything is healed, every record that was acknowledged with acks=all is still
  at its offset in the leader's log. With unclean elections this is not promised and not checked.

One controller that never stops or loses a broker from sight is assumed, one partition, disks that
lose nothing, and `replica.lag.time.max.ms` running out only by the move "shrink".
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from checkers.acts import HealLink, ReleaseHold, ResumeBroker, TopicPartition
from checkers.model.controlling import Controlling
from checkers.model.events import Event
from checkers.model.generation import Generation
from checkers.model.moves import MIX, Move, events_of
from checkers.model.predicting import left_alone_after
from checkers.model.prediction import Promise
from checkers.model.state import EMPTY, State
from checkers.model.world import World

PARTITION = TopicPartition("t", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The cluster that is explored.

    Attributes:
        generations: Broker id to what it does; these hold the partition, in this order. The
            controller is one more broker.
        is_unclean: Whether unclean elections are on.
        min_insync_replicas: `min.insync.replicas`.
        checks_agreement: Whether agreement is checked; without it only promises are.
    """

    generations: Mapping[int, Generation]
    is_unclean: bool = False
    min_insync_replicas: int = 1
    checks_agreement: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What came of a list of moves.

    Attributes:
        timeline: Every event, decisions included.
        violation: Which property broke and how, or "".
    """

    timeline: tuple[Event, ...]
    violation: str


@dataclass(slots=True, kw_only=True)
class _Played:
    setup: Setup
    state: State = EMPTY
    promises: list[Promise] = field(default_factory=list)
    timeline: list[Event] = field(default_factory=list)

    def add(self, event: Event) -> None:
        self.timeline.append(event)
        self.state, notes = left_alone_after(self.state, event, self.setup.generations)
        self.promises += [note for note in notes if isinstance(note, Promise)]

    def world(self) -> World:
        return World(self.state)


def play(setup: Setup, moves: Sequence[Move]) -> Exploration:
    """Return the timeline that the moves give and the first property that broke in it."""
    played = _Played(setup=setup)
    controlling = Controlling(
        world=played.world,
        add=played.add,
        replicas=tuple(setup.generations),
        is_unclean=setup.is_unclean,
        min_insync_replicas=setup.min_insync_replicas,
    )
    controlling.begin(setup.generations)
    violation = ""
    for index, move in enumerate(moves):
        for event in events_of(played.world(), controlling, move, f"w{index}"):
            controlling.follow(event)
        violation = _disagreement(played.world()) if setup.checks_agreement else ""
        if violation:
            break
    if not violation:
        _heal(played, controlling)
        if setup.checks_agreement:
            violation = _disagreement(played.world()) or _difference(played.world())
    if not violation and not setup.is_unclean:
        violation = _broken_promise(played)
    return Exploration(timeline=tuple(played.timeline), violation=violation)


def search(
    setup: Setup,
    *,
    seeds: Sequence[int],
    steps: int,
    kinds: Sequence[str] = MIX,
    repaired: Setup | None = None,
    breaking: str = "",
) -> tuple[Move, ...] | None:
    """Return a list of moves that breaks a property and has no move too many, or None.

    Deterministic: the same arguments give the same answer.

    Args:
        setup: What must break.
        seeds: One list of moves is drawn for each, until one breaks.
        steps: How many moves a list has.
        kinds: What moves are drawn from; one that stands there twice is drawn twice as often.
        repaired: The same list must not break a property there: so it shows what a fix is good for.
        breaking: How the violation must begin, such as "promises".
    """

    def breaks(moves: Sequence[Move]) -> bool:
        violation = play(setup, moves).violation
        if not violation or not violation.startswith(breaking):
            return False
        return repaired is None or not play(repaired, moves).violation

    for seed in seeds:
        moves = tuple(random_moves(random.Random(seed), tuple(setup.generations), steps, kinds))
        if breaks(moves):
            return shrink(moves, breaks)
    return None


def random_moves(
    chance: random.Random, brokers: Sequence[int], steps: int, kinds: Sequence[str] = MIX
) -> Iterator[Move]:
    """Yield moves at random."""
    for _ in range(steps):
        broker = chance.choice(brokers)
        other = chance.choice([each for each in brokers if each != broker])
        yield Move(chance.choice(kinds), broker, other)


def shrink(moves: Sequence[Move], breaks: Callable[[Sequence[Move]], bool]) -> tuple[Move, ...]:
    """Return a part of the moves that still breaks, from which no single one can be left out."""
    kept = list(moves)
    size = max(1, len(kept) // 2)
    while size >= 1:
        before = len(kept)
        index = 0
        while index < len(kept):
            fewer = kept[:index] + kept[index + size :]
            if breaks(fewer):
                kept = fewer
            else:
                index += size
        if size > 1 or len(kept) == before:
            size //= 2
    return tuple(kept)


def _heal(played: _Played, controlling: Controlling) -> None:
    """End every fault, start every broker, and let replication settle."""
    for name in sorted(hold.name for hold in played.world().holds()):
        controlling.follow(ReleaseHold(name=name))
    for broker_id in played.world().broker_ids():
        broker = played.world().broker(broker_id)
        if broker is not None and broker.is_paused:
            controlling.follow(ResumeBroker(broker=broker_id))
    for cut in played.world().cuts():
        controlling.follow(HealLink(name=cut.name))
    for broker_id in controlling.replicas:
        for event in events_of(played.world(), controlling, Move("restart-if-down", broker_id), ""):
            controlling.follow(event)
        for event in events_of(played.world(), controlling, Move("register", broker_id), ""):
            controlling.follow(event)


def _disagreement(world: World) -> str:
    state = world.partition_state(PARTITION)
    assert state is not None
    leader = world.replica(state.leader, PARTITION)
    broker = world.broker(state.leader)
    if leader is None or broker is None or not broker.is_running:
        return ""
    if leader.leader != state.leader or leader.leader_epoch != state.leader_epoch:
        return ""
    committed = [batch for batch in leader.log.batches if batch.last_offset < leader.high_watermark]
    for member in state.isr:
        log = world.known_replica(member, PARTITION).log
        own = [batch for batch in log.batches if batch.last_offset < leader.high_watermark]
        if own != committed:
            return (
                f"agreement: broker {member} is in the ISR of leader {state.leader} in epoch "
                f"{state.leader_epoch}, but differs below high watermark {leader.high_watermark}"
            )
    return ""


def _difference(world: World) -> str:
    state = world.partition_state(PARTITION)
    assert state is not None
    if state.leader == -1:
        return f"agreement: healed, but the partition has no leader; ISR {state.isr}"
    leader = world.known_replica(state.leader, PARTITION).log
    for broker_id in world.assignment(PARTITION):
        log = world.known_replica(broker_id, PARTITION).log
        if (log.batches, log.log_end_offset) != (leader.batches, leader.log_end_offset):
            return f"agreement: healed, but broker {broker_id} differs from leader {state.leader}"
    return ""


def _broken_promise(played: _Played) -> str:
    world = played.world()
    state = world.partition_state(PARTITION)
    assert state is not None
    if state.leader == -1:
        return "promises: healed, but the partition has no leader"
    log = world.known_replica(state.leader, PARTITION).log
    present = {(batch.base_offset, batch.payload) for batch in log.batches}
    for promise in played.promises:
        if (promise.base_offset, promise.payload) not in present:
            return f"promises: what was acknowledged at offset {promise.base_offset} is gone"
    return ""
