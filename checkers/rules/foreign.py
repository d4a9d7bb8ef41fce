"""Batches of other writers than kchaos: clients of a user's own, which no link saw."""

from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import OBSERVED, BatchEvidence, PartitionEvidence, Side
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.model.follow.observations import (
    FetchAnswered,
    FetchAsked,
    RequestSeen,
    ResponseSeen,
)
from kchaos.checkers.rules.offsets import Range, common, in_words, merged, without
from kchaos.checkers.segments.batch import join_payload_digests

FOREIGN = "foreign-write"
_MADE_UP = ("forged", "replaced")
"""Fate of a message whose content kchaos made itself."""


def foreign_batches(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield one finding for the batches of a snapshot that no observed produce explains.

    A batch is kchaos's own if it has the records of one of its produces, and lies where that was
    acknowledged or where nobody knows. The same records at other offsets are somebody else's only
    where the cluster's addresses were given away: there nobody can tell a client that imitates
    kchaos from a broker that writes twice.

    A leader gives an offset out once in its epoch. So what lies in one epoch where another replica
    has a batch of kchaos's is a difference between replicas, whoever made it.

    **Verifies**: every batch of every replica, and of the remote tier; transaction markers too.
    **Does not verify**: batches that the segment reader calls corrupt; what is left of records
    that a log cleaner went over.
    """
    if side != OBSERVED:
        return
    own = OwnBatches(evidence)
    corrupt = [finding for replica in evidence.replicas for finding in replica.findings]
    held = [batch for replica in evidence.replicas for batch in replica.batches]
    held += [batch for segment in evidence.remote for batch in segment.batches]
    spans: dict[int, list[Range]] = {}
    others = []
    for batch in held:
        if not own.has(batch):
            others.append(batch)
        elif batch.leader_epoch >= 0:
            spans.setdefault(batch.leader_epoch, []).append((batch.base_offset, batch.last_offset))
    taken = {epoch: merged(ranges) for epoch, ranges in spans.items()}
    foreign = [
        batch
        for batch in others
        if not common([(batch.base_offset, batch.last_offset)], taken.get(batch.leader_epoch, ()))
        and not _is_corrupt(batch, corrupt)
    ]
    if foreign:
        ids = {batch.producer_id for batch in foreign if batch.producer_id is not None}
        yield replace(
            _finding(
                TopicPartition(evidence.topic, evidence.partition),
                [(batch.base_offset, batch.last_offset) for batch in foreign],
                ids - {-1},
                "on disk",
            ),
            snapshot=evidence.snapshot,
        )


def is_foreign(evidence: PartitionEvidence) -> bool:
    """Return whether a replica of the partition has foreign batches at this snapshot."""
    return any(True for _ in foreign_batches(evidence, OBSERVED))


class OwnBatches:
    """Traces of kchaos's own produces, and of those of clients whom links saw.

    So is what a test says of clients of its own.
    """

    def __init__(self, evidence: PartitionEvidence) -> None:
        writes = [operation for operation in evidence.operations if _is_write(operation)]
        self._evidence = evidence
        self._placed = merged(
            (write.base_offset, write.last_offset) for write in writes if write.base_offset >= 0
        )
        self._has_unplaced = any(write.base_offset < 0 for write in writes)
        self._transactional = frozenset(evidence.transactional)
        self._said = {
            offset: payload
            for write in writes
            if write.is_said
            for offset, payload in enumerate(write.payloads, start=write.base_offset)
        }
        self._by_digest: dict[str, list[Operation]] = {}
        for write in writes:
            whole = join_payload_digests((payload, 1) for payload in write.payloads)
            for digest in {*write.payloads, whole}:
                self._by_digest.setdefault(digest, []).append(write)

    def has(self, batch: BatchEvidence) -> bool:
        """Return whether an observed produce or transaction end explains the batch."""
        is_marker = "control" in (batch.marks or "").split(", ")
        if is_marker and batch.producer_id in self._transactional:
            markers = self._evidence.markers
            sent = {(marker.producer_id, marker.payload) for marker in markers or ()}
            return markers is None or (batch.producer_id, batch.payload) in sent
        span = (batch.base_offset, batch.last_offset)
        if batch.payload is None:
            return self._has_unplaced or not without([span], self._placed)
        if self._is_said(batch):
            return True
        alike = self._by_digest.get(batch.payload, ())
        if not alike:
            is_cleaned = batch.base_offset < self._evidence.cleaned_until
            return is_cleaned and not without([span], self._placed)
        if not self._evidence.is_open_to_others:
            return True
        producer_id = None if batch.producer_id == -1 else batch.producer_id
        return any(
            operation.base_offset <= span[0] and span[1] <= operation.last_offset
            if operation.base_offset >= 0
            else (operation.producer and operation.producer.producer_id) == producer_id
            for operation in alike
        )

    def _is_said(self, batch: BatchEvidence) -> bool:
        """Return whether the test says that each of its records was acknowledged at its offset."""
        offsets = range(batch.base_offset, batch.last_offset + 1)
        if not all(offset in self._said for offset in offsets):
            return False
        return batch.payload == join_payload_digests((self._said[offset], 1) for offset in offsets)


def foreign_at_links(evidence: RunEvidence) -> Iterator[Finding]:
    """Yield, for each partition, the messages that show writes of other clients.

    Where transactions were written nothing is compared: their markers take offsets too. Every other
    produce is sent once and lies at one offset. So what a follower was given lies
    where produces were acknowledged that were sent before, or is one of those whose offset nobody
    knows. No offset exceeds the number of records that were sent until then: of a fetch, a high
    watermark or an acknowledgement.

    **Verifies**: each Fetch between brokers and its answer, and the base offsets of history.jsonl.
    **Does not verify**: a write that left no trace: no follower was given it, and no snapshot shows
    it; runs in which kchaos forged answers.
    """
    marked = {} if evidence.clients is None else evidence.clients.transactional
    writes: dict[TopicPartition, list[Operation]] = {
        partition: [] for partition in evidence.partitions if partition not in marked
    }
    for operation in evidence.operations:
        partition = TopicPartition(operation.topic, operation.partition)
        if _is_write(operation) and partition in writes:
            writes[partition].append(operation)
    written = {partition: _Written(waiting=deque(own)) for partition, own in writes.items()}
    if not any(message.fate in _MADE_UP for message in evidence.links or ()):
        for message in evidence.links or ():
            said = message.said
            if isinstance(said, RequestSeen | ResponseSeen) and said.api == "Fetch":
                for partition, told in said.partitions.items():
                    if partition in written:
                        written[partition].compare(message.wall_time_s, told)
    for partition, sent in sorted(written.items()):
        if sent.foreign:
            yield _finding(partition, sent.foreign, set(), "at the links")
        beyond = [*_beyond_what_was_sent(writes[partition])]
        if beyond:
            yield _finding(partition, beyond, set(), "in base offsets")


@dataclass(slots=True)
class _Written:
    """Records that kchaos had sent to a partition at some moment, and those that cannot be its own.

    Attributes:
        waiting: Its produces that were not sent yet, in the order of invocation.
        records: How many records it has sent.
        unplaced: How many of them lie nobody knows where, if anywhere.
        placed: Where the others were acknowledged.
        unexplained: What followers were given and was acknowledged to nobody until then.
        foreign: What kchaos cannot have written.
    """

    waiting: deque[Operation]
    records: int = 0
    unplaced: int = 0
    placed: list[Range] = field(default_factory=list)
    unexplained: list[Range] = field(default_factory=list)
    foreign: list[Range] = field(default_factory=list)

    def compare(self, time: float, told: object) -> None:
        """Take in one partition of a Fetch or of its answer."""
        while self.waiting and self.waiting[0].invoked_at <= time:
            self._send(self.waiting.popleft())
        if isinstance(told, FetchAsked):
            self._reach(told.fetch_offset)
        elif isinstance(told, FetchAnswered) and not told.error_code:
            self._reach(told.high_watermark)
            # What is no number is for those who compare messages with the model.
            if type(told.base_offset) is int and type(told.last_offset) is int:
                self._give((told.base_offset, told.last_offset))

    def _send(self, operation: Operation) -> None:
        self.records += len(operation.payloads)
        if operation.base_offset < 0:
            self.unplaced += len(operation.payloads)
        else:
            placed = (operation.base_offset, operation.last_offset)
            self.placed = merged([*self.placed, placed])

    def _reach(self, end_offset: int) -> None:
        if type(end_offset) is int and end_offset > self.records:
            beyond = [(self.records, end_offset - 1)]
            self.foreign += without([(0, end_offset - 1)], self.placed) or beyond

    def _give(self, given: Range) -> None:
        unexplained = without([given], self.placed)
        if unexplained:
            self.unexplained = merged([*self.unexplained, *unexplained])
            if sum(last - first + 1 for first, last in self.unexplained) > self.unplaced:
                self.foreign += unexplained


def _beyond_what_was_sent(writes: Sequence[Operation]) -> Iterator[Range]:
    """Yield offsets below those of an acknowledged write that no write explains.

    `writes` are of one partition, in the order of their invocation.
    """
    placed = merged(
        (write.base_offset, write.last_offset) for write in writes if write.base_offset >= 0
    )
    began = [write.invoked_at for write in writes]
    sums = [0, *accumulate(len(write.payloads) for write in writes)]
    for write in writes:
        if write.outcome != "ok" or write.base_offset < 0 or write.ended_at is None:
            continue
        if write.last_offset >= sums[bisect_right(began, write.ended_at)]:
            yield from without([(0, write.base_offset - 1)], placed)


def foreign_writes_once(
    findings: Iterable[Finding], *, unfollowed: Collection[TopicPartition]
) -> tuple[Finding, ...]:
    """Return the findings with one for foreign writes, and without their consequences.

    The model was not told of those writes, so what differs from its prediction says nothing of
    Kafka: on the partitions concerned, or on all where the run could not be followed to its end.

    `unfollowed` are the partitions with other foreign actions that the model does not know.
    """
    findings = list(findings)
    foreign = [finding for finding in findings if finding.kind == FOREIGN]
    concerned = {TopicPartition(finding.topic, finding.partition) for finding in foreign} | {
        *unfollowed
    }
    if not concerned:
        return tuple(findings)
    is_lost = any(finding.evidence.get("what") == "observation" for finding in findings)
    others = [finding for finding in findings if finding.kind != FOREIGN]
    kept = [
        finding
        for finding in others
        if not is_of_the_model(finding)
        or not (is_lost or TopicPartition(finding.topic, finding.partition) in concerned)
    ]
    note = [_joined(foreign, left_out=len(others) - len(kept))] if foreign else []
    return (*kept, *note)


def _joined(foreign: Sequence[Finding], *, left_out: int) -> Finding:
    by_partition: dict[tuple[str, int], list[Finding]] = {}
    for finding in foreign:
        by_partition.setdefault((finding.topic, finding.partition), []).append(finding)
    partitions = {
        f"{topic}-{partition}": {
            "offsets": merged(
                (first, last) for finding in findings for first, last in _offsets(finding)
            ),
            "producer_ids": sorted(
                {each for finding in findings for each in finding.evidence["producers"]}
            ),
            "seen": sorted({finding.evidence["seen"] for finding in findings}),
        }
        for (topic, partition), findings in sorted(by_partition.items())
    }
    said = "; ".join(
        f"{name}: {_in_words(part['offsets'])}"
        + (f", producer ids {_listed(part['producer_ids'])}" if part["producer_ids"] else "")
        for name, part in partitions.items()
    )
    where = (("", -1), *by_partition)[1] if len(by_partition) == 1 else ("", -1)
    return Finding(
        kind=FOREIGN,
        topic=where[0],
        partition=where[1],
        message=f"somebody else than kchaos wrote to {said}",
        evidence={"partitions": partitions, "left_out": left_out},
    )


def _offsets(finding: Finding) -> Iterator[Range]:
    yield from ((first, last) for first, last in finding.evidence["offsets"])


def _in_words(ranges: Sequence[Range], most: int = 5) -> str:
    said = ", ".join(in_words(*each) for each in ranges[:most])
    return said if len(ranges) <= most else f"{said} and {len(ranges) - most} more ranges"


def _listed(numbers: Sequence[int], most: int = 10) -> str:
    said = ", ".join(map(str, numbers[:most]))
    return said if len(numbers) <= most else f"{said} and {len(numbers) - most} more"


def is_of_the_model(finding: Finding) -> bool:
    """Return whether the finding compares the run with its prediction."""
    is_of_files = finding.evidence.get("what") == "directory" or "written_by" in finding.evidence
    return finding.question is Question.CONFORMANCE and not is_of_files


def _finding(
    partition: TopicPartition, ranges: Iterable[Range], ids: set[int], seen: str
) -> Finding:
    offsets = merged(ranges)
    return Finding(
        kind=FOREIGN,
        topic=partition.topic,
        partition=partition.partition,
        first_offset=offsets[0][0],
        last_offset=offsets[-1][1],
        message=f"somebody else wrote to {partition.name} at {_in_words(offsets)}",
        evidence={"offsets": [list(each) for each in offsets], "producers": sorted(ids)}
        | {"seen": seen},
    )


def _is_write(operation: Operation) -> bool:
    return operation.function == "produce" and bool(operation.payloads)


def _is_corrupt(batch: BatchEvidence, findings: Iterable[Finding]) -> bool:
    return any(
        finding.kind == "corrupt-batch"
        and finding.first_offset <= batch.last_offset
        and batch.base_offset <= finding.last_offset
        for finding in findings
    )
