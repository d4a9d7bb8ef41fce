"""Predictions: values only, each with a JSON form through `dataclasses.asdict`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.json_form import SOMETIMES
from kchaos.checkers.model.values.producers import ProducerMark


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedBatch:
    """One batch as it must be on disk.

    Attributes:
        base_offset: First offset, inclusive.
        last_offset: Last offset, inclusive.
        leader_epoch: -1 for magic below 2.
        magic: 0, 1 or 2.
        payload: `checkers.segments.batch.payload_digest` of its records.
        producer: What it says of its producer, where that has an id that the model was told.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    payload: str
    producer: ProducerMark | None = field(default=None, metadata=SOMETIMES)


OTHER_TOPIC = "other-topic"
"""Stands for a replica whose broker refuses each LeaderAndIsr: its folder has another topic id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedReplica:
    """One replica at one snapshot.

    Attributes:
        batches: In offset order.
        epoch_entries: (leader epoch, start offset), ascending; the leader-epoch-checkpoint.
        log_end_offset: Exclusive; may lie beyond the last batch after a truncation inside a batch.
        high_watermarks: Every value that its high watermark may have.
            The first is what memory holds once everything has settled, or what the checkpoint of
            a stopped broker holds; the others, ascending, are older values since the checkpoint
            was last known, which the checkpoint file of a live broker may still hold.
        fetcher: "none", "truncating", "fetching", "failed" (KIP-461), "dead-thread",
            "cannot-rebuild": it asks for what its leader has no more, and the remote tier has not,
            "exited": its broker has ended itself, or `OTHER_TOPIC`.
        is_running: Whether the process ran.
        is_hosted: Whether the process had got a LeaderAndIsr that names it.
        is_high_watermark_pinned: Whether the checkpoint file of the running broker was seen to hold
            the value that memory holds, so that it holds no other.
        may_keep_dropped_epochs: Whether leader-epoch-checkpoint may have further entries, which a
            truncation dropped and which are still to be taken out of the file.
    """

    broker: int
    topic: str
    partition: int
    batches: tuple[PredictedBatch, ...]
    epoch_entries: tuple[tuple[int, int], ...]
    log_end_offset: int
    high_watermarks: tuple[int, ...]
    log_start_offset: int = 0
    leader_epoch: int = -1
    fetcher: str = "none"
    is_running: bool = True
    is_hosted: bool = True
    is_high_watermark_pinned: bool = False
    may_keep_dropped_epochs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRead:
    """Records that a reader of a tiered log gets from one broker.

    Attributes:
        operation: Of the read.
        lineage: What the broker's log is: what it should get.
        got: What it gets, in offset order; offsets that are in none were answered with an error or
            with nothing.
    """

    operation: str
    broker: int
    topic: str
    partition: int
    lineage: tuple[PredictedBatch, ...]
    got: tuple[PredictedBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedRemoteSegment:
    """One segment in the remote tier at a snapshot.

    Attributes:
        end_offset: Inclusive.
        leader_epochs: (leader epoch, its first offset in the segment), as the metadata topic says.
        epochs: (leader epoch, start offset) of its leader epoch checkpoint.
    """

    topic: str
    partition: int
    segment_id: str
    start_offset: int
    end_offset: int
    is_finished: bool
    leader_epochs: tuple[tuple[int, int], ...]
    epochs: tuple[tuple[int, int], ...]
    batches: tuple[PredictedBatch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictedProduce:
    """The outcome of one produce.

    Attributes:
        acknowledged: True, False, or None while it still waits at the end of the timeline.
        base_offset: Where its first record was appended, or -1.
        error: Kafka's error name such as "NOT_ENOUGH_REPLICAS_AFTER_APPEND", or "".
    """

    operation: str
    acknowledged: bool | None
    base_offset: int
    error: str = ""


class Promise(NamedTuple):
    """One batch that was acknowledged with acks=all."""

    partition: TopicPartition
    base_offset: int
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRound:
    """One answered OffsetForLeaderEpoch, or, from 2.8 on, one diverging epoch in a Fetch response.

    Attributes:
        answered_epoch: None where the answer's version has no epoch (v0).
        end_offset: -1 for an undefined answer.
        by_fetch: True for a diverging epoch in a Fetch response.
    """

    follower: int
    leader: int
    topic: str
    partition: int
    requested_epoch: int
    answered_epoch: int | None
    end_offset: int
    by_fetch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """One truncation that changed a follower's log or log end offset.

    Attributes:
        is_inside_batch: Whether a batch that went begins before the target.
    """

    broker: int
    topic: str
    partition: int
    target_offset: int
    log_end_offset_before: int
    high_watermark: int
    is_inside_batch: bool = field(default=False, metadata=SOMETIMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisallowedDecision:
    """A decision that the rules of its writer's release do not allow."""

    index: int
    decision: Mapping[str, object]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexplainedDecision:
    """A partition state that neither a controller nor a leader could have written then.

    Attributes:
        zxid: Of its write.
        written_by: The broker whose session wrote it; None where that is not known.
        isr: As it was written.
        reason: Says why.
    """

    topic: str
    partition: int
    zxid: int
    written_by: int | None
    isr: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImpossibleHighWatermark:
    """A high watermark that was observed in a checkpoint file, and that the model does not allow.

    Attributes:
        index: Of the observation in the timeline.
        high_watermark: What was observed.
        allowed: What the file could hold at that time; empty without such a replica.
    """

    index: int
    broker: int
    topic: str
    partition: int
    high_watermark: int
    allowed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Copied:
    """State of one broker's replicas when a snapshot copied its files."""

    label: str
    broker: int
    replicas: tuple[PredictedReplica, ...]


