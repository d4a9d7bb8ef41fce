"""KIP-320: requests carry the follower's leader epoch, and a leader in another epoch refuses them.

Jira KAFKA-7395 and KAFKA-6880. Read from kafka.cluster.Partition.checkCurrentLeaderEpoch,
`makeFollower`, kafka.server.AbstractFetcherThread.onPartitionFenced and
kafka.server.ReplicaFetcherThread (request versions), 2.1.0 and 2.1.1. OffsetForLeaderEpoch carries
the epoch from inter-broker protocol 2.1-IV1 (version 2) and Fetch from 2.1-IV2 (version 10).
"""

from checkers.model.generation import Rule, Versions


def never_skip(is_same_leader: bool, known_epoch: int, new_epoch: int) -> bool:
    """Restart truncation and fetching in every new epoch."""
    return False


def _has_kip_320(versions: Versions) -> bool:
    return versions.release >= (2, 1, 0, 0)


KIP_320 = Rule(
    name="KIP-320",
    applies=_has_kip_320,
    changes={
        "checks_leader_epoch": True,
        "skips_known_leader": never_skip,
        "asks_without_epoch": False,
    },
)

EPOCH_REQUEST_2 = Rule(
    name="OffsetForLeaderEpoch v2",
    applies=lambda versions: (
        _has_kip_320(versions) and versions.inter_broker_protocol >= (2, 1, 0, 1)
    ),
    changes={"epoch_request_version": 2},
)

FETCH_10 = Rule(
    name="Fetch v10",
    applies=lambda versions: (
        _has_kip_320(versions) and versions.inter_broker_protocol >= (2, 1, 0, 2)
    ),
    changes={"sends_leader_epoch": True},
)
