"""Names of the requests that brokers and clients send to each other."""

APIS = (
    "Produce",
    "Fetch",
    "ListOffsets",
    "Metadata",
    "LeaderAndIsr",
    "StopReplica",
    "UpdateMetadata",
    "ControlledShutdown",
    "OffsetCommit",
    "OffsetFetch",
    "FindCoordinator",
    "JoinGroup",
    "Heartbeat",
    "LeaveGroup",
    "SyncGroup",
    "DescribeGroups",
    "ListGroups",
    "SaslHandshake",
    "ApiVersions",
    "CreateTopics",
    "DeleteTopics",
    "DeleteRecords",
    "InitProducerId",
    "OffsetForLeaderEpoch",
    "AddPartitionsToTxn",
    "AddOffsetsToTxn",
    "EndTxn",
    "WriteTxnMarkers",
    "TxnOffsetCommit",
    "DescribeConfigs",
    "AlterConfigs",
    "CreatePartitions",
    "ElectLeaders",
    "IncrementalAlterConfigs",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "AlterPartition",
    "UpdateFeatures",
    "Envelope",
    "DescribeCluster",
    "AllocateProducerIds",
)
"""The APIs that a `Hold` may name, in Kafka's own spelling: those that the links tell apart."""


FOLLOWED = frozenset(
    {
        "Fetch",
        "ListOffsets",
        "OffsetForLeaderEpoch",
        "LeaderAndIsr",
        "StopReplica",
        "UpdateMetadata",
        "ControlledShutdown",
        "AlterPartition",
    }
)
"""Those by which replicas come to be as they are; what a hold of another does, no model says."""


def unknown_api(api: str) -> str:
    """Why a `Hold` cannot name this API, or "". The spelling counts: the model compares it."""
    if api in APIS:
        return ""
    return f"no API is named {api!r}; known: {', '.join(APIS)}"
