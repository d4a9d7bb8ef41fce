"""A broker's request queue and the controller's event queue, where they are part of the state.

**A broker's requests.** Fetches and questions for leader epochs that stand in the queue of their
leader are exchanges in `Stage.ARRIVED`; control requests are `Received` in ("control", N), as where
a run is followed. A connection has one request there at most, for it is muted until the answer is
sent (kafka.network.SocketServer, Processor), and 8 handlers (`num.io.threads`), more than a machine
has connections, take what comes (kafka.server.KafkaRequestHandler). So each request in the queue
may be the next that is handled, and none has to be soon. What stands there outlives its sender and
its connection, and is lost with the process. A controller that connects anew, since it saw the
broker leave and come back, may get a second request in beside the first; more than `MOST_WAITING`
of one controller do not.

**The controller's events** are handled one at a time, in the order of their arrival
(kafka.controller.ControllerEventManager). The watch of the registrations fires once, until somebody
has looked: of BrokerChange there is one at most. What a broker asked stays when its process ends.
What else a controller does (elections that somebody asks for, reassignments) is asked for at a time
of its own, and is not queued here.

Not here: a client's produce, which does the same as one that is sent later; and the answer to a
control request, which its controller has as soon as it was handled.

Read from 1.1.1, 2.2.2 and 2.8.2.
"""

from dataclasses import dataclass, replace

from kchaos.checkers.model.broker import control_handling, exchange
from kchaos.checkers.model.controller import outboxes
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.requests import Stage
from kchaos.studies.explore.actions import Arrive, HearOwnEpoch, ReachBroker, ReachController, Serve
from kchaos.studies.explore.bounds import MOST_WAITING, PARTITION, Machine

EVENTS = ("events",)
"""The component with the newest controller's events that wait, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerChange:
    """The watch of the registrations has fired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionReceived:
    """A leader asks for an ISR (KIP-497), in the generation that its process knows."""

    broker: int
    broker_epoch: int
    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlledShutdownReceived:
    """A broker wants to stop; the epoch is -1 where its release or protocol does not tell it."""

    broker: int
    broker_epoch: int


Event = BrokerChange | AlterPartitionReceived | ControlledShutdownReceived


def arrive(world: World, _: Machine, action: Arrive) -> bool:
    """Let a fetcher thread's request get into its leader's queue."""
    follower, leader = action.follower, action.leader
    request = exchange.awaited(world, follower, leader)
    if request is None or request.stage is not Stage.SENT or world.running(leader) is None:
        return False
    exchange.change(world, follower, leader, request, replace(request, stage=Stage.ARRIVED))
    return True


def reach_broker(world: World, _: Machine, action: ReachBroker) -> bool:
    """Let a control request get into a broker's queue, and its controller wait for the answer."""
    broker, epoch = action.broker, action.controller_epoch
    outbox = world.outbox(epoch, broker)
    if outbox is None or not outbox.requests or outbox.is_unanswered:
        return False
    waiting = world.received(broker)
    if sum(request.controller_epoch == epoch for request in waiting) == MOST_WAITING:
        return False
    if world.running(broker) is None:
        return False
    received = outboxes.received(world, epoch, broker)
    # Which of two controllers was first means nothing: any request may be the next.
    ordered = sorted((*waiting, received), key=lambda request: request.controller_epoch)
    world.put_received(broker, tuple(ordered))
    outboxes.await_answer(world, epoch, broker)
    return True


def serve(world: World, _: Machine, action: Serve) -> bool:
    """Let a broker handle any control request that it has; its controller has the answer at once.

    The next one may come if the connection still is.
    """
    broker, epoch = action.broker, action.controller_epoch
    waiting = world.received(broker)
    places = [index for index, request in enumerate(waiting) if request.controller_epoch == epoch]
    if len(places) <= action.place:
        return False
    index = places[action.place]
    handled = waiting[index]
    if control_handling.handle(world, broker, handled) is None:
        return False
    world.put_received(broker, (*waiting[:index], *waiting[index + 1 :]))
    outbox = world.outbox(epoch, broker)
    if outbox is not None and handled.number == (epoch, outbox.connection):
        outboxes.answered(world, epoch, broker)
    return True


def lose_requests(world: World, machine: Machine, broker: int) -> None:
    """Let controllers that wait for a process that has ended, and its queue with it, send again.

    kafka.controller.RequestSendThread repeats a request until it was sent and answered.
    """
    for epoch in world.controller_epochs() if machine.grain.has_queues else ():
        outbox = world.outbox(epoch, broker)
        if outbox is not None and outbox.is_unanswered:
            world.put(("outbox", epoch, broker), replace(outbox, is_unanswered=False))


def hear_own_epoch(world: World, _: Machine, action: HearOwnEpoch) -> bool:
    """Let a broker hear that it has registered again."""
    return outboxes.learn_epoch(world, action.broker)


def reach_controller(world: World, _: Machine, action: ReachController) -> bool:
    """Let what a broker asks get into the event queue of the newest controller."""
    broker = world.running(action.broker)
    if broker is None:
        return False
    event: Event
    if action.api == "AlterPartition":
        asked = world.get(("isr request", action.broker, PARTITION))
        if asked is None:
            return False
        event = AlterPartitionReceived(
            broker=action.broker, broker_epoch=broker.epoch, leader_epoch=asked[0], isr=asked[1]
        )
    else:
        if world.get(("stopping", action.broker)) != "asked":
            return False
        told = broker.epoch if broker.generation.tells_broker_epoch else -1
        event = ControlledShutdownReceived(broker=action.broker, broker_epoch=told)
    if any(
        isinstance(queued, type(event)) and queued.broker == action.broker
        for queued in _events(world)
    ):
        return False
    world.put(EVENTS, (*_events(world), event))
    return True


def notice(world: World, machine: Machine) -> None:
    """Let the watch of the registrations fire, unless what it said was not looked at yet."""
    if machine.grain.has_queues and BrokerChange() not in _events(world):
        world.put(EVENTS, (*_events(world), BrokerChange()))


def pop_event(world: World) -> Event | None:
    """Take the first event out of the queue and return it; None without one."""
    events = _events(world)
    world.put(EVENTS, events[1:] or None)
    return events[0] if events else None


def _events(world: World) -> tuple[Event, ...]:
    events: tuple[Event, ...] = world.get(EVENTS) or ()
    return events
