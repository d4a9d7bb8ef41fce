"""Layouts of requests and responses between brokers, and to controllers, by version.

Names are Kafka's in snake case, with two liberties: what a message calls ``Name``, ``TopicName``
or ``Topic`` is ``topic`` here, and ``PartitionIndex`` is ``partition``, so that one piece of code
can find the partitions of any message.

Source: the message definitions of Kafka 3.9 (they still describe every version), compared with
``Protocol.java`` of 0.10.2 and the request classes of 1.1 for the versions of that time, and with
the message definitions of 4.4.0 for newer ones.
"""

from dataclasses import dataclass

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links import control_layouts as control
from kchaos.clusters.links import quorum_layouts as quorum
from kchaos.clusters.links.wire import Field, array, per_partition, plain, tagged


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Layouts of one API's messages: the newest version known, and the first flexible one."""

    newest: int
    flexible_since: int
    request: tuple[Field, ...]
    response: tuple[Field, ...]


_FETCH_REQUEST = (
    plain("replica_id", "int32", 0, 14),
    plain("max_wait_ms", "int32"),
    plain("min_bytes", "int32"),
    plain("max_bytes", "int32", 3),
    plain("isolation_level", "int8", 4),
    plain("session_id", "int32", 7),
    plain("session_epoch", "int32", 7),
    per_partition(
        plain("partition", "int32"),
        plain("current_leader_epoch", "int32", 9),
        plain("fetch_offset", "int64"),
        plain("last_fetched_epoch", "int32", 12),
        plain("log_start_offset", "int64", 5),
        plain("partition_max_bytes", "int32"),
        tagged(1, "high_watermark", "int64", 18),
        topic_ids_since=13,
    ),
    array(
        "forgotten_topics",
        (
            plain("topic", "string", 7, 12),
            plain("topic_id", "uuid", 13),
            array("partitions", "int32", 7),
        ),
        7,
    ),
    plain("rack_id", "string", 11),
    tagged(1, "replica_state", (plain("replica_id", "int32"), plain("replica_epoch", "int64")), 15),
)

_FETCH_RESPONSE = (
    plain("throttle_time_ms", "int32", 1),
    plain("error_code", "int16", 7),
    plain("session_id", "int32", 7),
    per_partition(
        plain("partition", "int32"),
        plain("error_code", "int16"),
        plain("high_watermark", "int64"),
        plain("last_stable_offset", "int64", 4),
        plain("log_start_offset", "int64", 5),
        array(
            "aborted_transactions",
            (plain("producer_id", "int64"), plain("first_offset", "int64")),
            4,
        ),
        plain("preferred_read_replica", "int32", 11),
        plain("records", "records"),
        tagged(0, "diverging_epoch", (plain("epoch", "int32"), plain("end_offset", "int64")), 12),
        tagged(
            1, "current_leader", (plain("leader_id", "int32"), plain("leader_epoch", "int32")), 12
        ),
        topic_ids_since=13,
    ),
)

_LIST_OFFSETS_REQUEST = (
    plain("replica_id", "int32"),
    plain("isolation_level", "int8", 2),
    per_partition(
        plain("partition", "int32"),
        plain("current_leader_epoch", "int32", 4),
        plain("timestamp", "int64"),
        plain("max_num_offsets", "int32", 0, 0),
    ),
    plain("timeout_ms", "int32", 10),
)

_LIST_OFFSETS_RESPONSE = (
    plain("throttle_time_ms", "int32", 2),
    per_partition(
        plain("partition", "int32"),
        plain("error_code", "int16"),
        array("offsets", "int64", 0, 0),
        plain("timestamp", "int64", 1),
        plain("offset", "int64", 1),
        plain("leader_epoch", "int32", 4),
    ),
)

_OFFSET_FOR_LEADER_EPOCH_REQUEST = (
    plain("replica_id", "int32", 3),
    per_partition(
        plain("partition", "int32"),
        plain("current_leader_epoch", "int32", 2),
        plain("leader_epoch", "int32"),
    ),
)

_OFFSET_FOR_LEADER_EPOCH_RESPONSE = (
    plain("throttle_time_ms", "int32", 2),
    per_partition(
        plain("error_code", "int16"),
        plain("partition", "int32"),
        plain("leader_epoch", "int32", 1),
        plain("end_offset", "int64"),
    ),
)

