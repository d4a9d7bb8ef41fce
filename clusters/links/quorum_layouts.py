"""Layouts of requests that brokers send to KRaft controllers, and that controllers send.

See `clusters.links.layouts` for the names. Source: the message definitions of Kafka 3.3.1, 3.6.2,
3.9.1, 4.0.2, 4.1.2 and 4.4.0; a version that two of them have is alike in both.
"""

from kchaos.clusters.links.wire import array, per_partition, plain, tagged

BROKER_REGISTRATION_REQUEST = (
    plain("broker_id", "int32"),
    plain("cluster_id", "string"),
    plain("incarnation_id", "uuid"),
    array(
        "listeners",
        (
            plain("name", "string"),
            plain("host", "string"),
            plain("port", "uint16"),
            plain("security_protocol", "int16"),
        ),
    ),
    array(
        "features",
        (
            plain("name", "string"),
            plain("min_supported_version", "int16"),
            plain("max_supported_version", "int16"),
        ),
    ),
    plain("rack", "string"),
    plain("is_migrating_zk_broker", "bool", 1),
    array("log_dirs", "uuid", 2),
    plain("previous_broker_epoch", "int64", 3),
)

BROKER_REGISTRATION_RESPONSE = (
    plain("throttle_time_ms", "int32"),
    plain("error_code", "int16"),
    plain("broker_epoch", "int64"),
)

BROKER_HEARTBEAT_REQUEST = (
    plain("broker_id", "int32"),
    plain("broker_epoch", "int64"),
    plain("current_metadata_offset", "int64"),
    plain("want_fence", "bool"),
    plain("want_shut_down", "bool"),
    tagged(0, "offline_log_dirs", "uuid", 1, is_array=True),
    tagged(1, "cordoned_log_dirs", "uuid", 2, is_array=True),
)

BROKER_HEARTBEAT_RESPONSE = (
    plain("throttle_time_ms", "int32"),
    plain("error_code", "int16"),
    plain("is_caught_up", "bool"),
    plain("is_fenced", "bool"),
    plain("should_shut_down", "bool"),
)

UNREGISTER_BROKER_REQUEST = (plain("broker_id", "int32"),)

UNREGISTER_BROKER_RESPONSE = (
    plain("throttle_time_ms", "int32"),
    plain("error_code", "int16"),
    plain("error_message", "string"),
)

ELECT_LEADERS_REQUEST = (
    plain("election_type", "int8", 1),
    array("topics", (plain("topic", "string"), array("partitions", "int32"))),
    plain("timeout_ms", "int32"),
)

ELECT_LEADERS_RESPONSE = (
    plain("throttle_time_ms", "int32"),
    plain("error_code", "int16", 1),
    per_partition(
        plain("partition", "int32"), plain("error_code", "int16"), plain("error_message", "string")
    ),
)

_ENDPOINTS_OF_LEADER = array(
    "leader_endpoints",
    (plain("name", "string"), plain("host", "string"), plain("port", "uint16")),
    1,
)

VOTE_REQUEST = (
    plain("cluster_id", "string"),
    plain("voter_id", "int32", 1),
    per_partition(
        plain("partition", "int32"),
        plain("replica_epoch", "int32"),
        plain("replica_id", "int32"),
        plain("replica_directory_id", "uuid", 1),
        plain("voter_directory_id", "uuid", 1),
        plain("last_offset_epoch", "int32"),
        plain("last_offset", "int64"),
        plain("pre_vote", "bool", 2),
    ),
)
"""Up to version 1 the replica is called candidate."""

_QUORUM_ANSWER = (
    plain("partition", "int32"),
    plain("error_code", "int16"),
    plain("leader_id", "int32"),
    plain("leader_epoch", "int32"),
)

VOTE_RESPONSE = (
    plain("error_code", "int16"),
    per_partition(*_QUORUM_ANSWER, plain("vote_granted", "bool")),
)

BEGIN_QUORUM_EPOCH_REQUEST = (
    plain("cluster_id", "string"),
    plain("voter_id", "int32", 1),
    per_partition(
        plain("partition", "int32"),
        plain("voter_directory_id", "uuid", 1),
        plain("leader_id", "int32"),
        plain("leader_epoch", "int32"),
    ),
    _ENDPOINTS_OF_LEADER,
)

END_QUORUM_EPOCH_REQUEST = (
    plain("cluster_id", "string"),
    per_partition(
        plain("partition", "int32"),
        plain("leader_id", "int32"),
        plain("leader_epoch", "int32"),
        array("preferred_successors", "int32", 0, 0),
        array(
            "preferred_candidates",
            (plain("candidate_id", "int32"), plain("candidate_directory_id", "uuid")),
            1,
        ),
    ),
    _ENDPOINTS_OF_LEADER,
)

QUORUM_EPOCH_RESPONSE = (plain("error_code", "int16"), per_partition(*_QUORUM_ANSWER))
"""Response to BeginQuorumEpoch and EndQuorumEpoch."""
