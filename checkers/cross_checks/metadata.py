"""Cross-check of the metadata log of a KRaft cluster: each node's copy beside the others."""

import math
from collections.abc import Iterator

from kchaos.checkers.acts import StartBroker
from kchaos.checkers.errors import CheckpointError
from kchaos.checkers.evidence.metadata import METADATA, MetadataLogs
from kchaos.checkers.evidence.metadata_reading import metadata_entry
from kchaos.checkers.evidence.migration import parted
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.zookeeper import decisions
from kchaos.checkers.formats.checkpoints import parse_properties
from kchaos.checkers.metadata_log import differing


def metadata_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield where copies of the metadata log cannot come from the nodes of one cluster.

    **Verifies**: that a run has the log of what its scenario says kept the metadata, and no other;
    that there is a copy of each broker and each voter and of no other node, all of one cluster;
    that no copy differs from what a majority of the voters shares, but in the tail of a leader that
    was deposed; that what the shared log has no records of, since a snapshot stands for them, was
    before anything was done; that the log does not end before what any action or snapshot names;
    that no broker was set to use ZooKeeper; that no heartbeat names an offset of the metadata log
    that links did not see its broker get.
    In a migration from ZooKeeper: that no copy differs, and that both logs have the same decisions.
    **Does not verify**: that nothing is missing behind the last offset that anything names.
    """
    has_zookeeper = any(evidence.zookeeper_logs)
    if evidence.has_both_logs:
        logs = evidence.metadata_logs
        yield from _differing_copies(logs)
        yield from parted(decisions(evidence.znode_changes), logs.decisions, evidence.offices)
        return
    if not evidence.is_kraft:
        if evidence.files.has(METADATA):
            yield f"{METADATA}/ exists, and by the scenario the cluster had ZooKeeper"
        return
    if has_zookeeper:
        yield "there is a log of ZooKeeper, and by the scenario the cluster had none"
    logs = evidence.metadata_logs
    if not logs.shared:
        yield "there is no metadata log of a majority: who led, and who was in sync, is not known"
        return
    wanted = {*evidence.description.brokers, *logs.voters}
    for node in sorted(wanted - logs.copies.keys()):
        yield f"{METADATA}/node-{node} is missing"
    for node in sorted(logs.copies.keys() - wanted - evidence.controller_logs.keys()):
        yield f"{METADATA}/node-{node} is there, and the cluster had no such node"
    is_combined = evidence.scenario.cluster.combined
    for broker in () if is_combined else sorted(logs.voters & set(evidence.description.brokers)):
        yield f"node {broker} is a broker, and the metadata log names it among the voters"
    yield from _of_one_cluster(evidence)
    yield from _differing_copies(logs)
    yield from _begun_before(evidence)
    last = logs.shared[-1].last_offset
    named = [
        *(action.zxid for action in evidence.actions),
        *(snapshot.zxid for snapshot in evidence.snapshots),
    ]
    if named and max(named) > last:
        yield f"the metadata log ends at offset {last}, and {max(named)} was seen"
    yield from _set_to_use_zookeeper(evidence)
    yield from _named_before_read(evidence)


def _differing_copies(logs: MetadataLogs) -> Iterator[str]:
    for node, copy in logs.copies.items():
        differs = differing(copy, logs.shared)
        if differs is not None:
            yield (
                f"{differs.place}: the copy of node {node} differs at offset {differs.base_offset} "
                "from what a majority of the voters has"
            )


def _named_before_read(evidence: RunEvidence) -> Iterator[str]:
    """Yield each broker's first heartbeat that names more of the metadata log than it had.

    What a process has on disk when it starts, it fetches from: its requests say where it ends.
    """
    ends: dict[int, int] = {}
    # A combined node has what its controller has.
    blamed = {*evidence.description.brokers} if evidence.scenario.cluster.combined else set()
    for message in evidence.links or ():
        broker, detail = message.source, message.detail
        if broker is None or broker not in evidence.description.brokers or detail is None:
            continue
        fetched = metadata_entry(message)
        if fetched is not None:
            end = fetched.get("fetch_offset", fetched.get("last_offset"))
            if end is not None:
                end += message.direction == "response"
                ends[broker] = max(ends.get(broker, 0), end)
        elif message.api == "BrokerHeartbeat" and message.direction == "request":
            named = detail["current_metadata_offset"]
            if named >= ends.get(broker, math.inf) and broker not in blamed:
                blamed.add(broker)
                yield (
                    f"{message.read_at}: a heartbeat of broker {broker} names offset {named} of "
                    f"the metadata log, and it had what is before {ends[broker]}"
                )


def _begun_before(evidence: RunEvidence) -> Iterator[str]:
    """Yield actions from before the leader and the ISR were known."""
    snapshot = evidence.metadata_logs.first_snapshot
    if snapshot is None:
        return
    # The position of an action is the newest record that there was when it began.
    known_from = snapshot.end_offset - 1
    acted = [each for each in evidence.actions if not isinstance(each.event, StartBroker)]
    if any(each.zxid < known_from for each in acted):
        yield (
            f"{METADATA}/: the log begins with a snapshot of all before offset "
            f"{snapshot.end_offset}, and something was done before. Who led then, and who was in "
            "sync, is not known"
        )


def _of_one_cluster(evidence: RunEvidence) -> Iterator[str]:
    logs = evidence.metadata_logs
    for node in sorted(logs.copies):
        name = f"{METADATA}/node-{node}/meta.properties"
        # A broker whose disk was emptied may have none.
        if name not in logs.cluster_ids and node in logs.voters:
            yield f"{name} is missing"
    for name, cluster_id in logs.cluster_ids.items():
        if cluster_id != logs.cluster_id:
            yield f"{name} is of cluster {cluster_id}, not {logs.cluster_id}"


def _set_to_use_zookeeper(evidence: RunEvidence) -> Iterator[str]:
    for broker in sorted(evidence.description.brokers):
        name = f"brokers/{broker}/server.properties"
        if evidence.files.has(name):
            text = evidence.files.content(name).decode("utf-8", "backslashreplace")
            try:
                properties = parse_properties(text, file=name)
            except CheckpointError:
                continue  # `cross_checks.brokers` says so.
            if "zookeeper.connect" in properties or "process.roles" not in properties:
                yield f"{name} is of a broker with ZooKeeper, and the scenario has none"
