"""Cluster metadata: what is written to ZooKeeper, who learns of it, and by which requests.

A controller has an outbox for each broker that it sees: LeaderAndIsr for the replicas that the
broker has, UpdateMetadata with the brokers that live. Requests go out in order, one at a time
(ControllerChannelManager, RequestSendThread), and are thrown away when the controller sees the
broker leave. A newly registered broker is told who lives and the present state of all its
partitions (KafkaController.onBrokerStartup), and so is every broker by a new controller. A
controller that lost its session goes on with what it had queued until it hears of that: brokers
refuse it once they have heard of a newer one. Changes of the ISR that a leader wrote are sent to
nobody. Read from 1.1.1, 2.1.1, 2.2.0 and 2.8.2.
"""

from dataclasses import replace

from kchaos.checkers.acts import CONTROLLER_BROKER_CHANGE, TopicPartition
from kchaos.checkers.model.broker import control_handling
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    PartitionState,
    TopicCreated,
    TopicDeleted,
)
from kchaos.checkers.model.values.requests import (
    Controller,
    ControlRequest,
    LeaderAndIsr,
    Outbox,
    Received,
    StopReplica,
    UpdateMetadata,
)


def topic_created(world: World, event: TopicCreated) -> None:
    """Note the assignment."""
    known = set(world.get(("topics",)) or ())
    for index, replicas in enumerate(event.assignment):
        partition = TopicPartition(event.topic, index)
        known.add(partition)
        world.put(("assignment", partition), replicas)
    world.put(("topics",), tuple(sorted(known)))


def topic_deleted(world: World, event: TopicDeleted) -> None:
    """Forget the topic: one of that name that is made again is another one, from epoch 0 on.

    Its replicas are gone by then: a controller removes the znode when every broker has answered
    (kafka.controller.TopicDeletionManager.completeDeleteTopic, 1.1.1, 2.8.2 and 3.8.0).
    """
    known: tuple[TopicPartition, ...] = world.get(("topics",)) or ()
    for partition in known:
        if partition.topic == event.topic:
            world.put(("assignment", partition), None)
            world.put(("state", partition), None)
    world.put(("topics",), tuple(topic for topic in known if topic.topic != event.topic))
    world.put(("topic configuration", event.topic), None)
    world.put(("topic id", event.topic), None)
    for broker_id in world.broker_ids():
        world.put(("adopted", broker_id, event.topic), None)


def partition_state(world: World, event: PartitionState) -> None:
    """Write a partition's state: a new epoch is the controller's, else it is a leader's ISR.

    The controller queues it for the replicas; the leader is still to learn of its own ISR.
    """
    partition = TopicPartition(event.topic, event.partition)
    known = world.partition_state(partition)
    world.put(("state", partition), event)
    if known is None or event.leader_epoch > known.leader_epoch:
        for epoch in world.controller_epochs()[-1:]:
            told = LeaderAndIsr(
                states=(event,), is_new=known is None, topic_id=_topic_id(world, epoch, event.topic)
            )
            for broker_id in world.assignment(partition):
                queue(world, epoch, broker_id, told)
        return
    broker, replica = world.running(event.leader), world.replica(event.leader, partition)
    if broker is None or replica is None or broker.generation.reads_metadata_log:
        return
    if replica.leader == event.leader and replica.leader_epoch == event.leader_epoch:
        world.put(("isr change", event.leader, partition), event)


def broker_registered(world: World, event: BrokerRegistered) -> None:
    """Note the broker; a controller whose session had ended hears now that it is none any more."""
    registered = {**world.registered(), event.broker: event.czxid}
    world.put(("registered",), tuple(sorted(registered.items())))
    broker = world.running(event.broker)
    if broker is not None and broker.epoch < 0:
        # A process that starts handles nothing before it knows (KafkaServer.startup, 2.2.0).
        world.put_broker(event.broker, replace(broker, epoch=event.czxid))
    elif broker is not None:
        world.put(("new epoch", event.broker), event.czxid)
    for epoch in world.controller_epochs()[:-1]:
        if world.controller(epoch).broker == event.broker:
            resign(world, epoch)


def learn_epoch(world: World, broker_id: int) -> bool:
    """Let a broker hear that it has registered again; return whether there was anything to hear.

    The answer of ZooKeeper may come after the first request that names the new epoch (KAFKA-9839).
    """
    czxid = world.get(("new epoch", broker_id))
    if czxid is None:
        return False
    broker = world.broker(broker_id)
    if broker is None or not broker.is_working:
        return False
    world.put(("new epoch", broker_id), None)
    world.put_broker(broker_id, replace(broker, epoch=czxid))
    return True


