"""Actions of the state machine, as values: of clients, the controller, leaders and followers.

An action says who does what; what comes of it is `studies.explore.transitions`'s.
`possible_actions` has each of them that a machine may take.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

from kchaos.studies.explore.bounds import MOST_WAITING, Machine, ProposedAction


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A client writes one record to a broker that believes to lead."""

    leader: int

    def __str__(self) -> str:
        return f"a client writes a record to broker {self.leader}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Elect:
    """The controller elects a member of the ISR that does not lead; the ISR stays."""

    leader: int

    def __str__(self) -> str:
        return f"the controller elects broker {self.leader}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """The controller takes a broker out of the ISR; the leader is, or becomes, another member."""

    broker: int
    leader: int

    def __str__(self) -> str:
        leads = f"broker {self.leader} leads"
        return f"the controller takes broker {self.broker} out of the ISR, {leads}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """A broker handles the LeaderAndIsr of a leader epoch, and never an older one after it."""

    broker: int
    leader_epoch: int

    def __str__(self) -> str:
        return f"broker {self.broker} hears of leader epoch {self.leader_epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """A leader takes a follower that is behind out of the ISR."""

    leader: int
    follower: int

    def __str__(self) -> str:
        return f"leader {self.leader} takes broker {self.follower} out of the ISR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand:
    """A leader takes a follower into the ISR that its release finds far enough."""

    leader: int
    follower: int

    def __str__(self) -> str:
        return f"leader {self.leader} takes broker {self.follower} into the ISR"


@dataclass(frozen=True, slots=True, kw_only=True)
class Learn:
    """A leader gets the controller's answer about the ISR that it asked for (KIP-497)."""

    leader: int

    def __str__(self) -> str:
        return f"leader {self.leader} learns that its ISR was written"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A fetcher thread truncates what needs no question, or sends its next request."""

    follower: int
    leader: int

    def __str__(self) -> str:
        return f"broker {self.follower} asks broker {self.leader}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A leader looks at its log for a request that is on its way, and answers."""

    follower: int
    leader: int

    def __str__(self) -> str:
        return f"broker {self.leader} answers broker {self.follower}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Handle:
    """A fetcher thread handles the answer that is on its way."""

    follower: int
    leader: int

    def __str__(self) -> str:
        return f"broker {self.follower} handles the answer of broker {self.leader}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A leader looks at its log for a request, and has not counted the follower yet."""

    follower: int
    leader: int

    def __str__(self) -> str:
        return f"leader {self.leader} looks at its log for broker {self.follower}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveHighWatermark:
    """A leader moves its high watermark after an append."""

    leader: int

    def __str__(self) -> str:
        return f"leader {self.leader} moves its high watermark after the append"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteIsr:
    """The controller handles a leader's AlterPartition (KIP-497): it writes the ISR, or refuses."""

    leader: int

    def __str__(self) -> str:
        return f"the controller handles the ISR that leader {self.leader} asks for"


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """A fetcher thread waits for its request no more; the request may still reach the leader."""

    follower: int
    leader: int

    def __str__(self) -> str:
        return f"broker {self.follower} gives up its request to broker {self.leader}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerGivenUp:
    """A leader handles a request whose sender waits for it no more."""

    follower: int
    leader: int

    def __str__(self) -> str:
        return f"broker {self.leader} handles what broker {self.follower} gave up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive:
    """A broker handles the next request of one controller."""

    broker: int
    controller_epoch: int

    def __str__(self) -> str:
        return f"broker {self.broker} handles a request of controller {self.controller_epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCheckpoint:
    """A broker writes its high watermark to `replication-offset-checkpoint`."""

    broker: int

    def __str__(self) -> str:
        return f"broker {self.broker} checkpoints its high watermark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A process ends at once; its session stays."""

    broker: int

    def __str__(self) -> str:
        return f"broker {self.broker} is killed"


@dataclass(frozen=True, slots=True, kw_only=True)
class PassLag:
    """So much time passes as a follower may lag."""

    def __str__(self) -> str:
        return "replica.lag.time.max.ms passes"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskToStop:
    """A broker asks the controller for a controlled shutdown."""

    broker: int

    def __str__(self) -> str:
        return f"broker {self.broker} asks for a controlled shutdown"


@dataclass(frozen=True, slots=True, kw_only=True)
class LetStop:
    """The controller handles a ControlledShutdown: it moves the leader, or stops the follower."""

    broker: int

    def __str__(self) -> str:
        return f"the controller handles the shutdown of broker {self.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """A process ends after its controlled shutdown, and its session with it."""

    broker: int

    def __str__(self) -> str:
        return f"broker {self.broker} stops"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A process starts and registers; a session that is still there ends first."""

    broker: int

    def __str__(self) -> str:
        return f"broker {self.broker} starts"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndSession:
    """The session of a broker ends, whether its process lives or not."""

    broker: int

    def __str__(self) -> str:
        return f"the session of broker {self.broker} ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """A living broker registers again."""

    broker: int

    def __str__(self) -> str:
        return f"broker {self.broker} registers again"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeeBrokers:
    """The controller looks at the registrations, once for all changes since it last did."""

    def __str__(self) -> str:
        return "the controller looks at the registrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveController:
    """Another controller is elected; the one before goes on until it hears of that."""

    def __str__(self) -> str:
        return "another controller is elected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resign:
    """A controller hears that it is none any more; what it had queued is thrown away."""

    controller_epoch: int

    def __str__(self) -> str:
        return f"controller {self.controller_epoch} resigns"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassign:
    """The partition is to be held by these brokers; those that hold it now go on until then."""

    replicas: tuple[int, ...]

    def __str__(self) -> str:
        return f"the partition is reassigned to {self.replicas}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteReassignment:
    """The brokers that are to hold the partition are in sync, and the others stop."""

    def __str__(self) -> str:
        return "the controller completes the reassignment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrive:
    """A request of a fetcher thread gets into the request queue of its leader."""

    follower: int
    leader: int

    def __str__(self) -> str:
        return f"what broker {self.follower} asks reaches broker {self.leader}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachBroker:
    """The next request of one controller gets into a broker's request queue."""

    broker: int
    controller_epoch: int

    def __str__(self) -> str:
        return f"a request of controller {self.controller_epoch} reaches broker {self.broker}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Serve:
    """A handler of a broker handles a control request that stands in its queue.

    ``place`` counts the requests there of one controller, in the order of their arrival, from 0.
    """

    broker: int
    controller_epoch: int
    place: int = 0

    def __str__(self) -> str:
        which = "a request" if self.place == 0 else "the later request"
        return f"broker {self.broker} handles {which} of controller {self.controller_epoch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReachController:
    """A broker's request to the controller gets into the controller's event queue."""

    broker: int
    api: Literal["AlterPartition", "ControlledShutdown"]

    def __str__(self) -> str:
        return f"the {self.api} of broker {self.broker} reaches the controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class HearOwnEpoch:
    """A broker that has registered again hears under which broker epoch."""

    broker: int

    def __str__(self) -> str:
        return f"broker {self.broker} hears of its registration"


