"""Outcome of transactions: on disk, and in what read_committed clients were told."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import accumulate
from math import inf

from kchaos.checkers.evidence.clients import CommittedRead
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import OBSERVED, BatchEvidence, PartitionEvidence, Side
from kchaos.checkers.findings import Finding
from kchaos.checkers.rules.offsets import Range, in_words, merged

_MARKER_S = 10.0
"""Seconds after which a coordinator has sent its markers to live leaders: it does so at once."""
_PRODUCER = re.compile(r"producer (-?\d+), (-?\d+), (-?\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTransaction:
    """One transaction in one replica's log.

    Attributes:
        batches: Base offset and last offset of each batch, both inclusive.
        marker_offset: Where its marker lies; None without transaction.
        is_commit: What the marker says; None without one, and for one that nobody sent.
        earlier_markers: How many markers of that producer lie before its own.
    """

    producer_id: int
    batches: tuple[Range, ...]
    marker_offset: int | None = None
    is_commit: bool | None = None
    earlier_markers: int = 0

    @property
    def first_offset(self) -> int:
        """Where it begins."""
        return self.batches[0][0]


def logged_transactions(
    evidence: PartitionEvidence, batches: Sequence[BatchEvidence]
) -> list[LoggedTransaction]:
    """Return the transactions in a log, by the offset at which each begins."""
    means = {marker.payload: marker.is_commit for marker in evidence.markers or ()}
    open_ones: dict[int, list[Range]] = {}
    markers: dict[int, int] = {}
    transactions: list[LoggedTransaction] = []
    for batch in batches:
        marks = (batch.marks or "").split(", ")
        named = _PRODUCER.search(batch.marks or "")
        if named is None or "transactional" not in marks:
            continue
        producer_id = int(named[1])
        if "control" not in marks:
            open_ones.setdefault(producer_id, []).append((batch.base_offset, batch.last_offset))
            continue
        if producer_id in open_ones:
            ended = LoggedTransaction(
                producer_id=producer_id,
                batches=tuple(open_ones.pop(producer_id)),
                marker_offset=batch.base_offset,
                is_commit=means.get(batch.payload or ""),
                earlier_markers=markers.get(producer_id, 0),
            )
            transactions.append(ended)
        markers[producer_id] = markers.get(producer_id, 0) + 1
    for producer_id, spans in open_ones.items():
        earlier = markers.get(producer_id, 0)
        transactions.append(
            LoggedTransaction(
                producer_id=producer_id, batches=tuple(spans), earlier_markers=earlier
            )
        )
    return sorted(transactions, key=lambda transaction: transaction.first_offset)


def transactions_ended(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield where a log ends a transaction otherwise than its client was answered.

    **Verifies**, at the last snapshot, in the leader's log: that the records of a transaction of
    which the commit was answered are committed by the next marker of their producer, those of an
    aborted one aborted; that what was sent outside of any transaction, or by a producer that a
    marker there had fenced before, began none (`hanging-transaction`); that as many markers of a
    producer are there as leaders said that they wrote (`lost-marker`); that a transaction has a
    marker ten seconds after its coordinator answered its end, if nothing disturbed the cluster in
    that time, or at once where the leader's release cannot read it (`hanging-transaction`).
    **Does not verify**: a transaction whose end nobody answered, or that may still get its marker;
    a partition of which something may have been deleted, cleaned or lost by
    permission, or of which no link told the markers.
    """
    replicas = evidence.in_sync(side)
    if not evidence.is_final or not replicas or not _is_whole(evidence):
        return
    leader = replicas[0]
    places = _Places(logged_transactions(evidence, leader.batches))
    for operation in evidence.operations:
        if not operation.transaction or operation.base_offset < 0:
            continue
        if evidence.is_told_too_late(operation):
            continue
        transaction = places.of(operation)
        if transaction is not None:
            yield from _ended_otherwise(evidence, operation, transaction, leader.broker)
    yield from _lost_markers(evidence, leader.batches, leader.broker)


