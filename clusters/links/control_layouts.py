"""Layouts of control requests, and of the leaders' requests to the controller.

Requests are read and written (`clusters.links.control_requests`) by these same tables. Responses
are read only as far as a link record shows them. See `clusters.links.layouts` for the names and the
sources.
"""

from kchaos.clusters.links.wire import array, per_partition, plain

_LEADER_AND_ISR_PARTITION = (
    plain("topic", "string", 0, 1),
    plain("partition", "int32"),
    plain("controller_epoch", "int32"),
    plain("leader", "int32"),
    plain("leader_epoch", "int32"),
    array("isr", "int32"),
    plain("partition_epoch", "int32"),
    array("replicas", "int32"),
    array("adding_replicas", "int32", 3),
    array("removing_replicas", "int32", 3),
    plain("is_new", "bool", 1),
    plain("leader_recovery_state", "int8", 6),
)

LEADER_AND_ISR_REQUEST = (
    plain("controller_id", "int32"),
    plain("is_kraft_controller", "bool", 7),
    plain("controller_epoch", "int32"),
    plain("broker_epoch", "int64", 2),
    plain("type", "int8", 5),
    array("ungrouped_partitions", _LEADER_AND_ISR_PARTITION, 0, 1),
    array(
        "topics",
        (
            plain("topic", "string"),
            plain("topic_id", "uuid", 5),
            array("partitions", _LEADER_AND_ISR_PARTITION),
        ),
        2,
    ),
    array("live_leaders", (plain("id", "int32"), plain("host", "string"), plain("port", "int32"))),
)

_LEADER_AND_ISR_ERROR = (
    plain("topic", "string", 0, 4),
    plain("partition", "int32"),
    plain("error_code", "int16"),
)

LEADER_AND_ISR_RESPONSE = (
    plain("error_code", "int16"),
    array("ungrouped_partitions", _LEADER_AND_ISR_ERROR, 0, 4),
    array("topics", (plain("topic_id", "uuid"), array("partitions", _LEADER_AND_ISR_ERROR)), 5),
)

STOP_REPLICA_REQUEST = (
    plain("controller_id", "int32"),
    plain("is_kraft_controller", "bool", 4),
    plain("controller_epoch", "int32"),
    plain("broker_epoch", "int64", 1),
    plain("delete_partitions", "bool", 0, 2),
    array("ungrouped_partitions", (plain("topic", "string"), plain("partition", "int32")), 0, 0),
    array("topics", (plain("topic", "string"), array("partitions", "int32")), 1, 2),
    array(
        "topics",
        (
            plain("topic", "string"),
            array(
                "partitions",
                (
                    plain("partition", "int32"),
                    plain("leader_epoch", "int32"),
                    plain("delete_partition", "bool"),
                ),
            ),
        ),
        3,
    ),
)

STOP_REPLICA_RESPONSE = (
    plain("error_code", "int16"),
    array(
        "ungrouped_partitions",
        (plain("topic", "string"), plain("partition", "int32"), plain("error_code", "int16")),
    ),
)

_UPDATE_METADATA_PARTITION = (
    plain("topic", "string", 0, 4),
    plain("partition", "int32"),
    plain("controller_epoch", "int32"),
    plain("leader", "int32"),
    plain("leader_epoch", "int32"),
    array("isr", "int32"),
    plain("partition_epoch", "int32"),
    array("replicas", "int32"),
    array("offline_replicas", "int32", 4),
)

UPDATE_METADATA_REQUEST = (
    plain("controller_id", "int32"),
    plain("is_kraft_controller", "bool", 8),
    plain("controller_epoch", "int32"),
    plain("broker_epoch", "int64", 5),
    array("ungrouped_partitions", _UPDATE_METADATA_PARTITION, 0, 4),
    array(
        "topics",
        (
            plain("topic", "string"),
            plain("topic_id", "uuid", 7),
            array("partitions", _UPDATE_METADATA_PARTITION),
        ),
        5,
    ),
    array(
        "live_brokers",
        (
            plain("id", "int32"),
            plain("host", "string", 0, 0),
            plain("port", "int32", 0, 0),
            array(
                "endpoints",
                (
                    plain("port", "int32"),
                    plain("host", "string"),
                    plain("listener", "string", 3),
                    plain("security_protocol", "int16"),
                ),
                1,
            ),
            plain("rack", "string", 2),
        ),
    ),
)

CONTROLLED_SHUTDOWN_REQUEST = (plain("broker_id", "int32"), plain("broker_epoch", "int64", 2))

CONTROLLED_SHUTDOWN_RESPONSE = (
    plain("error_code", "int16"),
    array("ungrouped_partitions", (plain("topic", "string"), plain("partition", "int32"))),
)

ALTER_PARTITION_REQUEST = (
    plain("broker_id", "int32"),
    plain("broker_epoch", "int64"),
    per_partition(
        plain("partition", "int32"),
        plain("leader_epoch", "int32"),
        array("new_isr", "int32", 0, 2),
        array(
            "new_isr_with_epochs", (plain("broker_id", "int32"), plain("broker_epoch", "int64")), 3
        ),
        plain("leader_recovery_state", "int8", 1),
        plain("partition_epoch", "int32"),
        topic_ids_since=2,
    ),
)

ALTER_PARTITION_RESPONSE = (
    plain("throttle_time_ms", "int32"),
    plain("error_code", "int16"),
    per_partition(
        plain("partition", "int32"),
        plain("error_code", "int16"),
        plain("leader", "int32"),
        plain("leader_epoch", "int32"),
        array("isr", "int32"),
        plain("leader_recovery_state", "int8", 1),
        plain("partition_epoch", "int32"),
        topic_ids_since=2,
    ),
)

UPDATE_METADATA_RESPONSE = (plain("error_code", "int16"),)
