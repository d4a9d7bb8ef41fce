"""Findings, and the names that they may carry."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Question(Enum):
    """Which of the two questions a finding answers."""

    SAFETY = "safety"
    CONFORMANCE = "conformance"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One entry of the taxonomy: a stable name, the question it answers, and what it means."""

    name: str
    question: Question
    meaning: str
    implies: tuple[str, ...] = ()


_SAFETY = (
    ("divergence", "two replicas hold different records at the same offset", ()),
    ("hole", "offsets inside a replica's log that another in-sync replica holds are missing", ()),
    ("missing-tail", "an in-sync replica ends before the leader's high watermark", ()),
    ("committed-loss", "a promised record is in no in-sync replica at its offset", ()),
    ("epoch-cache-mismatch", "leader-epoch-checkpoint disagrees with the batches beside it", ()),
    ("high-watermark-regression", "a high watermark moved backwards within one leader epoch", ()),
    ("truncated-below-high-watermark", "a follower cut its log below its own high watermark", ()),
    ("corrupt-batch", "bytes of a segment are not a well-formed batch", ()),
    ("replication-stopped", "everything is healed, and a replica still does not replicate", ()),
    ("fetch-loop", "a follower asks for the same offset for ever and gets nothing it can use", ()),
    ("offline-partition", "a partition has no leader after everything is healed", ()),
    ("under-min-isr", "fewer in-sync replicas than min.insync.replicas after healing", ()),
    ("generation-not-initialised", "a registered broker never got its first LeaderAndIsr", ()),
)


KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        *(
            Kind(name=name, question=Question.SAFETY, meaning=meaning, implies=implies)
            for name, meaning, implies in _SAFETY
        ),
        Kind(
            name="permitted-loss",
            question=Question.NEITHER,
            meaning="a record that Kafka does not promise to keep is gone; the reason is given",
        ),
        Kind(
            name="torn-tail",
            question=Question.NEITHER,
            meaning="the last bytes of the active segment are an unfinished batch",
        ),
        Kind(
            name="zero-tail",
            question=Question.NEITHER,
            meaning="the active segment is preallocated and ends in zeros",
        ),
        Kind(
            name="not-as-predicted",
            question=Question.CONFORMANCE,
            meaning="a replica, an acknowledgement or a request is not as the model says",
        ),
        Kind(
            name="decision-not-allowed",
            question=Question.CONFORMANCE,
            meaning="the controller or a leader wrote a state that its rules forbid",
        ),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing, with its evidence.

    Attributes:
        kind: A name in `KINDS`.
        topic: The topic, or "" for a finding about no partition.
        partition: The partition, or -1.
        brokers: Ids of the brokers concerned, ascending.
        first_offset: First offset concerned, inclusive; -1 if none.
        last_offset: Last offset concerned, inclusive; -1 if none.
        snapshot: Label of the snapshot in which it was seen, or "".
        message: One sentence for people.
        evidence: Plain JSON values: leader epochs, file positions, batch headers on both sides.
    """

    kind: str
    topic: str = ""
    partition: int = -1
    brokers: tuple[int, ...] = ()
    first_offset: int = -1
    last_offset: int = -1
    snapshot: str = ""
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"finding kind {self.kind!r} is not in checkers.findings.KINDS")

    @property
    def question(self) -> Question:
        """The question that this finding answers."""
        return KINDS[self.kind].question