def _is_whole(evidence: PartitionEvidence) -> bool:
    """Return whether the log must still have every transaction ever written to it."""
    is_changed = evidence.is_compacted or evidence.may_delete or evidence.deleted_until
    return evidence.markers is not None and not is_changed and not evidence.excuses


class _Places:
    """Transactions by the places of their batches in a log."""

    def __init__(self, transactions: Iterable[LoggedTransaction]) -> None:
        self._of: dict[int, list[tuple[Range, LoggedTransaction]]] = {}
        for transaction in transactions:
            of_producer = self._of.setdefault(transaction.producer_id, [])
            of_producer += ((span, transaction) for span in transaction.batches)

    def of(self, operation: Operation) -> LoggedTransaction | None:
        """Return the producer's transaction that contains a produce, or None."""
        producer_id = -1 if operation.producer is None else operation.producer.producer_id
        places = self._of.get(producer_id, [])
        place = bisect_right(places, operation.base_offset, key=lambda each: each[0][0]) - 1
        if place < 0 or operation.base_offset > places[place][0][1]:
            return None
        return places[place][1]


def _ended_otherwise(
    evidence: PartitionEvidence, operation: Operation, transaction: LoggedTransaction, broker: int
) -> Iterator[Finding]:
    offsets = in_words(operation.base_offset, operation.last_offset)
    producer = f"producer {transaction.producer_id}"
    kind, message = "", ""
    ended_at = operation.transaction_ended_at
    waited_s = 0.0
    if ended_at is not None and evidence.copied_from is not None:
        waited_s = evidence.copied_from - max(ended_at, evidence.undisturbed_since)
    is_over = operation.transaction == "none" or _is_fenced(evidence, operation)
    if is_over and transaction.marker_offset is None:
        kind = "hanging-transaction"
        message = (
            f"the records at {offsets} began a transaction of {producer} that its coordinator "
            "does not know: read_committed clients read no further"
        )
    elif (
        ended_at is not None
        and transaction.marker_offset is None
        and any(
            marker.producer_id == transaction.producer_id and marker.broker == broker
            for marker in evidence.unread_markers
        )
    ):
        kind = "hanging-transaction"
        message = (
            f"the coordinator answered that a transaction of {producer} was "
            f"{operation.transaction}, and broker {broker} hangs up on the marker for the records "
            f"at {offsets}, whose version it cannot read: read_committed clients read no further"
        )
    elif transaction.marker_offset is None and waited_s >= _MARKER_S:
        kind = "hanging-transaction"
        message = (
            f"the coordinator answered that a transaction of {producer} was "
            f"{operation.transaction}, and no marker ends its records at {offsets} though nothing "
            f"disturbed the cluster for {waited_s:.0f} s: read_committed clients read no further"
        )
    elif operation.transaction == "committed" and transaction.is_commit is False:
        kind = "committed-as-aborted"
        message = (
            f"the records at {offsets} were committed to {operation.client}, and the marker at "
            f"{transaction.marker_offset} aborts them"
        )
    elif operation.transaction == "aborted" and transaction.is_commit is True:
        kind = "aborted-as-committed"
        message = (
            f"the records at {offsets} were aborted by {operation.client}, and the marker at "
            f"{transaction.marker_offset} commits them"
        )
    if kind:
        yield evidence.finding(
            kind,
            brokers=(broker,),
            first_offset=operation.base_offset,
            last_offset=operation.last_offset,
            message=message,
            evidence={
                "operation": operation.operation,
                "producer_id": transaction.producer_id,
                "marker_offset": transaction.marker_offset,
            },
        )


def _is_fenced(evidence: PartitionEvidence, operation: Operation) -> bool:
    """Return whether a later epoch's marker was written before the batch was sent."""
    sent = operation.producer
    return sent is not None and any(
        marker.producer_id == sent.producer_id
        and marker.producer_epoch > sent.producer_epoch
        and marker.is_written
        and marker.answered_at is not None
        and marker.answered_at < operation.invoked_at
        for marker in evidence.markers or ()
    )


