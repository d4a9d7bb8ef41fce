"""What may happen where queues are part of the state, as values: who gets into one, who is next.

What comes of an action is `checkers.model.queues`'s.
"""

from dataclasses import dataclass
from typing import Literal


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
    """What a broker asks of the controller gets into the controller's event queue."""

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
