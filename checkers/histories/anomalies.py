"""The anomalies of a history, under the names that Jepsen's Kafka workload gives them.

A history has what clients did: what each sent and polled, and whether that is done, not done or not
known. No replica is looked at. The definitions are those of `jepsen.tests.kafka` of 2026:

- `duplicate`: a value is at two offsets of a key;
- `inconsistent-offsets`: two values are at one offset;
- `lost-write`: a value was sent and acknowledged, nobody read it, and somebody read beyond it;
- `G1a`: a value was read, and whoever sent it was told that it is not there (an aborted read);
- `precommitted-read`: a value was read before its transaction was to be committed;
- `poll-skip`, `nonmonotonic-poll`: two operations of one process, one after the other, pass over a
  value, or go back;
- `int-poll-skip`, `int-nonmonotonic-poll`: the same within one operation;
- `nonmonotonic-send`, `int-nonmonotonic-send`, `int-send-skip`: likewise for what is sent;
- `unseen`: a value was acknowledged, and at the end nobody has read it;
- `G0`: transactions that each come before the next by the order of what they sent, in a circle;
- `G1c`: such a circle in which at least one read what another sent.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from kchaos.checkers.histories.cycles import components, cycle_through
from kchaos.checkers.histories.operations import History, HistoryOperation, Poll, Value
from kchaos.checkers.histories.version_order import (
    Values,
    VersionOrder,
    is_committed,
    values_read,
    version_orders,
)

REBALANCED = "a consumer that subscribes may be given other partitions between two polls"
NOT_KEPT_APART = (
    "records of several transactions are mixed in a log, so the order of writes may close a circle"
)
_MOST_NAMED = 8
"""Most values that a sentence names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """One anomaly.

    Attributes:
        name: As the head of this module has it.
        key: The partition, as the history names it; "" for a circle of transactions.
        message: What happened, in a sentence.
        values: The values concerned, in order.
        operations: The indexes of the operations concerned, in order.
        first_offset: The first offset concerned, -1 if none is known; likewise `last_offset`.
        permitted: Why Kafka does not promise against it here, or "".
        evidence: More, as plain JSON values.
    """

    name: str
    key: str
    message: str
    values: tuple[Value, ...] = ()
    operations: tuple[int, ...] = ()
    first_offset: int = -1
    last_offset: int = -1
    permitted: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)


class Analysis:
    """Values derived of a history once, for all anomalies."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.read: Values = values_read(history)
        self.orders: Mapping[str, VersionOrder] = version_orders(history, self.read)
        self.writer_of: dict[tuple[str, Value], HistoryOperation] = {}
        self.readers_of: dict[tuple[str, Value], list[HistoryOperation]] = defaultdict(list)
        self.by_process: dict[str, list[HistoryOperation]] = defaultdict(list)
        self.by_index = {operation.index: operation for operation in history}
        for operation in history:
            self.by_process[operation.process].append(operation)
            for send in operation.sends:
                self.writer_of[send.key, send.value] = operation
            for key, values in operation.reads.items():
                for value in values:
                    self.readers_of[key, value].append(operation)

    def order(self, key: str) -> VersionOrder:
        """Return a key's order; empty if no offset is known."""
        return self.orders.get(key) or VersionOrder()

    def span(self, key: str, values: Collection[Value]) -> dict[str, Any]:
        """Return the least and the greatest offset of the values, as fields of an anomaly."""
        order = self.order(key)
        offsets = [
            order.offsets[order.by_value[value]] for value in values if value in order.by_value
        ]
        return {"first_offset": min(offsets, default=-1), "last_offset": max(offsets, default=-1)}


def anomalies(history: History) -> list[Anomaly]:
    """Return all anomalies of a history by name, in the order of their discovery."""
    analysis = Analysis(history)
    return [
        *inconsistent_offsets(analysis),
        *duplicates(analysis),
        *lost_writes(analysis),
        *aborted_reads(analysis),
        *precommitted_reads(analysis),
        *internal_polls(analysis),
        *internal_sends(analysis),
        *external_polls(analysis),
        *external_sends(analysis),
        *unseen(analysis),
        *circles(analysis),
    ]


def doubts(history: History) -> Iterator[str]:
    """Yield why a history may hide anomalies: each value must have one sender."""
    analysis = Analysis(history)
    for (key, value), readers in analysis.readers_of.items():
        if (key, value) not in analysis.writer_of:
            yield f"value {value!r} of key {key} was read ({readers[0]}), and no producer sent it"
    sent: dict[tuple[str, Value], HistoryOperation] = {}
    for operation in history:
        for send in operation.sends:
            before = sent.setdefault((send.key, send.value), operation)
            if before is not operation:
                where = f"{before} and {operation}"
                yield f"value {send.value!r} of key {send.key} was sent twice: {where}"


