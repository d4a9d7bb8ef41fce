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
    """One entry of the taxonomy.

    Attributes:
        name: Stable; what findings carry.
        question: The question that it answers.
        meaning: One line for people.
        implies: Kinds that are true as well wherever this one is.
        needs_end: Whether it is known only of a cluster that was healed and came to rest.
    """

    name: str
    question: Question
    meaning: str
    implies: tuple[str, ...] = ()
    needs_end: bool = True


UNAVAILABLE = "unavailable"
"""A bound of availability was passed: the run is not as expected, and its replicas may be safe."""
_S, _C, _N = Question.SAFETY, Question.CONFORMANCE, Question.NEITHER
_TABLE: tuple[tuple[Question, str, str, tuple[str, ...]], ...] = (
    (_S, "divergence", "two replicas hold different records at the same offset", ()),
    (
        _S,
        "hole",
        "offsets inside a replica's log that another in-sync replica holds are missing",
        ("divergence",),
    ),
    (_S, "missing-tail", "an in-sync replica ends before the leader's high watermark", ()),
    (_S, "committed-loss", "a promised record is in no in-sync replica at its offset", ()),
    (
        _S,
        "last-replica-loss",
        "the last replica in sync lost a promised record with its disk, and others that had "
        "acknowledged it cut it to follow that one",
        (),
    ),
    (_S, "epoch-cache-mismatch", "leader-epoch-checkpoint disagrees with the batches", ()),
    (_S, "high-watermark-regression", "a high watermark went back within a leader epoch", ()),
    (
        _S,
        "truncated-below-high-watermark",
        "a follower cut its log below its own high watermark, or its leader's",
        (),
    ),
    (_S, "corrupt-batch", "bytes of a segment are not a well-formed batch", ()),
    (_S, "corrupt-checkpoint", "a broker's checkpoint file is not well-formed", ()),
    (_S, "not-as-sent", "a batch differs from what its producer sent", ()),
    (_S, "replication-stopped", "everything is healed, and replication does not recover", ()),
    (
        _S,
        "fetch-loop",
        "a follower asks for the same offset again and again and gets nothing it can use",
        (),
    ),
    (
        _S,
        "fetcher-ended",
        "an error ended a thread that replicates, or its fetches of a partition, by its own log",
        (),
    ),
    (
        _S,
        "out-of-sync",
        "a replica stayed out of the ISR for 14 s or longer, and no fault or time-out explains it",
        (),
    ),
    (
        _S,
        "offline-partition",
        "after healing a partition has no leader, or its leader does not lead; or it was offline "
        "although its followers did all they could",
        (),
    ),
    (_S, "fenced-leader", "a controller elected a broker that it takes for away (KRaft)", ()),
    (
        _S,
        "nobody-decides",
        "everything is healed, and no controller decides anything for the stated bound",
        (),
    ),
    (
        _S,
        "metadata-lost",
        "most controllers have lost the metadata of a topic with acknowledged records (KRaft)",
        (),
    ),
    (
        _S,
        "two-controllers",
        "a controller that another one replaced went on to take itself for the leader",
        (),
    ),
    (
        _S,
        "deletion-does-not-end",
        "everything is healed, and a topic that is to be deleted stays",
        (),
    ),
    (
        _S,
        "reassignment-does-not-end",
        "everything is healed, and a partition does not get the replicas that it is to have",
        (),
    ),
    (
        _S,
        "under-min-isr",
        "after healing fewer replicas are in sync than min.insync.replicas; or writes were refused "
        "although followers did all they could",
        (),
    ),
    (
        _S,
        "generation-not-initialised",
        "a registered broker never got its first LeaderAndIsr",
        ("replication-stopped",),
    ),
    (
        _S,
        "not-down-converted",
        "an old client is given a format that it cannot read, or nothing and no error",
        (),
    ),
    (
        _S,
        "stale-request-accepted",
        "a broker obeyed a control request that was made for an earlier registration",
        (),
    ),
    (
        _S,
        "tier-unreadable",
        "readers of a possible leader do not get records of its log, which are local or remote",
        (),
    ),
    (
        _S,
        "tier-other-lineage",
        "readers of a possible leader get records from the tier that differ from its log",
        (),
    ),
    (
        _S,
        "tier-orphan",
        "the remote tier has records of a possible leader's log that no client can reach",
        (),
    ),
    (_S, "lost-write", "a client's record was acknowledged, and polls passed it by", ()),
    (_S, "inconsistent-offsets", "clients saw different records at one offset", ()),
    (_S, "duplicate", "clients saw one record at several offsets", ()),
    (_S, "G1a", "a client read a record whose send had failed", ()),
    (_S, "precommitted-read", "a client read a record before its transaction was committed", ()),
    (_S, "poll-skip", "a consumer's next poll passed over records", ()),
    (_S, "nonmonotonic-poll", "a consumer's next poll went back", ()),
    (_S, "int-poll-skip", "polls of one operation passed over records", ()),
    (_S, "int-nonmonotonic-poll", "polls of one operation went back", ()),
    (_S, "nonmonotonic-send", "a client's later record is earlier in the log", ()),
    (_S, "int-nonmonotonic-send", "a later record of one operation is earlier in the log", ()),
    (_S, "G1c", "transactions each read from, or write after, the next, in a circle", ()),
    (_S, "unseen", "no client had read acknowledged records at the end of a history", ()),
    (_N, "G0", "transactions each write after the next, in a circle: Kafka permits it", ()),
    (
        _N,
        "int-send-skip",
        "others' records are between those of one operation: Kafka permits it",
        (),
    ),
    (
        _N,
        "permitted-anomaly",
        "an anomaly of a client that Kafka does not promise against; the reason is given",
        (),
    ),
    (
        _S,
        "aborted-read",
        "a read_committed client was given a record of an aborted transaction",
        (),
    ),
    (
        _S,
        "committed-as-aborted",
        "records of a transaction whose commit was answered are aborted, on disk or for a reader",
        (),
    ),
    (
        _S,
        "aborted-as-committed",
        "records of a transaction whose abort was answered are committed on disk",
        (),
    ),
    (
        _S,
        "lost-marker",
        "a leader said that it wrote the end of a transaction, and its partition does not hold it",
        (),
    ),
    (
        _S,
        "hanging-transaction",
        "a partition holds a transaction that its coordinator does not know and never ends",
        (),
    ),
    (
        _N,
        "permitted-loss",
        "a record that Kafka does not promise to keep is gone; the reason is given",
        (),
    ),
    (
        _N,
        "in-doubt",
        "a log cleaner may have removed a record, or it is lost: who wrote its key again is not "
        "known",
        (),
    ),
    (
        _N,
        "foreign-write",
        "another client than kchaos's wrote: its acknowledgements are not known",
        (),
    ),
    (_N, "broker-error", "a broker logged errors, or an uncaught exception", ()),
    (_N, "thread-ended", "an error ended a thread of a broker, by the broker's own log", ()),
    (
        _N,
        UNAVAILABLE,
        "a partition, a consumer or a fault's end was longer without service than the scenario "
        "allows",
        (),
    ),
    (_N, "torn-tail", "the last bytes of the active segment are an unfinished batch", ()),
    (_N, "zero-tail", "the active segment is preallocated and ends in zeros", ()),
    (
        _C,
        "not-as-predicted",
        "a replica, an acknowledgement or a request is not as the model says",
        (),
    ),
    (
        _C,
        "not-explained",
        "an observation behind which a search found no state, before it was given up: a suspect",
        (),
    ),
    (
        _C,
        "acknowledged-after-demotion",
        "a broker acknowledged a write after it had read that it leads no more (KRaft)",
        (),
    ),
    (
        _C,
        "decision-not-allowed",
        "the controller or a leader wrote a state that its rules forbid",
        (),
    ),
)
_NEEDS_NO_END = frozenset(
    (
        *("fetcher-ended", "out-of-sync", "two-controllers", "corrupt-batch", "not-as-sent"),
        "metadata-lost",
        *("stale-request-accepted", "high-watermark-regression", "truncated-below-high-watermark"),
    )
)
KINDS: Mapping[str, Kind] = {
    name: Kind(
        name=name,
        question=question,
        meaning=meaning,
        implies=implies,
        needs_end=name not in _NEEDS_NO_END,
    )
    for question, name, meaning, implies in _TABLE
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
        fingerprint: The same for the same bug in another run (`checkers.fingerprint`); "" until
            the run as a whole is judged.
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
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"finding kind {self.kind!r} is not in checkers.findings.KINDS")

    @property
    def question(self) -> Question:
        """The question that this finding answers."""
        return KINDS[self.kind].question
