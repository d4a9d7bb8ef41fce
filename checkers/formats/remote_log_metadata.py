"""Records of `__remote_log_metadata`: the segments in the remote store, and their states.

Sources: RemoteLogSegmentMetadataRecord.json and RemoteLogSegmentMetadataUpdateRecord.json of
Kafka's storage module, which are the same in 3.6.2 and 3.9; RemoteLogMetadataSerde and
AbstractApiMessageSerde for the frame around them; RemoteLogSegmentState for the numbers of states.
"""

import struct
from dataclasses import dataclass
from typing import Any

from kchaos.checkers.formats.fields import CompactReader, MalformedError

SEGMENT, SEGMENT_UPDATE = 0, 1
_FRAME = 1
STATES = {
    0: "COPY_SEGMENT_STARTED",
    1: "COPY_SEGMENT_FINISHED",
    2: "DELETE_SEGMENT_STARTED",
    3: "DELETE_SEGMENT_FINISHED",
}
"""RemoteLogSegmentState by id."""


class RemoteLogMetadataError(Exception):
    """A record of the topic does not have the documented form; the message says what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegmentRecord:
    """One record: a segment is begun to be copied, or is in another state from now on.

    Attributes:
        segment_id: The segment's uuid as Kafka prints it (base64).
        topic_id: Likewise, the topic's.
        broker: Who wrote it.
        time_ms: When it was made, milliseconds since the epoch.
        state: One of `STATES`.
        start_offset: Inclusive; None in an update, like all that follow.
        end_offset: Inclusive.
        leader_epochs: (leader epoch, its first offset in this segment), ascending.
        size_bytes: Of the segment's `.log` file.
        max_timestamp_ms: The largest timestamp of its records, milliseconds since the epoch.
    """

    segment_id: str
    topic_id: str
    topic: str
    partition: int
    broker: int
    time_ms: int
    state: str
    start_offset: int | None = None
    end_offset: int | None = None
    leader_epochs: tuple[tuple[int, int], ...] | None = None
    size_bytes: int | None = None
    max_timestamp_ms: int | None = None


def parse_remote_segment(value: bytes) -> RemoteSegmentRecord | None:
    """Return what a record's value says; None for one about a whole partition that is deleted.

    Raises RemoteLogMetadataError for another shape, or a version that is not known.
    """
    reader = CompactReader(value)
    try:
        frame, kind, version = reader.varint(), reader.varint(), reader.varint()
        if frame != _FRAME:
            raise RemoteLogMetadataError(f"a record has frame version {frame}, not {_FRAME}")
        if kind not in (SEGMENT, SEGMENT_UPDATE):
            return None
        if version != 0:
            raise RemoteLogMetadataError(f"a record of kind {kind} has version {version}, not 0")
        record = _segment(reader, kind)
    except (struct.error, IndexError, UnicodeDecodeError, KeyError, MalformedError) as error:
        raise RemoteLogMetadataError(f"a record breaks off or is damaged: {error!r}") from error
    if reader.left:
        raise RemoteLogMetadataError(f"a record has {reader.left} bytes after its end")
    return record


def _segment(reader: CompactReader, kind: int) -> RemoteSegmentRecord:
    """Return a record of that kind; an update lacks what only the copy's begin says."""
    segment: dict[str, Any] = {"topic": (reader.octets() or b"").decode()}
    segment |= {"topic_id": reader.uuid(), "partition": reader.number(">i")}
    reader.tags()
    segment["segment_id"] = reader.uuid()
    reader.tags()
    if kind == SEGMENT:
        segment |= {"start_offset": reader.number(">q"), "end_offset": reader.number(">q")}
    segment["broker"] = reader.number(">i")
    if kind == SEGMENT:
        segment["max_timestamp_ms"] = reader.number(">q")
    segment["time_ms"] = reader.number(">q")
    if kind == SEGMENT:
        epochs = []
        for _ in range(reader.varint() - 1):
            epochs.append((reader.number(">i"), reader.number(">q")))
            reader.tags()
        segment |= {"leader_epochs": tuple(sorted(epochs)), "size_bytes": reader.number(">i")}
    reader.octets()
    segment["state"] = STATES[reader.number(">b")]
    reader.tags()
    return RemoteSegmentRecord(**segment)
