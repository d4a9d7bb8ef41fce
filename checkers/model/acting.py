"""What an action does: the transitions by which runs are judged, one action at a time.

What the controller sends waits in its outboxes until a broker handles it. Each function returns
whether the action can happen; what it reads first decides that most often.
"""

from dataclasses import replace

from checkers.model import control, exchange, leader
from checkers.model.actions import (
    Action,
    Answer,
    Ask,
    Deliver,
    Elect,
    Expand,
    Handle,
    Learn,
    Remove,
    Shrink,
    Write,
)
from checkers.model.bounds import CONTROLLER_EPOCH, PARTITION, RECORDS, Grain, Machine
from checkers.model.events import PartitionState, Produce
from checkers.model.exchange import FETCH, OFFSET_FOR_LEADER_EPOCH
from checkers.model.replica import Replica, Role
from checkers.model.requests import Exchange, LeaderAndIsr, Stage
from checkers.model.world import World


def act(world: World, machine: Machine, action: Action) -> bool:
    """Let an action happen; returns False, after changes of no meaning, where it cannot."""
    match action:
        case Write():
            return _write(world, machine, action.leader)
        case Elect():
            return _elect(world, machine, action.leader)
        case Remove():
            return _remove(world, machine, action)
        case Deliver():
            return _deliver(world, machine, action)
        case Shrink():
            return _shrink(world, action)
        case Expand():
            return _expand(world, action)
        case Learn():
            return _learn(world, action.leader)
        case Ask():
            return _ask(world, machine.grain, action)
        case Answer():
            return _answer(world, action)
        case Handle():
            return _handle(world, action)


def decide(world: World, leader_id: int, leader_epoch: int, isr: tuple[int, ...]) -> None:
    """Write the partition's state; of a new leader epoch every replica is to hear."""
    control.partition_state(
        world,
        PartitionState(
            topic=PARTITION.topic,
            partition=PARTITION.partition,
            leader=leader_id,
            leader_epoch=leader_epoch,
            isr=tuple(sorted(isr)),
            controller_epoch=CONTROLLER_EPOCH,
            version=0,
        ),
    )


def _write(world: World, machine: Machine, leader_id: int) -> bool:
    replica = world.known_replica(leader_id, PARTITION)
    if replica.role is not Role.LEADER or replica.log.log_end_offset >= machine.log_size:
        return False
    number: int = world.get(RECORDS)
    if number >= machine.records or world.running(leader_id) is None:
        return False
    name = f"record-{number}"
    request = Produce(
        operation=name,
        broker=leader_id,
        topic=PARTITION.topic,
        partition=PARTITION.partition,
        records=(name,),
        acks=1,
    )
    leader.produce(world, request)
    world.put(RECORDS, number + 1)
    return True


def _elect(world: World, machine: Machine, broker_id: int) -> bool:
    state = _known_state(world)
    if state.leader == broker_id or broker_id not in state.isr:
        return False
    return _decide_next(world, machine, state, broker_id, state.isr)


def _remove(world: World, machine: Machine, action: Remove) -> bool:
    """A broker that leaves is taken out; the leader stays unless it is the one (ISR members)."""
    state = _known_state(world)
    if not {action.broker, action.leader} <= set(state.isr):
        return False
    if action.broker != state.leader != action.leader:
        return False
    isr = tuple(member for member in state.isr if member != action.broker)
    return _decide_next(world, machine, state, action.leader, isr)


def _decide_next(
    world: World, machine: Machine, state: PartitionState, leader_id: int, isr: tuple[int, ...]
) -> bool:
    if state.leader_epoch >= machine.leader_epoch:
        return False
    decide(world, leader_id, state.leader_epoch + 1, isr)
    return True


def _deliver(world: World, machine: Machine, action: Deliver) -> bool:
    outbox = world.outbox(CONTROLLER_EPOCH, action.broker)
    assert outbox is not None
    requests = outbox.requests if machine.skips_epochs else outbox.requests[:1]
    for index, request in enumerate(requests):
        assert isinstance(request, LeaderAndIsr)
        if request.states[0].leader_epoch != action.leader_epoch:
            continue
        if world.running(action.broker) is None:
            return False
        left = replace(outbox, requests=outbox.requests[index + 1 :])
        world.put(("outbox", CONTROLLER_EPOCH, action.broker), left)
        control.handle(world, action.broker, CONTROLLER_EPOCH, request)
        return True
    return False


