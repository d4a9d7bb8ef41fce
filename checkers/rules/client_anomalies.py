"""Jepsen's anomalies in what links saw of clients, whatever replicas hold."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.excuses import excuses
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.histories.anomalies import Anomaly, anomalies
from kchaos.checkers.histories.judgement import finding_of, first_of_each
from kchaos.checkers.histories.operations import Value

_NOT_OF_A_RUN = ("unseen", "int-send-skip")
"""Nobody has to read all of a run's records; and batches of several producers are always mixed."""
NOT_TOLD = "anomalies of clients: what they polled in which transaction (G1c) passes no link"


def client_anomalies(evidence: RunEvidence) -> Iterator[Finding]:
    """Yield the anomalies in the operations of foreign clients, as far as links saw them.

    What comes after an unclean election or a lost tail of the partition is permitted.

    **Verifies**: that what was acknowledged with acks=all and what was read agree with each other:
    one record at an offset, one offset for a record, nothing passed over by a consumer that read
    on, nothing read that was aborted or not committed yet, and the order of each producer.
    **Does not verify**: what `checkers.evidence.client_history` leaves out.
    """
    history = evidence.client_history
    if history is None:
        return
    seen = [
        _permitted(anomaly, evidence, history.partitions)
        for anomaly in anomalies(history.operations)
        if anomaly.name not in _NOT_OF_A_RUN
    ]
    aborted = {
        (anomaly.key, value)
        for anomaly in seen
        if anomaly.name == "G1a"
        for value in anomaly.values
    }
    left = [anomaly for anomaly in seen if not _skips_only(anomaly, aborted)]
    for anomaly in first_of_each(left):
        finding = finding_of(anomaly)
        partition = history.partitions.get(anomaly.key)
        if partition is not None:
            finding = replace(finding, topic=partition.topic, partition=partition.partition)
        yield replace(finding, fingerprint="")


def _skips_only(anomaly: Anomaly, aborted: set[tuple[str, Value]]) -> bool:
    """Return whether a poll skipped only aborted records that other clients read."""
    skipped = anomaly.evidence.get("skipped") or ()
    return bool(skipped) and all((anomaly.key, value) in aborted for value in skipped)


def not_known(evidence: RunEvidence) -> Iterator[str]:
    """Yield the facts of clients that the links do not show and that are not judged therefore."""
    history = evidence.client_history
    if history is not None and history.operations:
        yield NOT_TOLD
        yield from (f"anomalies of clients: {sentence}" for sentence in history.not_known)


def _permitted(
    anomaly: Anomaly, evidence: RunEvidence, partitions: Mapping[str, TopicPartition]
) -> Anomaly:
    partition = partitions.get(anomaly.key)
    excuse = next(excuses(evidence, partition), None) if partition is not None else None
    if excuse is None or anomaly.permitted:
        return anomaly
    what = excuse.kind.replace("-", " ")
    return replace(anomaly, permitted=f"it came after: {what} of broker {excuse.broker}")