def broker_unregistered(world: World, event: BrokerUnregistered) -> None:
    """Forget the broker."""
    registered = world.registered()
    registered.pop(event.broker, None)
    world.put(("registered",), tuple(sorted(registered.items())))


def controller_elected(world: World, event: ControllerElected) -> None:
    """Let a new controller tell every broker who lives, and the state of its partitions."""
    epochs = world.controller_epochs()
    for known in epochs:
        if world.controller(known).broker == event.broker:
            resign(world, known)
    epoch = (world.get(("last controller epoch",)) or 0) + 1
    world.put(("last controller epoch",), epoch)
    world.put(("controllers",), (*world.controller_epochs(), epoch))
    registered = world.registered()
    seen = tuple(sorted(registered.items()))
    world.put(("controller", epoch), Controller(broker=event.broker, seen=seen))
    for broker_id in sorted(registered):
        _open(world, epoch, broker_id, frozenset(registered))


def resign(world: World, epoch: int) -> None:
    """Let a controller stop, with everything that it had queued."""
    world.put(
        ("controllers",), tuple(other for other in world.controller_epochs() if other != epoch)
    )
    for broker_id, _ in world.controller(epoch).seen:
        world.put(("outbox", epoch, broker_id), None)
    world.put(("controller", epoch), None)


def sees_changes(world: World, epoch: int) -> bool:
    """Return whether the controller has registrations to look at that it has not seen."""
    controller = world.controller(epoch)
    return _hears_of_registrations(world, epoch) and (
        controller.seen != tuple(sorted(world.registered().items()))
    )


def observe(world: World, epoch: int) -> None:
    """Let a controller compare the registered brokers with those that it last saw."""
    controller = world.controller(epoch)
    acting = world.broker(controller.broker)
    assert acting is not None
    registered, seen = world.registered(), dict(controller.seen)
    appeared = [broker_id for broker_id in sorted(registered) if broker_id not in seen]
    for broker_id, czxid in seen.items():
        is_bounced = acting.generation.sees_bounce(czxid, registered.get(broker_id, czxid))
        if broker_id not in registered or is_bounced:
            world.put(("outbox", epoch, broker_id), None)
            if is_bounced:
                appeared.append(broker_id)
    world.put(("controller", epoch), replace(controller, seen=tuple(sorted(registered.items()))))
    live = frozenset(registered)
    for broker_id in sorted(appeared):
        _open(world, epoch, broker_id, live)
    for broker_id in sorted(live - set(appeared)):
        queue(world, epoch, broker_id, UpdateMetadata(live=live))


def queue(world: World, epoch: int, broker_id: int, request: ControlRequest) -> None:
    """Queue a request for a broker that the controller sees."""
    outbox = world.outbox(epoch, broker_id)
    if outbox is not None:
        world.put(
            ("outbox", epoch, broker_id), replace(outbox, requests=(*outbox.requests, request))
        )


def may_send(world: World, epoch: int, broker_id: int) -> bool:
    """Return whether the first request of an outbox can get to its broker now."""
    outbox = world.outbox(epoch, broker_id)
    if outbox is None or not outbox.requests or outbox.is_unanswered or outbox.held_by:
        return False
    return _passes(world, epoch, broker_id)


def may_answer(world: World, epoch: int, broker_id: int) -> bool:
    """Return whether a broker's answer can get back to the controller now."""
    outbox = world.outbox(epoch, broker_id)
    if outbox is None or not outbox.is_unanswered or outbox.held_by:
        return False
    source = world.controller(epoch).broker
    return source == broker_id or world.passes(broker_id, source)


def send(world: World, epoch: int, broker_id: int) -> bool:
    """Let the first request of an outbox get to its broker, unless a hold keeps it.

    Returns False, without a change, where the broker must wait for a fetcher.
    """
    outbox = world.outbox(epoch, broker_id)
    assert outbox is not None
    source = world.controller(epoch).broker
    kept = _holds(world, source, broker_id, outbox.requests[0], "request")
    if not kept:
        return deliver(world, epoch, broker_id)
    world.put(("outbox", epoch, broker_id), replace(outbox, held_by=kept))
    return True


def deliver(world: World, epoch: int, broker_id: int) -> bool:
    """Let a broker handle the first request of an outbox; its answer is then on its way.

    This is the step where a broker has no queue: it handles a request as it arrives. Returns False,
    without a change, where the broker must wait for a fetcher.
    """
    request = received(world, epoch, broker_id)
    if control_handling.handle(world, broker_id, request) is None:
        return False
    source = world.controller(epoch).broker
    kept = _holds(world, source, broker_id, request.request, "response")
    await_answer(world, epoch, broker_id, kept)
    return True


