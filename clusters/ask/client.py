"""One Kafka request to one broker, and its answer: no metadata, no retries, no batching.

Client libraries choose the broker, batch by time and probe brokers that are stopped. A scenario
must decide all three, so it speaks to exactly one broker with exactly one request. Batches are
written and read by kafka-python, by what its releases 2 and 3 both have; messages are our own.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka import codec as codecs
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.batches import CODECS
from kchaos.clusters.ask.requests import send
from kchaos.clusters.links.wire import Records

_PACKAGES = {
    "snappy": (codecs.has_snappy, "python-snappy"),
    "lz4": (codecs.has_lz4, "lz4"),
    "zstd": (codecs.has_zstd, "zstandard"),
}
"""Codecs of kafka-python beside gzip: how each is asked for, and the package that brings it."""
_FETCH_BYTES = 50 << 20
_CONSUMER, _DEBUGGING = -1, -2
"""Replica ids of ListOffsets; the second one is answered by followers as well."""
_ALSO_FOLLOWERS = 11
"""The FetchRequest from which on followers answer consumers (KIP-392)."""
_ZSTD_SINCE = 2
_LATE_S = 3.0
"""Seconds by which a broker may answer later than its own timeout."""
_ATTRIBUTES_SINCE = 2
"""Sets of messages of older formats are compressed whatever comes of it."""
_ATTRIBUTES, _ATTRIBUTES_AT, _CODEC_BITS = struct.Struct(">h"), 21, 7


def why_not_compressed(name: str, magic: int) -> str:
    """Return why a codec cannot be used here, with the remedy, or "".

    Args:
        name: Of `checkers.formats.batches.CODECS`, or it is unknown.
        magic: Of the message format.
    """
    if name not in CODECS:
        return f"codec {name!r} is unknown; there are {', '.join(CODECS)}"
    if name == "zstd" and magic < _ZSTD_SINCE:
        return f"message format {magic} has no zstd"
    has, package = _PACKAGES.get(name, (codecs.has_gzip, ""))
    return "" if has() else f"nothing here compresses with {name}: pip install {package}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    """A broker's answer to one ProduceRequest.

    Attributes:
        error_code: Kafka's error code; 0 for none.
        base_offset: Offset of the first record, or -1.
    """

    error_code: int
    base_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """A broker's answer to a client about one partition.

    Attributes:
        error_code: Of the partition, or of its topic; 0 for none.
        leader: Its leader, -1 for none or none that is known.
        brokers: The brokers of the cluster, in ascending order.
    """

    error_code: int
    leader: int
    brokers: tuple[int, ...]


def produce(
    address: str,
    *,
    topic: str,
    partition: int,
    values: Sequence[bytes],
    keys: Sequence[bytes] = (),
    acks: int,
    magic: int = 2,
    codec: str = "none",
    header_bytes: int = 0,
    timestamp_ms: int,
    timeout_s: float = 10.0,
) -> Produced:
    """Send one ProduceRequest with one batch of records.

    `keys` has one key for each value, or none for null keys. `magic` is 1 for brokers before 0.11
    (ProduceRequest v2), else 2 (v3); `acks` is 1, or -1 for all in-sync replicas. Every record has
    `timestamp_ms`, and with `header_bytes` a header of so many zeros. `timeout_s` is also the
    broker's timeout for acks=all.

    Raises:
        NotSent: The broker does not accept the connection: nothing was appended.
        NoAnswer: Nobody knows whether the records were appended.
    """
    headers = [("zeros", bytes(header_bytes))] if header_bytes else []
    records = _batch_of(
        values, keys, magic=magic, codec=codec, headers=headers, timestamp_ms=timestamp_ms
    )
    request = {
        "transactional_id": None,
        "acks": acks,
        "timeout_ms": int(timeout_s * 1000),
        "topics": [{"topic": topic, "partitions": [{"partition": partition, "records": records}]}],
    }
    answer = send(
        address,
        ApiKey.PRODUCE,
        request,
        version=3 if magic == 2 else 2,
        timeout_s=timeout_s + _LATE_S,
    )
    result = answer["topics"][0]["partitions"][0]
    return Produced(error_code=result["error_code"], base_offset=result["base_offset"])


def codec_sent(
    values: Sequence[bytes], keys: Sequence[bytes], *, magic: int, codec: str, timestamp_ms: int
) -> str:
    """Return the codec with which `produce` sends these records: "none" if a batch would grow."""
    if magic < _ATTRIBUTES_SINCE:
        return codec
    batch = _batch_of(values, keys, magic=magic, codec=codec, timestamp_ms=timestamp_ms)
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    return CODECS[attributes & _CODEC_BITS]


def _batch_of(
    values: Sequence[bytes],
    keys: Sequence[bytes],
    *,
    magic: int,
    codec: str,
    headers: Sequence[tuple[str, bytes]] = (),
    timestamp_ms: int,
) -> bytes:
    builder = MemoryRecordsBuilder(magic, CODECS.index(codec), 1 << 30)
    named: Sequence[bytes | None] = keys or [None] * len(values)
    for value, key in zip(values, named, strict=True):
        if builder.append(timestamp_ms, key, value, headers=list(headers)) is None:
            raise ValueError(f"{len(values)} records do not fit into one batch")
    builder.close()
    return bytes(builder.buffer())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerRecord:
    """One record as a consumer gets it."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A broker's answer to one FetchRequest of a consumer.

    Attributes:
        error_code: Kafka's error code; 0 for none.
        high_watermark: Exclusive; -1 with an error.
        records: Those from the asked offset on, in order; offsets may be missing in between.
    """

    error_code: int
    high_watermark: int
    records: tuple[ConsumerRecord, ...] = ()


def fetch(
    address: str,
    *,
    topic: str,
    partition: int,
    offset: int,
    magic: int = 2,
    max_wait_ms: int = 0,
    most_bytes: int = _FETCH_BYTES,
    timeout_s: float = 10.0,
    from_follower: bool = False,
) -> Fetched:
    """Fetch records of one partition below the high watermark, as a consumer.

    `offset` is inclusive. `magic` is 1 for brokers before 0.11 (FetchRequest v3), else 2 (v4). With
    `from_follower` a follower answers too (FetchRequest v11, KIP-392, brokers from 2.3 on).
    `max_wait_ms` bounds the broker's read of the remote store, for which it allocates `most_bytes`.

    Raises:
        NotSent: The broker does not accept the connection.
        NoAnswer: It gave no answer.
    """
    version = _ALSO_FOLLOWERS if from_follower else 4 if magic == 2 else 3
    error_code, high_watermark, answered = fetch_raw(
        address,
        topic=topic,
        partition=partition,
        offset=offset,
        version=version,
        max_wait_ms=max_wait_ms,
        most_bytes=most_bytes,
        timeout_s=timeout_s,
    )
    if error_code:
        return Fetched(error_code=error_code, high_watermark=-1)
    records = tuple(records_of(answered, offset))
    return Fetched(error_code=0, high_watermark=high_watermark, records=records)


def tell(address: str, *, topic: str, partition: int, timeout_s: float = 10.0) -> PartitionMetadata:
    """Ask a broker for a partition's leader (Metadata version 1, which creates no topics).

    Raises:
        NotSent: The broker does not accept the connection.
        NoAnswer: It gave no answer.
    """
    request = {"topics": [{"topic": topic}]}
    answer = send(address, ApiKey.METADATA, request, version=1, timeout_s=timeout_s)
    brokers = tuple(sorted(broker["node_id"] for broker in answer["brokers"]))
    (topic_answer,) = answer["topics"]
    for told in topic_answer["partitions"]:
        if told["partition"] == partition:
            return PartitionMetadata(
                error_code=told["error_code"], leader=told["leader"], brokers=brokers
            )
    return PartitionMetadata(error_code=topic_answer["error_code"], leader=-1, brokers=brokers)


def fetch_raw(
    address: str,
    *,
    topic: str,
    partition: int,
    offset: int,
    version: int,
    max_wait_ms: int = 0,
    most_bytes: int = _FETCH_BYTES,
    timeout_s: float = 10.0,
) -> tuple[int, int, bytes]:
    """Fetch as `fetch` does, in one version of FetchRequest: from 0 to 4, or 11.

    Returns:
        Kafka's error code, the high watermark (exclusive), and the record set as it came.

    Raises:
        NotSent: The broker does not accept the connection.
        NoAnswer: It gave no answer.
    """
    answer = send(
        address,
        ApiKey.FETCH,
        fetch_request(
            topic, partition, offset=offset, max_wait_ms=max_wait_ms, most_bytes=most_bytes
        ),
        version=version,
        timeout_s=timeout_s,
    )
    partition_answer = answer["topics"][0]["partitions"][0]
    return (
        partition_answer["error_code"],
        partition_answer["high_watermark"],
        batches_in(partition_answer),
    )


def fetch_request(
    topic: str,
    partition: int,
    *,
    offset: int,
    max_wait_ms: int,
    most_bytes: int,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> dict[str, Any]:
    """Return the fields of a consumer's Fetch of one partition, without a session."""
    wanted = {
        "partition": partition,
        "current_leader_epoch": leader_epoch,
        "fetch_offset": offset,
        "last_fetched_epoch": last_fetched_epoch,
        "log_start_offset": -1,
        "partition_max_bytes": most_bytes,
    }
    return {
        "replica_id": _CONSUMER,
        "max_wait_ms": max_wait_ms,
        "min_bytes": 0,
        "max_bytes": most_bytes,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [wanted]}],
        "forgotten_topics": [],
        "rack_id": "",
    }


