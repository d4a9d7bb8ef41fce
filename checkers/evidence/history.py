"""history.jsonl: what clients did, as operations.

The file has a line when an operation is invoked and one when it ends: "ok", "fail" (it had no
effect) or "info" (nobody knows). "keys" are those of the "records", where they have any. The
invocation of a produce has what the model is told of it besides: "zxid", the last one before,
"step", and "codec", with which the batch was sent; "has_headers" is true where its records have
headers.
A read's "ok" line has "records", the values that it got, and "base_offset", the offset of the
first; "promised" there means that they lay below the leader's high watermark, as every record that
a consumer gets does. A produce has "timestamp_ms", the time that each of its records says, in
milliseconds since the epoch. "probe" is true in the lines of a write with which settling tries
whether the partition works. A fetch has "fetch_version", and its "ok" line the "magics" of the
batches that came, how many offsets were "readable", and "answer", the bytes as they came (base64).

A line of type "said" is a whole operation: what a test says that a client of its own had
acknowledged ("produce") or read. It has "payloads", the digests of its records, "values" where
these are short texts, "client", and "answered_at", when the test says that the answer came.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.formats.error_codes import REFUSES_RECORDS
from kchaos.checkers.json_form import NOT_WRITTEN, SOMETIMES
from kchaos.checkers.model.values.events import Produce
from kchaos.checkers.model.values.producers import ProducerMark
from kchaos.checkers.segments.batch import Record, payload_digest

HISTORY = "history.jsonl"
_CLOCK_STEPS_BACK_S = 1.0
_DIGEST = re.compile(r"[0-9a-f]{16}")


Transaction = Literal["", "open", "committed", "aborted", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation of one client on one partition.

    Attributes:
        function: "produce", "read", or "fetch", a Fetch of a stated version.
        acks: 0, 1 or -1 (all); 1 for a read, where it means nothing.
        outcome: "ok", "fail", "info", or "pending" if nothing came before the run ended.
        promised: Whether Kafka promised to keep its records.
        payloads: `payload_digest` of each record alone, in order.
        keys: The records' keys as they were sent; empty where all are null. Of a client of others
            each key is a text that stands for it, and empty where some are null.
        tombstones: Places, from 0 on, of its records without a value.
        base_offset: Offset of the first record, or -1.
        error: What came back instead, or "".
        error_code: Kafka's number of the error, or 0.
        invoked_at: Seconds since the epoch.
        ended_at: Likewise, or None.
        isr_when_ended: The ISR in ZooKeeper when it ended.
        leader_epochs: Those of its broker's while a produce went on, by ZooKeeper: it was appended
            in one of them, or in an earlier one of that broker's.
        codec: What its batch was compressed with when it was sent.
        timestamp_ms: Of each of its records as it was sent; None where the history does not say.
        has_headers: Whether its records have headers.
        is_probe: Whether settling wrote it to see if the partition still works: the scenario did
            not ask for it.
        fetch_version: Of a "fetch"; else None.
        magics: Of each batch that a "fetch" was answered with.
        readable: How many offsets a "fetch" had to read below the high watermark.
        client: A client that is not kchaos's own, in words; "" for kchaos's own.
        producer: What such a client's batch says of its producer; None where that has no id.
        transaction: How the transaction of such a batch ended, by what its coordinator answered:
            "committed", "aborted", "open" where no answer says it, "none" where it was sent outside
            of any; "" for what belongs to none.
        transaction_ended_at: When its coordinator answered that, or None.
        is_said: Whether a test says it of a client of its own, and no link saw it. Nobody knows
            whom it was sent to, nor when: `invoked_at` is 0, and so is `ended_at` where the test
            does not say it.
        values: The records' values as texts, where a test says them and they are short; else empty.
        read_at: File and line of its invocation.
    """

    operation: str
    function: str
    broker: int
    topic: str
    partition: int
    acks: int
    outcome: str
    promised: bool
    payloads: tuple[str, ...]
    keys: tuple[str, ...] = ()
    tombstones: tuple[int, ...] = ()
    base_offset: int = -1
    error: str = ""
    error_code: int = 0
    invoked_at: float = 0.0
    ended_at: float | None = None
    isr_when_ended: tuple[int, ...] = ()
    leader_epochs: tuple[int, ...] = ()
    codec: str = "none"
    timestamp_ms: int | None = None
    has_headers: bool = False
    is_probe: bool = False
    fetch_version: int | None = None
    magics: tuple[int, ...] = ()
    readable: int = 0
    client: str = ""
    producer: ProducerMark | None = None
    transaction: Transaction = ""
    transaction_ended_at: float | None = None
    is_said: bool = False
    values: tuple[str, ...] = ()
    read_at: str = ""

    @property
    def last_offset(self) -> int:
        """Offset of the last record, inclusive; -1 without a base offset."""
        return -1 if self.base_offset < 0 else self.base_offset + len(self.payloads) - 1

    @property
    def is_refused_probe(self) -> bool:
        """Whether settling wrote a record that the topic's settings, quotas or ACLs forbid.

        Nothing was appended, and it says nothing about replication.
        """
        return self.is_probe and self.error_code in REFUSES_RECORDS