_WRITE_TXN_MARKERS_REQUEST = (
    array(
        "markers",
        (
            plain("producer_id", "int64"),
            plain("producer_epoch", "int16"),
            plain("transaction_result", "bool"),
            array("topics", (plain("topic", "string"), array("partitions", "int32"))),
            plain("coordinator_epoch", "int32"),
            plain("transaction_version", "int8", 2),
        ),
    ),
)

_WRITE_TXN_MARKERS_RESPONSE = (
    array(
        "markers",
        (
            plain("producer_id", "int64"),
            per_partition(plain("partition", "int32"), plain("error_code", "int16")),
        ),
    ),
)

LAYOUTS: dict[int, Layout] = {
    ApiKey.FETCH: Layout(
        newest=18, flexible_since=12, request=_FETCH_REQUEST, response=_FETCH_RESPONSE
    ),
    ApiKey.LIST_OFFSETS: Layout(
        newest=11, flexible_since=6, request=_LIST_OFFSETS_REQUEST, response=_LIST_OFFSETS_RESPONSE
    ),
    ApiKey.LEADER_AND_ISR: Layout(
        newest=7,
        flexible_since=4,
        request=control.LEADER_AND_ISR_REQUEST,
        response=control.LEADER_AND_ISR_RESPONSE,
    ),
    ApiKey.STOP_REPLICA: Layout(
        newest=4,
        flexible_since=2,
        request=control.STOP_REPLICA_REQUEST,
        response=control.STOP_REPLICA_RESPONSE,
    ),
    ApiKey.UPDATE_METADATA: Layout(
        newest=8,
        flexible_since=6,
        request=control.UPDATE_METADATA_REQUEST,
        response=control.UPDATE_METADATA_RESPONSE,
    ),
    ApiKey.CONTROLLED_SHUTDOWN: Layout(
        newest=3,
        flexible_since=3,
        request=control.CONTROLLED_SHUTDOWN_REQUEST,
        response=control.CONTROLLED_SHUTDOWN_RESPONSE,
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Layout(
        newest=4,
        flexible_since=4,
        request=_OFFSET_FOR_LEADER_EPOCH_REQUEST,
        response=_OFFSET_FOR_LEADER_EPOCH_RESPONSE,
    ),
    ApiKey.WRITE_TXN_MARKERS: Layout(
        newest=2,
        flexible_since=1,
        request=_WRITE_TXN_MARKERS_REQUEST,
        response=_WRITE_TXN_MARKERS_RESPONSE,
    ),
    ApiKey.ALTER_PARTITION: Layout(
        newest=3,
        flexible_since=0,
        request=control.ALTER_PARTITION_REQUEST,
        response=control.ALTER_PARTITION_RESPONSE,
    ),
    ApiKey.BROKER_REGISTRATION: Layout(
        newest=4,
        flexible_since=0,
        request=quorum.BROKER_REGISTRATION_REQUEST,
        response=quorum.BROKER_REGISTRATION_RESPONSE,
    ),
    ApiKey.BROKER_HEARTBEAT: Layout(
        newest=2,
        flexible_since=0,
        request=quorum.BROKER_HEARTBEAT_REQUEST,
        response=quorum.BROKER_HEARTBEAT_RESPONSE,
    ),
    ApiKey.UNREGISTER_BROKER: Layout(
        newest=0,
        flexible_since=0,
        request=quorum.UNREGISTER_BROKER_REQUEST,
        response=quorum.UNREGISTER_BROKER_RESPONSE,
    ),
    ApiKey.ELECT_LEADERS: Layout(
        newest=2,
        flexible_since=2,
        request=quorum.ELECT_LEADERS_REQUEST,
        response=quorum.ELECT_LEADERS_RESPONSE,
    ),
    ApiKey.VOTE: Layout(
        newest=2, flexible_since=0, request=quorum.VOTE_REQUEST, response=quorum.VOTE_RESPONSE
    ),
    ApiKey.BEGIN_QUORUM_EPOCH: Layout(
        newest=1,
        flexible_since=1,
        request=quorum.BEGIN_QUORUM_EPOCH_REQUEST,
        response=quorum.QUORUM_EPOCH_RESPONSE,
    ),
    ApiKey.END_QUORUM_EPOCH: Layout(
        newest=1,
        flexible_since=1,
        request=quorum.END_QUORUM_EPOCH_REQUEST,
        response=quorum.QUORUM_EPOCH_RESPONSE,
    ),
}

PARTITION_API_KEYS: frozenset[ApiKey] = frozenset(
    ApiKey(key)
    for key, layout in LAYOUTS.items()
    if any(field.name in ("topics", "markers") for field in layout.request)
)
"""The APIs whose requests name partitions that the relay can read."""
