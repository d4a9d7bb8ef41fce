"""Follows fetch sessions, so that a fetch that names nothing is still known to cover partitions.

Source: KIP-227; ``FetchSession`` and ``FetchSessionHandler`` in 1.1.1. A session belongs to the
broker that answers, not to a connection. Its id is in the response to a full fetch; from then on
a request names only what changed and what is forgotten.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

PartitionKey = tuple[str | bytes, int]
"""A topic's name, or its 16-byte id from Fetch version 13 on, and the partition."""

_FULL_FETCH_EPOCHS = (-1, 0)
_MOST_SESSIONS = 4096


class FetchSessions:
    """The fetch sessions of one target broker, by session id."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._offsets: OrderedDict[int, dict[PartitionKey, int | None]] = OrderedDict()

    def requested(
        self,
        *,
        session_id: int,
        session_epoch: int,
        named: Mapping[PartitionKey, int],
        forgotten: Iterable[PartitionKey],
    ) -> Mapping[PartitionKey, int | None] | None:
        """Return the fetch offset of every partition that a request covers.

        Requests before version 7 are passed with session 0 and epoch -1. The result is None when
        the request belongs to a session whose beginning was not seen here.
        """
        with self._lock:
            if session_epoch in _FULL_FETCH_EPOCHS:
                # A full fetch that names a session closes it; the answer brings a new id.
                self._offsets.pop(session_id, None)
                return dict(named)
            offsets = self._offsets.get(session_id)
            if offsets is None:
                return None
            self._offsets.move_to_end(session_id)
            # A topic that was made again is forgotten by its former id, and named by the new one.
            for key in forgotten:
                offsets.pop(key, None)
            offsets.update(named)
            return dict(offsets)

    def opened(self, session_id: int, offsets: Mapping[PartitionKey, int | None]) -> None:
        """Remember the session that the answer to a full fetch announced (0: it opened none)."""
        if session_id == 0:
            return
        with self._lock:
            self._offsets[session_id] = dict(offsets)
            while len(self._offsets) > _MOST_SESSIONS:
                self._offsets.popitem(last=False)


class IdleFetches:
    """Tells fetches that say nothing new from those worth a record; one per connection."""

    def __init__(self) -> None:
        self._asked: list[dict[str, Any]] | None = None
        self._answered: dict[tuple[object, int], tuple[object, object]] = {}

    def is_idle_request(self, detail: Mapping[str, Any]) -> bool:
        """Return whether a Fetch request repeats the one before it, or keeps its session."""
        named, forgets = detail["partitions"], bool(detail.get("forgotten"))
        if not named and not forgets and detail.get("session_epoch", -1) > 0:
            return True
        repeated = bool(named == self._asked)
        self._asked = named
        return repeated and not forgets

    def is_idle_response(self, detail: Mapping[str, Any]) -> bool:
        """Return whether a Fetch response has no records, no error, no new high watermark."""
        idle = not detail.get("error_code")
        for entry in detail["partitions"]:
            key = (entry.get("topic") or entry.get("topic_id"), entry["partition"])
            seen = (entry.get("high_watermark"), entry.get("log_start_offset"))
            silent = not (
                entry.get("error_code")
                or entry.get("records_size_bytes")
                or entry.get("diverging_epoch")
            )
            idle = idle and silent and self._answered.get(key) == seen
            self._answered[key] = seen
        return idle