def batches_in(answered: Mapping[str, Any]) -> bytes:
    """Return the record set in a Fetch response's partition, unchanged."""
    records = answered["records"]
    return bytes(records.head) if isinstance(records, Records) else b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """A broker's answer to one ListOffsetsRequest; -1 for what it does not say."""

    error_code: int
    offset: int
    leader_epoch: int


def list_offset(
    address: str,
    *,
    topic: str,
    partition: int,
    timestamp: int,
    version: int,
    timeout_s: float = 10.0,
    from_follower: bool = False,
    leader_epoch: int = -1,
) -> ListedOffset:
    """Ask a leader for an offset, as a consumer.

    `timestamp` is -1 for the end and -2 for the start of the whole log; of a tiered one -4 for the
    local log's start (version 8, KIP-405) and -5 for the remote store's last offset (version 9).
    `version` is 4 or later. With `from_follower` a follower answers too, and the end is the log end
    offset instead of the high watermark (ListOffsetsRequest.DEBUGGING_REPLICA_ID). `leader_epoch`
    is the client's, -1 for none; a broker with another one answers with an error.

    Raises:
        NotSent: The broker does not accept the connection.
        NoAnswer: It gave no answer.
    """
    wanted = {"partition": partition, "current_leader_epoch": leader_epoch, "timestamp": timestamp}
    request = {
        "replica_id": _DEBUGGING if from_follower else _CONSUMER,
        "isolation_level": 0,
        "topics": [{"topic": topic, "partitions": [wanted]}],
        "timeout_ms": int(timeout_s * 1000),
    }
    answer = send(address, ApiKey.LIST_OFFSETS, request, version=version, timeout_s=timeout_s)
    partition_answer = answer["topics"][0]["partitions"][0]
    return ListedOffset(
        error_code=partition_answer["error_code"],
        offset=partition_answer["offset"],
        leader_epoch=partition_answer["leader_epoch"],
    )


def records_of(batches: bytes, offset: int) -> Iterator[ConsumerRecord]:
    """Yield records from an offset on; the first batch may begin before it.

    Args:
        batches: As a Fetch from version 4 on has them.
        offset: Inclusive.
    """
    records = MemoryRecords(batches)
    while (batch := records.next_batch()) is not None:
        for record in batch:
            if record.offset >= offset:
                yield ConsumerRecord(offset=record.offset, key=record.key, value=record.value)
