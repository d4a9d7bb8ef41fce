"""Content of a message as JSON-able data, for link records.

``detail`` has the message's own fields (``replica_id``, ``session_id``, ``session_epoch``,
``controller_id``, ``controller_epoch``, ``broker_epoch``, ``error_code``, ... as far as its version
has them) and ``partitions``, a list with one entry for each partition that the message names:
``topic`` (None for a topic id without a known name), ``partition``, and

- Fetch request: ``fetch_offset``, ``last_fetched_epoch``, ``current_leader_epoch``,
  ``log_start_offset``; what leaves a fetch session is in ``forgotten`` beside ``partitions``;
- Fetch response: ``error_code``, ``high_watermark``, ``log_start_offset``, ``diverging_epoch``
  (``epoch`` and ``end_offset``), ``records_size_bytes``, ``batch_count``, and with batches
  ``base_offset`` and ``first_leader_epoch`` of the first, ``last_offset`` (inclusive) and
  ``last_leader_epoch`` of the last; the epochs are None for batches before magic 2;
- ListOffsets request: ``timestamp`` (-1 the end, -2 the beginning) and ``current_leader_epoch``;
  its response: ``error_code``, ``offset``, ``leader_epoch``, in version 0 ``offsets`` instead;
- OffsetForLeaderEpoch request: ``leader_epoch``, ``current_leader_epoch``; its response:
  ``error_code``, ``leader_epoch``, ``end_offset``;
- LeaderAndIsr and UpdateMetadata: ``leader``, ``leader_epoch``, ``isr``, ``partition_epoch`` (the
  version of the state znode), ``replicas``, ``controller_epoch``, and ``is_new``; UpdateMetadata
  also ``live_brokers``, ids, beside ``partitions``;
- StopReplica: ``leader_epoch`` and ``delete_partition`` from version 3, before that
  ``delete_partitions`` beside ``partitions``; its response: ``error_code``;
- AlterPartition: ``leader_epoch``, ``new_isr`` or ``new_isr_with_epochs``, ``partition_epoch``;
  its response: ``error_code``, ``leader``, ``leader_epoch``, ``isr``, ``partition_epoch``;
- AssignReplicasToDirs: ``directory``, its id; its response: that and ``error_code``;
- WriteTxnMarkers: an entry for each partition of each marker, with the marker's ``producer_id``,
  ``producer_epoch``, ``transaction_result`` (True is commit) and ``coordinator_epoch``; its
  response: ``producer_id`` and ``error_code``;
- ControlledShutdown response: ``partitions`` are those that the broker still leads;
- BrokerRegistration: ``broker_id``, ``incarnation_id``, ``previous_broker_epoch``, ``log_dirs``;
  its response: ``error_code``, ``broker_epoch``;
- BrokerHeartbeat: ``broker_id``, ``broker_epoch``, ``current_metadata_offset``, ``want_fence``,
  ``want_shut_down``; its response: ``error_code``, ``is_caught_up``, ``is_fenced``,
  ``should_shut_down``;
- Vote: ``replica_id``, ``replica_epoch``, ``last_offset``, ``last_offset_epoch``, ``pre_vote``; its
  response: ``vote_granted``, ``leader_id``, ``leader_epoch``, as BeginQuorumEpoch and
  EndQuorumEpoch have them too.

Fetch, ListOffsets, OffsetForLeaderEpoch and ``is_new`` have None for what their version does not
carry. The head is read of a request larger than 256 KiB, of a response larger than 16 MiB, and of
a response larger than 256 KiB that a rule keeps back, so that its sender has the rest. Then
``is_whole`` is False and the last entry may lack fields. Of a Fetch response the record
``completed`` says the whole, and ``rest`` the batches that were not in the head, each with first
offset, last offset and leader epoch.
"""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any

from kchaos.checkers.acts import Direction
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.batches import entries
from kchaos.clusters.links.sessions import PartitionKey
from kchaos.clusters.links.wire import Records

_LEFT_OUT = frozenset(
    {
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "rack_id",
        "throttle_time_ms",
        "partition_max_bytes",
        "aborted_transactions",
        "preferred_read_replica",
        "topics",
        "markers",
        "directories",
        "ungrouped_partitions",
        "forgotten_topics",
        "replica_state",
        "live_leaders",
        "listeners",
        "features",
        "leader_endpoints",
    }
)
_WITH_IDS = frozenset(
    {
        ApiKey.BROKER_REGISTRATION,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.VOTE,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.END_QUORUM_EPOCH,
    }
)
"""The APIs whose messages name directories and incarnations by 16 bytes."""
_NAMING_PARTITIONS = ("topics", "markers", "directories", "ungrouped_partitions")
METADATA_TOPIC = "__cluster_metadata"
_METADATA_TOPIC_ID = (1).to_bytes(16, "big")
_ABSENT_IN_OLD_VERSIONS: dict[tuple[int, Direction], tuple[str, ...]] = {
    (ApiKey.FETCH, "request"): ("last_fetched_epoch", "current_leader_epoch", "log_start_offset"),
    (ApiKey.FETCH, "response"): ("log_start_offset", "diverging_epoch"),
    (ApiKey.LIST_OFFSETS, "request"): ("current_leader_epoch",),
    (ApiKey.LIST_OFFSETS, "response"): ("leader_epoch",),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, "request"): ("current_leader_epoch",),
    (ApiKey.OFFSET_FOR_LEADER_EPOCH, "response"): ("leader_epoch",),
    (ApiKey.LEADER_AND_ISR, "request"): ("is_new",),
}


