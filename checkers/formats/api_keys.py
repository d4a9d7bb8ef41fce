"""The requests that brokers, controllers and clients send, by key and by name."""

from __future__ import annotations

from enum import IntEnum


class ApiKey(IntEnum):
    """A Kafka API key, as in the first two bytes of every request.

    Source: ``ApiKeys`` in Kafka 3.9, and the message definitions of 4.4.0 for what clusters with
    KRaft controllers send. Key 56 was called AlterIsr in 2.7 to 3.1. A key that is not
    listed here stays a plain integer in link records; nothing depends on the list being complete.
    ``ApiKey("OffsetForLeaderEpoch")`` finds a key by Kafka's own spelling of its name.
    """

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    CREATE_PARTITIONS = 37
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    ALLOCATE_PRODUCER_IDS = 67
    CONTROLLER_REGISTRATION = 70
    ASSIGN_REPLICAS_TO_DIRS = 73
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81

    @property
    def spelled(self) -> str:
        """Kafka's own spelling, such as "OffsetForLeaderEpoch"."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def _missing_(cls, value: object) -> ApiKey | None:
        return next((key for key in cls if key.spelled == value), None)


APIS = tuple(key.spelled for key in ApiKey)
"""The APIs that a `Hold` may name, in Kafka's own spelling: those that the links tell apart."""

FOLLOWED = frozenset(
    key.spelled
    for key in (
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.LEADER_AND_ISR,
        ApiKey.STOP_REPLICA,
        ApiKey.UPDATE_METADATA,
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.ALTER_PARTITION,
        ApiKey.BROKER_HEARTBEAT,
    )
)
"""APIs that the model follows. Holding any other leaves conformance unknown."""


def unknown_api(api: str) -> str:
    """Return why nobody can name this API, or ""; its exact spelling matters to the model."""
    if api in APIS:
        return ""
    return f"no API is named {api!r}; known: {', '.join(APIS)}"


def api_key_of(number: int) -> ApiKey | int:
    """Return the name of an API key, or the number itself if this module has no name for it."""
    try:
        return ApiKey(number)
    except ValueError:
        return number
