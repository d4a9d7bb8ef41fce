"""Transaction markers: what coordinators had partition leaders write, as links between brokers saw.

A coordinator sends WriteTxnMarkers to the leader of each partition of a transaction that has ended,
to itself too, and sends it again until each partition was answered without an error
(TransactionMarkerChannelManager). Nothing says at which offset a marker lies.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.links import ARRIVED, LinkMessage, partition_details
from kchaos.checkers.formats.error_codes import appended_nothing, error_name
from kchaos.checkers.json_form import SOMETIMES
from kchaos.checkers.model.values.producers import ProducerMark
from kchaos.checkers.segments.batch import Record, payload_digest

_WRITE_MARKERS = "WriteTxnMarkers"
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_COMMIT, _ABORT = 1, 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """One marker that a coordinator asked one leader to write to one partition.

    Attributes:
        operation: Names the request in the record of a run.
        broker: Whom it was sent to.
        is_commit: Whether it commits; else it aborts.
        asked_at: Seconds since the epoch.
        answered_at: Likewise, or None.
        error_code: Kafka's number of the error that it was answered with.
        read_at: File and line of the request.
        answer_read_at: Likewise of the answer.
    """

    operation: str
    broker: int
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int
    asked_at: float
    answered_at: float | None = field(default=None, metadata=SOMETIMES)
    error_code: int = field(default=0, metadata=SOMETIMES)
    read_at: str = field(default="", metadata=SOMETIMES)
    answer_read_at: str = field(default="", metadata=SOMETIMES)

    @property
    def mark(self) -> ProducerMark:
        """The producer's mark in the batch."""
        return ProducerMark(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            is_transactional=True,
            coordinator_epoch=self.coordinator_epoch,
        )

    @property
    def payload(self) -> str:
        """`payload_digest` of its one record (EndTransactionMarker, version 0 of both schemas)."""
        key = _KEY.pack(0, _COMMIT if self.is_commit else _ABORT)
        value = _VALUE.pack(0, self.coordinator_epoch)
        return payload_digest([Record(offset=0, timestamp=-1, key=key, value=value)])

    @property
    def is_written(self) -> bool:
        """Whether its leader said that it is written."""
        return self.answered_at is not None and self.error_code == 0

    @property
    def outcome(self) -> str:
        """As of a produce: "ok", "fail" (it had no effect) or "info" (nobody knows)."""
        if not self.error_code:
            return "ok"
        # A leader waits for all in sync before it answers for a marker.
        return "fail" if appended_nothing(self.error_code, acks=-1) else "info"

    @property
    def error(self) -> str:
        """Kafka's name of the error, or ""."""
        return error_name(self.error_code) if self.error_code else ""


def markers_of(
    messages: Iterable[LinkMessage], is_known: Callable[[LinkMessage], bool] = lambda _: True
) -> tuple[Marker, ...] | None:
    """Return the sent markers in order, or None if links did not record their kind.

    A broker hangs up on a request in a version that is not `is_known` to it.
    """
    sent: dict[tuple[int, int, int, TopicPartition], Marker] = {}
    for message in messages:
        if message.api != _WRITE_MARKERS or message.fate not in ARRIVED:
            continue
        if message.detail is None or message.detail.get("is_whole") is False:
            return None
        for partition, entry in partition_details(message):
            number = (message.connection, message.correlation_id)
            key = (*number, int(entry["producer_id"]), partition)
            if message.direction == "request" and message.target is not None:
                if not is_known(message):
                    continue
                named = f"{partition.topic}-{partition.partition}"
                sent[key] = Marker(
                    operation=f"marker-{number[0]}-{number[1]}-{entry['producer_id']}-{named}",
                    broker=message.target,
                    topic=partition.topic,
                    partition=partition.partition,
                    producer_id=entry["producer_id"],
                    producer_epoch=entry["producer_epoch"],
                    is_commit=bool(entry["transaction_result"]),
                    coordinator_epoch=entry["coordinator_epoch"],
                    asked_at=message.wall_time_s,
                    read_at=message.read_at,
                )
            elif key in sent:
                sent[key] = replace(
                    sent[key],
                    answered_at=message.wall_time_s,
                    error_code=entry["error_code"],
                    answer_read_at=message.read_at,
                )
    return tuple(sent.values())
