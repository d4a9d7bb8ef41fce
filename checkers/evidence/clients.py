"""clients.jsonl: what clients that are not kchaos's own asked brokers for, and what they were told.

The relay in front of each broker's listener for clients makes a line for each Produce, Fetch,
InitProducerId, AddPartitionsToTxn and EndTxn, and for each answer. "sequence" is their order, and
"link_sequence" places them among the lines of links.jsonl: all with a smaller number came before.
A line that has "not_judged" says why the relay could not read a message, which passed all the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.actions import is_internal
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.history import Operation, Transaction
from kchaos.checkers.formats.error_codes import ErrorCode, appended_nothing, error_name
from kchaos.checkers.json_form import NOT_WRITTEN, SOMETIMES
from kchaos.checkers.model.values.producers import ProducerMark
from kchaos.checkers.model.values.replacing import replace

CLIENTS = "clients.jsonl"
READ_COMMITTED = 1
_MODELLED_ERRORS = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_FOR_PARTITION,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.TRANSACTION_ABORTABLE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientBatch:
    """One batch that a client sent or was given.

    Attributes:
        base_offset: As the wire has it: 0 in what is sent; a fetch is answered with offsets.
        last_offset: Inclusive.
        payloads: `payload_digest` of each record alone, in order.
        offsets: The records' offsets, where a log cleaner made them skip some; else empty.
        keys: The records' keys, where all have one; else empty. For a key that is no short text
            stands a digest of it behind "\\ufffd".
        tombstones: Places, from 0 on, of records without a value.
        values: The records' values, where each is a short text; else empty.
        control_type: "COMMIT" or "ABORT" of a transaction's marker; "" of what is none.
        not_judged: Why its records could not be read, or "".
    """

    base_offset: int
    last_offset: int
    magic: int
    codec: str
    payloads: tuple[str, ...]
    producer_id: int = field(default=-1, metadata=SOMETIMES)
    producer_epoch: int = field(default=-1, metadata=SOMETIMES)
    base_sequence: int = field(default=-1, metadata=SOMETIMES)
    is_transactional: bool = field(default=False, metadata=SOMETIMES)
    is_control: bool = field(default=False, metadata=SOMETIMES)
    first_timestamp: int = field(default=-1, metadata=SOMETIMES)
    max_timestamp: int = field(default=-1, metadata=SOMETIMES)
    offsets: tuple[int, ...] = field(default=(), metadata=SOMETIMES)
    keys: tuple[str, ...] = field(default=(), metadata=SOMETIMES)
    tombstones: tuple[int, ...] = field(default=(), metadata=SOMETIMES)
    values: tuple[str, ...] = field(default=(), metadata=SOMETIMES)
    control_type: str = field(default="", metadata=SOMETIMES)
    not_judged: str = field(default="", metadata=SOMETIMES)

    @property
    def producer(self) -> ProducerMark | None:
        """The producer that it names; None where that has no id."""
        if self.producer_id < 0:
            return None
        return ProducerMark(
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            is_transactional=self.is_transactional,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientPartition:
    """Content of a message about one partition.

    Attributes:
        topic: None for a topic id whose name nobody knows.
        error_code: Kafka's number of the error that it was answered with.
        base_offset: At which a broker says that it appended what was sent; -1 where it says none.
        fetch_offset: From which a client asks to read.
        high_watermark: As the answer to a fetch says it; -1 elsewhere.
        last_stable_offset: Likewise; -1 before version 4 too.
        aborted: Of the answer to a read_committed fetch: producer id and first offset of each
            aborted transaction whose records a client is to leave out.
        batches: What was sent, or what came.
    """

    topic: str | None
    partition: int
    error_code: int = field(default=0, metadata=SOMETIMES)
    base_offset: int = field(default=-1, metadata=SOMETIMES)
    fetch_offset: int = field(default=-1, metadata=SOMETIMES)
    high_watermark: int = field(default=-1, metadata=SOMETIMES)
    last_stable_offset: int = field(default=-1, metadata=SOMETIMES)
    log_start_offset: int = field(default=-1, metadata=SOMETIMES)
    aborted: tuple[tuple[int, int], ...] = field(default=(), metadata=SOMETIMES)
    batches: tuple[ClientBatch, ...] = field(default=(), metadata=SOMETIMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLine:
    """One line: a client's message or its answer; see the head of this module.

    Attributes:
        api: In Kafka's own spelling; "" for bytes that are no messages.
        group: The consumer group in which that client was last seen, or "".
        isolation_level: Of a Fetch; 1 is read_committed.
        committed: Of an EndTxn, whether it asks to commit.
        answered_bytes: How many bytes a broker answered to what is no message.
    """

    sequence: int
    link_sequence: int
    time: float
    connection: int
    broker: int
    direction: Literal["request", "response"]
    api: str
    api_version: int
    correlation_id: int
    client_id: str | None
    address: str
    group: str = field(default="", metadata=SOMETIMES)
    transactional_id: str | None = field(default=None, metadata=SOMETIMES)
    acks: int | None = field(default=None, metadata=SOMETIMES)
    isolation_level: int = field(default=0, metadata=SOMETIMES)
    producer_id: int = field(default=-1, metadata=SOMETIMES)
    producer_epoch: int = field(default=-1, metadata=SOMETIMES)
    committed: bool | None = field(default=None, metadata=SOMETIMES)
    error_code: int = field(default=0, metadata=SOMETIMES)
    partitions: tuple[ClientPartition, ...] = field(default=(), metadata=SOMETIMES)
    answered_bytes: int = field(default=0, metadata=SOMETIMES)
    not_judged: str = field(default="", metadata=SOMETIMES)
    read_at: str = field(default="", metadata=NOT_WRITTEN)

    @property
    def who(self) -> str:
        """The client in words."""
        named = [
            f"client {self.client_id!r}" if self.client_id else "a client without an id",
            f"transactional id {self.transactional_id!r}" if self.transactional_id else "",
            f"group {self.group!r}" if self.group else "",
        ]
        return f"{', '.join(filter(None, named))} at {self.address}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRead:
    """Content of one answer to a read_committed client about a partition.

    Attributes:
        client: In words.
        asked_at: Seconds since the epoch; answered_at likewise.
        given: (first, last) offset of each batch that the client gets to see, both inclusive.
        left_out: Likewise of those that the answer has it leave out.
    """

    client: str
    broker: int
    topic: str
    partition: int
    asked_at: float
    answered_at: float
    high_watermark: int
    last_stable_offset: int
    given: tuple[tuple[int, int], ...] = ()
    left_out: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientsSeen:
    """Acts of clients, as far as the links in front of brokers could see.

    Attributes:
        lines: clients.jsonl, in the order of sequence numbers.
        operations: Each produce to each partition, and what was read of it below the high
            watermark (read_committed: below the last stable offset) and was not promised already.
        transactional: Producer ids by partition that may have left transaction markers there.
        committed_reads: What read_committed clients were told of such partitions.
        unseen: What may have been promised although no link could read it, a sentence each.
        unfollowed: Partitions whose writes the model is not told, each with the reason.
        behind: By the name of a produce, those of the request before on its connection.
    """

    lines: tuple[ClientLine, ...]
    operations: tuple[Operation, ...]
    transactional: Mapping[TopicPartition, frozenset[int]]
    committed_reads: tuple[CommittedRead, ...]
    unseen: tuple[str, ...]
    unfollowed: Mapping[TopicPartition, str]
    behind: Mapping[str, tuple[str, ...]]


def read_clients(files: EvidenceFiles) -> ClientsSeen:
    """Return the content of clients.jsonl.

    Raises:
        ScenarioDataError: A line has another shape.
    """
    lines = tuple(sorted(files.lines(ClientLine, CLIENTS), key=lambda line: line.sequence))
    return clients_of(lines)


def clients_of(lines: Sequence[ClientLine]) -> ClientsSeen:
    """Return the joint content of lines, in the order of their sequence numbers."""
    pairs = [*client_exchanges(lines)]
    ends = _transactions(pairs)
    produces = [
        replace(each, transaction=transaction, transaction_ended_at=ended_at)
        for asked, answer in pairs
        for each in _produces(asked, answer)
        for transaction, ended_at in [ends.get(each.operation, ("", None))]
    ]
    promised: set[tuple[str, int, int, str]] = set()
    for operation in produces:
        if operation.promised:
            promised.update(_records(operation))
    reads = [each for asked, answer in pairs for each in _reads(asked, answer, promised)]
    transactional: dict[TopicPartition, frozenset[int]] = {}
    for asked, _ in pairs:
        for partition, producer_id in _transactional(asked):
            transactional[partition] = transactional.get(partition, frozenset()) | {producer_id}
    return ClientsSeen(
        lines=tuple(lines),
        operations=(*produces, *reads),
        transactional=transactional,
        committed_reads=tuple(
            each for asked, answer in pairs for each in _committed_reads(asked, answer)
        ),
        unseen=tuple(dict.fromkeys(_unseen(lines, pairs))),
        unfollowed=_unfollowed(pairs, produces),
        behind=dict(_behind(pairs)),
    )


ClientExchange = tuple[ClientLine, ClientLine | None]
"""A request with its answer, None where none was seen."""


def client_exchanges(lines: Sequence[ClientLine]) -> Iterator[ClientExchange]:
    """Yield each request with its response, or None if no link saw a response."""
    answers: dict[int, ClientLine] = {}
    waiting: dict[tuple[int, int, str], int] = {}
    for line in lines:
        key = (line.connection, line.correlation_id, line.api)
        if line.direction == "request":
            waiting[key] = line.sequence
        elif key in waiting:
            answers[waiting.pop(key)] = line
    for line in lines:
        if line.direction == "request" and line.api:
            yield line, answers.get(line.sequence)


def _produces(asked: ClientLine, answer: ClientLine | None) -> Iterator[Operation]:
    if asked.api != "Produce":
        return
    told = (
        {(answered.topic, answered.partition): answered for answered in answer.partitions}
        if answer
        else {}
    )
    for sent in asked.partitions:
        payloads = tuple(payload for batch in sent.batches for payload in batch.payloads)
        if sent.topic is None or is_internal(sent.topic) or not payloads:
            continue
        first = sent.batches[0]
        operation = Operation(
            operation=_name(asked, sent),
            function="produce",
            broker=asked.broker,
            topic=sent.topic,
            partition=sent.partition,
            acks=1 if asked.acks is None else asked.acks,
            outcome="info",
            promised=False,
            payloads=payloads,
            keys=tuple(key for batch in sent.batches for key in batch.keys),
            tombstones=tuple(_tombstones(sent.batches)),
            invoked_at=asked.time,
            codec=first.codec,
            client=asked.who,
            producer=first.producer,
            read_at=asked.read_at,
        )
        if len(operation.keys) != len(payloads):
            operation = replace(operation, keys=())
        answered = told.get((sent.topic, sent.partition))
        if answer is None or answered is None:
            yield operation
            continue
        code = answered.error_code
        is_placed = code == 0 and answered.base_offset >= 0
        refused = "fail" if appended_nothing(code, acks=operation.acks) else "info"
        yield replace(
            operation,
            outcome="ok" if is_placed else refused,
            promised=is_placed and asked.acks == -1,
            base_offset=answered.base_offset if is_placed else -1,
            error=error_name(code) if code else "",
            error_code=code,
            ended_at=answer.time,
        )


def _tombstones(batches: Iterable[ClientBatch]) -> Iterator[int]:
    first = 0
    for batch in batches:
        yield from (first + place for place in batch.tombstones)
        first += len(batch.payloads)


def _behind(pairs: Sequence[ClientExchange]) -> Iterator[tuple[str, tuple[str, ...]]]:
    latest: dict[int, tuple[str, ...]] = {}
    for asked, _ in pairs:
        if asked.api == "Produce":
            names = tuple(_name(asked, sent) for sent in asked.partitions)
            for name in names if asked.connection in latest else ():
                yield name, latest[asked.connection]
            latest[asked.connection] = names


def _name(asked: ClientLine, sent: ClientPartition) -> str:
    return f"client-{asked.sequence}-{sent.topic}-{sent.partition}"


_IMPLICIT_SINCE = 12
"""Version of Produce from which on it adds its partition to a transaction itself (KIP-890)."""


def _transactions(
    pairs: Sequence[ClientExchange],
) -> Mapping[str, tuple[Transaction, float | None]]:
    """Return by operation the outcome of a transactional produce's transaction, and since when."""
    told: dict[str, tuple[Transaction, float | None]] = {}
    waiting: dict[tuple[int, int], list[str]] = {}
    added: dict[tuple[int, int], set[TopicPartition]] = {}
    ends: list[tuple[int, tuple[int, int], tuple[Transaction, float]]] = []
    is_whole = not any(
        line is not None and line.not_judged
        for exchange in pairs
        for line in exchange
        if exchange[0].api in _OF_TRANSACTIONS
    )
    for asked, answer in pairs:
        while ends and ends[0][0] < asked.sequence:
            _, producer, ended = ends.pop(0)
            told |= dict.fromkeys(waiting.pop(producer, ()), ended)
            added.pop(producer, None)
        producer = (asked.producer_id, asked.producer_epoch)
        if asked.api == "AddPartitionsToTxn":
            added.setdefault(producer, set()).update(
                TopicPartition(asked_partition.topic or "", asked_partition.partition)
                for asked_partition in asked.partitions
            )
        elif asked.api == "EndTxn" and answer is not None and not answer.error_code:
            outcome: Transaction = "committed" if asked.committed else "aborted"
            ends.append((answer.sequence, producer, (outcome, answer.time)))
            ends.sort()
        for sent in asked.partitions if asked.api == "Produce" else ():
            first = sent.batches[0] if sent.batches else None
            if first is None or not first.is_transactional:
                continue
            producer = (first.producer_id, first.producer_epoch)
            partition = TopicPartition(sent.topic or "", sent.partition)
            is_added = partition in added.get(producer, ()) or asked.api_version >= _IMPLICIT_SINCE
            told[_name(asked, sent)] = ("open" if is_added or not is_whole else "none", None)
            if is_added:
                waiting.setdefault(producer, []).append(_name(asked, sent))
    for _, producer, ended in ends:
        told |= dict.fromkeys(waiting.pop(producer, ()), ended)
    return told


