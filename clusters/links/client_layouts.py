"""Layouts of the messages that decide what a client was promised.

Everything else that clients send passes unread. Names are as in `clusters.links.layouts`.

Source: the message definitions of Kafka 3.9 and 4.4.0, and ``Protocol.java`` of 0.10.2.
"""

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links.layouts import LAYOUTS, Layout
from kchaos.clusters.links.wire import array, per_partition, plain, tagged

_PRODUCE_REQUEST = (
    plain("transactional_id", "string", 3),
    plain("acks", "int16"),
    plain("timeout_ms", "int32"),
    per_partition(plain("partition", "int32"), plain("records", "records"), topic_ids_since=13),
)

_PRODUCE_RESPONSE = (
    per_partition(
        plain("partition", "int32"),
        plain("error_code", "int16"),
        plain("base_offset", "int64"),
        plain("log_append_time_ms", "int64", 2),
        plain("log_start_offset", "int64", 5),
        array(
            "record_errors",
            (plain("batch_index", "int32"), plain("batch_index_error_message", "string")),
            8,
        ),
        plain("error_message", "string", 8),
        tagged(
            0, "current_leader", (plain("leader_id", "int32"), plain("leader_epoch", "int32")), 10
        ),
        topic_ids_since=13,
    ),
    plain("throttle_time_ms", "int32", 1),
)

_INIT_PRODUCER_ID_REQUEST = (
    plain("transactional_id", "string"),
    plain("transaction_timeout_ms", "int32"),
    plain("producer_id", "int64", 3),
    plain("producer_epoch", "int16", 3),
    plain("enable2_pc", "bool", 6),
    plain("keep_prepared_txn", "bool", 6),
)

_INIT_PRODUCER_ID_RESPONSE = (
    plain("throttle_time_ms", "int32"),
    plain("error_code", "int16"),
    plain("producer_id", "int64"),
    plain("producer_epoch", "int16"),
    plain("ongoing_txn_producer_id", "int64", 6),
    plain("ongoing_txn_producer_epoch", "int16", 6),
)

_ADD_PARTITIONS_TO_TXN_REQUEST = (
    plain("transactional_id", "string"),
    plain("producer_id", "int64"),
    plain("producer_epoch", "int16"),
    array("topics", (plain("topic", "string"), array("partitions", "int32"))),
)

_ADD_PARTITIONS_TO_TXN_RESPONSE = (
    plain("throttle_time_ms", "int32"),
    per_partition(plain("partition", "int32"), plain("error_code", "int16")),
)

_END_TXN_REQUEST = (
    plain("transactional_id", "string"),
    plain("producer_id", "int64"),
    plain("producer_epoch", "int16"),
    plain("committed", "bool"),
)

_END_TXN_RESPONSE = (
    plain("throttle_time_ms", "int32"),
    plain("error_code", "int16"),
    plain("producer_id", "int64", 5),
    plain("producer_epoch", "int16", 5),
)

_OF_A_GROUP = (plain("group", "string"), plain("the rest", "rest"))
_UNREAD = (plain("the rest", "rest"),)

CLIENT_LAYOUTS: dict[int, Layout] = {
    ApiKey.PRODUCE: Layout(
        newest=13, flexible_since=9, request=_PRODUCE_REQUEST, response=_PRODUCE_RESPONSE
    ),
    ApiKey.FETCH: LAYOUTS[ApiKey.FETCH],
    ApiKey.INIT_PRODUCER_ID: Layout(
        newest=6,
        flexible_since=2,
        request=_INIT_PRODUCER_ID_REQUEST,
        response=_INIT_PRODUCER_ID_RESPONSE,
    ),
    # From version 4 on brokers alone send it.
    ApiKey.ADD_PARTITIONS_TO_TXN: Layout(
        newest=3,
        flexible_since=3,
        request=_ADD_PARTITIONS_TO_TXN_REQUEST,
        response=_ADD_PARTITIONS_TO_TXN_RESPONSE,
    ),
    ApiKey.END_TXN: Layout(
        newest=5, flexible_since=3, request=_END_TXN_REQUEST, response=_END_TXN_RESPONSE
    ),
}
"""The decisive messages: each request and each answer is recorded."""

GROUP_LAYOUTS: dict[int, Layout] = {
    ApiKey.JOIN_GROUP: Layout(newest=9, flexible_since=6, request=_OF_A_GROUP, response=_UNREAD),
    ApiKey.OFFSET_COMMIT: Layout(newest=9, flexible_since=8, request=_OF_A_GROUP, response=_UNREAD),
}
"""Requests that tell a consumer's group, and of which nothing else is recorded."""
