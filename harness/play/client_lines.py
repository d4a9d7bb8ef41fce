"""Writes down what others' clients did, as the links in front of brokers saw it."""

import hashlib
import pickle
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kchaos.checkers.evidence.clients import ClientBatch, ClientLine, ClientPartition
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.fields import MalformedError
from kchaos.checkers.segments.batch import Batch, Record, payload_digest
from kchaos.checkers.segments.compression import UndecodableError
from kchaos.checkers.segments.reader import iter_batches, read_records
from kchaos.clusters.links.client_talk import ClientMessage, values_of
from kchaos.clusters.links.details import partitions_of
from kchaos.clusters.links.wire import Records

_SHORT_BYTES = 64
_BUFFER_BYTES = 1024 * 1024
_FIELDS = (
    "transactional_id",
    "acks",
    "isolation_level",
    "producer_id",
    "producer_epoch",
    "committed",
    "error_code",
)
_OF_PARTITION = (
    "error_code",
    "base_offset",
    "fetch_offset",
    "high_watermark",
    "last_stable_offset",
    "log_start_offset",
)
_Idle = dict[tuple[int, str | None, int], ClientPartition]


class ClientLines:
    """Keeps messages in a file while they pass, and makes lines of them when all have passed.

    So no client waits for digests. Answers to fetches that say nothing new get no line.
    """

    def __init__(self) -> None:
        # It is closed by `lines`.
        self._file = tempfile.TemporaryFile(buffering=_BUFFER_BYTES)  # noqa: SIM115
        self._kept = 0
        self._last: _Idle = {}

    def take(self, message: ClientMessage) -> None:
        """Keep a message; whoever calls this sees to it that nobody else does meanwhile."""
        # A plain tuple: a name for its class would take longer than all it holds.
        pickle.dump(tuple(message), self._file, pickle.HIGHEST_PROTOCOL)
        self._kept += 1

    def lines(self, name_of: Callable[[str | bytes], str | None]) -> Iterator[ClientLine]:
        """Yield the lines, once, in the order in which the links passed the messages on.

        Args:
            name_of: The name of a topic by its id, None for one that nobody knows.
        """
        with self._file as file:
            file.seek(0)
            for _ in range(self._kept):
                line = line_of(ClientMessage(*pickle.load(file)), name_of)
                if line.api == "Fetch" and line.direction == "response" and not line.not_judged:
                    said = tuple(told for told in line.partitions if self._is_news(line, told))
                    if not said and not line.error_code:
                        continue
                    line = replace(line, partitions=said)
                yield line

    def _is_news(self, line: ClientLine, told: ClientPartition) -> bool:
        key = (line.connection, told.topic, told.partition)
        is_new = self._last.get(key) != told
        self._last[key] = replace(told, batches=())
        return is_new


def line_of(message: ClientMessage, name_of: Callable[[str | bytes], str | None]) -> ClientLine:
    """Return the line of a message; topic ids get the names that `name_of` knows."""
    values, why = values_of(message, name_of)
    return ClientLine(
        sequence=message.sequence,
        link_sequence=message.link_sequence,
        time=message.time,
        connection=message.connection,
        broker=message.broker,
        direction=message.direction,
        api="" if message.api_key is None else ApiKey(message.api_key).spelled,
        api_version=message.api_version,
        correlation_id=message.correlation_id,
        client_id=message.client_id,
        address=message.address,
        group=message.group,
        partitions=tuple(_partitions(values)),
        answered_bytes=message.answered_bytes,
        not_judged=why,
        **{name: values[name] for name in _FIELDS if name in values},
    )


def _partitions(values: Mapping[str, Any]) -> Iterator[ClientPartition]:
    topics = values.get("topics", [])
    for topic in topics:
        name = topic.get("topic")
        for (_, number), told in partitions_of([topic]):
            fields = told if isinstance(told, dict) else {}
            records = fields.get("records")
            aborted = fields.get("aborted_transactions") or ()
            yield ClientPartition(
                topic=name,
                partition=number,
                aborted=tuple(
                    (transaction["producer_id"], transaction["first_offset"])
                    for transaction in aborted
                ),
                batches=tuple(batches_of(records.head)) if isinstance(records, Records) else (),
                **{name: fields[name] for name in _OF_PARTITION if name in fields},
            )


def batches_of(records: bytes | memoryview) -> Iterator[ClientBatch]:
    """Yield each batch of a record set, without a last one that the broker cut off."""
    last: Batch | None = None
    # Producers number their records from 0, or not at all: only fetched offsets increase.
    for item in iter_batches(records, base_offset=-(1 << 62), file=""):
        if isinstance(item, Batch):
            last = item
            yield _batch(records, item)
        elif item.kind == "corrupt-batch" and not _is_of(item, last):
            yield ClientBatch(
                base_offset=-1,
                last_offset=-1,
                magic=-1,
                codec="",
                payloads=(),
                not_judged=item.message,
            )


def _is_of(finding: Finding, batch: Batch | None) -> bool:
    """Return whether a finding is about a batch that could be read."""
    return batch is not None and finding.evidence.get("position") == batch.position


def _batch(data: bytes | memoryview, batch: Batch) -> ClientBatch:
    records: tuple[Record, ...] = ()
    why = ""
    try:
        records = read_records(data, batch)
    except (UndecodableError, MalformedError) as error:
        why = f"{batch.codec}: {error}"
    keys = [None if record.key is None else _key_text(record.key) for record in records]
    values = [short_text(record.value) for record in records]
    is_whole = len(records) == batch.last_offset - batch.base_offset + 1
    return ClientBatch(
        base_offset=batch.base_offset,
        last_offset=batch.last_offset,
        magic=batch.magic,
        codec=batch.codec,
        payloads=tuple(payload_digest([record]) for record in records),
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        first_timestamp=batch.first_timestamp,
        max_timestamp=batch.max_timestamp,
        offsets=() if is_whole else tuple(record.offset for record in records),
        keys=tuple(key for key in keys if key is not None) if None not in keys else (),
        tombstones=tuple(place for place, each in enumerate(records) if each.value is None),
        values=tuple(value for value in values if value is not None) if None not in values else (),
        control_type=batch.control_type or "",
        not_judged=why,
    )


def _key_text(key: bytes) -> str:
    """Return the key, or a substitute for a key that is no short text."""
    text = short_text(key)
    return f"\ufffd{hashlib.blake2b(key, digest_size=8).hexdigest()}" if text is None else text


def short_text(content: bytes | None) -> str | None:
    """Return the text of a key or value; None for null, long content, or no text."""
    if content is None or len(content) > _SHORT_BYTES:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