_OF_TRANSACTIONS = ("AddPartitionsToTxn", "EndTxn")


def _committed_reads(asked: ClientLine, answer: ClientLine | None) -> Iterator[CommittedRead]:
    """Yield the answers to a read_committed Fetch, without partitions that had an error."""
    if asked.api != "Fetch" or asked.isolation_level != READ_COMMITTED or answer is None:
        return
    for came in answer.partitions:
        if came.topic is None or is_internal(came.topic) or came.error_code:
            continue
        if came.last_stable_offset < 0:
            continue
        left_out = _left_out(came)
        data = [batch for batch in came.batches if not batch.is_control]
        yield CommittedRead(
            client=asked.who,
            broker=asked.broker,
            topic=came.topic,
            partition=came.partition,
            asked_at=asked.time,
            answered_at=answer.time,
            high_watermark=came.high_watermark,
            last_stable_offset=came.last_stable_offset,
            given=tuple(_span(batch) for batch in data if batch.base_offset not in left_out),
            left_out=tuple(_span(batch) for batch in data if batch.base_offset in left_out),
        )


def _span(batch: ClientBatch) -> tuple[int, int]:
    return batch.base_offset, batch.last_offset


def _left_out(came: ClientPartition) -> set[int]:
    """Return base offsets of the batches that a read_committed client drops from a response.

    It does as the answer's list of aborted transactions says: each counts from its first offset to
    its producer's next ABORT marker (KIP-98; CompletedFetch of org.apache.kafka.clients.consumer).
    """
    waiting = sorted(came.aborted, key=lambda aborted: aborted[1])
    aborting: set[int] = set()
    base_offsets: set[int] = set()
    for batch in came.batches:
        while waiting and waiting[0][1] <= batch.last_offset:
            aborting.add(waiting.pop(0)[0])
        if batch.control_type == "ABORT":
            aborting.discard(batch.producer_id)
        elif batch.is_transactional and not batch.is_control and batch.producer_id in aborting:
            base_offsets.add(batch.base_offset)
    return base_offsets


