"""Topics that most controllers have lost with their metadata log, and records with them (KRaft)."""

from collections.abc import Iterator

from kchaos.checkers.evidence.metadata import MetadataLogs
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.metadata_records import MetadataRecord
from kchaos.checkers.metadata_log import LogEntry, NodeLog, entries

LOST = "metadata-lost"


def lost_metadata(evidence: RunEvidence) -> Iterator[Finding]:
    """Yield each topic with acknowledged records that the metadata log had, and has no more.

    A broker that acknowledged records had read that the topic was made, so that was committed. The
    log of most voters goes on with something else in its place, written later.

    **Verifies**: topics that any node's copy of the log still has, by id, and that no deletion of
    the decided log names.
    **Does not verify**: settings, and topics without an acknowledged record or without a copy.
    """
    lost: dict[str, dict[int, LogEntry]] = {}
    for node, copy in sorted(evidence.metadata_logs.copies.items()) if evidence.is_kraft else ():
        for topic, entry in _replaced(evidence.metadata_logs, copy):
            if topic not in evidence.topic_ids:
                lost.setdefault(topic, {})[node] = entry
    for topic, copies in lost.items():
        records = sum(
            len(operation.payloads)
            for operation in evidence.operations
            if (operation.function, operation.outcome) == ("produce", "ok")
            and operation.topic == topic
        )
        if records:
            offset = min(entry.offset for entry in copies.values())
            yield Finding(
                kind=LOST,
                topic=topic,
                brokers=tuple(copies),
                message=f"the metadata log had topic {topic} at offset {offset}, as the copies of "
                f"nodes {list(copies)} have it, and {records} records of it were acknowledged. "
                "Most controllers have other records there, which were written later",
                evidence={"offset": offset, "nodes": list(copies), "records": records},
            )


def _replaced(logs: MetadataLogs, copy: NodeLog) -> Iterator[tuple[str, LogEntry]]:
    """Yield each topic that a copy has where the decided log has what was written later."""
    decided = {batch.base_offset: batch.content for batch in logs.shared}
    for batch in copy.batches:
        is_known = logs.start_offset <= batch.base_offset <= max(decided, default=-1)
        if is_known and decided.get(batch.base_offset) != batch.content:
            break
    else:
        return
    written = [entry.time_ms for entry in logs.entries if entry.offset >= batch.base_offset]
    for entry in entries(copy.batches, logs.definitions):
        record = entry.record
        if not isinstance(record, MetadataRecord) or record.name != "TopicRecord":
            continue
        if entry.offset >= batch.base_offset and entry.time_ms <= max(written):
            yield str(record.fields["Name"]), entry
