"""Truncation to the high watermark: what every release up to 0.10.2 does.

A replica that becomes a follower of another leader cuts its log at its own high watermark, which it
learns one fetch late (KAFKA-1211, KAFKA-3919). Read from kafka.server.ReplicaManager.makeFollowers,
kafka.cluster.Partition.makeFollower and kafka.server.ReplicaFetcherThread, 0.10.2.2.
"""

from checkers.model.epoch_cache import UNDEFINED, Entries, EpochEnd
from checkers.model.generation import FollowerLog, Rule, TruncationState
from checkers.model.log import Log


def keep_no_epoch(entries: Entries, epoch: int, offset: int) -> Entries:
    """Return the entries as they are: there is no epoch cache."""
    return entries


def know_no_epoch(entries: Entries, requested_epoch: int, log_end_offset: int) -> EpochEnd:
    """Return an undefined end."""
    return UNDEFINED


def truncate(answer: EpochEnd, follower: FollowerLog) -> TruncationState:
    """Truncate to the high watermark, whatever was answered."""
    return TruncationState(offset=follower.high_watermark, completed=True)


def skip_known_leader(is_same_leader: bool, known_epoch: int, new_epoch: int) -> bool:
    """Skip a LeaderAndIsr that names the same leader, although epochs may have been missed."""
    return is_same_leader


def forget_beyond_log(log: Log) -> int:
    """Return -1: a new leader does not know a high watermark that lay beyond its log.

    kafka.cluster.Replica.convertHWToLocalOffsetMetadata, 0.10.2.2 and 1.0.1.
    """
    return -1


def restart_at_log_start(log: Log) -> int:
    """Return where a new leader's high watermark restarts that lay beyond its log: at its start.

    kafka.cluster.Replica.convertHWToLocalOffsetMetadata, 1.0.2 and 2.3.1.
    """
    return log.log_start_offset


HIGH_WATERMARK = Rule(
    name="truncation to the high watermark",
    changes={
        "assign_epoch": keep_no_epoch,
        "answer_epoch": know_no_epoch,
        "truncate": truncate,
        "skips_known_leader": skip_known_leader,
    },
)

KAFKA_3978 = Rule(name="KAFKA-3978", changes={"high_watermark_beyond_log": restart_at_log_start})