def _records(operation: Operation) -> Iterator[tuple[str, int, int, str]]:
    for offset, payload in enumerate(operation.payloads, start=operation.base_offset):
        yield operation.topic, operation.partition, offset, payload


def _reads(
    asked: ClientLine, answer: ClientLine | None, promised: set[tuple[str, int, int, str]]
) -> Iterator[Operation]:
    """Yield the records of a Fetch that nobody was promised before, in runs without a gap."""
    if asked.api != "Fetch" or answer is None:
        return
    for came in answer.partitions:
        if came.topic is None or is_internal(came.topic) or came.error_code:
            continue
        run: list[tuple[int, str]] = []
        for offset, payload in (*given(asked, came), (-1, "")):
            key = (came.topic, came.partition, offset, payload)
            if run and (offset != run[-1][0] + 1 or key in promised):
                yield _read(asked, answer, came, run)
                run = []
            if offset >= 0 and key not in promised:
                promised.add(key)
                run.append((offset, payload))


def given(asked: ClientLine, came: ClientPartition) -> Iterator[tuple[int, str]]:
    """Yield offset and digest of each received record that is promised to the client."""
    end_offset = _promised_until(asked, came)
    yield from ((offset, payload) for offset, payload in _data(asked, came) if offset < end_offset)


def received_beyond(asked: ClientLine, came: ClientPartition) -> Iterator[tuple[int, str]]:
    """Yield offset and digest of each received record at or after the offset returned with it.

    A broker notes the high watermark that it tells before it reads: one that moves in between is
    told too low (kafka.cluster.Partition.readRecords, 2.8.2; seen there).
    """
    end_offset = _promised_until(asked, came)
    yield from ((offset, payload) for offset, payload in _data(asked, came) if offset >= end_offset)


