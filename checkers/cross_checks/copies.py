"""Cross-check of snapshots: beside their actions, the files in them, and ZooKeeper's log."""

import itertools
import os
import re
from collections.abc import Iterator, Mapping

from kchaos.checkers.acts import (
    EndForgery,
    HealLink,
    ReleaseHold,
    ResumeBroker,
    StartBroker,
    StopBroker,
    TopicPartition,
)
from kchaos.checkers.errors import CheckpointError, SegmentError
from kchaos.checkers.evidence.actions import TimedEvent, is_internal
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.snapshots import METADATA, REMOTE, StateSeen, TakenSnapshot, folder_of
from kchaos.checkers.formats.checkpoints import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
    parse_meta_properties,
)
from kchaos.checkers.formats.partition_names import topic_partition
from kchaos.checkers.model.values.events import PartitionState, Snapshot, TopicCreated
from kchaos.checkers.observations import Broker, Healed
from kchaos.checkers.opening import entries
from kchaos.checkers.segments.directory import read_segment_file, subdirectories

_APART_S = 60.0
_META = "meta.properties"
_OF_PARTITIONS = re.compile(
    r"[0-9]{20}\.(log|index|timeindex|txnindex|snapshot)|leader-epoch-checkpoint|partition\.metadata"
    r"|remote_log_snapshot"  # Of a tiered log, in 3.6 (FileBasedRemoteLogMetadataCache).
)
_ALWAYS = (_META, HIGH_WATERMARKS, RECOVERY_POINTS)
"""Files that a broker makes when it starts, in every release."""
_BEFORE_HEALING = "before-healing"
_WHY = "snapshot "
"""Beginning of the reason for which every broker is looked at while a snapshot is taken."""
_HEALING = (HealLink, ReleaseHold, EndForgery, ResumeBroker, StartBroker)


