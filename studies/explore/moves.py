"""Moves of schedules and of drawn lists, and the events that they become."""

from collections.abc import Iterator
from typing import NamedTuple

from kchaos.checkers.acts import (
    CONTROLLER_BROKER_CHANGE,
    CutLink,
    HealLink,
    Hold,
    HoldPoint,
    PauseBroker,
    ReleaseHold,
    ReleasePoint,
    ResumeBroker,
    StartBroker,
    StopBroker,
)
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import BrokerRegistered, BrokerUnregistered, Event, Produce
from kchaos.studies.explore.at_once import PARTITION, InstantController
from kchaos.studies.explore.isr_changes import is_leading


class ChaosMove(NamedTuple):
    """One thing that a chaos run does.

    Attributes:
        kind: One of `LISTED_KINDS`. Walks alone draw "reorder" (another replica becomes the
            preferred one) and "bounce" (killed and registered anew while the controller looks at
            nobody).
        broker: Whom it is done to.
        other: The second broker, for moves between two.
    """

    kind: str
    broker: int
    other: int = -1


LISTED_KINDS = (
    "write-one",
    "write-all",
    "write-pair",
    "kill",
    "terminate",
    "restart",
    "expire",
    "register",
    "pause",
    "resume",
    "cut",
    "heal",
    "hold-answers",
    "hold-next-answers",
    "release",
    "shrink",
    "prefer",
    "cut-controller",
    "heal-controller",
)
"""Kinds of moves that are drawn in lists, in which none need be possible.

write-one, write-pair: acks=1, one batch of one or two records, to a broker that believes to lead.
write-all: acks=all, one record. kill: SIGKILL, high watermark checkpointed. terminate: SIGTERM
without controlled shutdown, the session outlives it. restart: after kill or terminate; a session
that is still there ends first. expire: the session ends, the process lives on as it was.
register: the session is back. hold-answers: Fetch responses to the broker are kept back.
hold-next-answers: the same from its next offset on, so that one more record arrives but not the
high watermark that it moves. shrink: the leader gives up a follower that cannot fetch. prefer: the
preferred replica is elected. cut-controller: no LeaderAndIsr reaches the broker.
"""


def events_of(  # noqa: C901
    world: World, deciding: InstantController, move: ChaosMove, operation: str
) -> Iterator[Event]:
    """Yield the events of one move, none where it is not possible; decisions come of themselves."""
    broker = world.broker(move.broker)
    assert broker is not None
    is_registered = move.broker in world.registered()
    match move.kind:
        case "write-one" | "write-all" | "write-pair":
            yield from _write(world, move, operation)
        case "kill" | "terminate" if broker.is_running and not broker.is_paused:
            yield _stop(world, move.broker, clean=move.kind == "terminate")
        case "restart" if not broker.is_running:
            if is_registered:
                yield BrokerUnregistered(broker=move.broker)
            yield broker.configuration
            yield BrokerRegistered(broker=move.broker, czxid=deciding.next_czxid())
        case "bounce" if broker.is_working and is_registered:
            yield from _bounce(world, deciding, broker.configuration)
        case "expire" if is_registered:
            yield BrokerUnregistered(broker=move.broker)
        case "register" if broker.is_running and not broker.is_paused and not is_registered:
            yield BrokerRegistered(broker=move.broker, czxid=deciding.next_czxid())
        case "pause" if broker.is_running and not broker.is_paused:
            yield PauseBroker(broker=move.broker)
        case "resume" if broker.is_paused:
            yield ResumeBroker(broker=move.broker)
        case "cut" | "heal":
            yield from _link(world, move.kind == "cut", move.broker, move.other)
        case "cut-controller" | "heal-controller":
            is_cut = move.kind == "cut-controller"
            yield from _link(world, is_cut, deciding.controller, move.broker)
        case "hold-answers" | "hold-next-answers":
            yield from _hold(world, move)
        case "release" if _is_held(world, f"hold-{move.broker}"):
            yield ReleaseHold(name=f"hold-{move.broker}")
        case "shrink":
            yield from deciding.shrink(move.broker)
        case "prefer":
            yield from deciding.prefer()
        case "reorder":
            yield from deciding.reorder(move.broker)


def healing(world: World) -> Iterator[ChaosMove]:
    """Yield what heals each fault: of processes and sessions first, then holds, then cuts."""
    registered = world.registered()
    for broker_id in sorted(world.assignment(PARTITION)):
        broker = world.broker(broker_id)
        if broker is None or not broker.is_running:
            yield ChaosMove("restart", broker_id)
        elif broker.is_paused:
            yield ChaosMove("resume", broker_id)
        elif broker_id not in registered:
            yield ChaosMove("register", broker_id)
    for hold in world.holds():
        assert hold.source is not None, "each hold is of one follower's answers"
        yield ChaosMove("release", hold.source)
    for cut in world.cuts():
        yield ChaosMove("heal", cut.source, cut.target)


def _write(world: World, move: ChaosMove, operation: str) -> Iterator[Event]:
    if not is_leading(world, move.broker, PARTITION):
        return
    count = 2 if move.kind == "write-pair" else 1
    yield Produce(
        operation=operation,
        broker=move.broker,
        topic=PARTITION.topic,
        partition=PARTITION.partition,
        records=tuple(f"{operation}-{index}" for index in range(count)),
        acks=-1 if move.kind == "write-all" else 1,
    )


def _stop(world: World, broker_id: int, *, clean: bool) -> StopBroker:
    checkpointed = tuple(
        (partition.topic, partition.partition, replica.high_watermark)
        for partition in world.partitions(broker_id)
        for replica in [world.known_replica(broker_id, partition)]
    )
    return StopBroker(broker=broker_id, clean=clean, checkpointed=checkpointed)


def _bounce(world: World, deciding: InstantController, start: StartBroker) -> Iterator[Event]:
    name = f"controller-{deciding.controller}"
    yield HoldPoint(name=name, broker=deciding.controller, point=CONTROLLER_BROKER_CHANGE)
    yield _stop(world, start.broker, clean=False)
    yield BrokerUnregistered(broker=start.broker)
    yield start
    yield BrokerRegistered(broker=start.broker, czxid=deciding.next_czxid())
    yield ReleasePoint(name=name)


def _link(world: World, is_cut: bool, source: int, target: int) -> Iterator[Event]:
    pair = {source, target}
    exists = any({cut.source, cut.target} == pair for cut in world.cuts())
    if is_cut and not exists:
        yield CutLink(source=source, target=target)
    elif exists and not is_cut:
        yield HealLink(source=source, target=target)


def _is_held(world: World, name: str) -> bool:
    return any(hold.name == name for hold in world.holds())


def _hold(world: World, move: ChaosMove) -> Iterator[Event]:
    name = f"hold-{move.broker}"
    if _is_held(world, name):
        return
    replica = world.known_replica(move.broker, PARTITION)
    is_next = move.kind == "hold-next-answers"
    yield Hold(
        name=name,
        api="Fetch",
        source=move.broker,
        direction="response",
        fetch_offset_at_least=replica.log.log_end_offset + 1 if is_next else None,
    )