def _promised_until(asked: ClientLine, came: ClientPartition) -> int:
    if asked.isolation_level == READ_COMMITTED and came.last_stable_offset >= 0:
        return min(came.high_watermark, came.last_stable_offset)
    return came.high_watermark


def _data(asked: ClientLine, came: ClientPartition) -> Iterator[tuple[int, str]]:
    """Yield the received records, without markers and those that the consumer drops."""
    left_out: set[int] = set()
    if asked.isolation_level == READ_COMMITTED and came.last_stable_offset >= 0:
        left_out = _left_out(came)
    for batch in came.batches:
        if batch.is_control or batch.base_offset in left_out:
            continue
        offsets = batch.offsets or range(batch.base_offset, batch.last_offset + 1)
        yield from zip(offsets, batch.payloads, strict=False)


def _read(
    asked: ClientLine, answer: ClientLine, came: ClientPartition, records: Sequence[tuple[int, str]]
) -> Operation:
    assert came.topic is not None
    first = records[0][0]
    return Operation(
        operation=f"client-{asked.sequence}-{came.topic}-{came.partition}-{first}",
        function="read",
        broker=asked.broker,
        topic=came.topic,
        partition=came.partition,
        acks=1,
        outcome="ok",
        promised=True,
        payloads=tuple(payload for _, payload in records),
        base_offset=first,
        invoked_at=asked.time,
        ended_at=answer.time,
        client=asked.who,
        read_at=answer.read_at,
    )


