"""Input of a rule: everything about one partition at one snapshot, as plain values."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kchaos.checkers.evidence.broker_epochs import ControlRequest
from kchaos.checkers.evidence.clients import CommittedRead
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.markers import Marker
from kchaos.checkers.evidence.tier import TierReading
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.values import prediction

Side = Literal["observed", "predicted"]
OBSERVED: Side = "observed"
PREDICTED: Side = "predicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEvidence:
    """One batch, as it is on disk or as it is predicted.

    Attributes:
        base_offset: Offset of the first record, inclusive.
        last_offset: Offset of the last record, inclusive.
        leader_epoch: -1 for magic 0 and 1.
        payload: `checkers.segments.batch.payload_digest` of its records, None if undecoded.
        codec: None where it is predicted, like crc, file, position and size.
        position: Byte position in `file`.
        first_timestamp: Milliseconds since the epoch, -1 for magic 0; None where it is predicted,
            like all that follow.
        marks: See `checkers.segments.batch.Batch`.
        producer_id: Likewise, -1 for none.
    """

    base_offset: int
    last_offset: int
    leader_epoch: int
    magic: int
    codec: str | None = None
    crc: int | None = None
    payload: str | None
    file: str | None = None
    position: int | None = None
    size_bytes: int | None = None
    record_count: int = 0
    first_timestamp: int | None = None
    max_timestamp: int | None = None
    marks: str | None = None
    producer_id: int | None = None

    def header(self) -> dict[str, Any]:
        """Return the batch's fields that a finding shows."""
        shown = {column: getattr(self, column) for column in BATCH_COLUMNS}
        return {name: value for name, value in shown.items() if value is not None}


