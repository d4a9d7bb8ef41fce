"""What one broker does, as a value: one field for each thing that differs between releases."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from checkers.model.epoch_cache import Entries, EpochEnd
from checkers.model.log import Log
from checkers.model.ranges import RANGES
from checkers.model.releases import Version


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """What a broker's generation is composed from.

    Attributes:
        release: The binary, as four numbers: 1.1.1 is (1, 1, 1, 0), 0.10.2.2 is (0, 10, 2, 2).
        inter_broker_protocol: Four numbers, the last one the IV: "2.7-IV1" is (2, 7, 0, 1).
        magic: 0, 1 or 2, from the message format.
    """

    release: Version
    inter_broker_protocol: Version
    magic: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationState:
    """What a follower does with an epoch's end: truncate to the offset, and whether that is all."""

    offset: int
    completed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerLog:
    """What a follower's truncation rule looks at.

    Attributes:
        end_of_epoch: The follower's own answer to an epoch, from its own cache.
        log_end_offset: Exclusive.
        fetch_offset: The fetcher's offset for the partition; at first the high watermark that the
            replica had when it became a follower, later where a round of truncation left it.
        high_watermark: The replica's present high watermark.
    """

    end_of_epoch: Callable[[int], EpochEnd]
    log_end_offset: int
    fetch_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Generation:
    """What one broker does, one field a rule; the defaults are what 0.10.2 does.

    Attributes:
        name: Release, then what differs from that release's own protocol and format.
        versions: What it was composed from.
        rules: Names of the rules that changed it, in the order in which they did.
        keeps_epochs: Whether the replicas have a leader epoch cache at all.
        assign_epoch: (entries, epoch, offset) to the entries with that epoch's start.
        assigns_epoch_on_election: Whether a new leader notes its epoch before any append.
        ends_at_batch_edge: Whether a truncation inside a batch takes the log end offset to the
            batch's start; no release does that, but KIP-279 believes it.
        clears_cache_on_old_format: Whether appending magic 0 or 1 empties the cache.
        recovers_epoch_zero: Whether epoch 0 comes back from the batches after an unclean stop.
        truncates_cache_at_log_end: Whether a truncation to the log end offset or beyond still
            drops cached epochs from there on.
        answer_epoch: (entries, requested epoch, log end offset) to the leader's answer.
        answers_with_epoch: Whether the leader can tell the epoch in its answer (version 1).
        checks_leader_epoch: Whether the leader compares a request's current leader epoch.
        isr_needs_epoch_start: Whether a follower must have reached the start of the leader's epoch
            to join the ISR.
        truncates_on_become_follower: Whether the log is cut at the high watermark at once.
        epoch_request_version: Version of OffsetForLeaderEpoch that the follower sends, None if it
            sends none.
        asks_without_epoch: Whether a follower with an empty cache asks for epoch -1.
        sends_leader_epoch: Whether Fetch carries the current leader epoch (version 9 and later).
        truncates_on_fetch: Whether truncation follows from the Fetch response.
        truncate: (answer, follower) to what the follower does with the leader's answer.
        skips_known_leader: (same leader, known epoch, new epoch) to whether a LeaderAndIsr leaves
            the follower as it is.
        retries_when_fenced: Whether a follower that was fenced under an older epoch than its own
            tries again, in place of stopping the partition.
        trusts_diverging_high_watermark: Whether a diverging Fetch response moves the follower's
            high watermark before the truncation.
        checks_epoch_of_answer: Whether an answer that was asked under another leader epoch is
            ignored.
        fails_partition_only: Whether a failing append stops one partition, not the thread.
        exits_on_shorter_leader: Whether a broker ends itself when a leader's log is shorter and
            unclean elections are off.
        lowers_high_watermark: Whether a truncation takes the high watermark down with the log.
        sees_bounces: Whether a controller tells a restarted broker from one that never left.
        checks_broker_epoch: Whether a control request to an earlier generation is refused.
        high_watermark_beyond_log: (log) to where a new leader's high watermark begins that lay
            beyond its log.
        sessions_carry_epoch: Whether a leader knows the follower's leader epoch inside a fetch
            session.
        waits_for_min_isr: Whether the high watermark stands still while the ISR is smaller than
            `min.insync.replicas`.
        asks_controller_for_isr: Whether a leader lets the controller write its ISR.
        moves_high_watermark_with_isr: Whether the high watermark moves when a leader learns of
            its ISR.
        counts_diverging_fetch: Whether a fetch that is answered with a diverging epoch still
            counts as the follower's log end offset.
        counts_only_live: Whether the high watermark waits outside the ISR only for followers in
            the leader's metadata cache.
        joins_only_live: Whether only followers in the leader's metadata cache may join the ISR.
        keeps_level_followers: Whether a follower that is at the leader's end stays in the ISR
            whatever the time.
        checks_epoch_of_fetch: Whether a Fetch response that was asked for under another leader
            epoch is ignored.
        flushes_epochs_later: Whether leader-epoch-checkpoint may lag behind a truncation.
    """

    name: str
    versions: Versions
    assign_epoch: Callable[[Entries, int, int], Entries]
    answer_epoch: Callable[[Entries, int, int], EpochEnd]
    truncate: Callable[[EpochEnd, FollowerLog], TruncationState]
    skips_known_leader: Callable[[bool, int, int], bool]
    high_watermark_beyond_log: Callable[[Log], int]
    rules: tuple[str, ...] = ()
    sessions_carry_epoch: bool = True
    waits_for_min_isr: bool = False
    asks_controller_for_isr: bool = False
    moves_high_watermark_with_isr: bool = True
    flushes_epochs_later: bool = False
    counts_diverging_fetch: bool = False
    counts_only_live: bool = False
    joins_only_live: bool = False
    keeps_level_followers: bool = False
    checks_epoch_of_fetch: bool = False
    keeps_epochs: bool = False
    assigns_epoch_on_election: bool = False
    ends_at_batch_edge: bool = False
    clears_cache_on_old_format: bool = False
    recovers_epoch_zero: bool = True
    truncates_cache_at_log_end: bool = False
    answers_with_epoch: bool = False
    checks_leader_epoch: bool = False
    isr_needs_epoch_start: bool = False
    truncates_on_become_follower: bool = True
    epoch_request_version: int | None = None
    asks_without_epoch: bool = False
    sends_leader_epoch: bool = False
    truncates_on_fetch: bool = False
    retries_when_fenced: bool = False
    trusts_diverging_high_watermark: bool = False
    checks_epoch_of_answer: bool = False
    fails_partition_only: bool = False
    exits_on_shorter_leader: bool = True
    lowers_high_watermark: bool = False
    sees_bounces: bool = False
    checks_broker_epoch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One change of the protocol.

    Which releases have it stands in `checkers.model.ranges`, under its name; a rule that is not
    there is followed by none, only where it is asked for.

    Attributes:
        name: The KIP or Jira that made it.
        changes: The fields of `Generation` that it sets.
        protocol: The inter-broker protocol from which on it is followed; None for any.
        is_for_old_formats: Whether only message formats below 0.11 follow it.
    """

    name: str
    changes: Mapping[str, object] = field(default_factory=dict)
    protocol: Version | None = None
    is_for_old_formats: bool = False

    def applies(self, versions: Versions) -> bool:
        """Tell whether a broker of these versions follows it."""
        releases = RANGES.get(self.name)
        if releases is None or not releases.includes(versions.release):
            return False
        if self.is_for_old_formats and versions.magic >= 2:
            return False
        return self.protocol is None or versions.inter_broker_protocol >= self.protocol