def inconsistent_offsets(analysis: Analysis) -> Iterator[Anomaly]:
    """Yield each offset at which several values were read."""
    for key, order in analysis.orders.items():
        for offset in sorted(order.log):
            values = order.log[offset]
            if len(values) > 1:
                yield Anomaly(
                    name="inconsistent-offsets",
                    key=key,
                    message=f"key {key} has {_named(values)} at offset {offset}",
                    values=tuple(values),
                    operations=_told(analysis, key, values),
                    first_offset=offset,
                    last_offset=offset,
                )


def duplicates(analysis: Analysis) -> Iterator[Anomaly]:
    """Yield each value that is at several offsets."""
    for key, order in analysis.orders.items():
        places: dict[Value, list[int]] = defaultdict(list)
        for offset in sorted(order.log):
            for value in order.log[offset]:
                places[value].append(offset)
        for value, offsets in places.items():
            if len(offsets) > 1:
                at = ", ".join(map(str, offsets[:_MOST_NAMED]))
                yield Anomaly(
                    name="duplicate",
                    key=key,
                    message=f"value {value!r} of key {key} is at offsets {at}",
                    values=(value,),
                    operations=_told(analysis, key, [value]),
                    first_offset=offsets[0],
                    last_offset=offsets[-1],
                    evidence={"offsets": offsets},
                )


def lost_writes(analysis: Analysis) -> Iterator[Anomaly]:
    """Yield each value that must be in the log and that nobody read, though polls passed it.

    A poll passes what is between the offset from which it was asked to read, or the beginning, and
    the last value that it returned. A value at several offsets counts at its last, and as the end
    of a poll at its first: what may be due to a duplicate is not called lost.
    """
    polls: dict[str, list[tuple[HistoryOperation, Poll]]] = defaultdict(list)
    for operation in analysis.history:
        for poll in operation.polls if operation.outcome == "ok" else ():
            for key in poll.records:
                polls[key].append((operation, poll))
    for key, of_key in polls.items():
        order, read = analysis.order(key), analysis.read[key]
        passed = _passed(key, order, of_key)
        for index in sorted(passed):
            for value in order.log[order.offsets[index]]:
                writer = analysis.writer_of.get((key, value))
                is_last = order.last_index[value] == index
                if value in read or not is_last or writer is None:
                    continue
                if is_committed(writer, analysis.read):
                    offset, reader = order.offsets[index], passed[index]
                    yield Anomaly(
                        name="lost-write",
                        key=key,
                        message=f"value {value!r} was sent to key {key} ({writer}) and nobody read "
                        f"it at offset {offset}, though a poll read beyond ({reader})",
                        values=(value,),
                        operations=(writer.index, reader.index),
                        first_offset=offset,
                        last_offset=offset,
                    )


def _passed(
    key: str, order: VersionOrder, polls: Sequence[tuple[HistoryOperation, Poll]]
) -> Mapping[int, HistoryOperation]:
    """Return the indexes of a key that polls passed, each with an operation that did."""
    passed: dict[int, HistoryOperation] = {}
    reached = 0
    for operation, poll in polls:
        ends = (order.first_index.get(value, -1) for _, value in poll.records[key])
        end = max(ends, default=-1) + 1
        start = poll.from_offsets.get(key)
        if start is None:
            passed.update(dict.fromkeys(range(reached, end), operation))
            reached = max(reached, end)
        else:
            for index in range(bisect_left(order.offsets, start), end):
                passed.setdefault(index, operation)
    return passed


def aborted_reads(analysis: Analysis) -> Iterator[Anomaly]:
    """Yield each value that was read although its send failed."""
    for operation in analysis.history:
        if operation.outcome != "ok":
            continue
        for key, values in operation.reads.items():
            for value in dict.fromkeys(values):
                writer = analysis.writer_of.get((key, value))
                if writer is not None and writer.outcome == "fail":
                    yield Anomaly(
                        name="G1a",
                        key=key,
                        message=f"value {value!r} of key {key} was read ({operation}), and what "
                        f"sent it had failed ({writer})",
                        values=(value,),
                        operations=(writer.index, operation.index),
                        **analysis.span(key, [value]),
                    )


