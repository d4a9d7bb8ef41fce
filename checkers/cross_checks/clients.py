"""Cross-check of clients: what consumers got and tests say, beside what was sent and links saw."""

from collections.abc import Iterator

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.said import contradictions


def client_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield where a broker's answer or a link contradicts a client.

    **Verifies**: that a consumer got only what was sent; that links which saw all that clients did
    saw what a test says of them, and that it says it of partitions that there are.
    **Does not verify**: produces of kchaos's own, which the bytes on disk show.
    """
    yield from _reads(evidence)
    yield from _said(evidence)


def _reads(evidence: RunEvidence) -> Iterator[str]:
    """Yield records that a consumer read and nobody sent."""
    operations = evidence.client_operations
    others = () if evidence.clients is None else evidence.clients.operations
    for operation in operations:
        if operation.function != "read":
            continue
        sent = {
            payload
            for other in (*operations, *others, *evidence.said)
            if other.function == "produce"
            and (other.topic, other.partition) == (operation.topic, operation.partition)
            for payload in other.payloads
        }
        if not sent.issuperset(operation.payloads):
            yield f"read {operation.operation!r} got records that no producer sent"


def _said(evidence: RunEvidence) -> Iterator[str]:
    """Yield a test's statements that contradict links which saw all of its clients' requests."""
    yield from contradictions(evidence.said, evidence.clients)
    for operation in evidence.said:
        partition = TopicPartition(operation.topic, operation.partition)
        if partition not in evidence.partitions and partition.topic not in evidence.deletions:
            name = partition.name
            yield f"the test says that a client wrote to or read {name}, which is not there"
