"""A line of hits.jsonl: one thread of a broker that came to a point of Kafka's code."""

import re
from dataclasses import dataclass, field
from typing import Literal

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.json_form import NOT_WRITTEN

HITS = "hits.jsonl"
FETCH_BEGUN = "fetch-begun"
"""A leader is about to read its logs for a fetch, and says whose."""
FETCH_COUNTED = "fetch-counted"
"""A leader has counted a follower's fetch: what it knows of that one now, in Kafka's own text."""
ISR_CHECK = "isr-check"
"""A leader looks which followers of a partition are in sync, in Kafka's own text."""

PLANTED = "planted:"
"""Begins the name of a point at which the agent plants a bug."""

Fate = Literal["passed", "held", "released", "delayed", "skipped", "gone", "told", "failed"]

# A topic id may stand before the name.
_PARTITION = re.compile(r"\((?:[\w-]{22}:)?([\w.-]+)-(\d+),")
_FOLLOWER = re.compile(r"\d+|broker-.*|ReplicaFetcherThread-.*|follower|FetchLogEnd|LOG_END")


@dataclass(frozen=True, slots=True, kw_only=True)
class PointHit:
    """One thread that came to a point, and what became of it; the gate writes it.

    ``number`` counts a cluster's hits from 1; one that waits has two records with its number,
    ``held`` or ``delayed`` when it came and ``released`` when it went on, or ``gone`` if its
    process had ended by then. What is ``failed`` or ``skipped`` was not done. ``life`` counts the
    broker's starts from 1. ``reader`` is who reads: a replica id, a client id, or how far it may
    read; empty where it is not known. ``seen`` is what was seen there, in Kafka's words. ``hold``
    names what kept it. ``passed`` hits are recorded once for each life of a broker and point,
    ``told`` ones each time.

    ``time`` is in seconds since the epoch; ``read_at`` is file and line where it was read.
    """

    time: float
    number: int
    broker: int
    life: int
    point: str
    thread: str
    reader: str
    seen: str
    fate: Fate
    hold: str = ""
    read_at: str = field(default="", metadata=NOT_WRITTEN)

    @property
    def is_follower(self) -> bool:
        """Whether a follower reads."""
        return _FOLLOWER.fullmatch(self.reader) is not None

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions that what was seen names."""
        return tuple(TopicPartition(t, int(p)) for t, p in _PARTITION.findall(self.seen))

    def describe(self) -> str:
        """Return the hit in a few words, for messages."""
        who = f" by {self.reader}" if self.reader else ""
        return f"{self.point} of broker {self.broker}{who} ({self.thread}) {self.fate}: {self.seen}"
