"""Layouts of the messages that decide what a client was promised.

Everything else that clients send passes unread. Names are as in `clusters.links.layouts`.

Source: the message definitions of Kafka 3.9 and 4.4.0, and ``Protocol.java`` of 0.10.2.
"""

from collections.abc import Mapping

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links.layout import Layout, layouts
from kchaos.clusters.links.layouts import LAYOUTS

# From version 4 of AddPartitionsToTxn on brokers alone send it.
CLIENT_LAYOUTS: Mapping[int, Layout] = {
    ApiKey.FETCH: LAYOUTS[ApiKey.FETCH],
    **layouts("""
PRODUCE newest 13, flexible 9
    request:
        transactional_id string 3+, acks int16, timeout_ms int32, topics [](
            topic string 0-12, topic_id uuid 13+,
            partitions [](partition int32, records records))
    response:
        topics [](
            topic string 0-12, topic_id uuid 13+, partitions [](
                partition int32, error_code int16, base_offset int64,
                log_append_time_ms int64 2+, log_start_offset int64 5+,
                record_errors [] 8+ (batch_index int32, batch_index_error_message string),
                error_message string 8+,
                @0 current_leader 10+ (leader_id int32, leader_epoch int32))),
        throttle_time_ms int32 1+
INIT_PRODUCER_ID newest 6, flexible 2
    request:
        transactional_id string, transaction_timeout_ms int32, producer_id int64 3+,
        producer_epoch int16 3+, enable2_pc bool 6+, keep_prepared_txn bool 6+
    response:
        throttle_time_ms int32, error_code int16, producer_id int64, producer_epoch int16,
        ongoing_txn_producer_id int64 6+, ongoing_txn_producer_epoch int16 6+
ADD_PARTITIONS_TO_TXN newest 3, flexible 3
    request:
        transactional_id string, producer_id int64, producer_epoch int16,
        topics [](topic string, partitions []int32)
    response:
        throttle_time_ms int32,
        topics [](topic string, partitions [](partition int32, error_code int16))
END_TXN newest 5, flexible 3
    request: transactional_id string, producer_id int64, producer_epoch int16, committed bool
    response:
        throttle_time_ms int32, error_code int16, producer_id int64 5+, producer_epoch int16 5+
"""),
}
"""The decisive messages: each request and each answer is recorded."""

GROUP_LAYOUTS: Mapping[int, Layout] = layouts("""
JOIN_GROUP newest 9, flexible 6
    request: group string, the_rest rest
    response: the_rest rest
OFFSET_COMMIT newest 9, flexible 8
    request: group string, the_rest rest
    response: the_rest rest
""")
"""Requests that tell a consumer's group, and of which nothing else is recorded."""
