"""Actions of the controller: leaders, ISRs, who holds the partition, and who may stop.

A watch fires once for all changes that nobody has looked at, and what it leads to is read when its
turn comes. Where the machine has queues, what the event queue has first is handled first
(`studies.explore.queues`); else each of these actions may be the next.

Read from kafka.controller.KafkaController, PartitionStateMachine, ReplicaStateMachine and Election,
1.1.1 and 2.8.2. A decision that would go beyond the machine's leader epochs does not happen.
"""

from collections.abc import Collection, Iterable
from dataclasses import replace

from kchaos.checkers.model.controller import decisions, outboxes
from kchaos.checkers.model.controller.decisions import ControllerContext, LeaderAndIsr
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import (
    NO_LEADER,
    ControllerElected,
    PartitionState,
    TopicCreated,
)
from kchaos.checkers.model.values.requests import StopReplica
from kchaos.studies.explore import at_once, queues
from kchaos.studies.explore.actions import (
    AskToStop,
    CompleteReassignment,
    Elect,
    LetStop,
    MoveController,
    Reassign,
    Remove,
    Resign,
    SeeBrokers,
    WriteIsr,
)
from kchaos.studies.explore.bounds import CONTROLLER_EPOCH, FAULTS, PARTITION, Machine
from kchaos.studies.explore.queues import (
    EVENTS,
    AlterPartitionReceived,
    BrokerChange,
    ControlledShutdownReceived,
)

REASSIGNED = ("reassigned",)
"""The component that says which brokers are to hold the partition, while not all of them do."""


def spend(world: World, fault: str) -> bool:
    """Take one of the faults that may still happen; return whether there was one."""
    left = world.get(FAULTS)
    count: int = getattr(left, fault)
    world.put(FAULTS, replace(left, **{fault: count - 1}))
    return count > 0


def known_state(world: World) -> PartitionState:
    """Return the partition's state as ZooKeeper has it."""
    state = world.partition_state(PARTITION)
    assert state is not None
    return state