def _transactional(asked: ClientLine) -> Iterator[tuple[TopicPartition, int]]:
    """Yield the partitions that a request adds to a transaction, with the producer's id."""
    for asked_partition in asked.partitions:
        partition = TopicPartition(asked_partition.topic or "", asked_partition.partition)
        if asked.api == "AddPartitionsToTxn":
            yield partition, asked.producer_id
        for batch in asked_partition.batches if asked.api == "Produce" else ():
            if batch.is_transactional:
                yield partition, batch.producer_id


def _unseen(lines: Sequence[ClientLine], pairs: Sequence[ClientExchange]) -> Iterator[str]:
    """Yield promises that a client may have received and no link could read."""
    answered = {asked.sequence: answer for asked, answer in pairs}
    for line in lines:
        what = f"{line.api} of {line.who} to broker {line.broker}" if line.api else line.who
        if not line.api and line.answered_bytes:
            yield f"{what} and broker {line.broker} were not understood: {line.not_judged}"
        elif line.api in ("Produce", "Fetch") and line.not_judged:
            is_asked = line.direction == "request"
            if is_asked and line.api == "Produce" and answered.get(line.sequence) is None:
                continue  # Nothing was acknowledged.
            if is_asked and line.api == "Fetch":
                continue  # What was asked promises nothing.
            yield f"{what} was not read: {line.not_judged}"
        for partition in line.partitions:
            for batch in partition.batches:
                if batch.not_judged:
                    yield f"records in {what} were not read: {batch.not_judged}"
            has_records = line.api in ("Produce", "Fetch") and (
                partition.batches or partition.base_offset >= 0
            )
            if partition.topic is None and has_records:
                yield f"{what} names a topic by an unknown id"


def _unfollowed(
    pairs: Sequence[ClientExchange], produces: Sequence[Operation]
) -> Mapping[TopicPartition, str]:
    whys: dict[TopicPartition, str] = {}
    for asked, _ in pairs:
        for sent in asked.partitions if asked.api == "Produce" else ():
            for why in _not_modelled(sent):
                whys.setdefault(TopicPartition(sent.topic or "", sent.partition), why)
    for operation in produces:
        partition = TopicPartition(operation.topic, operation.partition)
        if operation.error_code not in _MODELLED_ERRORS:
            whys.setdefault(partition, f"a produce that was answered with {operation.error}")
    return whys


def _not_modelled(sent: ClientPartition) -> Iterator[str]:
    """Yield the features of a produce to one partition that the model does not follow."""
    if len({(batch.magic, batch.codec) for batch in sent.batches}) > 1:
        yield "a request with batches of several kinds"
    if len(sent.batches) > 1 and any(batch.codec != "none" for batch in sent.batches):
        yield "a request with several compressed batches"
