"""Directories in a broker's log directory that are nobody's replica."""

import itertools
import re
from collections.abc import Container, Iterator

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import CheckpointError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.partition_names import topic_partition
from kchaos.checkers.model.values.events import TopicCreated
from kchaos.checkers.segments.directory import subdirectories

_TO_DELETE = re.compile(r"(?P<topic>.+)-\d+\.[0-9a-f]+-delete")


def ghosts(evidence: RunEvidence) -> Iterator[Finding]:
    """Yield a finding for each directory of a snapshot that no assignment explains.

    **Verifies**: that every directory which a broker was copied with is named as a live
    partition's, of a topic that was made, and that the broker was at some time one of its replicas;
    and the same of every line of its high watermarks and log starts.
    **Does not verify**: what is in it; that a replica was removed in time after it was assigned to
    others.
    """
    assigned: dict[TopicPartition, set[int]] = {}
    for timed in evidence.decisions:
        if isinstance(timed.event, TopicCreated):
            for number, replicas in enumerate(timed.event.assignment):
                partition = TopicPartition(timed.event.topic, number)
                assigned.setdefault(partition, set()).update(replicas)
    for snapshot in evidence.snapshots:
        for broker in sorted(snapshot.brokers):
            folders = evidence.copied.folders(snapshot.label, broker)
            for directory in sorted(itertools.chain(*map(subdirectories, folders))):
                name = topic_partition(directory.name)
                known = assigned.get(TopicPartition(*name)) if name is not None else None
                if name is None and _is_leftover(directory.name, evidence.deletions):
                    continue
                if known is None or broker not in known:
                    yield _ghost(snapshot.label, broker, directory.name, name, known)
            for name in _with_offsets(evidence, snapshot.label, broker):
                known = assigned.get(TopicPartition(*name))
                if known is None or broker not in known:
                    shown = f"{name[0]}-{name[1]} (in a checkpoint)"
                    yield _ghost(snapshot.label, broker, shown, name, known)


def _is_leftover(directory: str, deleted: Container[str]) -> bool:
    """Return whether a broker is yet to remove the directory, named `TOPIC-PARTITION.ID-delete`."""
    match = _TO_DELETE.fullmatch(directory)
    return match is not None and match["topic"] in deleted


def _with_offsets(evidence: RunEvidence, label: str, broker: int) -> Iterator[tuple[str, int]]:
    for offsets in (evidence.copied.high_watermarks, evidence.copied.log_starts):
        try:
            yield from sorted(offsets(label, broker))
        except CheckpointError:
            return  # `checkpoints_readable` says so.


def _ghost(
    label: str, broker: int, shown: str, name: tuple[str, int] | None, known: set[int] | None
) -> Finding:
    if name is None:
        why = "which is no live partition's name"
    elif known is None:
        why = "and no such partition was created"
    else:
        why = f"whose replicas are {sorted(known)}"
    return Finding(
        kind="not-as-predicted",
        topic=name[0] if name else "",
        partition=name[1] if name else -1,
        brokers=(broker,),
        snapshot=label,
        message=f"broker {broker} has {shown}, {why}",
        evidence={"what": "directory", "directory": shown},
    )