def precommitted_reads(analysis: Analysis) -> Iterator[Anomaly]:
    """Yield each value that was read before its transaction can have been committed.

    A transaction's own polls are such reads. Others are where the history says when it was asked
    to commit.
    """
    for operation in analysis.history:
        for key, values in operation.reads.items():
            for value in dict.fromkeys(values):
                writer = analysis.writer_of.get((key, value))
                if writer is None or not (
                    writer is operation or operation.index < (writer.commit_asked_at or 0)
                ):
                    continue
                whose = "its own transaction" if writer is operation else "a transaction"
                yield Anomaly(
                    name="precommitted-read",
                    key=key,
                    message=f"value {value!r} of key {key} was read ({operation}) before {whose} "
                    f"that sent it was committed{'' if writer is operation else f' ({writer})'}",
                    values=(value,),
                    operations=(writer.index, operation.index),
                    **analysis.span(key, [value]),
                )


def internal_polls(analysis: Analysis) -> Iterator[Anomaly]:
    """Yield where the polls of one operation skip a value, or go back."""
    for operation in analysis.history:
        for key, values in operation.reads.items():
            if key not in operation.rebalanced:
                for before, after in pairwise(values):
                    yield from _step(
                        analysis, key, before, after, [operation], ("int-", "poll"), "polled"
                    )


def internal_sends(analysis: Analysis) -> Iterator[Anomaly]:
    """Yield where the sends of one operation leave a gap, or go back."""
    for operation in analysis.history:
        for key, values in operation.writes.items():
            for before, after in pairwise(values):
                yield from _step(
                    analysis, key, before, after, [operation], ("int-", "send"), "sent"
                )


def external_polls(analysis: Analysis) -> Iterator[Anomaly]:
    """Yield where a process polls elsewhere than its last completed operation ended.

    What it read before an assign or a subscribe counts only for the keys that this one names.
    """
    has_subscribed = any(operation.function == "subscribe" for operation in analysis.history)
    for operations in analysis.by_process.values():
        last: dict[str, tuple[HistoryOperation, Value]] = {}
        for operation in operations:
            if operation.function in ("assign", "subscribe"):
                last = _still(last, operation)
                continue
            reads = operation.reads
            for key, values in reads.items():
                if key in last and values:
                    before, value = last[key]
                    yield from _step(
                        analysis,
                        key,
                        value,
                        values[0],
                        [before, operation],
                        ("", "poll"),
                        "polled",
                        REBALANCED if has_subscribed else "",
                    )
            if operation.outcome == "ok":
                last |= {key: (operation, values[-1]) for key, values in reads.items() if values}


def external_sends(analysis: Analysis) -> Iterator[Anomaly]:
    """Yield where a process sends to offsets before its earlier operation's."""
    for operations in analysis.by_process.values():
        last: dict[str, tuple[HistoryOperation, Value]] = {}
        for operation in operations:
            if operation.outcome == "fail":
                continue
            if operation.function in ("assign", "subscribe"):
                last = _still(last, operation)
                continue
            for key, values in operation.writes.items():
                if key in last:
                    before, value = last[key]
                    for step in _step(
                        analysis, key, value, values[0], [before, operation], ("", "send"), "sent"
                    ):
                        if step.name != "send-skip":  # Others may send meanwhile.
                            yield step
                last[key] = (operation, values[-1])


def _still(
    last: dict[str, tuple[HistoryOperation, Value]], operation: HistoryOperation
) -> dict[str, tuple[HistoryOperation, Value]]:
    """Return a process's last operations that still count after an assignment."""
    if operation.outcome == "fail":
        return last
    return {key: done for key, done in last.items() if key in operation.keys}


def _step(
    analysis: Analysis,
    key: str,
    before: Value,
    after: Value,
    operations: Sequence[HistoryOperation],
    named: tuple[str, str],
    done: str,
    permitted: str = "",
) -> Iterator[Anomaly]:
    """Yield an anomaly if one value is not the next after another in the log."""
    order = analysis.order(key)
    distance = order.distance(before, after)
    if distance == 1:
        return
    prefix, what = named
    where = " and ".join(map(str, operations))
    told = f"value {after!r} of key {key} was {done} after {before!r} ({where})"
    skipped: list[Value] = []
    if distance > 1:
        start = order.by_value[before]
        skipped = order.by_index[start + 1 : start + distance]
        message = f"{told}, and the log has {_named(skipped)} between them"
    elif distance == 0:
        message = f"{told}: it is the same"
    else:
        message = f"{told}, and is {-distance} before it in the log"
    yield Anomaly(
        name=f"{prefix}{what}-skip" if distance > 1 else f"{prefix}nonmonotonic-{what}",
        key=key,
        message=message,
        values=(before, after),
        operations=tuple(operation.index for operation in operations),
        permitted=permitted,
        evidence={"delta": distance, "skipped": skipped},
        **analysis.span(key, [before, after]),
    )