def await_answer(world: World, epoch: int, broker_id: int, held_by: tuple[str, ...] = ()) -> None:
    """Let a controller wait for the answer to the first request of an outbox.

    Args:
        world: The transition.
        epoch: The controller's.
        broker_id: The broker that has the request.
        held_by: Names of the holds that keep the answer.
    """
    outbox = world.outbox(epoch, broker_id)
    assert outbox is not None
    world.put(("outbox", epoch, broker_id), replace(outbox, is_unanswered=True, held_by=held_by))


def received(world: World, epoch: int, broker_id: int) -> Received:
    """Return the first request of an outbox as its broker gets it."""
    outbox = world.outbox(epoch, broker_id)
    assert outbox is not None
    return Received(
        number=(epoch, outbox.connection),
        controller_epoch=epoch,
        request=outbox.requests[0],
        broker_epoch=_told_epoch(world, epoch, broker_id),
    )


def _told_epoch(world: World, epoch: int, broker_id: int) -> int:
    """Return the broker epoch that a controller's requests name, -1 for none."""
    acting = world.broker(world.controller(epoch).broker)
    if acting is None or not acting.generation.tells_broker_epoch:
        return -1
    return dict(world.controller(epoch).seen).get(broker_id, -1)


def answered(world: World, epoch: int, broker_id: int) -> None:
    """Let the controller have a broker's answer, so that the next request may go."""
    outbox = world.outbox(epoch, broker_id)
    assert outbox is not None
    left = replace(outbox, requests=outbox.requests[1:], is_unanswered=False)
    world.put(("outbox", epoch, broker_id), left)


def _open(world: World, epoch: int, broker_id: int, live: frozenset[int]) -> None:
    """Begin an outbox with who lives, then every state that concerns the broker."""
    states = (world.partition_state(partition) for partition in world.get(("topics",)) or ())
    told = [
        LeaderAndIsr(states=(state,), topic_id=_topic_id(world, epoch, state.topic))
        for state in states
        if state is not None
        and broker_id in world.assignment(TopicPartition(state.topic, state.partition))
    ]
    requests: tuple[ControlRequest, ...] = (UpdateMetadata(live=live), *told)
    connection = world.registered().get(broker_id, 0)
    world.put(("outbox", epoch, broker_id), Outbox(requests=requests, connection=connection))


def _topic_id(world: World, epoch: int, topic: str) -> str:
    """Return the topic id that a controller's LeaderAndIsr tells, "" for none."""
    acting = world.broker(world.controller(epoch).broker)
    if acting is None or not acting.generation.tells_topic_id:
        return ""
    return world.get(("topic id", topic)) or ""


def _hears_of_registrations(world: World, epoch: int) -> bool:
    """Return whether a controller reads the registrations: it is the newest and not held."""
    acting = world.broker(world.controller(epoch).broker)
    is_working = acting is not None and acting.is_working
    return epoch == world.controller_epochs()[-1] and is_working and not _is_held(world, epoch)


def _is_held(world: World, epoch: int) -> bool:
    """Return whether the controller's thread stands still before it looks at the brokers."""
    acting = world.controller(epoch).broker
    return any(
        (hold.broker, hold.point) == (acting, CONTROLLER_BROKER_CHANGE)
        for hold in world.point_holds()
    )


def _passes(world: World, epoch: int, broker_id: int) -> bool:
    source = world.controller(epoch).broker
    acting, target = world.broker(source), world.broker(broker_id)
    if acting is None or not acting.is_working or target is None or not target.is_running:
        return False
    return source == broker_id or world.passes(source, broker_id)


def _holds(
    world: World, source: int, target: int, request: ControlRequest, direction: str
) -> tuple[str, ...]:
    named: tuple[TopicPartition, ...] = ()
    if isinstance(request, LeaderAndIsr):
        named = tuple(TopicPartition(state.topic, state.partition) for state in request.states)
    elif isinstance(request, StopReplica):
        named = (request.partition,)
    return tuple(
        hold.name
        for hold in world.holding(type(request).__name__, source, target, direction)
        if (hold.topic is None and hold.partition is None)
        or any(
            hold.topic == partition.topic and hold.partition in (None, partition.partition)
            for partition in named
        )
    )


def generation_of(world: World, broker_id: int) -> Generation:
    """Return what a broker that has run does."""
    broker = world.broker(broker_id)
    assert broker is not None
    return broker.generation