BATCH_COLUMNS = tuple(field.name for field in dataclasses.fields(BatchEvidence))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEvidence:
    """One replica of the partition, on one of the two sides.

    Attributes:
        batches: In the order in which they lie in the log.
        epoch_entries: (leader epoch, start offset) of the checkpoint; None without a readable one.
        log_start_offset: Nothing is expected below; observed, what its first segment's name or
            log-start-offset-checkpoint says, whichever is higher.
        first_offset: Observed, where its first segment begins; 0 where it is predicted.
        log_end_offset: Exclusive, predicted; None where it is observed, since no file tells it.
        high_watermarks: Observed, what the checkpoint says, or nothing; predicted, each that it
            may be.
        is_hosted: Predicted, whether the process has got a LeaderAndIsr about it; True where it is
            observed.
        is_running: Whether the broker's process ran when the snapshot was taken.
        is_registered: Observed, whether its process has ever registered; until it does, it may end
            by itself, for it waits only so long.
        fetcher: Predicted state of its fetcher, None where it is observed.
        is_high_watermark_pinned: Predicted, whether a gate saw the checkpoint hold what memory
            held, and it has not moved since; observed, whether settling saw the last one.
        may_keep_dropped_epochs: Predicted, whether its checkpoint may still have entries that a
            truncation has dropped.
        broken_checkpoints: What is wrong with the broker's checkpoint files, a sentence each.
        findings: What the segment reader found in its files.
    """

    broker: int
    batches: tuple[BatchEvidence, ...] = ()
    epoch_entries: tuple[tuple[int, int], ...] | None = None
    log_start_offset: int = 0
    first_offset: int = 0
    log_end_offset: int | None = None
    high_watermarks: tuple[int, ...] = ()
    is_hosted: bool = True
    is_running: bool = True
    is_registered: bool = True
    fetcher: str | None = None
    is_high_watermark_pinned: bool = False
    may_keep_dropped_epochs: bool = False
    broken_checkpoints: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteEvidence:
    """One segment in the remote tier, as it was found or as it is predicted.

    Attributes:
        end_offset: Inclusive, as the metadata topic says.
        leader_epochs: (leader epoch, its first offset in the segment), likewise.
        is_finished: Whether the metadata topic says that its copy has ended, and no more than that.
        is_stored: Whether the store has its files.
        epochs: (leader epoch, start offset) of its leader epoch checkpoint; None without one.
        batches: What its `.log` holds.
    """

    segment_id: str
    start_offset: int
    end_offset: int
    leader_epochs: tuple[tuple[int, int], ...]
    is_finished: bool
    is_stored: bool = True
    epochs: tuple[tuple[int, int], ...] | None = None
    batches: tuple[BatchEvidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierReplica:
    """Content of one replica in the snapshot before.

    Attributes:
        snapshot: Label of the snapshot before.
        time: When it was taken, in seconds since the epoch.
        leader_epoch: The partition's leader epoch then.
        high_watermarks: As in `ReplicaEvidence`, then.
        batches: Likewise.
    """

    side: Side
    broker: int
    snapshot: str
    time: float
    leader_epoch: int
    high_watermarks: tuple[int, ...]
    batches: tuple[BatchEvidence, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """Something after which Kafka does not promise to keep every record.

    Attributes:
        kind: "unclean-election", of `broker`, which was outside the ISR; "lost-tail", of
            `broker`'s disk; or "topic-deletion", of no broker.
        time: Seconds since the epoch.
        first_lost_offset: Of a lost tail.
        isr: When the tail was lost: only these replicas were still to keep every promise.
        leader_epoch: Of an unclean election.
        start_offset: Where that epoch starts, which is where its leader's log ended; or how far
            that went at least. None where nothing shows it.
        kept: (leader epoch, end offset) of earlier epochs of which that leader had all records
            below the end offset.
    """

    kind: Literal["unclean-election", "lost-tail", "topic-deletion"]
    broker: int
    time: float
    first_lost_offset: int = 0
    isr: tuple[int, ...] = ()
    leader_epoch: int = -1
    start_offset: int | None = None
    kept: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedFollower:
    """A follower that left the ISR while its leader kept a fetch of its unread.

    Attributes:
        kept_from: Since when the leader had that fetch unread, in seconds since the epoch.
        dropped_at: When the ISR without it was written.
        leaderless_at: When the partition lost its leader with the follower still outside the ISR;
            None if it did not.
        ended_at: When it was in the ISR again, the partition had another leader or leader epoch, or
            the follower itself failed; None if nothing of it came.
    """

    broker: int
    leader: int
    kept_from: float
    dropped_at: float
    leaderless_at: float | None = None
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEvidence:
    """Everything about one partition at one snapshot.

    Attributes:
        run: The run's name.
        snapshot: The snapshot's label.
        snapshot_time: Seconds since the epoch.
        is_final: Whether this is the snapshot after settling.
        leader: From the state znode, -1 for none; the ISR and the epoch likewise.
        replicas: As they are on disk: every assigned replica, and every other that has files.
        assigned: Brokers of its last assignment; empty where none was written.
        predicted: As the model says; None if there is no prediction.
        operations: All operations on the partition, at every snapshot the same.
        predicted_produces: What the model says of them; likewise predicted_rounds, disallowed.
        rounds: Questions for leader epochs that the links saw; None without links.
        disallowed: Decisions about the partition that the model's rules forbid.
        settle: What `outcome.json` says of the partition; None if the run never settled.
        impossible: Observed high watermarks of the partition that the model does not allow.
        unclean_stops: (broker, seconds since the epoch) of each end of a broker that was no clean
            one, in their order.
        moved_away: (broker, seconds since the epoch) of each replica that a reassignment took from
            a broker, in their order.
        dropped: Followers that left its ISR while their leader kept fetches of theirs unread.
        late_requests: Control requests about the partition that kchaos made, or that arrived when
            the generation of the broker for which they were meant was over (KIP-380).
        never_informed: Registered brokers of the assignment whose process got no LeaderAndIsr about
            the partition, as far as the links saw.
        cleaned_until: Below it (exclusive) log cleaners may have removed records until the
            snapshot; 0 where none went over the partition.
        delete_retention_s: For how long cleaners keep a record without a value, in seconds.
        is_compacted: Whether log cleaners may go over it at any time.
        may_delete: Whether a setting or a client lets brokers delete records of the topic during
            the run.
        deleted_until: Below it (exclusive) a client had records deleted (DeleteRecords), or 0.
        has_other_codec: Whether a setting makes brokers compress anew what producers send.
        has_other_times: Whether a setting makes brokers change the timestamps of what they get.
        copied_from: When copying files began; what others were told later may not be in them.
        undisturbed_since: When the cluster was last acted on, decided something, or stood still;
            infinite if nobody knows.
        transactional: Producer ids of transactions of which markers may lie in the partition.
        markers: Transaction markers that coordinators had written to it; None where nobody knows.
        unread_markers: Those on which the leader that they are for hangs up.
        committed_reads: What read_committed clients were told of it, at every snapshot the same.
        is_open_to_others: Whether somebody was given the cluster's addresses during the run.
        remote: Segments in the remote tier, as they were found; predicted_remote, as predicted.
        readings: What readers got of a tiered log, at every snapshot the same; predicted_reads,
            what the model says of them.
    """

    run: str
    topic: str
    partition: int
    snapshot: str
    snapshot_time: float
    is_final: bool
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    min_insync_replicas: int = 1
    replicas: tuple[ReplicaEvidence, ...]
    assigned: tuple[int, ...] = ()
    predicted: tuple[ReplicaEvidence, ...] | None = None
    earlier: tuple[EarlierReplica, ...] = ()
    excuses: tuple[Excuse, ...] = ()
    unclean_stops: tuple[tuple[int, float], ...] = ()
    moved_away: tuple[tuple[int, float], ...] = ()
    operations: tuple[Operation, ...] = ()
    predicted_produces: tuple[prediction.PredictedProduce, ...] = ()
    rounds: tuple[prediction.EpochRound, ...] | None = None
    predicted_rounds: tuple[prediction.EpochRound, ...] = ()
    disallowed: tuple[prediction.DisallowedDecision, ...] = ()
    settle: Mapping[str, Any] | None = None
    impossible: tuple[prediction.ImpossibleHighWatermark, ...] = ()
    dropped: tuple[DroppedFollower, ...] = ()
    late_requests: tuple[ControlRequest, ...] = ()
    never_informed: tuple[int, ...] = ()
    cleaned_until: int = 0
    delete_retention_s: float = 86_400.0
    is_compacted: bool = False
    may_delete: bool = False
    deleted_until: int = 0
    has_other_codec: bool = False
    has_other_times: bool = False
    is_open_to_others: bool = False
    copied_from: float | None = None
    undisturbed_since: float = math.inf
    transactional: tuple[int, ...] = ()
    markers: tuple[Marker, ...] | None = None
    unread_markers: tuple[Marker, ...] = ()
    committed_reads: tuple[CommittedRead, ...] = ()
    remote: tuple[RemoteEvidence, ...] = ()
    predicted_remote: tuple[RemoteEvidence, ...] | None = None
    readings: tuple[TierReading, ...] = ()
    predicted_reads: tuple[prediction.PredictedRead, ...] = ()

    def log_start(self, replica: ReplicaEvidence) -> int:
        """Return the offset below which this replica may lack records."""
        deleted = replica.log_start_offset if self.may_delete else self.deleted_until
        return min(replica.log_start_offset, deleted)

    def side(self, side: Side) -> tuple[ReplicaEvidence, ...]:
        """Return the replicas of one side, by broker."""
        replicas = self.replicas if side == OBSERVED else self.predicted or ()
        return tuple(sorted(replicas, key=lambda replica: replica.broker))

    def is_told_too_late(self, operation: Operation) -> bool:
        """Return whether a foreign operation ended after the copying began."""
        if not operation.client or self.copied_from is None:
            return False
        return operation.ended_at is None or operation.ended_at > self.copied_from

    @property
    def has_too_few_replicas(self) -> bool:
        """Whether it wants more replicas in sync for acks=all than it has at all."""
        return len(self.assigned or self.replicas) < self.min_insync_replicas

    def is_left_out(self, broker: int) -> bool:
        """Return whether the last assignment omits a broker, which may still have its files."""
        return bool(self.assigned) and broker not in self.assigned

    def in_sync(self, side: Side) -> tuple[ReplicaEvidence, ...]:
        """Return the replicas of one side that the ISR names, the leader first, then by broker."""
        replicas = [replica for replica in self.side(side) if replica.broker in self.isr]
        return tuple(sorted(replicas, key=lambda replica: replica.broker != self.leader))

    def finding(self, kind: str, **detail: Any) -> Finding:
        """Return a finding about this partition at this snapshot."""
        return Finding(
            kind=kind, topic=self.topic, partition=self.partition, snapshot=self.snapshot, **detail
        )


def finding_to_json(finding: Finding) -> dict[str, Any]:
    """Return the finding as plain JSON values; `from_json` undoes it."""
    return dataclasses.asdict(finding) | {"brokers": list(finding.brokers)}
