"""History of clients' operations as links saw them, for `checkers.histories`.

Only what Kafka promises to keep is in it: offsets that were acknowledged with acks=all, and records
that came below the high watermark (read_committed: below the last stable offset, and no aborted
ones). A process is a producer, or a connection. What the wire does not tell is left out, so that no
anomaly is made of it:

- a record with the same key and value as another of its partition: nobody knows which was read;
- a record that a consumer was given at or above the high watermark that it was told, or above the
  last stable offset: it was read, and nobody knows whether it was promised;
- records in batches that could not be read, and what others than these clients wrote;
- where transactions write, what consumers with read_uncommitted got, and what consumers with
  read_committed got if nobody recorded which transactions were aborted;
- who read what in which transaction: so no circle of reads can close;
- why a consumer asks for another offset than the next: that is taken for its own wish.

What a test says of clients of its own, and no link saw, is in it too. Of that nobody knows in which
order it was sent or read, nor how often: each piece has a process of its own, and a record that was
at several offsets is left out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.actions import is_internal
from kchaos.checkers.evidence.clients import (
    READ_COMMITTED,
    ClientBatch,
    ClientExchange,
    ClientLine,
    ClientPartition,
    client_exchanges,
    given,
    received_beyond,
)
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.formats.error_codes import appended_nothing
from kchaos.checkers.histories.operations import HistoryOperation, Outcome, Poll, Send

_ALL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHistory:
    """A history, and what of it the wire does not tell.

    Attributes:
        partitions: By key of the history the partition.
        not_known: What is left out, a sentence each.
    """

    operations: tuple[HistoryOperation, ...]
    partitions: Mapping[str, TopicPartition]
    not_known: tuple[str, ...]


@dataclass(slots=True)
class _Unit:
    """One batch that a client sent, with all its attempts."""

    key: str
    batch: ClientBatch
    sequence: int
    process: str
    who: str
    outcomes: set[Outcome] = field(default_factory=set)
    base_offset: int = -1

    @property
    def outcome(self) -> Outcome:
        """Done if an attempt was, and not done only if none can have been."""
        if "ok" in self.outcomes:
            return "ok"
        return "fail" if self.outcomes == {"fail"} else "info"


@dataclass(slots=True)
class _Transaction:
    """Sends of one producer between two ends, and how its client ended it.

    A transaction without an end is over when its producer has another epoch: the coordinator gave
    it that one to fence what came before (TransactionCoordinator, 0.11.0.3 to 3.9).
    """

    process: str
    producer_epoch: int
    units: list[_Unit] = field(default_factory=list)
    commit_asked_at: int | None = None
    is_committed: bool | None = None

    def is_over(self, producer_epoch: int) -> bool:
        """Return whether the transaction has ended, or the producer has a newer epoch."""
        return self.is_committed is not None or producer_epoch > self.producer_epoch


def client_history(
    lines: Sequence[ClientLine], *, left_out: Iterable[str] = (), said: Sequence[Operation] = ()
) -> ClientHistory:
    """Return the history of these lines, in the order of their sequence numbers.

    `left_out` names topics whose records may go or come again, so that offsets say nothing; `said`
    are the test's statements that no link saw.
    """
    return _Reading(frozenset(left_out), said).history([*client_exchanges(lines)])


class _Reading:
    """Collects units and transactions, then makes operations of them and of what was read."""

    def __init__(self, left_out: frozenset[str], said: Sequence[Operation]) -> None:
        self._left_out = left_out
        self._said = said
        self._places: dict[tuple[str, str], set[int]] = {}
        self._units: dict[object, _Unit] = {}
        self._transactions: dict[int, list[_Transaction]] = {}
        self._partitions: dict[str, TopicPartition] = {}
        self._transactional: set[str] = set()
        self._unread: set[str] = set()
        self._beyond: set[tuple[str, str]] = set()

    def history(self, pairs: Sequence[ClientExchange]) -> ClientHistory:
        """Read all exchanges into a history."""
        for asked, answer in pairs:
            if asked.api == "Produce":
                self._take_produce(asked, answer)
            elif asked.api == "EndTxn":
                self._take_end(asked, answer)
            elif asked.api == "Fetch" and answer is not None:
                self._take_beyond(asked, answer)
        self._take_said(pairs)
        names = self._names()
        polls = [*_Polls(self._transactional, names, self._key, _has_markers(pairs)).of(pairs)]
        sent = [*self._plain(names), *self._of_transactions(names)]
        operations = sorted((*sent, *polls), key=lambda operation: operation.index)
        end = operations[-1].index + 1 if operations else 0
        operations += self._of_said(names, end)
        return ClientHistory(
            operations=tuple(operations),
            partitions=self._partitions,
            not_known=tuple(self._not_known(names)),
        )

    def _key(self, told: ClientPartition | Operation) -> str | None:
        """Return a partition's key, or None if it is not judged."""
        if told.topic is None or is_internal(told.topic) or told.topic in self._left_out:
            return None
        key = f"{told.topic}-{told.partition}"
        self._partitions[key] = TopicPartition(told.topic, told.partition)
        return key

    def _take_produce(self, asked: ClientLine, answer: ClientLine | None) -> None:
        told = (
            {(answered.topic, answered.partition): answered for answered in answer.partitions}
            if answer
            else {}
        )
        for sent in asked.partitions:
            key = self._key(sent)
            if key is None:
                continue
            offset = _acknowledged(asked, told.get((sent.topic, sent.partition)))
            outcome = _outcome(asked, told.get((sent.topic, sent.partition)))
            for batch in sent.batches:
                if batch.not_judged:
                    self._unread.add(key)
                    continue
                unit = self._unit(asked, key, batch)
                unit.outcomes.add(outcome)
                if offset >= 0:
                    unit.base_offset = offset
                    offset += len(batch.payloads)

    def _unit(self, asked: ClientLine, key: str, batch: ClientBatch) -> _Unit:
        is_numbered = batch.producer_id >= 0 and batch.base_sequence >= 0
        number = (key, batch.producer_id, batch.producer_epoch, batch.base_sequence)
        name: object = number if is_numbered else (asked.sequence, key, len(self._units))
        if name in self._units:
            return self._units[name]
        who = f"producer {batch.producer_id}" if is_numbered else f"connection {asked.connection}"
        unit = _Unit(key=key, batch=batch, sequence=asked.sequence, process=who, who=asked.who)
        self._units[name] = unit
        if batch.is_transactional:
            self._transactional.add(key)
            of_producer = self._transactions.setdefault(batch.producer_id, [])
            epoch = batch.producer_epoch
            if of_producer and epoch < of_producer[-1].producer_epoch:
                # What a fenced producer still sends is of no transaction that goes on.
                late = _Transaction(process=who, producer_epoch=epoch, units=[unit])
                of_producer.insert(-1, late)
                return unit
            if not of_producer or of_producer[-1].is_over(epoch):
                of_producer.append(_Transaction(process=who, producer_epoch=epoch))
            of_producer[-1].units.append(unit)
        return unit

    def _take_end(self, asked: ClientLine, answer: ClientLine | None) -> None:
        of_producer = self._transactions.get(asked.producer_id, [])
        if not of_producer or of_producer[-1].is_committed is not None:
            return
        transaction = of_producer[-1]
        if asked.producer_epoch not in (-1, transaction.producer_epoch):
            return
        if asked.committed and transaction.commit_asked_at is None:
            transaction.commit_asked_at = asked.sequence
        if answer is not None and answer.error_code == 0 and not answer.not_judged:
            transaction.is_committed = asked.committed

    def _take_beyond(self, asked: ClientLine, answer: ClientLine) -> None:
        for came in answer.partitions:
            key = self._key(came)
            if key is not None and not came.error_code:
                self._beyond |= {(key, payload) for _, payload in received_beyond(asked, came)}

    def _take_said(self, pairs: Sequence[ClientExchange]) -> None:
        """Note at which offsets the records are that the test speaks of, and no link saw sent."""
        sent = {
            (unit.key, payload) for unit in self._units.values() for payload in unit.batch.payloads
        }
        for operation in self._said:
            key = self._key(operation)
            for offset, payload in _placed(operation) if key is not None else ():
                if operation.function == "read" and (key, payload) in sent:
                    continue
                self._places.setdefault((key or "", payload), set()).add(offset)
        for asked, answer in pairs if self._places else ():
            for came in answer.partitions if asked.api == "Fetch" and answer is not None else ():
                key = self._key(came)
                for offset, payload in (*given(asked, came), *received_beyond(asked, came)):
                    if (key, payload) in self._places:
                        self._places[key or "", payload].add(offset)

    def _of_said(
        self, names: Mapping[tuple[str, str], str], end: int
    ) -> Iterator[HistoryOperation]:
        for number, operation in enumerate(self._said):
            key = self._key(operation)
            if key is None or not operation.promised:
                continue
            named = [
                (offset, names[key, payload])
                for offset, payload in _placed(operation)
                if (key, payload) in names
            ]
            is_poll = operation.function == "read"
            start = {key: operation.base_offset}
            poll = Poll(records={key: tuple(named)}, from_offsets=start)
            sends = (Send(key=key, value=name, offset=offset) for offset, name in named)
            yield HistoryOperation(
                index=end + number,
                process=f"said {number}",
                outcome="ok",
                function="poll" if is_poll else "send",
                actions=(poll,) if is_poll else tuple(sends),
                read_at=operation.client,
            )

    def _names(self) -> Mapping[tuple[str, str], str]:
        """Return the name of each judged record by key and digest: its text, if it has one."""
        digests: dict[tuple[str, str], int] = {}
        texts: dict[tuple[str, str], str] = {}
        for unit in self._units.values():
            values = unit.batch.values or ("",) * len(unit.batch.payloads)
            for digest, text in zip(unit.batch.payloads, values, strict=False):
                digests[unit.key, digest] = digests.get((unit.key, digest), 0) + 1
                texts[unit.key, digest] = text
        for operation in self._said:
            key = f"{operation.topic}-{operation.partition}"
            for digest, text in zip(operation.payloads, operation.values, strict=False):
                texts.setdefault((key, digest), text)
        for partition, offsets in self._places.items():
            digests[partition] = digests.get(partition, 0) + len(offsets)
            texts.setdefault(partition, "")
        taken: dict[tuple[str, str], int] = {}
        for (key, _), text in texts.items():
            taken[key, text] = taken.get((key, text), 0) + 1
        return {
            (key, digest): text if text and taken[key, text] == 1 else digest
            for (key, digest), text in texts.items()
            if digests[key, digest] == 1 and (key, digest) not in self._beyond
        }

    def _plain(self, names: Mapping[tuple[str, str], str]) -> Iterator[HistoryOperation]:
        for unit in self._units.values():
            if not unit.batch.is_transactional:
                yield _operation(unit.sequence, unit.process, unit.outcome, [unit], names)

    def _of_transactions(self, names: Mapping[tuple[str, str], str]) -> Iterator[HistoryOperation]:
        for transactions in self._transactions.values():
            for transaction in transactions:
                units = transaction.units
                ended: Outcome = "info"
                if transaction.is_committed is not None:
                    ended = "ok" if transaction.is_committed else "fail"
                if ended == "ok":
                    # Of an attempt without an answer nobody knows whether it was in time.
                    for unit in [unit for unit in units if unit.outcome != "ok"]:
                        yield _operation(unit.sequence, unit.process, unit.outcome, [unit], names)
                    units = [unit for unit in units if unit.outcome == "ok"]
                if units:
                    yield replace(
                        _operation(units[0].sequence, transaction.process, ended, units, names),
                        commit_asked_at=transaction.commit_asked_at,
                    )

    def _not_known(self, names: Mapping[tuple[str, str], str]) -> Iterator[str]:
        sent: dict[str, set[str]] = {}
        for unit in self._units.values():
            sent.setdefault(unit.key, set()).update(unit.batch.payloads)
        for key, payloads in sent.items():
            beyond = sum((key, payload) in self._beyond for payload in payloads)
            if beyond:
                yield (
                    f"records of {key} came beyond the offset that was reported as committed: "
                    f"{beyond}"
                )
            again = sum((key, payload) not in names for payload in payloads) - beyond
            if again:
                yield f"records of {key} were sent several times with the same bytes: {again}"
        said_again: dict[str, int] = {}
        for (key, _), offsets in self._places.items():
            said_again[key] = said_again.get(key, 0) + (len(offsets) > 1)
        for key, count in said_again.items():
            if count:
                yield (
                    f"records of {key} were at several offsets, and the test does not say how "
                    f"often they were sent: {count}"
                )
        for key in sorted(self._unread):
            yield f"records that were sent to {key} could not be read"