def _true_leader(world: World, leader_id: int) -> tuple[Replica, PartitionState] | None:
    """Return the replica of a leader whose writes of the ISR count, and the partition's state."""
    state = _known_state(world)
    if state.leader != leader_id:
        return None
    replica = world.known_replica(leader_id, PARTITION)
    is_true = replica.role is Role.LEADER and replica.leader_epoch == state.leader_epoch
    if not is_true or world.running(leader_id) is None:
        return None
    return replica, state


def _shrink(world: World, action: Shrink) -> bool:
    """A follower has not fetched for `replica.lag.time.max.ms`, as far as the leader knows."""
    found = _true_leader(world, action.leader)
    if found is None or action.follower not in found[1].isr:
        return False
    replica, state = found
    view = replica.view(action.follower)
    generation = control.generation_of(world, action.leader)
    end_offset = replica.log.log_end_offset
    if view is None or not generation.falls_out_of_isr(view.log_end_offset, end_offset):
        return False
    isr = tuple(member for member in state.isr if member != action.follower)
    return _write_isr(world, replica, state, isr)


def _expand(world: World, action: Expand) -> bool:
    found = _true_leader(world, action.leader)
    if found is None or action.follower in found[1].isr:
        return False
    replica, state = found
    view = replica.view(action.follower)
    if view is None or not view.asks_to_join or view.log_end_offset < replica.high_watermark:
        return False
    return _write_isr(world, replica, state, (*state.isr, action.follower))


def _write_isr(world: World, replica: Replica, state: PartitionState, isr: tuple[int, ...]) -> bool:
    """Write the ISR; with KIP-497 the controller does, and the leader is still to learn of it."""
    if world.get(("isr change", state.leader, PARTITION)) is not None:
        return False
    decide(world, state.leader, state.leader_epoch, isr)
    if control.generation_of(world, state.leader).asks_controller_for_isr:
        maximal = tuple(sorted({*replica.isr, *isr}))
        world.put_replica(state.leader, PARTITION, replace(replica, maximal_isr=maximal))
    else:
        leader.learn_isr(world, state.leader, PARTITION)
    return True


def _learn(world: World, leader_id: int) -> bool:
    if world.get(("isr change", leader_id, PARTITION)) is None:
        return False
    leader.learn_isr(world, leader_id, PARTITION)
    return True


def _ask(world: World, grain: Grain, action: Ask) -> bool:
    follower_id, leader_id = action.follower, action.leader
    thread = world.thread(follower_id, leader_id)
    if thread is None or thread.is_dead:
        return False
    if exchange.awaited(world, follower_id, leader_id) is not None:
        return False
    if exchange.truncate_without_asking(world, follower_id, leader_id):
        return True
    for api in (OFFSET_FOR_LEADER_EPOCH, FETCH):
        asked = exchange.question(world, follower_id, leader_id, api)
        if asked is None:
            continue
        sent = exchange.send(world, follower_id, leader_id, asked)
        if grain is Grain.REQUESTS:
            return True
        answered = _answered(world, follower_id, leader_id, sent)
        if grain is Grain.ROUNDS and answered is not None:
            exchange.handle(world, follower_id, leader_id, answered)
        return True
    return False


def _answer(world: World, action: Answer) -> bool:
    request = exchange.awaited(world, action.follower, action.leader)
    if request is None or request.stage is not Stage.SENT:
        return False
    _answered(world, action.follower, action.leader, request)
    return True


def _answered(world: World, follower_id: int, leader_id: int, request: Exchange) -> Exchange | None:
    """Let the leader answer; one whose process has ended never does.

    A Fetch that finds nothing is answered at once: that it waits first differs from two such
    fetches only in how often the follower asks.
    """
    if world.running(leader_id) is None:
        exchange.end(world, follower_id, leader_id, request)
        return None
    request, _ = exchange.read(world, follower_id, leader_id, request)
    if request.stage is Stage.WAITING:
        request = exchange.answer_waiting(world, follower_id, leader_id, request)
    return request


def _handle(world: World, action: Handle) -> bool:
    request = exchange.awaited(world, action.follower, action.leader)
    if request is None or request.stage is not Stage.ANSWERED:
        return False
    exchange.handle(world, action.follower, action.leader, request)
    return True


def _known_state(world: World) -> PartitionState:
    state = world.partition_state(PARTITION)
    assert state is not None
    return state
