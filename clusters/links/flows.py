"""The two directions of a connection, and what a message meets in one of them."""

import threading
from dataclasses import dataclass

from kchaos.checkers.acts import Direction
from kchaos.checkers.formats.link_record import Fate
from kchaos.clusters.links.frames import FrameStream
from kchaos.clusters.links.rules import HeldPlace


class Flow:
    """One direction of a connection. Whoever sends on it holds its lock.

    ``stream`` is where it comes from, None before there is a connection. ``is_abandoned`` says
    that its sender had hung up when a cut healed: nothing more is delivered.
    """

    def __init__(self, direction: Direction) -> None:
        self.direction: Direction = direction
        self.lock = threading.Lock()
        self.stream: FrameStream | None = None
        self.is_sending = False
        self.is_abandoned = False


@dataclass(slots=True)
class Delivery:
    """History of one message so far."""

    fate: Fate = "passed"
    was_cut: bool = False
    place: HeldPlace | None = None
    is_recorded: bool = False

    @property
    def has_waited(self) -> bool:
        """Whether a rule has stopped it."""
        return self.was_cut or self.fate != "passed"

    def leave_place(self) -> None:
        """Let the next message of the same hold go."""
        if self.place is not None:
            self.place.end()
