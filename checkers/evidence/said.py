"""Operations that a test reports of its own clients, merged with those that links saw.

Where a link saw a record acknowledged or read, as the test says, the test adds nothing. What no
link saw is an operation like that of any client, except that nobody knows when it began, and to
which broker it was sent. Where the links saw all that clients did, and not what the test says, one
of the two is wrong.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kchaos.checkers.evidence.clients import ClientsSeen
from kchaos.checkers.evidence.history import Operation

_Record = tuple[str, str, int, int, str]
"""Function, topic, partition, offset and digest."""


def not_seen(said: Sequence[Operation], clients: ClientsSeen | None) -> Iterator[Operation]:
    """Yield the operations of the test of which links did not see each record."""
    seen = set() if clients is None or not said else _seen(clients)
    for operation in said:
        if not seen.issuperset(_records(operation)):
            yield operation


def joined(said: Iterable[Operation], turns: Sequence[float] = ()) -> tuple[Operation, ...]:
    """Return the operations, consecutive ones merged and none twice.

    Clients have one answer for each record, and batches hold several. A joined operation ended when
    the first of them did.

    Args:
        said: The operations.
        turns: When what is promised may have changed, ascending. What was answered before and after
            such a time is not joined: a loss that the time excuses is not excused of the later one.
    """
    runs: list[Operation] = []
    last: dict[tuple[object, ...], int] = {}
    known: set[tuple[_Record, bool]] = set()
    for operation in sorted(said, key=lambda operation: operation.base_offset):
        records = {(record, operation.promised) for record in _records(operation)}
        if records <= known:
            continue
        known |= records
        subject = (operation.function, operation.topic, operation.partition, operation.promised)
        term = bisect_left(turns, operation.ended_at or 0.0)
        alike = (*subject, term, bool(operation.keys), bool(operation.values))
        before = runs[last[alike]] if alike in last else None
        if before is None or before.last_offset + 1 != operation.base_offset:
            last[alike] = len(runs)
            runs.append(operation)
            continue
        names = dict.fromkeys([*before.client.split("; "), operation.client])
        runs[last[alike]] = replace(
            before,
            payloads=before.payloads + operation.payloads,
            keys=before.keys + operation.keys,
            values=before.values + operation.values,
            ended_at=min(before.ended_at or 0.0, operation.ended_at or 0.0),
            client="; ".join(names),
        )
    return tuple(runs)


def contradictions(said: Sequence[Operation], clients: ClientsSeen | None) -> Iterator[str]:
    """Yield the test's statements that no link saw, although links saw all client requests."""
    if clients is None or clients.unseen:
        return
    for operation in not_seen(said, clients):
        how = "acknowledged" if operation.function == "produce" else "read"
        yield (
            f"the test says that the record of {operation.topic}-{operation.partition} at offset "
            f"{operation.base_offset} was {how} ({operation.operation}), and no link saw "
            "that. Links saw all that clients were answered; a client that does not come through "
            "them needs client_links=False"
        )


def _records(operation: Operation) -> Iterator[_Record]:
    subject = (operation.function, operation.topic, operation.partition)
    for offset, payload in enumerate(operation.payloads, start=operation.base_offset):
        yield *subject, offset, payload


def _seen(clients: ClientsSeen) -> set[_Record]:
    """Return the records that links saw acknowledged or returned to a client."""
    records = {
        record
        for operation in clients.operations
        if operation.function == "produce" and operation.outcome == "ok"
        for record in _records(operation)
    }
    for line in clients.lines:
        for came in line.partitions if (line.api, line.direction) == ("Fetch", "response") else ():
            for batch in came.batches:
                offsets = batch.offsets or range(batch.base_offset, batch.last_offset + 1)
                records |= {
                    ("read", came.topic or "", came.partition, offset, payload)
                    for offset, payload in zip(offsets, batch.payloads, strict=False)
                }
    return records
