"""What links saw last of the fetches of each partition, however long ago that was."""

import threading
from collections import deque
from collections.abc import Iterator, Sequence

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.link_record import LinkRecord

_MOST_FAILED = 100
_ARRIVED = ("passed", "released")
Ends = tuple[int | None, int | None]
"""A follower and its leader."""


class Fetches:
    """The index of fetches. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[Ends, TopicPartition, str], LinkRecord] = {}
        self._failed: dict[tuple[Ends, TopicPartition], deque[LinkRecord]] = {}

    def add(self, record: LinkRecord) -> None:
        """Add a record of any API, in the order of the links."""
        if record.api_key != ApiKey.FETCH or record.fate == "completed":
            return
        ends = (record.source, record.target)
        with self._lock:
            for partition, field, error_code in _named(record):
                if record.direction == "request":
                    if record.fate in _ARRIVED:
                        self._requests[ends, partition, field] = record
                elif error_code:
                    failed = self._failed.setdefault((ends, partition), deque(maxlen=_MOST_FAILED))
                    failed.append(record)
                else:
                    self._failed.pop((ends, partition), None)

    def last(
        self, follower: int, leader: int, partition: TopicPartition, field: str = "partitions"
    ) -> LinkRecord | None:
        """Return the last Fetch that went on and names the partition, or None.

        The `field` "forgotten" asks for the last one that removes it from its fetch session.
        """
        with self._lock:
            return self._requests.get(((follower, leader), partition, field))

    def failed(self, follower: int, leader: int, partition: TopicPartition) -> Sequence[LinkRecord]:
        """Return the newest 100 answers with an error of the partition, since one without."""
        with self._lock:
            return tuple(self._failed.get(((follower, leader), partition), ()))


def _named(record: LinkRecord) -> Iterator[tuple[TopicPartition, str, int | None]]:
    """Yield each partition that the message names, in which field, and its error code."""
    for field in ("partitions", "forgotten"):
        for entry in (record.detail or {}).get(field, ()):
            partition = TopicPartition(entry.get("topic"), entry.get("partition"))
            yield partition, field, entry.get("error_code")
