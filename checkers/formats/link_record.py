"""A line of links.jsonl: one message between brokers as it passed a link, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kchaos.checkers.acts import Direction
from kchaos.checkers.json_form import NOT_WRITTEN

Fate = Literal["passed", "held", "released", "cut", "abandoned", "replaced", "forged", "completed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRecord:
    """One message at a link, and what became of it; links write it and evidence reads it.

    A message that waits at a hold or a cut has a record when it begins to wait (``held``,
    ``cut``), and every message that goes on has one, written before its first byte is sent:
    ``passed`` or ``released``. What reaches nobody is ``abandoned`` instead: what
    waited at a cut when its sender had hung up or died by the time the cut healed, with all that
    followed it on its connection; what waited when its connection was reset; a response whose
    client had hung up by then (a fetcher whose request timed out, say); and a request whose target
    had hung up or died. Of a message larger than
    the relay's buffer the head may pass and what is left may not: then it has both records.
    A Fetch response larger than that has a further record, ``completed``, before its last bytes are
    sent, with the batches that were read while the rest passed.
    Where a forgery is in force, what the broker answered is ``replaced``, and the record after it
    is what the asker got instead, ``forged``.

    Attributes:
        sequence: Counts records from 1.
        wall_time_s: Seconds since the epoch.
        source: The broker that sends the request, in both directions; None if it is not known.
        target: The broker that answers it, likewise.
        api: Kafka's name of the API, in its own spelling; None for a key without one here.
        api_version: None where the request is not known, of which this is the response.
        detail: What the body says; None where it was not read.
        read_at: File and line where it was read, such as "links.jsonl:12".
    """

    sequence: int
    monotonic_s: float
    wall_time_s: float
    connection: int
    source: int | None
    target: int | None
    api_key: int
    api: str | None
    api_version: int | None
    correlation_id: int
    client_id: str | None
    direction: Direction
    fate: Fate
    detail: Mapping[str, Any] | None
    read_at: str = field(default="", metadata=NOT_WRITTEN)

    def partition(self, topic: str, partition: int) -> Mapping[str, Any] | None:
        """Return the message's own entry for one partition; None when it does not name it."""
        for entry in (self.detail or {}).get("partitions", ()):
            if entry.get("topic") == topic and entry.get("partition") == partition:
                named: Mapping[str, Any] = entry
                return named
        return None

    def describe(self) -> str:
        """Describe the record in a few words, for messages."""
        name = self.api or f"api {self.api_key}"
        return (
            f"{name} v{self.api_version} {self.direction} {self.source}->{self.target} "
            f"#{self.correlation_id} {self.fate}"
        )