def copy_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield what a snapshot says and other evidence contradicts, and the parts that it lacks.

    **Verifies**: that snapshots and Snapshot actions are the same, one for one and within a minute,
    the last one the final one; that those are there which a step takes, for which brokers were
    looked at, or before which something was healed at the end; that each has every broker of the
    run, with a folder of as many files as were copied, read in the moments before, running where
    it had a process when it was looked at; that the state
    of each partition is the one in ZooKeeper's log at the snapshot's zxid, or one that followed
    while it was taken; that nothing lies beside the files that are copied, and an empty last
    segment begins where the records before it end; that each `meta.properties` names its broker
    and the cluster, and each `partition.metadata` the topic.
    **Does not verify**: that there was no other snapshot of which nothing else tells either.
    """
    actions = {
        timed.event.label: timed for timed in evidence.actions if isinstance(timed.event, Snapshot)
    }
    taken = {snapshot.label: snapshot for snapshot in evidence.snapshots}
    folders = evidence.files.run.path / "snapshots"
    on_disk = {entry.name for entry in folders.iterdir()} if folders.is_dir() else set()
    for label in sorted((actions.keys() | on_disk) - taken.keys()):
        yield f"snapshot {label!r} is named, and has no snapshot.json"
    for label in sorted(taken.keys() - actions.keys()):
        yield f"snapshot {label!r} is in no action"
    yield from _last(evidence)
    if evidence.outcome.finished:
        for label, why in sorted(_taken(evidence).items()):
            if label not in taken:
                yield f"{why}, and there is no snapshot {label!r}"
    for label in sorted(taken.keys() & actions.keys()):
        yield from _snapshot(evidence, taken[label], actions[label])


def _taken(evidence: RunEvidence) -> Mapping[str, str]:
    """Return the snapshots that a finished run takes, each with the proof that it finished."""
    signs = {}
    ended = len(evidence.scenario.steps)
    for number, step in enumerate(step.get("do") or step for step in evidence.scenario.steps):
        if step.get("step") == "TakeSnapshot" and number not in evidence.undone:
            signs[str(step.get("label"))] = f"step {number} takes a snapshot"
    for line in evidence.observed:
        match line.what:
            case Broker(why=why) if why.startswith(_WHY):
                signs[why.removeprefix(_WHY)] = f"{line.read_at} is of a snapshot"
            case Healed() if line.step >= ended:
                signs[_BEFORE_HEALING] = f"{line.read_at}: something was healed at the end"
    late = [action for action in evidence.actions if action.step >= ended]
    # Who ends only while the last snapshot is taken has nothing that was healed at the end.
    ends_late = {action.event.broker for action in late if isinstance(action.event, StopBroker)}
    for action in late:
        event = action.event
        if isinstance(event, StartBroker) and event.broker in ends_late:
            continue
        if isinstance(event, _HEALING):
            signs[_BEFORE_HEALING] = f"{action.read_at}: something was healed at the end"
    return signs


def _last(evidence: RunEvidence) -> Iterator[str]:
    finals = [snapshot.label for snapshot in evidence.snapshots if snapshot.is_final]
    if len(finals) > 1 or (finals and finals != [evidence.snapshots[-1].label]):
        yield f"of the snapshots, {finals} claim to be the last one"


def _snapshot(evidence: RunEvidence, taken: TakenSnapshot, action: TimedEvent) -> Iterator[str]:
    label = taken.label
    if not action.time - _APART_S <= taken.time <= action.time + 1:
        yield f"snapshot {label!r} is of {taken.time}, and was taken at {action.time}"
    if set(taken.brokers) != set(evidence.description.brokers):
        yield f"snapshot {label!r} has brokers {sorted(taken.brokers)}, not those of the run"
    looked_at = {
        seen.broker: seen.pid is not None
        for _, seen in lines_of(evidence.observed, Broker)
        if seen.why == f"{_WHY}{label}"
    }
    if looked_at.keys() != taken.brokers.keys():
        yield f"snapshot {label!r}: the brokers {sorted(looked_at)} were looked at"
    for broker, copied in sorted(taken.brokers.items()):
        if copied.is_running is not None and looked_at.get(broker) is not copied.is_running:
            said, had = ("runs", "no") if copied.is_running else ("does not run", "a")
            yield (
                f"snapshot {label!r} says that broker {broker} {said}, and it had {had} process "
                "when it was looked at"
            )
    yield from _folders(evidence, taken)
    yield from _foreign_files(evidence, taken)
    yield from _empty_ends(evidence, taken)
    yield from _states(evidence, taken, action)
    for broker, copied in sorted(taken.brokers.items()):
        times = [
            time for time in (copied.read_from, copied.read_until, taken.time) if time is not None
        ]
        if times != sorted(times) or taken.time - times[0] > _APART_S:
            yield f"snapshot {label!r}: broker {broker}'s files were read at {times[:-1]}"
        yield from _named_otherwise(evidence, label, broker, evidence.topic_ids)


def _folders(evidence: RunEvidence, taken: TakenSnapshot) -> Iterator[str]:
    root = evidence.files.run.path / "snapshots" / taken.label
    folders = {broker: _folders_of(evidence, broker) for broker in taken.brokers}
    wanted = {name for names in folders.values() for name in names} | {"snapshot.json"}
    wanted |= {REMOTE} if evidence.is_tiered else set()
    entry_names = {entry.name for entry in root.iterdir()}
    for name in sorted(wanted ^ entry_names):
        there = "is there and named nowhere" if name in entry_names else "is missing"
        yield f"snapshot {taken.label!r}: {name} {there}"
    if REMOTE in wanted & entry_names:
        number = sum(file.is_file() for file in entries(root / REMOTE))
        if number != taken.remote_files:
            yield (
                f"snapshot {taken.label!r}: of the remote store {taken.remote_files} files were "
                f"copied, and {number} are there"
            )
    for broker, copied in taken.brokers.items():
        places = (os.path.join(root, name) for name in folders[broker])
        copies = [place for place in places if os.path.isdir(place)]
        files = {file.path for folder in copies for file in entries(folder) if file.is_file()}
        for folder, name in itertools.product(copies, _ALWAYS if copied.is_running else ()):
            if os.path.join(folder, name) not in files:
                yield f"snapshot {taken.label!r}: broker {broker} has no {name}, and it runs"
        if copied.files is not None and copies and len(files) != copied.files:
            yield (
                f"snapshot {taken.label!r}: of broker {broker} {copied.files} files were copied, "
                f"and {len(files)} are there"
            )


def _folders_of(evidence: RunEvidence, broker: int) -> list[str]:
    """Return the folders that a snapshot has of a broker's log directories."""
    counts = (
        asked.log_directories for asked in evidence.scenario.cluster.brokers if asked.id == broker
    )
    return [folder_of(broker, number) for number in range(next(counts, 1))]


def _foreign_files(evidence: RunEvidence, taken: TakenSnapshot) -> Iterator[str]:
    """Yield foreign files among a broker's files, which are never copied."""
    for broker in sorted(taken.brokers):
        folders = evidence.copied.folders(taken.label, broker)
        for directory in sorted(itertools.chain(*map(subdirectories, folders))):
            name = f"snapshot {taken.label!r}: {directory.parent.name}/{directory.name}"
            if topic_partition(directory.name) is None:
                continue  # The rules say so.
            for file in sorted(os.listdir(directory)):
                if not _OF_PARTITIONS.fullmatch(file):
                    yield f"{name}/{file} is no file that kchaos copies"