def _lost_markers(
    evidence: PartitionEvidence, batches: Sequence[BatchEvidence], broker: int
) -> Iterator[Finding]:
    """Yield lost markers, counting equal ones of several transactions of one coordinator."""
    held: dict[tuple[int, str], int] = {}
    for batch in batches:
        if "control" in (batch.marks or "").split(", "):
            key = (-1 if batch.producer_id is None else batch.producer_id, batch.payload or "")
            held[key] = held.get(key, 0) + 1
    written: dict[tuple[int, str], int] = {}
    for marker in evidence.markers or ():
        copied = evidence.copied_from
        is_in_time = marker.answered_at is not None and (
            copied is None or marker.answered_at <= copied
        )
        if marker.is_written and is_in_time:
            key = (marker.producer_id, marker.payload)
            written[key] = written.get(key, 0) + 1
            if written[key] == held.get(key, 0) + 1:
                end = "commit" if marker.is_commit else "abort"
                yield evidence.finding(
                    "lost-marker",
                    brokers=(broker,),
                    message=f"broker {marker.broker} answered that it had written the {end} of a "
                    f"transaction of producer {marker.producer_id}, and the leader's log does not "
                    "hold it",
                    evidence={"marker": marker.operation, "producer_id": marker.producer_id},
                )


def committed_reads(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield where a read_committed client's answer differs from the leader's log.

    The last stable offset is the high watermark, or the first offset of the first transaction that
    begins below that and has no marker below it (kafka.log.Log.fetchLastStableOffsetMetadata,
    kafka.cluster.Replica.lastStableOffset of 1.1.1). A leader may take both at two moments, so what
    it can have been between the high watermark that the broker had told before the question, and
    the first marker that was not asked for when the answer came, is right too.

    **Verifies**, once everything has settled, each answer to a read_committed Fetch of a partition
    with transactions: its last stable offset (`not-as-predicted`); that no record is given of a
    transaction that was aborted (`aborted-read`), and none left out of one that was committed
    (`committed-as-aborted`).
    **Does not verify**: what `transactions_ended` does not; the list of aborted transactions beyond
    what it has a client leave out.
    """
    replicas = evidence.in_sync(side)
    if side != OBSERVED or not evidence.is_final or not replicas or not _is_whole(evidence):
        return
    transactions = logged_transactions(evidence, replicas[0].batches)
    by_offset = {
        first: transaction for transaction in transactions for first, _ in transaction.batches
    }
    stable = _StableOffsets(evidence, transactions)
    told: dict[int, tuple[list[float], list[int]]] = {}
    for read in sorted(evidence.committed_reads, key=lambda read: read.answered_at):
        if evidence.copied_from is not None and read.answered_at > evidence.copied_from:
            continue
        times, marks = told.setdefault(read.broker, ([], [0]))
        least = min(marks[bisect_left(times, read.asked_at)], read.high_watermark)
        times.append(read.answered_at)
        marks.append(max(marks[-1], read.high_watermark))
        yield from _last_stable_offset(evidence, read, stable, least)
        yield from _given(evidence, read, by_offset)


class _StableOffsets:
    """Last stable offsets that a leader with these transactions in its log may say."""

    def __init__(
        self, evidence: PartitionEvidence, transactions: Sequence[LoggedTransaction]
    ) -> None:
        changes: dict[int, list[LoggedTransaction]] = {}
        for transaction in transactions:
            changes.setdefault(transaction.first_offset + 1, []).append(transaction)
            if transaction.marker_offset is not None:
                changes.setdefault(transaction.marker_offset + 1, [])
        # From each of these high watermarks on, up to the next: where the first undecided begins.
        self._begins = sorted(changes)
        self._undecided: list[int | None] = []
        open_ones: list[tuple[int, float]] = []
        for high_watermark in self._begins:
            for transaction in changes[high_watermark]:
                end = inf if transaction.marker_offset is None else transaction.marker_offset
                heappush(open_ones, (transaction.first_offset, end))
            while open_ones and open_ones[0][1] < high_watermark:
                heappop(open_ones)
            self._undecided.append(open_ones[0][0] if open_ones else None)
        markers = [each.marker_offset for each in transactions if each.marker_offset is not None]
        self._edges = sorted({*self._begins, *markers})
        self._edges_of: dict[int, list[int]] = {}
        for edge in self._edges:
            self._edges_of.setdefault(self.at(edge), []).append(edge)
        self._ends = max(
            (each.batches[-1].last_offset + 1 for each in evidence.replicas if each.batches),
            default=0,
        )
        asked: dict[int, list[float]] = {}
        for marker in sorted(evidence.markers or (), key=lambda marker: marker.asked_at):
            asked.setdefault(marker.producer_id, []).append(marker.asked_at)
        there: list[tuple[float, int]] = []
        for each in transactions:
            times = asked.get(each.producer_id, [])
            if each.marker_offset is not None:
                is_asked = each.earlier_markers < len(times)
                since = times[each.earlier_markers] if is_asked else inf
                there.append((since, each.marker_offset))
        there.sort()
        self._there_from = [time for time, _ in there]
        self._not_there = [*accumulate((end for _, end in reversed(there)), min)][::-1]

    def at(self, high_watermark: int) -> int:
        """Return what a leader says at a high watermark."""
        place = bisect_right(self._begins, high_watermark) - 1
        undecided = self._undecided[place] if place >= 0 else None
        return high_watermark if undecided is None else undecided

    def most(self, answered_at: float) -> int:
        """Return the largest high watermark that a leader can have had when it answered.

        A marker of which no coordinator had asked for by then was not there, nor what follows it.
        """
        place = bisect_right(self._there_from, answered_at)
        return self._not_there[place] if place < len(self._not_there) else self._ends

    def may_be(self, said: int, least: int, most: int) -> bool:
        """Return whether a high watermark of `least` to `most`, both inclusive, has this one."""
        if self.at(least) == said or (least <= said <= most and self.at(said) == said):
            return True
        edges = self._edges_of.get(said, [])
        return bisect_left(edges, least) < bisect_right(edges, most)

    def of(self, marks: Iterable[int], least: int, most: int) -> list[int]:
        """Return those of `least` to `most`, where one may change, and of `marks` in between."""
        return sorted(
            {self.at(mark) for mark in (*self._edges, *marks, least, most) if least <= mark <= most}
        )


def _last_stable_offset(
    evidence: PartitionEvidence, read: CommittedRead, stable: _StableOffsets, least: int
) -> Iterator[Finding]:
    said, most = read.last_stable_offset, max(least, stable.most(read.answered_at))
    if not stable.may_be(said, least, most):
        yield evidence.finding(
            "not-as-predicted",
            brokers=(read.broker,),
            message=f"broker {read.broker} answered {read.client} with the last stable "
            f"offset {said} beside high watermark {read.high_watermark}; by its transactions it is "
            f"{stable.at(read.high_watermark)}",
            evidence={
                "what": "last stable offset",
                "predicted": stable.of((read.high_watermark, said), least, most),
                "observed": said,
            },
        )


def _given(
    evidence: PartitionEvidence, read: CommittedRead, by_offset: Mapping[int, LoggedTransaction]
) -> Iterator[Finding]:
    for spans, is_wrong, kind, what in (
        (read.given, True, "aborted-read", "was given records of an aborted transaction"),
        (
            read.left_out,
            False,
            "committed-as-aborted",
            "was answered that records of a committed transaction are aborted",
        ),
    ):
        ranges = [
            span
            for span in spans
            if (transaction := by_offset.get(span[0])) is not None
            and transaction.is_commit is not None
            and transaction.is_commit is not is_wrong
        ]
        for first, last in merged(ranges):
            yield evidence.finding(
                kind,
                brokers=(read.broker,),
                first_offset=first,
                last_offset=last,
                message=f"{read.client} {what}, at {in_words(first, last)}",
                evidence={"last_stable_offset": read.last_stable_offset},
            )
