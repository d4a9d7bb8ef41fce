"""A named point of Kafka's code: class and method, and where it is from one release on."""

from dataclasses import KW_ONLY, dataclass
from typing import Literal

from kchaos.clusters.releases import Release

DiskOperation = Literal["read", "write", "flush"]
DISK_OPERATIONS: tuple[DiskOperation, ...] = ("read", "write", "flush")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a point is from one release on.

    ``since`` is the first release of which this holds. ``java_class`` and ``method`` are as
    Byteman takes them, the latter with parameter types where the name alone would mean several
    methods, or empty if there is no such point in these releases. ``after`` is the call in it after
    which the point comes, or empty. ``reader`` and ``seen`` are expressions of Byteman's rule
    language for who reads and for what is seen there. ``when`` and ``does`` are the condition and
    the action of a planted bug; other points change nothing.
    """

    since: tuple[int, ...]
    java_class: str = ""
    method: str = ""
    _: KW_ONLY
    after: str = ""
    reader: str = '""'
    seen: str = '""'
    when: str = "TRUE"
    does: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A named point.

    ``meaning`` is one sentence for people. ``at_exit`` is whether a thread stops when the method
    returns, not when it begins. ``can_skip`` is whether the method may be left undone: it returns
    nothing, and its caller comes again. ``fails_with`` is Byteman's expression for what it may
    throw in place of being done, or empty. ``names_reader`` is whether it is known there who reads,
    and ``names_partitions`` whether what is seen names partitions as ``(TOPIC-PARTITION,``.
    ``is_told`` is whether each thread that comes there is recorded, for what it sees.
    ``places`` are sorted by release. ``of_disk`` is what a disk does there, None for a point of
    Kafka's code, and ``is_cached`` whether the page cache lies before that disk.
    """

    name: str
    meaning: str
    places: tuple[Place, ...]
    at_exit: bool = False
    can_skip: bool = False
    fails_with: str = ""
    names_reader: bool = False
    names_partitions: bool = False
    is_told: bool = False
    of_disk: DiskOperation | None = None
    is_cached: bool = False

    def place(self, release: Release) -> Place | None:
        """Return where the point is in a release, None where it has no such place."""
        latest = None
        for place in self.places:
            if place.since <= release.number:
                latest = place
        return latest if latest is not None and latest.java_class else None