def _placed(operation: Operation) -> Iterator[tuple[int, str]]:
    yield from enumerate(operation.payloads, start=operation.base_offset)


def _operation(
    index: int,
    process: str,
    outcome: Outcome,
    units: Sequence[_Unit],
    names: Mapping[tuple[str, str], str],
) -> HistoryOperation:
    return HistoryOperation(
        index=index,
        process=process,
        outcome=outcome,
        function="send",
        actions=tuple(
            Send(
                key=unit.key,
                value=names[unit.key, payload],
                offset=unit.base_offset + number if unit.base_offset >= 0 else None,
            )
            for unit in units
            for number, payload in enumerate(unit.batch.payloads)
            if (unit.key, payload) in names
        ),
        read_at=units[0].who,
    )


def _outcome(asked: ClientLine, answered: ClientPartition | None) -> Outcome:
    """Return the outcome of a produce, as far as Kafka promises it."""
    if answered is None:
        return "info"
    if answered.error_code:
        refused = appended_nothing(answered.error_code, acks=asked.acks or 0)
        return "fail" if refused else "info"
    return "ok" if asked.acks == _ALL else "info"


def _acknowledged(asked: ClientLine, answered: ClientPartition | None) -> int:
    """Return the acknowledged offset, or -1."""
    if answered is None or answered.error_code or asked.acks != _ALL:
        return -1
    return answered.base_offset


