"""Writes down what others' clients did, as the links in front of brokers saw it."""

import hashlib
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

from kchaos.checkers.children import dying_with_parent
from kchaos.checkers.evidence.clients import CLIENTS, ClientBatch, ClientLine, ClientPartition
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.fields import MalformedError
from kchaos.checkers.json_form import to_json
from kchaos.checkers.run_directory import json_line
from kchaos.checkers.segments.batch import Batch, Record, payload_digest
from kchaos.checkers.segments.compression import UndecodableError
from kchaos.checkers.segments.reader import iter_batches, read_records
from kchaos.clusters.errors import LinkError
from kchaos.clusters.links.client_talk import ClientMessage, values_of
from kchaos.clusters.links.details import partitions_of
from kchaos.clusters.links.wire import Records

_SHORT_BYTES = 64
_BUFFER_BYTES = 1024 * 1024
_AT_ONCE = 1_000
"""So many messages are written down until the child is told of them."""
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
_NameOf = Callable[[str | bytes], str | None]


class ClientLines:
    """Keeps messages in a file while they pass; a child process writes lines of them meanwhile.

    So no client waits for digests, and at the end of a run little is left to write.
    """

    def __init__(self, path: Path, name_of: _NameOf) -> None:
        """Have lines appended to the file at `path`, in the order in which messages are taken.

        Args:
            path: A file of a run directory.
            name_of: The name of a topic by its id, None for one that nobody knows. A message with
                such an id waits, and those behind it, until it is known or no more messages come.
        """
        # It is closed by `end` or `stop`.
        self._file = tempfile.TemporaryFile(buffering=_BUFFER_BYTES)  # noqa: SIM115
        self._name_of = name_of
        self._kept = 0
        self._has_changed = threading.Condition()
        self._written, self._is_over = 0, False
        self._error: Exception | None = None
        number = self._file.fileno()
        self._child = subprocess.Popen(
            [sys.executable, "-m", __name__, str(number), str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(number,),
            # Ctrl-C in a terminal is not for it: a run that ends still has its lines written.
            start_new_session=True,
            preexec_fn=dying_with_parent(),
        )
        self._thread = threading.Thread(target=self._answer, name="client-lines", daemon=True)
        self._thread.start()

    def take(self, message: ClientMessage) -> None:
        """Keep a message; whoever calls this sees to it that nobody else does meanwhile."""
        # A plain tuple: a name for its class would take longer than all it holds.
        pickle.dump(tuple(message), self._file, pickle.HIGHEST_PROTOCOL)
        self._kept += 1
        if self._kept % _AT_ONCE == 0:
            self._tell()

    def end(self) -> None:
        """Wait until all that was taken has its line.

        Raises:
            LinkError: The child process was ended; what kept it from writing is raised as it is.
        """
        self._tell(is_over=True)
        self._thread.join()
        self.stop()
        if self._error is not None:
            raise self._error
        if self._child.returncode:
            raise LinkError(
                f"the process that writes {CLIENTS} ended with {self._child.returncode}; the file "
                "is incomplete, so treat the run as unknown"
            )

    def stop(self) -> None:
        """Write no more lines."""
        if self._thread.is_alive():
            self._child.kill()
            self._thread.join()
        self._child.wait()
        self._file.close()

    def _tell(self, *, is_over: bool = False) -> None:
        self._file.flush()
        with self._has_changed:
            self._written, self._is_over = self._kept, is_over
            self._has_changed.notify_all()

    def _answer(self) -> None:
        """Answer what the child asks: for more messages than it has read, or for a topic's name."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with self._child.stdin as answers, self._child.stdout as questions:
            try:
                while not isinstance(asked := pickle.load(questions), Exception):
                    is_topic = isinstance(asked, bytes)
                    answer = self._named(asked) if is_topic else self._more_than(asked)
                    pickle.dump(answer, answers)
                    answers.flush()
                self._error = asked
            except EOFError:
                pass  # It has ended, and its exit code says how.
            except Exception as error:  # noqa: BLE001 - raised by end() in the caller's thread
                self._error = error

    def _more_than(self, read: int) -> int:
        """Return how many messages are in the file, once there are more or no more can come."""
        with self._has_changed:
            self._has_changed.wait_for(lambda: self._written > read or self._is_over)
            return self._written

    def _named(self, topic_id: bytes) -> str | None:
        written = 0
        while (name := self._name_of(topic_id)) is None and not self._is_over:
            written = self._more_than(written)
        return name


def main() -> None:
    """Write lines of the messages in a file that grows, until the parent process has no more."""
    number, path = sys.argv[1:]

    def ask(about: int | bytes) -> Any:
        pickle.dump(about, sys.stdout.buffer)
        sys.stdout.flush()
        return pickle.load(sys.stdin.buffer)

    @cache
    def name_of(topic: str | bytes) -> str | None:
        return topic if isinstance(topic, str) else ask(topic)

    def messages(file: BinaryIO) -> Iterator[ClientMessage]:
        read = 0
        while (written := ask(read)) > read:
            for _ in range(written - read):
                yield ClientMessage(*pickle.load(file))
            read = written

    try:
        # Opened anew it has a place of its own to read at.
        with open(f"/proc/self/fd/{number}", "rb") as file, open(path, "ab") as lines:
            for line in lines_of(messages(file), name_of):
                lines.write(json_line(to_json(line)))
    except Exception as error:  # noqa: BLE001 - the parent process raises it
        pickle.dump(error, sys.stdout.buffer)


def lines_of(messages: Iterable[ClientMessage], name_of: _NameOf) -> Iterator[ClientLine]:
    """Yield lines of messages; answers to fetches that say nothing new get none."""
    last: dict[tuple[int, str | None, int], ClientPartition] = {}

    def is_news(line: ClientLine, told: ClientPartition) -> bool:
        key = (line.connection, told.topic, told.partition)
        is_new = last.get(key) != told
        last[key] = replace(told, batches=())
        return is_new

    for message in messages:
        line = line_of(message, name_of)
        if line.api == "Fetch" and line.direction == "response" and not line.not_judged:
            said = tuple(told for told in line.partitions if is_news(line, told))
            if not said and not line.error_code:
                continue
            line = replace(line, partitions=said)
        yield line


def line_of(message: ClientMessage, name_of: _NameOf) -> ClientLine:
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


if __name__ == "__main__":
    main()
