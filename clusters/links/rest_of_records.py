"""Batches of a Fetch response that is larger than a link's buffer, read while its rest passes."""

from collections.abc import Mapping
from typing import Any

from kchaos.checkers.formats.batches import LOG_OVERHEAD_BYTES, entries
from kchaos.clusters.links.wire import Records

_HEADER_BYTES = LOG_OVERHEAD_BYTES + 15
"""As much of a batch as `entries` reads: up to the last offset, which is relative."""
_MOST_BEHIND_BYTES = 16
"""Tagged fields behind the last partition's records have no more; another partition has."""


class RestOfRecords:
    """Headers of the batches behind the beginning of a record set that a link has at hand.

    Kafka sends records from the file: what it had not sent when its log was truncated and written
    anew comes from the new content (KAFKA-18723).
    """

    def __init__(self, records: Records, rest_bytes: int) -> None:
        self._size_bytes = records.size_bytes
        self._at = len(records.head)
        self._rest_bytes = rest_bytes
        last = [*entries(records.head, records.size_bytes)][-1:]
        self._next = sum((place.position + place.size_bytes for place in last), 0)
        self._header = bytearray(records.head[self._next :])
        self._batches: list[tuple[int, int, int | None]] = []

    def more(self, chunk: memoryview) -> None:
        """Go on with the next bytes of the message."""
        self._rest_bytes -= len(chunk)
        begin, end = self._at, min(self._at + len(chunk), self._size_bytes)
        while self._next + len(self._header) < end:
            start = max(self._next + len(self._header), begin)
            wanted = min(self._next + _HEADER_BYTES, end)
            self._header += chunk[start - begin : wanted - begin]
            if len(self._header) < _HEADER_BYTES:
                break
            left = self._size_bytes - self._next
            place = next(entries(memoryview(bytes(self._header)), left), None)
            if place is None:
                self._next = self._size_bytes
                break
            self._batches.append((place.offset, place.last_offset, place.leader_epoch))
            self._next += place.size_bytes
            self._header.clear()
        self._at += len(chunk)

    @property
    def is_read(self) -> bool:
        """Whether all has passed, and nothing but these records was left unread."""
        return not self._rest_bytes and self._at - self._size_bytes <= _MOST_BEHIND_BYTES

    def completed(self, detail: Mapping[str, Any]) -> dict[str, Any]:
        """Return a response's detail with these batches, which are its last partition's."""
        *others, entry = detail["partitions"]
        read = {**entry, "rest": [list(batch) for batch in self._batches]}
        if self._batches:
            _, read["last_offset"], read["last_leader_epoch"] = self._batches[-1]
        read["batch_count"] = entry["batch_count"] + len(self._batches)
        whole = {name: value for name, value in detail.items() if name != "is_whole"}
        return {**whole, "partitions": [*others, read]}