def decide(world: World, leader_id: int, leader_epoch: int, isr: Collection[int]) -> None:
    """Write the partition's state; of a new leader epoch every replica is to hear."""
    outboxes.partition_state(
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


def create(world: World, machine: Machine) -> None:
    """Write the partition's first leader and ISR, in leader epoch 0."""
    first = decisions.elect_for_new(_context(world, machine, set(machine.generations)))
    assert first is not None
    decide(world, first.leader, 0, first.isr)


def elect(world: World, machine: Machine, action: Elect) -> bool:
    """Elect another member of the ISR, as a preferred election does."""
    able = _live(world) if machine.faults.has_requests else set(machine.generations)
    context = _preferring(_context(world, machine, able), action.leader)
    decided = decisions.elect_preferred(context, leader_and_isr(world))
    return decided is not None and decide_next(world, machine, decided)


def remove(world: World, machine: Machine, action: Remove) -> bool:
    """Let a broker leave: another member of the ISR is elected if it leads, else it is taken out.

    For machines without sessions, where all others are there. KafkaReplication.tla has the same in
    two steps (ControllerShrinkIsr, ControllerElectLeader).
    """
    known = leader_and_isr(world)
    if action.leader not in known.isr:
        return False
    context = _context(world, machine, set(machine.generations) - {action.broker})
    if known.leader == action.broker:
        decided = decisions.elect_for_offline(_preferring(context, action.leader), known)
    else:
        decided = decisions.remove_from_isr(context, known, action.broker)
    if decided is None or decided.leader != action.leader:
        return False
    return decide_next(world, machine, decided)


def see_brokers(world: World, machine: Machine, _: SeeBrokers) -> bool:
    """Look at the registrations: who is gone leaves the ISR, who is new hears of everything.

    KafkaController.processBrokerChange: brokers that came back unseen count as gone first, from the
    release on that tells them apart (KIP-380).
    """
    epoch, state = world.controller_epochs()[-1], known_state(world)
    controller, registered = world.controller(epoch), world.registered()
    has_queues = machine.grain.has_queues
    if has_queues and not isinstance(queues.pop_event(world), BrokerChange):
        return False
    if controller.seen == tuple(sorted(registered.items())):
        return has_queues
    its_broker = world.broker(controller.broker)
    assert its_broker is not None
    gone = {
        broker
        for broker, czxid in controller.seen
        if broker not in registered or its_broker.generation.sees_bounce(czxid, registered[broker])
    }
    stopping = _stopping(world, machine) - gone
    context = _context(world, machine, set(registered) - gone, stopping)
    if not _decide_all(
        world, machine, decisions.after_brokers_left(context, leader_and_isr(world), gone)
    ):
        return False
    for broker in gone:
        world.put(("stopping", broker), None)
    outboxes.observe(world, epoch)
    was_offline = state.leader not in dict(controller.seen)
    if known_state(world).leader != NO_LEADER and not was_offline:
        return True
    elected = decisions.elect_for_offline(
        _context(world, machine, set(registered), stopping), leader_and_isr(world)
    )
    return elected is None or decide_next(world, machine, elected)


def move_controller(world: World, machine: Machine, _: MoveController) -> bool:
    """Elect a controller that tells every broker how things stand now, and no older epoch.

    KafkaController.onControllerFailover: what the one before had queued and not sent is nobody's,
    and whom that one let go is forgotten. Who waits for its answer asks again.
    """
    if not spend(world, "controllers"):
        return False
    epoch: int = world.get(("last controller epoch",)) + 1
    world.put(EVENTS, None)
    outboxes.controller_elected(world, ControllerElected(broker=machine.controller_of(epoch)))
    for broker in machine.generations if machine.faults.stops else ():
        if world.get(("stopping", broker)) != "asked":
            world.put(("stopping", broker), None)
    context = _context(world, machine, set(world.registered()))
    removes_offline = _generation(world).removes_offline_at_start
    return _decide_all(
        world,
        machine,
        at_once.at_failover(context, leader_and_isr(world), removes_offline=removes_offline),
    )


def resign(world: World, _: Machine, action: Resign) -> bool:
    """Let a controller that is none any more stop."""
    if action.controller_epoch not in world.controller_epochs()[:-1]:
        return False
    outboxes.resign(world, action.controller_epoch)
    return True


def ask_to_stop(world: World, _: Machine, action: AskToStop) -> bool:
    """Send ControlledShutdown (KafkaServer.controlledShutdown)."""
    if world.get(("stopping", action.broker)) is not None or not spend(world, "stops"):
        return False
    if world.running(action.broker) is None or action.broker not in world.registered():
        return False
    world.put(("stopping", action.broker), "asked")
    return True


def let_stop(world: World, machine: Machine, action: LetStop) -> bool:
    """Move the leader elsewhere, or take the follower out (KafkaController.doControlledShutdown).

    Where nobody else can lead the partition stays, and the broker stops after some tries. Up to
    KAFKA-7482 it hears of no election that its shutdown made; here it may hear of it too late.
    Out of the queue also a process that is no more may be let go.
    """
    broker, state = action.broker, known_state(world)
    if machine.grain.has_queues:
        event = queues.pop_event(world)
        if not isinstance(event, ControlledShutdownReceived) or event.broker != broker:
            return False
        if _refuses_shutdown(world, event):
            return True
    elif world.get(("stopping", broker)) != "asked" or broker not in _live(world):
        return False
    is_awaited = world.get(("stopping", broker)) == "asked"
    world.put(("stopping", broker), "let go" if is_awaited else "stopped")
    stopping = _stopping(world, machine)
    assigned = world.assignment(PARTITION)
    if broker not in assigned or len(assigned) < 2:
        return True
    context = _context(world, machine, _live(world), stopping)
    if state.leader == broker:
        elected = decisions.elect_for_shutdown(context, leader_and_isr(world))
        return elected is None or decide_next(world, machine, elected)
    epoch = world.controller_epochs()[-1]
    queued, stops = world.outbox(epoch, broker), _stops(world, epoch)
    removed = decisions.remove_from_isr(context, leader_and_isr(world), broker)
    if removed is not None and not decide_next(world, machine, removed):
        return False
    # It is told to stop fetching, and not who leads then (ReplicaStateMachine, OfflineReplica).
    world.put(("outbox", epoch, broker), queued)
    outboxes.queue(world, epoch, broker, stops)
    return True


def _stops(world: World, epoch: int, *, deletes: bool = False) -> StopReplica:
    """Return the StopReplica that a controller would send now."""
    generation = outboxes.generation_of(world, world.controller(epoch).broker)
    known = known_state(world).leader_epoch if generation.tells_epoch_to_stop else -1
    return StopReplica(partition=PARTITION, deletes=deletes, leader_epoch=known)


def write_isr(world: World, machine: Machine, action: WriteIsr) -> bool:
    """Write the ISR that a leader asked for, or refuse it (KafkaController.processAlterIsr).

    One of an older leader epoch is refused with FENCED_LEADER_EPOCH; one of a broker that the
    controller does not see with STALE_BROKER_EPOCH, and is sent again.
    """
    asking = ("isr request", action.leader, PARTITION)
    asked = world.get(asking)
    if machine.grain.has_queues:
        event = queues.pop_event(world)
        if not isinstance(event, AlterPartitionReceived) or event.broker != action.leader:
            return False
        if dict(_seen(world)).get(event.broker) != event.broker_epoch:
            return True
        is_awaited = asked == (event.leader_epoch, event.isr)
        asked = (event.leader_epoch, event.isr)
    elif asked is None or action.leader not in _live(world):
        return False
    else:
        is_awaited = True
    leader_epoch, isr = asked
    state = known_state(world)
    if is_awaited:
        world.put(asking, None)
    if (state.leader, state.leader_epoch) == (action.leader, leader_epoch):
        decide(world, state.leader, leader_epoch, isr)
    return True


def reassign(world: World, machine: Machine, action: Reassign) -> bool:
    """Let these brokers hold the partition too (KafkaController.onPartitionReassignment, A1 to A2).

    Every broker that holds it or is to hold it hears of it in a new leader epoch.
    """
    if world.get(REASSIGNED) is not None or not spend(world, "reassignments"):
        return False
    held = world.assignment(PARTITION)
    if set(action.replicas) == set(held):
        return False
    both = (
        *action.replicas,
        *(broker_id for broker_id in held if broker_id not in action.replicas),
    )
    outboxes.topic_created(world, TopicCreated(topic=PARTITION.topic, assignment=(both,)))
    world.put(REASSIGNED, action.replicas)
    return decide_next(world, machine, leader_and_isr(world))


def complete_reassignment(world: World, machine: Machine, _: CompleteReassignment) -> bool:
    """Let the others stop and delete their logs (onPartitionReassignment, B1 to B7).

    A broker that is not in the ISR is stopped in the same leader epoch
    (ReplicaStateMachine.removeReplicasFromIsr).
    """
    wanted: tuple[int, ...] | None = world.get(REASSIGNED)
    state = known_state(world)
    if wanted is None or not set(wanted) <= set(state.isr):
        return False
    removed = [broker_id for broker_id in world.assignment(PARTITION) if broker_id not in wanted]
    context = context_of_newest(world, machine)
    elected = decisions.elect_for_reassignment(context, leader_and_isr(world), wanted)
    if elected is None:
        return False
    outboxes.topic_created(world, TopicCreated(topic=PARTITION.topic, assignment=(wanted,)))
    if not decide_next(world, machine, elected):
        return False
    epoch = world.controller_epochs()[-1]
    for broker in removed:
        left = decisions.remove_from_isr(context, leader_and_isr(world), broker)
        if left is not None and not decide_next(world, machine, left):
            return False
        outboxes.queue(world, epoch, broker, _stops(world, epoch, deletes=True))
    world.put(REASSIGNED, None)
    return True


def _preferring(context: ControllerContext, broker: int) -> ControllerContext:
    """Return a controller's knowledge once a broker is the preferred replica.

    Which replica that is stays open, as a reassignment to the same brokers may come before. So any
    member of the ISR may be elected, as in KafkaReplication.tla (ControllerElectLeader).
    """
    others = (replica for replica in context.assignment if replica != broker)
    return replace(context, assignment=(broker, *others))


def decide_next(world: World, machine: Machine, decided: LeaderAndIsr) -> bool:
    """Write a decision in a new leader epoch; return False beyond the machine's."""
    epoch = known_state(world).leader_epoch
    if epoch >= machine.leader_epoch:
        return False
    decide(world, decided.leader, epoch + 1, decided.isr)
    return True


def _decide_all(world: World, machine: Machine, decided: Iterable[LeaderAndIsr]) -> bool:
    """Write one decision after the other; return False beyond the leader epochs."""
    return all(decide_next(world, machine, each) for each in decided)


def leader_and_isr(world: World) -> LeaderAndIsr:
    """Return leader and ISR as ZooKeeper has them."""
    state = known_state(world)
    return LeaderAndIsr(leader=state.leader, isr=state.isr)


def context_of_newest(world: World, machine: Machine) -> ControllerContext:
    """Return what the newest controller decides by: whom it sees, and who is shutting down."""
    return _context(world, machine, _live(world), _stopping(world, machine))


def _context(
    world: World, machine: Machine, live: Collection[int], stopping: Collection[int] = ()
) -> ControllerContext:
    generation = _generation(world)
    return ControllerContext(
        assignment=world.assignment(PARTITION),
        live=frozenset(live),
        shutting_down=frozenset(stopping),
        is_unclean=machine.is_unclean,
        isr_without=generation.isr_without,
        isr_of_preferred=generation.proposed.isr_of_preferred,
    )


def _generation(world: World) -> Generation:
    controller = world.controller(world.controller_epochs()[-1])
    return outboxes.generation_of(world, controller.broker)


def _live(world: World) -> set[int]:
    """Return the brokers that the newest controller sees."""
    return {broker for broker, _ in _seen(world)}


def _seen(world: World) -> tuple[tuple[int, int], ...]:
    return world.controller(world.controller_epochs()[-1]).seen


def _refuses_shutdown(world: World, event: ControlledShutdownReceived) -> bool:
    """Return whether the sender is unregistered, or of an earlier generation (KIP-380)."""
    controller, seen = world.controller(world.controller_epochs()[-1]), dict(_seen(world))
    if event.broker not in seen:
        return True
    generation = outboxes.generation_of(world, controller.broker)
    return generation.refuses_shutdown(event.broker_epoch, seen[event.broker])


def _stopping(world: World, machine: Machine) -> set[int]:
    if not machine.faults.stops:
        return set()
    return {
        broker_id
        for broker_id in machine.generations
        if world.get(("stopping", broker_id)) in ("let go", "stopped")
    }