class TopicNames:
    """Names of topic ids: those that were set, and those that control requests told.

    Brokers of a KRaft cluster get no such requests: ``ask`` is called for an id that is not known,
    as Kafka prints it, and returns its name or None.
    """

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {_METADATA_TOPIC_ID: METADATA_TOPIC}
        self.ask: Callable[[str], str | None] | None = None

    def add(self, topic_id: bytes, name: str) -> None:
        """Remember one name; the newest wins."""
        if any(topic_id):
            self._names[topic_id] = name

    def name_of(self, topic: str | bytes) -> str | None:
        """Return the name of a topic id, or the name itself; None for an unknown id."""
        if isinstance(topic, str):
            return topic
        if topic not in self._names and self.ask is not None and any(topic):
            name = self.ask(_id_text(topic))
            if name is not None:
                self._names[topic] = name
        return self._names.get(topic)


def partitions_of(topics: list[dict[str, Any]]) -> list[tuple[PartitionKey, Any]]:
    """Return the partitions below a message's topics, each with its part of the message."""
    partitions: list[tuple[PartitionKey, Any]] = []
    for topic in topics:
        name = topic.get("topic", topic.get("topic_id", ""))
        for partition in topic.get("partitions", ()):
            number = partition if isinstance(partition, int) else partition.get("partition")
            if number is not None:
                partitions.append(((name, number), partition))
    return partitions


def detail_of(
    api_key: int,
    direction: Direction,
    values: Mapping[str, Any],
    topics: TopicNames,
    is_whole: bool,
) -> dict[str, Any]:
    """Return the content of a decoded message; ``is_whole`` matters only for a cut-off one."""
    detail = {name: value for name, value in values.items() if name not in _LEFT_OUT}
    state = values.get("replica_state")
    if state:
        detail |= {name: state.get(name) for name in ("replica_id", "replica_epoch")}
    if "live_brokers" in values:
        detail["live_brokers"] = [
            broker["id"] for broker in values["live_brokers"] if "id" in broker
        ]
    absent = dict.fromkeys(_ABSENT_IN_OLD_VERSIONS.get((api_key, direction), ()))
    partitions = [
        {**_topic_of(key[0], topics), **_named_id(topic), **_entry(partition, absent)}
        for topic in values.get("topics", [])
        for key, partition in partitions_of([topic])
    ]
    partitions.extend(
        {"topic": partition.get("topic"), **_entry(partition, absent)}
        for partition in values.get("ungrouped_partitions", ())
    )
    for marker in values.get("markers", ()):
        of_marker = {name: value for name, value in marker.items() if name not in _LEFT_OUT}
        partitions += [
            {**_topic_of(key[0], topics), **_entry(partition, absent), **of_marker}
            for key, partition in partitions_of(marker.get("topics", []))
        ]
    for directory in values.get("directories", ()):
        in_directory = {"directory": directory.get("directory")}
        partitions += [
            {**_topic_of(key[0], topics), **_entry(partition, absent), **in_directory}
            for key, partition in partitions_of(directory.get("topics", []))
        ]
    if any(name in values for name in _NAMING_PARTITIONS):
        detail["partitions"] = partitions
    if values.get("forgotten_topics"):
        detail["forgotten"] = [
            {**_topic_of(key[0], topics), "partition": key[1]}
            for key, _ in partitions_of(values["forgotten_topics"])
        ]
    if not is_whole:
        detail["is_whole"] = False
    if api_key in _WITH_IDS:
        detail = {name: _plain(value) for name, value in detail.items()}
    return detail


def _plain(value: Any) -> Any:
    """Return the value with ids as text."""
    if isinstance(value, bytes):
        return _id_text(value)
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, dict):
        return {name: _plain(element) for name, element in value.items()}
    return value


def _id_text(value: bytes) -> str:
    """Return an id as Kafka prints it: base64 for URLs without padding."""
    return urlsafe_b64encode(value).decode().rstrip("=")


def _topic_of(topic: str | bytes, topics: TopicNames) -> dict[str, Any]:
    if isinstance(topic, str):
        return {"topic": topic}
    return {"topic": topics.name_of(topic), "topic_id": _id_text(topic)}


def _named_id(topic: Mapping[str, Any]) -> dict[str, str]:
    """Return the topic's id if a message has it beside the name, unless it is all zeros."""
    topic_id = topic.get("topic_id", b"")
    return {"topic_id": _id_text(topic_id)} if any(topic_id) else {}


def _entry(partition: int | dict[str, Any], absent: Mapping[str, None]) -> dict[str, Any]:
    if isinstance(partition, int):
        return {"partition": partition}
    entry: dict[str, Any] = {"partition": partition.get("partition"), **absent}
    entry.update(item for item in partition.items() if item[0] not in _LEFT_OUT)
    records = entry.pop("records", None)
    if records is not None:
        entry.update(_batches(records))
    return entry


def _batches(records: Records) -> dict[str, Any]:
    """Return the size of a record set, and offsets and epochs of its complete batch headers.

    ``last_offset`` is inclusive. A batch of magic 0 or 1 is one entry of a message set: its only
    offset is that of its last record, also when the entry wraps several compressed ones.
    """
    summary: dict[str, Any] = {"records_size_bytes": records.size_bytes, "batch_count": 0}
    for entry in entries(records.head, records.size_bytes):
        summary.setdefault("base_offset", entry.offset)
        summary.setdefault("first_leader_epoch", entry.leader_epoch)
        summary["last_offset"] = entry.last_offset
        summary["last_leader_epoch"] = entry.leader_epoch
        summary["batch_count"] += 1
    return summary