def _has_markers(pairs: Iterable[ClientExchange]) -> bool:
    """Return whether the lines say how transactions ended, and which ones were aborted."""
    markers = [
        batch.control_type
        for _, answer in pairs
        for came in (answer.partitions if answer is not None else ())
        for batch in came.batches
        if batch.is_control
    ]
    return bool(markers) and all(markers)


class _Polls:
    """Makes a poll of what each answer to a Fetch has of one partition."""

    def __init__(
        self,
        transactional: set[str],
        names: Mapping[tuple[str, str], str],
        key_of: Callable[[ClientPartition], str | None],
        has_markers: bool,
    ) -> None:
        self._transactional = transactional
        self._names = names
        self._key_of = key_of
        self._has_markers = has_markers
        self._asked_from: dict[tuple[int, str], int] = {}
        # Where a connection's next fetch continues: between the last record and the end, inclusive.
        self._next: dict[tuple[int, str], range] = {}

    def of(self, pairs: Iterable[ClientExchange]) -> Iterator[HistoryOperation]:
        """Yield the polls, each after an assign unless the consumer read on."""
        for asked, answer in pairs:
            if asked.api != "Fetch":
                continue
            for told in asked.partitions:
                key = self._key_of(told)
                if key is not None:
                    # A session asks for a partition again only where something is new.
                    self._asked_from[asked.connection, key] = told.fetch_offset
            for came in answer.partitions if answer is not None else ():
                key = self._key_of(came)
                if answer is not None and key is not None and not came.error_code and came.batches:
                    yield from self._poll(asked, answer, came, key)

    def _poll(
        self, asked: ClientLine, answer: ClientLine, came: ClientPartition, key: str
    ) -> Iterator[HistoryOperation]:
        place = (asked.connection, key)
        start = self._asked_from.get(place, -1)
        seen = [batch for batch in came.batches if not batch.is_control]
        is_shown = all(not batch.not_judged for batch in seen) and start >= 0
        if key in self._transactional or any(batch.is_transactional for batch in seen):
            is_committed = asked.isolation_level == READ_COMMITTED
            is_shown = is_shown and is_committed and self._has_markers
        if not is_shown:
            self._next.pop(place, None)
            return
        process = f"consumer {asked.connection}"
        if start not in self._next.get(place, range(0)):
            yield HistoryOperation(
                index=answer.sequence,
                process=f"{process} of {key}",
                outcome="ok",
                function="assign",
            )
        records = [(offset, payload) for offset, payload in given(asked, came) if offset >= start]
        end = max(batch.last_offset for batch in came.batches) + 1
        last = records[-1][0] if records else start - 1
        self._next[place] = range(last + 1, end + 1)
        if records:
            yield HistoryOperation(
                index=answer.sequence,
                process=f"{process} of {key}",
                outcome="ok",
                function="poll",
                actions=(self._as_poll(key, start, records),),
                read_at=asked.who,
            )

    def _as_poll(self, key: str, start: int, records: Sequence[tuple[int, str]]) -> Poll:
        named = [(offset, self._names.get((key, payload))) for offset, payload in records]
        return Poll(
            records={key: tuple((offset, name) for offset, name in named if name is not None)},
            from_offsets={key: start},
        )
