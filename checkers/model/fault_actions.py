"""What may happen besides, as values: processes, sessions and controllers end and come back.

What comes of an action is `checkers.model.failing`'s and `checkers.model.controller`'s.
"""

from dataclasses import dataclass


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
