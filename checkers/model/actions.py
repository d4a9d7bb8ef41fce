"""What may happen next, as values: what clients, the controller, leaders and followers do.

An action says who does what; what comes of it is `checkers.model.acting`'s.
"""

from dataclasses import dataclass

from kchaos.checkers.model.fault_actions import (
    AskToStop,
    CompleteReassignment,
    EndSession,
    Kill,
    LetStop,
    MoveController,
    PassLag,
    Reassign,
    Receive,
    Register,
    Resign,
    SeeBrokers,
    Start,
    Stop,
    WriteCheckpoint,
)
from kchaos.checkers.model.queue_actions import (
    Arrive,
    HearOwnEpoch,
    ReachBroker,
    ReachController,
    Serve,
)


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
class Relinquish:
    """A leader that is slow to read for a follower gives up its leadership (KIP-501)."""

    leader: int

    def __str__(self) -> str:
        return f"leader {self.leader} is slow to read and gives up its leadership"


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


Action = (
    Write
    | Elect
    | Remove
    | Deliver
    | Shrink
    | Relinquish
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
)