@dataclass(frozen=True, slots=True)
class RemoteCopied:
    """Content of the remote tier when a snapshot was taken."""

    label: str
    segments: tuple[PredictedRemoteSegment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptiedBy:
    """The observation after which no state was possible any more.

    Attributes:
        source: Where it stands, such as "links.jsonl:12".
        what: What kind of observation it is.
        why: What was seen, and what was possible in the states that explain the most.
        is_pending: Whether all that stood in the way was a step that had not happened yet.
        explained: Label and broker of each copy that was explained before, sorted.
        is_proved: Whether every way to explain it was looked at. Else it is the observation behind
            which no search came.
    """

    source: str
    what: str
    why: str
    is_pending: bool = False
    explained: tuple[tuple[str, int], ...] = ()
    is_proved: bool = field(default=True, metadata=SOMETIMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavoidable:
    """A harm at the end of a run that was followed, and the step that made it so for good.

    Attributes:
        brokers: A leader and its follower that differ; none for what no member of the ISR has.
        first_offset: With `last_offset`, base offsets of batches, both inclusive.
        step: What happened, in a few words.
        time: Of what was seen then, or last before it, in seconds since 1970.
        source: Where that was read; "" of a decision.
        spared_in: The first later release by whose rules the rest of the schedule does no such
            harm; "" if that cannot be told (`checkers.model.follow.other_rules`).
        spared_by: Names of its rules without which it does.
    """

    topic: str
    partition: int
    brokers: tuple[int, ...]
    first_offset: int
    last_offset: int
    step: str
    time: float | None
    source: str = ""
    spared_in: str = field(default="", metadata=SOMETIMES)
    spared_by: tuple[str, ...] = field(default=(), metadata=SOMETIMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaMoment:
    """One replica from a moment on, until its next one (`checkers.model.follow.replica_moments`).

    Attributes:
        time: In seconds since 1970, of what was seen then, or last before it.
        spans: (first offset, last offset, leader epoch) of what is on the disk, both inclusive.
        epoch_entries: (leader epoch, start offset), ascending.
        log_end_offset: Exclusive.
        high_watermark: In memory; -1 where the release does not know it.
        role: "leader", "follower", "offline", "none", or "down" where the process does not run.
        leader_epoch: Of the last state that it took up; -1 before the first.
    """

    time: float
    broker: int
    topic: str
    partition: int
    spans: tuple[tuple[int, int, int], ...]
    epoch_entries: tuple[tuple[int, int], ...]
    log_end_offset: int
    high_watermark: int
    role: str
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Everything that one timeline predicts; snapshots keep the order of the timeline.

    Attributes:
        disallowed: Decisions that contradict what replicas held, or the decisions before.
        unexplained: Decisions that their writer could not take, whatever replicas held.
        emptied_by: Of a run that was followed, the observation that no state explains; with
            `limit` a suspect.
        limit: Why a run was not followed to its end, or "".
        states: How many states were looked at.
        reads: What each reader of a tiered log gets.
        remote: What is in the remote tier, by snapshot.
        unavoidable: Of a run that was followed to its end, what no healing could have mended, and
            since when (`checkers.model.follow.unavoidable`).
        never_rests: Whether a healed state of that run never came to rest, so that `unavoidable`
            has nothing of what came before it.
        moments: Of a run that was followed, its replicas over time, as far as it was explained.
    """

    snapshots: Mapping[str, tuple[PredictedReplica, ...]]
    produces: tuple[PredictedProduce, ...]
    rounds: tuple[EpochRound, ...]
    truncations: tuple[Truncation, ...]
    disallowed: tuple[DisallowedDecision, ...] = ()
    impossible: tuple[ImpossibleHighWatermark, ...] = ()
    generations: Mapping[int, str] = field(default_factory=dict)
    emptied_by: EmptiedBy | None = None
    limit: str = ""
    states: int = 0
    reads: tuple[PredictedRead, ...] = ()
    remote: Mapping[str, tuple[PredictedRemoteSegment, ...]] = field(default_factory=dict)
    unexplained: tuple[UnexplainedDecision, ...] = field(default=(), metadata=SOMETIMES)
    unavoidable: tuple[Unavoidable, ...] = field(default=(), metadata=SOMETIMES)
    never_rests: bool = field(default=False, metadata=SOMETIMES)
    moments: tuple[ReplicaMoment, ...] = field(default=(), metadata=SOMETIMES)
