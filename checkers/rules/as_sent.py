"""Headers of a batch beside what its producer sent: replicas can be alike and wrong."""

from collections.abc import Iterator

from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import OBSERVED, BatchEvidence, PartitionEvidence, Side
from kchaos.checkers.findings import Finding
from kchaos.checkers.rules.foreign import OwnBatches
from kchaos.checkers.segments.batch import join_payload_digests

NOT_COMPARED = (
    "timestamps in a history that does not say them: only that they lie within two seconds of "
    "their request",
    "what the written format drops: before 0.11 headers, producer ids and leader epochs, in magic "
    "0 timestamps too",
    "what a producer that is not kchaos's own sent. One such batch leaves the run unknown, and a "
    "write that no replica and no link shows is not noticed",
    "indexes, time indexes, transaction indexes, producer snapshots and recovery points",
)
"""Fields that no rule compares with the sent ones, a sentence each."""

_APART_MS = 2_000


def as_sent(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield a finding for each of kchaos's batches that its clients cannot have sent.

    They send no producer id, no transaction, the time of sending, and headers only where the
    history says so. So a flag, an id, a header or an attribute in a batch, another codec than the
    operation's, and another timestamp than the operation's (in an older history one outside its
    time) were put there by somebody else, even if every replica has them. Keys and values are
    compared by `replicas_as_predicted` and `loss`; batches with other ones are `rules.foreign`'s.

    **Verifies**: at every snapshot, every batch of every replica of a partition to which kchaos
    wrote; the codec and timestamps of those that one operation sent alone.
    **Does not verify**: `NOT_COMPARED`.
    """
    writes = [
        operation
        for operation in evidence.operations
        if operation.function == "produce" and operation.payloads
    ]
    if side != OBSERVED or not writes:
        return
    own = OwnBatches(evidence)
    sent = {digest: write for write in writes if not write.client for digest in _digests(write)}
    for write in writes:
        if write.client:
            # What a client of others sent alike may have any marks.
            for digest in _digests(write):
                sent.pop(digest, None)
    for replica in evidence.replicas:
        for batch in replica.batches:
            operation = sent.get(batch.payload or "")
            if operation is None or not own.has(batch):
                continue
            is_stamped = evidence.has_other_times and batch.marks == "log append time"
            is_headed = operation.has_headers and batch.marks == "headers"
            reasons = [batch.marks] if batch.marks and not (is_stamped or is_headed) else []
            reasons += _unlike(evidence, batch, operation)
            if reasons:
                yield evidence.finding(
                    "not-as-sent",
                    brokers=(replica.broker,),
                    first_offset=batch.base_offset,
                    last_offset=batch.last_offset,
                    message=f"broker {replica.broker} holds a batch at offset "
                    f"{batch.base_offset} that is not as its client sent it: {'; '.join(reasons)}",
                    evidence={"batch": batch.header(), "reasons": reasons},
                )


def _digests(operation: Operation) -> list[str]:
    whole = join_payload_digests([(payload, 1) for payload in operation.payloads])
    return [*operation.payloads, whole]


def _unlike(
    evidence: PartitionEvidence, batch: BatchEvidence, operation: Operation
) -> Iterator[str]:
    if batch.codec != operation.codec and not evidence.has_other_codec:
        yield f"codec {batch.codec}, sent was {operation.codec}"
    times = {name: getattr(batch, name) for name in ("first_timestamp", "max_timestamp")}
    if batch.magic == 0 or evidence.has_other_times:
        return
    if operation.timestamp_ms is not None:
        for name, time in times.items():
            if time != operation.timestamp_ms:
                yield f"{name} {time}, sent was {operation.timestamp_ms}"
        return
    earliest = operation.invoked_at * 1000 - _APART_MS
    latest = None if operation.ended_at is None else operation.ended_at * 1000 + _APART_MS
    for name, time in times.items():
        if time is not None and (time < earliest or (latest is not None and time > latest)):
            yield f"{name} {time}, sent at {int(operation.invoked_at * 1000)}"
