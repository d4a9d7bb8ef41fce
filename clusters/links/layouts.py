"""Layouts of requests and responses between brokers, and to and from controllers, by version.

Names are Kafka's in snake case, with three liberties: what a message calls ``Name``, ``TopicName``
or ``Topic`` is ``topic`` here, and ``PartitionIndex`` is ``partition``, so that one piece of code
can find the partitions of any message. In a Vote, what is a candidate up to version 1 is a replica.

Control requests are read and written (`clusters.links.control_requests`) by these same layouts.
Responses are read only as far as a link record shows them.

Source: the message definitions of Kafka 3.9 (they still describe every version), compared with
``Protocol.java`` of 0.10.2 and the request classes of 1.1 for the versions of that time, and with
the message definitions of 4.4.0 for newer ones; for those of KRaft, the definitions of 3.3.1,
3.6.2, 3.9.1, 4.0.2, 4.1.2 and 4.4.0, in which a version that two of them have is alike.
"""

from collections.abc import Mapping

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.links.layout import Layout, layouts

LAYOUTS: Mapping[int, Layout] = layouts("""
FETCH newest 18, flexible 12
    request:
        replica_id int32 0-14, max_wait_ms int32, min_bytes int32, max_bytes int32 3+,
        isolation_level int8 4+, session_id int32 7+, session_epoch int32 7+, topics [](
            topic string 0-12, topic_id uuid 13+, partitions [](
                partition int32, current_leader_epoch int32 9+, fetch_offset int64,
                last_fetched_epoch int32 12+, log_start_offset int64 5+,
                partition_max_bytes int32, @1 high_watermark int64 18+)),
        forgotten_topics [] 7+ (topic string 7-12, topic_id uuid 13+, partitions []int32 7+),
        rack_id string 11+, @1 replica_state 15+ (replica_id int32, replica_epoch int64)
    response:
        throttle_time_ms int32 1+, error_code int16 7+, session_id int32 7+, topics [](
            topic string 0-12, topic_id uuid 13+, partitions [](
                partition int32, error_code int16, high_watermark int64,
                last_stable_offset int64 4+, log_start_offset int64 5+,
                aborted_transactions [] 4+ (producer_id int64, first_offset int64),
                preferred_read_replica int32 11+, records records,
                @0 diverging_epoch 12+ (epoch int32, end_offset int64),
                @1 current_leader 12+ (leader_id int32, leader_epoch int32)))
LIST_OFFSETS newest 11, flexible 6
    request:
        replica_id int32, isolation_level int8 2+, topics [](
            topic string, partitions [](
                partition int32, current_leader_epoch int32 4+, timestamp int64,
                max_num_offsets int32 0)),
        timeout_ms int32 10+
    response:
        throttle_time_ms int32 2+, topics [](
            topic string, partitions [](
                partition int32, error_code int16, offsets []int64 0, timestamp int64 1+,
                offset int64 1+, leader_epoch int32 4+))
LEADER_AND_ISR newest 7, flexible 4
    request:
        controller_id int32, is_kraft_controller bool 7+, controller_epoch int32,
        broker_epoch int64 2+, type int8 5+, ungrouped_partitions [] 0-1 (
            topic string 0-1, partition int32, controller_epoch int32, leader int32,
            leader_epoch int32, isr []int32, partition_epoch int32, replicas []int32,
            adding_replicas []int32 3+, removing_replicas []int32 3+, is_new bool 1+,
            leader_recovery_state int8 6+),
        topics [] 2+ (
            topic string, topic_id uuid 5+, partitions [](
                topic string 0-1, partition int32, controller_epoch int32, leader int32,
                leader_epoch int32, isr []int32, partition_epoch int32, replicas []int32,
                adding_replicas []int32 3+, removing_replicas []int32 3+, is_new bool 1+,
                leader_recovery_state int8 6+)),
        live_leaders [](id int32, host string, port int32)
    response:
        error_code int16,
        ungrouped_partitions [] 0-4 (topic string 0-4, partition int32, error_code int16),
        topics [] 5+ (
            topic_id uuid, partitions [](topic string 0-4, partition int32, error_code int16))
STOP_REPLICA newest 4, flexible 2
    request:
        controller_id int32, is_kraft_controller bool 4+, controller_epoch int32,
        broker_epoch int64 1+, delete_partitions bool 0-2,
        ungrouped_partitions [] 0 (topic string, partition int32),
        topics [] 1-2 (topic string, partitions []int32), topics [] 3+ (
            topic string,
            partitions [](partition int32, leader_epoch int32, delete_partition bool))
    response:
        error_code int16, ungrouped_partitions [](topic string, partition int32, error_code int16)
UPDATE_METADATA newest 8, flexible 6
    request:
        controller_id int32, is_kraft_controller bool 8+, controller_epoch int32,
        broker_epoch int64 5+, ungrouped_partitions [] 0-4 (
            topic string 0-4, partition int32, controller_epoch int32, leader int32,
            leader_epoch int32, isr []int32, partition_epoch int32, replicas []int32,
            offline_replicas []int32 4+),
        topics [] 5+ (
            topic string, topic_id uuid 7+, partitions [](
                topic string 0-4, partition int32, controller_epoch int32, leader int32,
                leader_epoch int32, isr []int32, partition_epoch int32, replicas []int32,
                offline_replicas []int32 4+)),
        live_brokers [](
            id int32, host string 0, port int32 0, endpoints [] 1+ (
                port int32, host string, listener string 3+, security_protocol int16),
            rack string 2+)
    response: error_code int16
CONTROLLED_SHUTDOWN newest 3, flexible 3
    request: broker_id int32, broker_epoch int64 2+
    response: error_code int16, ungrouped_partitions [](topic string, partition int32)
OFFSET_FOR_LEADER_EPOCH newest 4, flexible 4
    request:
        replica_id int32 3+, topics [](
            topic string,
            partitions [](partition int32, current_leader_epoch int32 2+, leader_epoch int32))
    response:
        throttle_time_ms int32 2+, topics [](
            topic string, partitions [](
                error_code int16, partition int32, leader_epoch int32 1+, end_offset int64))
WRITE_TXN_MARKERS newest 2, flexible 1
    request:
        markers [](
            producer_id int64, producer_epoch int16, transaction_result bool,
            topics [](topic string, partitions []int32), coordinator_epoch int32,
            transaction_version int8 2+)
    response:
        markers [](
            producer_id int64,
            topics [](topic string, partitions [](partition int32, error_code int16)))
ALTER_PARTITION newest 3, flexible 0
    request:
        broker_id int32, broker_epoch int64, topics [](
            topic string 0-1, topic_id uuid 2+, partitions [](
                partition int32, leader_epoch int32, new_isr []int32 0-2,
                new_isr_with_epochs [] 3+ (broker_id int32, broker_epoch int64),
                leader_recovery_state int8 1+, partition_epoch int32))
    response:
        throttle_time_ms int32, error_code int16, topics [](
            topic string 0-1, topic_id uuid 2+, partitions [](
                partition int32, error_code int16, leader int32, leader_epoch int32,
                isr []int32, leader_recovery_state int8 1+, partition_epoch int32))
BROKER_REGISTRATION newest 4, flexible 0
    request:
        broker_id int32, cluster_id string, incarnation_id uuid,
        listeners [](name string, host string, port uint16, security_protocol int16),
        features [](name string, min_supported_version int16, max_supported_version int16),
        rack string, is_migrating_zk_broker bool 1+, log_dirs []uuid 2+,
        previous_broker_epoch int64 3+
    response: throttle_time_ms int32, error_code int16, broker_epoch int64
BROKER_HEARTBEAT newest 2, flexible 0
    request:
        broker_id int32, broker_epoch int64, current_metadata_offset int64, want_fence bool,
        want_shut_down bool, @0 offline_log_dirs []uuid 1+, @1 cordoned_log_dirs []uuid 2+
    response:
        throttle_time_ms int32, error_code int16, is_caught_up bool, is_fenced bool,
        should_shut_down bool
ASSIGN_REPLICAS_TO_DIRS newest 0, flexible 0
    request:
        broker_id int32, broker_epoch int64, directories [](
            directory uuid, topics [](topic_id uuid, partitions [](partition int32)))
    response:
        throttle_time_ms int32, error_code int16, directories [](
            directory uuid,
            topics [](topic_id uuid, partitions [](partition int32, error_code int16)))
UNREGISTER_BROKER newest 0, flexible 0
    request: broker_id int32
    response: throttle_time_ms int32, error_code int16, error_message string
ELECT_LEADERS newest 2, flexible 2
    request: election_type int8 1+, topics [](topic string, partitions []int32), timeout_ms int32
    response:
        throttle_time_ms int32, error_code int16 1+, topics [](
            topic string, partitions [](partition int32, error_code int16, error_message string))
VOTE newest 2, flexible 0
    request:
        cluster_id string, voter_id int32 1+, topics [](
            topic string, partitions [](
                partition int32, replica_epoch int32, replica_id int32,
                replica_directory_id uuid 1+, voter_directory_id uuid 1+,
                last_offset_epoch int32, last_offset int64, pre_vote bool 2+))
    response:
        error_code int16, topics [](
            topic string, partitions [](
                partition int32, error_code int16, leader_id int32, leader_epoch int32,
                vote_granted bool))
BEGIN_QUORUM_EPOCH newest 1, flexible 1
    request:
        cluster_id string, voter_id int32 1+, topics [](
            topic string, partitions [](
                partition int32, voter_directory_id uuid 1+, leader_id int32,
                leader_epoch int32)),
        leader_endpoints [] 1+ (name string, host string, port uint16)
    response:
        error_code int16, topics [](
            topic string, partitions [](
                partition int32, error_code int16, leader_id int32, leader_epoch int32))
END_QUORUM_EPOCH newest 1, flexible 1
    request:
        cluster_id string, topics [](
            topic string, partitions [](
                partition int32, leader_id int32, leader_epoch int32,
                preferred_successors []int32 0,
                preferred_candidates [] 1+ (candidate_id int32, candidate_directory_id uuid))),
        leader_endpoints [] 1+ (name string, host string, port uint16)
    response:
        error_code int16, topics [](
            topic string, partitions [](
                partition int32, error_code int16, leader_id int32, leader_epoch int32))
""")

PARTITION_API_KEYS: frozenset[ApiKey] = frozenset(
    ApiKey(key)
    for key, layout in LAYOUTS.items()
    if any(field.name in ("topics", "markers", "directories") for field in layout.request)
)
"""The APIs whose requests name partitions that the relay can read."""