Action = (
    Write
    | Elect
    | Remove
    | Deliver
    | Shrink
    | Expand
    | Learn
    | Ask
    | Answer
    | Handle
    | Look
    | MoveHighWatermark
    | WriteIsr
    | GiveUp
    | AnswerGivenUp
    | Receive
    | WriteCheckpoint
    | Kill
    | PassLag
    | AskToStop
    | LetStop
    | Stop
    | Start
    | EndSession
    | Register
    | SeeBrokers
    | MoveController
    | Resign
    | Reassign
    | CompleteReassignment
    | Arrive
    | ReachBroker
    | Serve
    | ReachController
    | HearOwnEpoch
    | ProposedAction
)


def possible_actions(machine: Machine) -> Iterator[Action]:
    """Yield every action that may happen in some state, in a fixed order."""
    replicas = sorted(machine.generations)
    for replica in replicas:
        yield Write(leader=replica)
        yield Elect(leader=replica)
        yield Learn(leader=replica)
        yield from machine.extension.actions_of(machine, replica)
        if machine.grain.has_requests:
            yield WriteIsr(leader=replica)
        if machine.grain.splits_reads:
            yield MoveHighWatermark(leader=replica)
        if machine.grain.has_queues:
            yield from _queued_at(machine, replica)
            continue
        if machine.faults.has_requests:
            for epoch in machine.controller_epochs:
                yield Receive(broker=replica, controller_epoch=epoch)
            continue
        for leader_epoch in range(1, machine.leader_epoch + 1):
            yield Deliver(broker=replica, leader_epoch=leader_epoch)
    for replica in replicas:
        for other in replicas:
            if replica != other:
                yield from _actions_between(machine, replica, other)
    yield from _possible_faults(machine)


def _actions_between(machine: Machine, broker: int, other: int) -> Iterator[Action]:
    if not machine.faults.has_sessions:
        yield Remove(broker=broker, leader=other)
    yield Shrink(leader=broker, follower=other)
    yield Expand(leader=broker, follower=other)
    yield Ask(follower=broker, leader=other)
    if machine.grain.has_queues:
        yield Arrive(follower=broker, leader=other)
    if machine.grain.splits_reads:
        yield Look(follower=broker, leader=other)
    if machine.grain.has_requests:
        yield Answer(follower=broker, leader=other)
    yield Handle(follower=broker, leader=other)
    if machine.faults.time_outs:
        yield GiveUp(follower=broker, leader=other)
    if machine.faults.time_outs or machine.grain.splits_reads:
        yield AnswerGivenUp(follower=broker, leader=other)


def _queued_at(machine: Machine, broker: int) -> Iterator[Action]:
    for epoch in machine.controller_epochs:
        yield ReachBroker(broker=broker, controller_epoch=epoch)
        for place in range(MOST_WAITING if machine.faults.has_sessions else 1):
            yield Serve(broker=broker, controller_epoch=epoch, place=place)
    yield ReachController(broker=broker, api="AlterPartition")
    if machine.faults.stops:
        yield ReachController(broker=broker, api="ControlledShutdown")
    if machine.faults.expiries:
        yield HearOwnEpoch(broker=broker)


def _possible_faults(machine: Machine) -> Iterator[Action]:  # noqa: C901
    """Yield every action that the machine's faults allow in some state."""
    faults, replicas = machine.faults, sorted(machine.generations)
    for replica in replicas:
        if faults.kills or faults.stops:
            yield Start(broker=replica)
        if faults.kills:
            yield WriteCheckpoint(broker=replica)
            yield Kill(broker=replica)
        if faults.stops:
            yield AskToStop(broker=replica)
            yield LetStop(broker=replica)
            yield Stop(broker=replica)
        if faults.kills or faults.expiries:
            yield EndSession(broker=replica)
        if faults.expiries:
            yield Register(broker=replica)
    if faults.lags:
        yield PassLag()
    if faults.has_sessions:
        yield SeeBrokers()
    if faults.controllers:
        yield MoveController()
        for epoch in machine.controller_epochs[:-1]:
            yield Resign(controller_epoch=epoch)
    if faults.reassignments:
        for wanted in combinations(replicas, len(machine.assigned)):
            yield Reassign(replicas=wanted)
        yield CompleteReassignment()
