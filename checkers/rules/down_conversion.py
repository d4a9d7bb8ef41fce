"""Down-conversion for old clients: a newer format than they read, or nothing at all."""

from collections.abc import Iterator

from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import OBSERVED, PartitionEvidence, Side
from kchaos.checkers.findings import Finding

_NEWEST_MAGIC = {0: 0, 1: 0, 2: 1, 3: 1}
"""The newest magic that a client reads, by the version of its Fetch; from 4 on any (KIP-98)."""


def not_down_converted(evidence: PartitionEvidence, side: Side) -> Iterator[Finding]:
    """Yield a finding for each broker that sent old clients batches that they cannot read.

    **Verifies**: each Fetch that was answered without an error: the batches are in formats that a
    client of that version reads, and if something was readable below the high watermark, there are
    some. What was fetched is the same at every snapshot, so it is judged at the last.
    **Does not verify**: what a real client makes of the bytes; the model does not predict any.
    """
    if side != OBSERVED or not evidence.is_final:
        return
    wrong: dict[int, list[tuple[Operation, str]]] = {}
    for operation in evidence.operations:
        problem = _problem(operation)
        if problem:
            wrong.setdefault(operation.broker, []).append((operation, problem))
    for broker, problems in sorted(wrong.items()):
        yield evidence.finding(
            "not-down-converted",
            brokers=(broker,),
            message=f"broker {broker}: " + "; ".join(problem for _, problem in problems),
            evidence={
                "operations": [
                    {"operation": operation.operation, "magics": list(operation.magics)}
                    for operation, _ in problems
                ]
            },
        )


def _problem(operation: Operation) -> str:
    version = operation.fetch_version
    newest = None if version is None else _NEWEST_MAGIC.get(version)
    if newest is None or operation.outcome != "ok":
        return ""
    if operation.magics and max(operation.magics) > newest:
        return (
            f"a Fetch of version {version}, which reads magic {newest} at best, was answered in "
            f"magic {list(dict.fromkeys(operation.magics))}"
        )
    if not operation.magics and operation.readable:
        return (
            f"a Fetch of version {version} got nothing and no error, with {operation.readable} "
            "offsets to read"
        )
    return ""