def _empty_ends(evidence: RunEvidence, taken: TakenSnapshot) -> Iterator[str]:
    """Yield empty last segments whose base offset is not the log end offset."""
    for broker, partition in evidence.copied.replicas(taken.label, taken.brokers):
        try:
            files = evidence.copied.segments(taken.label, broker, partition)
        except SegmentError:
            continue  # The rules say so.
        filled = [file for file in files if file.stat().st_size]
        is_compacted = "compact" in evidence.settings.cleanup_policy(partition.topic)
        if not filled or filled[-1] == files[-1] or is_compacted:
            continue
        batches = read_segment_file(filled[-1], decode_records=False).batches
        end = batches[-1].last_offset + 1 if batches else int(filled[-1].stem)
        if int(files[-1].stem) != end:
            yield (
                f"snapshot {taken.label!r}: broker {broker}'s log of {partition.name} "
                f"ends with the empty segment {files[-1].name}, and its records end before offset "
                f"{end}"
            )


def _states(evidence: RunEvidence, taken: TakenSnapshot, action: TimedEvent) -> Iterator[str]:
    for name, state in sorted(taken.states.items()):
        partition = TopicPartition(*topic_partition(name) or ("", -1))
        if is_internal(partition.topic):
            continue
        possible = possible_states(evidence, partition, taken.zxid, action.zxid)
        if state not in possible:
            yield (
                f"snapshot {taken.label!r} has {name} as {_shown(state)}; {evidence.decided_by} as "
                f"{' or '.join(map(_shown, possible))}"
            )
    if taken.zxid > action.zxid:
        yield f"snapshot {taken.label!r} has zxid {taken.zxid}, and was taken at {action.zxid}"
    for timed in evidence.events:
        event = timed.event
        if isinstance(event, TopicCreated) and timed.zxid <= taken.zxid:
            deletions = evidence.deletions.get(event.topic, ())
            if any(timed.zxid < deletion.zxid <= taken.zxid for deletion in deletions):
                continue
            for number in range(len(event.assignment)):
                if f"{event.topic}-{number}" not in taken.states:
                    yield f"snapshot {taken.label!r} lacks the state of {event.topic}-{number}"


def possible_states(
    evidence: RunEvidence, partition: TopicPartition, since: int, until: int
) -> list[StateSeen | None]:
    """Return a partition's states in ZooKeeper's log from one zxid to another, in order."""
    states: list[StateSeen | None] = [None]
    for timed in evidence.decisions:
        event = timed.event
        if not isinstance(event, PartitionState) or timed.zxid > until:
            continue
        if (event.topic, event.partition) == partition:
            state = StateSeen(
                leader=event.leader,
                leader_epoch=event.leader_epoch,
                isr=event.isr,
                controller_epoch=event.controller_epoch,
            )
            states = [state] if timed.zxid <= since else [*states, state]
    return states


def _shown(state: StateSeen | None) -> str:
    if state is None:
        return "nothing"
    return f"leader {state.leader} in epoch {state.leader_epoch}, ISR {list(state.isr)}"


def _named_otherwise(
    evidence: RunEvidence, label: str, broker: int, topic_ids: Mapping[str, frozenset[str]]
) -> Iterator[str]:
    root, folders = evidence.files.run.path, evidence.copied.folders(label, broker)
    for name in (f"snapshots/{label}/{folder.name}/{_META}" for folder in folders):
        if not os.path.isfile(os.path.join(root, name)):
            continue
        try:
            said = parse_meta_properties(_text(evidence, name), file=name)
        except CheckpointError as error:
            yield str(error)
        else:
            own = said.get("broker.id", said.get("node.id"))
            if own != str(broker):
                yield f"{name} is broker {own}'s"
            known = evidence.cluster_id
            if known and said.get("cluster.id", known) != known:
                yield f"{name} is of cluster {said['cluster.id']}, not {known}"
    for directory in itertools.chain.from_iterable(map(subdirectories, folders)):
        name = f"snapshots/{label}/{directory.parent.name}/{directory.name}/{METADATA}"
        partition = topic_partition(directory.name)
        try:
            stated = evidence.copied.topic_id_in(directory)
        except CheckpointError as error:
            yield str(error)
        else:
            named = topic_ids.get(partition[0]) if partition else None
            if named is not None and stated and stated not in named:
                where = "the metadata log" if evidence.is_kraft else "ZooKeeper"
                yield f"{name} says topic id {stated}, and {where} {' and '.join(sorted(named))}"


def _text(evidence: RunEvidence, name: str) -> str:
    return evidence.files.content(name).decode("utf-8", "backslashreplace")