LineType = Literal["invoke", "ok", "fail", "info", "said"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryLine:
    """One line: what a client asks for, how that ended, or both ("said"); fields as at the top."""

    time: float
    operation: str
    type: LineType
    function: Literal["produce", "read", "fetch"] | None = field(default=None, metadata=SOMETIMES)
    broker: int | None = field(default=None, metadata=SOMETIMES)
    topic: str | None = field(default=None, metadata=SOMETIMES)
    partition: int | None = field(default=None, metadata=SOMETIMES)
    acks: int | None = field(default=None, metadata=SOMETIMES)
    timestamp_ms: int | None = field(default=None, metadata=SOMETIMES)
    records: tuple[str | None, ...] | None = field(default=None, metadata=SOMETIMES)
    keys: tuple[str, ...] = field(default=(), metadata=SOMETIMES)
    zxid: int | None = field(default=None, metadata=SOMETIMES)
    step: int | None = field(default=None, metadata=SOMETIMES)
    codec: str | None = field(default=None, metadata=SOMETIMES)
    has_headers: bool = field(default=False, metadata=SOMETIMES)
    base_offset: int | None = field(default=None, metadata=SOMETIMES)
    promised: bool | None = field(default=None, metadata=SOMETIMES)
    error: str | None = field(default=None, metadata=SOMETIMES)
    error_code: int | None = field(default=None, metadata=SOMETIMES)
    probe: bool | None = field(default=None, metadata=SOMETIMES)
    fetch_version: int | None = field(default=None, metadata=SOMETIMES)
    magics: tuple[int, ...] = field(default=(), metadata=SOMETIMES)
    readable: int | None = field(default=None, metadata=SOMETIMES)
    answer: str | None = field(default=None, metadata=SOMETIMES)
    payloads: tuple[str, ...] = field(default=(), metadata=SOMETIMES)
    values: tuple[str, ...] = field(default=(), metadata=SOMETIMES)
    client: str | None = field(default=None, metadata=SOMETIMES)
    answered_at: float | None = field(default=None, metadata=SOMETIMES)
    read_at: str = field(default="", metadata=NOT_WRITTEN)


_ALWAYS = ("function", "broker", "topic", "partition", "acks", "probe")
_OF_PRODUCE = {
    "invoke": (*_ALWAYS, "timestamp_ms", "records", "zxid", "step", "codec"),
    "ok": (*_ALWAYS, "base_offset", "promised"),
    "fail": (*_ALWAYS, "error", "error_code"),
    "info": (*_ALWAYS, "error"),
}


def operations(files: EvidenceFiles, lines: Iterable[HistoryLine]) -> tuple[Operation, ...]:
    """Return the operations of kchaos's clients in these lines, in order of invocation.

    Raises:
        ScenarioDataError: A line lacks a field, ends what was never invoked or had ended, or
            contradicts the one that invoked it or itself.
    """
    by_name: dict[str, Operation] = {}
    for line in lines:
        name, place = line.operation, files.place(line.read_at)
        if line.type == "said":
            continue
        if line.type == "invoke":
            if name in by_name:
                raise ScenarioDataError(f"{place} invokes {name!r} once more")
            by_name[name] = _invoked(line, place)
            files.lacks(line.read_at, _lacking(line, by_name[name]))
        elif name in by_name:
            _refuse_contradictions(by_name[name], line, place)
            files.lacks(line.read_at, _lacking(line, by_name[name]))
            by_name[name] = _ended(by_name[name], line)
        else:
            raise ScenarioDataError(f"{place} ends {name!r}, which was not invoked before")
    return tuple(by_name.values())


def said(files: EvidenceFiles, lines: Iterable[HistoryLine]) -> Iterator[Operation]:
    """Yield a test's statements on records that its own clients had acknowledged, or read.

    Raises:
        ScenarioDataError: A line lacks a field, or has what no test can say.
    """
    for line in lines:
        if line.type != "said":
            continue
        place = files.place(line.read_at)
        topic, partition, base_offset = line.topic, line.partition, line.base_offset
        if topic is None or partition is None or base_offset is None or base_offset < 0:
            raise ScenarioDataError(f"{place} has no topic, partition and base offset")
        if line.function not in ("produce", "read") or not line.payloads:
            raise ScenarioDataError(f"{place} says neither what was acknowledged nor what was read")
        if not all(map(_DIGEST.fullmatch, line.payloads)):
            raise ScenarioDataError(f"{place} has payloads that are no digests")
        if line.values and len(line.values) != len(line.payloads):
            raise ScenarioDataError(f"{place} has {len(line.values)} values for its payloads")
        if line.keys and len(line.keys) != len(line.payloads):
            raise ScenarioDataError(f"{place} has {len(line.keys)} keys for its payloads")
        if line.acks not in (-1, 1):
            raise ScenarioDataError(f"{place} has acks {line.acks!r}, which is not -1 or 1")
        yield Operation(
            operation=line.operation,
            function=line.function,
            broker=-1,
            topic=topic,
            partition=partition,
            acks=line.acks,
            outcome="ok",
            promised=line.function == "read" or line.acks == -1,
            payloads=line.payloads,
            keys=line.keys,
            values=line.values,
            base_offset=base_offset,
            ended_at=line.answered_at or 0.0,
            client=f"{line.client or 'a client'} (as the test says)",
            is_said=True,
            read_at=line.read_at,
        )


def produces(files: EvidenceFiles, lines: Iterable[HistoryLine]) -> Iterator[TimedEvent]:
    """Yield the produces of a history as actions of the model.

    Raises:
        ScenarioDataError: A line that invokes no produce has zxid, step or codec; or some records
            of a produce have keys, and others none.
    """
    for line in lines:
        place = files.place(line.read_at)
        if (line.type, line.function) != ("invoke", "produce"):
            if (line.zxid, line.step, line.codec) != (None, None, None):
                raise ScenarioDataError(f"{place} has zxid, step or codec, and invokes no produce")
            continue
        if line.step is None or line.zxid is None or line.broker is None or line.partition is None:
            continue
        _refuse_other_keys(line, place)
        produce = Produce(
            operation=line.operation,
            broker=line.broker,
            topic=line.topic or "",
            partition=line.partition,
            records=tuple(record or "" for record in line.records or ()),
            acks=1 if line.acks is None else line.acks,
            codec=line.codec or "none",
            keys=line.keys,
        )
        yield TimedEvent(
            event=produce,
            zxid=line.zxid,
            time=line.time,
            step=line.step,
            began=line.time,
            read_at=line.read_at,
        )


def _lacking(line: HistoryLine, operation: Operation) -> Iterator[str]:
    """Yield each field of every produce that this line lacks."""
    if operation.function == "produce":
        yield from (field for field in _OF_PRODUCE[line.type] if getattr(line, field) is None)


def record_payload(value: str | None, key: str | None = None) -> str:
    """Return the `payload_digest` of one record with this key and value."""
    content = None if value is None else value.encode()
    name = None if key is None else key.encode()
    return payload_digest([Record(offset=0, timestamp=-1, key=name, value=content)])


def record_payloads(values: Sequence[str | None], keys: Sequence[str] = ()) -> tuple[str, ...]:
    """Return each record's `record_payload`; without keys all keys are null."""
    named: Sequence[str | None] = keys or [None] * len(values)
    return tuple(record_payload(*record) for record in zip(values, named, strict=True))


def _invoked(line: HistoryLine, place: str) -> Operation:
    function, broker, topic, partition = line.function, line.broker, line.topic, line.partition
    if function is None or broker is None or topic is None or partition is None:
        raise ScenarioDataError(
            f"{place} invokes {line.operation!r} without function, broker, topic and partition"
        )
    _refuse_other_keys(line, place)
    return Operation(
        operation=line.operation,
        function=function,
        broker=broker,
        topic=topic,
        partition=partition,
        acks=1 if line.acks is None else line.acks,
        outcome="pending",
        promised=False,
        payloads=record_payloads(line.records or (), line.keys),
        keys=line.keys,
        invoked_at=line.time,
        codec=line.codec or "none",
        timestamp_ms=line.timestamp_ms,
        has_headers=line.has_headers,
        is_probe=bool(line.probe),
        read_at=line.read_at,
    )


def _refuse_other_keys(line: HistoryLine, place: str) -> None:
    records = line.records or ()
    if line.keys and len(line.keys) != len(records):
        raise ScenarioDataError(f"{place} has {len(line.keys)} keys for {len(records)} records")


def _refuse_contradictions(operation: Operation, line: HistoryLine, place: str) -> None:
    """Refuse an end that cannot be this operation's, or that says two things."""
    name = operation.operation
    if operation.outcome != "pending":
        raise ScenarioDataError(f"{place} ends {name!r} once more")
    for of in ("function", "broker", "topic", "partition", "acks"):
        said = getattr(line, of)
        if said is not None and said != getattr(operation, of):
            raise ScenarioDataError(f"{place} ends {name!r} with {of} {said!r}")
    if line.time < operation.invoked_at - _CLOCK_STEPS_BACK_S:
        raise ScenarioDataError(f"{place} ends {name!r} before it was invoked")
    is_promise = operation.function == "read" or operation.acks == -1
    if operation.function == "fetch":
        agrees = not line.promised and line.base_offset is None
    elif line.type == "ok":
        agrees = bool(line.promised) == is_promise and not line.error and not line.error_code
        agrees = agrees and line.base_offset is not None and line.base_offset >= 0
    else:
        agrees = not line.promised and line.base_offset in (None, -1)
    if not agrees:
        raise ScenarioDataError(
            f"{place} ends {name!r} as {line.type!r}, and its base offset, promise or error say "
            "something else"
        )


def _ended(operation: Operation, line: HistoryLine) -> Operation:
    return replace(
        operation,
        outcome=line.type,
        promised=bool(line.promised),
        payloads=operation.payloads if line.records is None else record_payloads(line.records),
        base_offset=-1 if line.base_offset is None else line.base_offset,
        error=line.error or "",
        error_code=line.error_code or 0,
        fetch_version=line.fetch_version,
        magics=line.magics,
        readable=line.readable or 0,
        ended_at=line.time,
    )