def unseen(analysis: Analysis) -> Iterator[Anomaly]:
    """Yield each key's acknowledged values that nobody read by the end."""
    left: dict[str, list[Value]] = defaultdict(list)
    senders: dict[str, list[int]] = defaultdict(list)
    for operation in analysis.history:
        for send in operation.sends if operation.outcome == "ok" else ():
            if send.value not in analysis.read.get(send.key, ()):
                left[send.key].append(send.value)
                senders[send.key].append(operation.index)
    for key, values in left.items():
        yield Anomaly(
            name="unseen",
            key=key,
            message=f"no client has read acknowledged {_named(values)} of key {key}",
            values=tuple(values),
            operations=tuple(dict.fromkeys(senders[key])),
            evidence={"count": len(values)},
            **analysis.span(key, values),
        )


def circles(analysis: Analysis) -> Iterator[Anomaly]:
    """Yield one cycle of each group of transactions that precede each other.

    One comes before another if a value of it is next before a value of the other in a key's log, or
    if the other read a value of it.
    """
    sent_before, read_by = _sent_before(analysis), _read_by(analysis)
    for members in components(sent_before):
        yield _circle(analysis, "G0", sent_before, _edge(sent_before, members))
    closed: set[int] = set()
    for members in components(read_by):
        closed |= set(members)
        yield _circle(analysis, "G1c", read_by, _edge(read_by, members))
    both = {
        node: {**sent_before.get(node, {}), **read_by.get(node, {})}
        for node in {*sent_before, *read_by}
    }
    for members in components(both):
        edge = _edge(read_by, members)
        # A circle of reads alone is told above, and is the graver one.
        if edge is not None and not closed & set(members):
            yield _circle(analysis, "G1c", both, edge, NOT_KEPT_APART)


_Edges = Mapping[int, Mapping[int, str]]


def _sent_before(analysis: Analysis) -> _Edges:
    edges: dict[int, dict[int, str]] = defaultdict(dict)
    for key, order in analysis.orders.items():
        for before, after in pairwise(order.by_index):
            first = analysis.writer_of.get((key, before))
            second = analysis.writer_of.get((key, after))
            if first is not None and second is not None and first is not second:
                edges[first.index].setdefault(
                    second.index, f"sent {before!r} to key {key} before {after!r} was sent by"
                )
    return edges


def _read_by(analysis: Analysis) -> _Edges:
    edges: dict[int, dict[int, str]] = defaultdict(dict)
    for (key, value), readers in analysis.readers_of.items():
        writer = analysis.writer_of.get((key, value))
        for reader in readers if writer is not None else ():
            if writer is not None and reader is not writer:
                edges[writer.index].setdefault(
                    reader.index, f"sent {value!r} to key {key}, which was read by"
                )
    return edges


def _edge(edges: _Edges, members: Collection[int]) -> tuple[int, int] | None:
    return next(
        (
            (first, second)
            for first in sorted(members)
            for second in sorted(edges.get(first, ()))
            if second in members
        ),
        None,
    )


def _circle(
    analysis: Analysis, name: str, edges: _Edges, edge: tuple[int, int] | None, permitted: str = ""
) -> Anomaly:
    assert edge is not None, "a component of two nodes or more has an edge"
    way = cycle_through(edges, *edge)
    round_trip = [*way, way[0]]
    told = [str(analysis.by_index[way[0]])]
    for first, second in pairwise(round_trip):
        told.append(f"{edges[first][second]} {analysis.by_index[second]}")
    return Anomaly(
        name=name, key="", message=", which ".join(told), operations=tuple(way), permitted=permitted
    )


def _told(analysis: Analysis, key: str, values: Collection[Value]) -> tuple[int, ...]:
    """Return the operations that sent or read some values of a key."""
    senders = [
        analysis.writer_of[key, value] for value in values if (key, value) in analysis.writer_of
    ]
    readers = [reader for value in values for reader in analysis.readers_of.get((key, value), ())]
    return tuple(dict.fromkeys(operation.index for operation in (*senders, *readers)))


def _named(values: Sequence[Value]) -> str:
    """Return values as text, abridged if there are many."""
    shown = [repr(value) for value in values[:_MOST_NAMED]]
    left = len(values) - len(shown)
    if left:
        shown.append(f"{left} more")
    if len(shown) == 1:
        return f"value {shown[0]}"
    return f"values {', '.join(shown[:-1])} and {shown[-1]}"
