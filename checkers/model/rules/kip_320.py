"""KIP-320: requests carry the follower's leader epoch, and a leader in another epoch refuses them.

Jira KAFKA-7395 and KAFKA-6880. Read from kafka.cluster.Partition.checkCurrentLeaderEpoch,
`makeFollower`, kafka.server.AbstractFetcherThread.onPartitionFenced and
kafka.server.ReplicaFetcherThread (request versions), 2.1.0 and 2.1.1. OffsetForLeaderEpoch carries
the epoch from inter-broker protocol 2.1-IV1 (version 2) and Fetch from 2.1-IV2 (version 10).

KAFKA-9338 (2.5.0): a fetch session remembers the epoch too. Before, the leader saw none inside a
session and refused full fetches only (kafka.server.CachedPartition, 2.4.1 and 2.5.0).
"""

from checkers.model.generation import Rule


def never_skip(is_same_leader: bool, known_epoch: int, new_epoch: int) -> bool:
    """Restart truncation and fetching in every new epoch."""
    return False


KIP_320 = Rule(
    name="KIP-320",
    changes={
        "checks_leader_epoch": True,
        "sessions_carry_epoch": False,
        "skips_known_leader": never_skip,
        "asks_without_epoch": False,
    },
)

EPOCH_REQUEST_2 = Rule(
    name="OffsetForLeaderEpoch v2",
    protocol=(2, 1, 0, 1),
    changes={"epoch_request_version": 2},
)

FETCH_10 = Rule(
    name="Fetch v10",
    protocol=(2, 1, 0, 2),
    changes={"sends_leader_epoch": True},
)

KAFKA_9338 = Rule(name="KAFKA-9338", changes={"sessions_carry_epoch": True})
