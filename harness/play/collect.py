"""Collecting evidence: live partition directories, logs of decisions, brokers' logs."""

import hashlib
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from kchaos.checkers import observations
from kchaos.checkers.evidence.metadata import DEFINITIONS, META_PROPERTIES, METADATA
from kchaos.checkers.evidence.snapshots import (
    BrokerCopied,
    StateSeen,
    TakenSnapshot,
    folder_of,
    snapshot_file,
)
from kchaos.checkers.json_form import to_json
from kchaos.checkers.model import events
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.segments.directory import partition_directories
from kchaos.checkers.segments.tier import STORE
from kchaos.clusters.api import Broker, Cluster
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.start.kraft_storage import METADATA_FOLDER
from kchaos.clusters.start.tiered import FOLDER
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.observation import observe_broker
from kchaos.harness.errors import ScenarioError
from kchaos.harness.play.play import Play

# Indexes are preallocated and sparse, and say nothing that the segments do not say.
_SKIPPED_SUFFIXES = (".index", ".timeindex", ".txnindex", ".lock", ".deleted", ".swap", ".cleaned")
_NOT_OF_STORE = (*_SKIPPED_SUFFIXES, ".snapshot")
_STABLE_S = 20.0
_LOGS = {"broker": "brokers", "zookeeper": "zookeeper/logs", "controller": "controllers"}
"""Where the log lines of each kind of node go."""


def take_snapshot(
    play: Play, label: str, *, is_final: bool, has_moved: Callable[[], bool] = lambda: False
) -> bool:
    """Copy every broker's log directories to `snapshots/LABEL/broker-N/`; return `is_final`.

    Of several the first goes there, and the others to `broker-N.1/`, `broker-N.2/` and so on. A
    running broker's files are read until two readings agree; the copy is what was read last.

    `has_moved` returns whether a partition's state has changed since the cluster settled. The copy,
    which may be of a replica in transition, is then kept as `moved-N`, and False returned.

    Raises:
        ScenarioError: A snapshot of that label exists.
        AwaitTimeout: A broker's files never stood still.
    """
    root = play.run.path / "snapshots" / label
    if root.exists():
        raise ScenarioError(f"the scenario takes two snapshots named {label!r}")
    brokers = {}
    for broker in play.cluster.brokers.values():
        files, read_from = _stable_files(broker)
        read_until = time.time()
        for name, content in files.items():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        for number in range(len(broker.log_directories)):
            (root / folder_of(broker.id, number)).mkdir(parents=True, exist_ok=True)
        brokers[broker.id] = BrokerCopied(
            is_running=broker.is_running,
            stable=True,
            read_from=read_from,
            read_until=read_until,
            files=len(files),
        )
    remote = _copy_store(play, root)
    if has_moved():
        label, is_final = f"moved-{len(list(root.parent.glob('moved-*'))) + 1}", False
        root.rename(root.with_name(label))
    observe_brokers(play, f"snapshot {label}")
    taken = TakenSnapshot(
        label=label,
        time=time.time(),
        zxid=play.last_zxid(),
        is_final=is_final,
        brokers=brokers,
        states=_states(play),
        remote_files=remote,
    )
    play.run.write(snapshot_file(label), to_json(taken))
    play.action(events.Snapshot(label=label))
    return is_final


def _copy_store(play: Play, root: Path) -> int | None:
    """Copy the remote store to `snapshots/LABEL/remote/`; return the number of files.

    None where the cluster has no such store. It is copied after the brokers' files, so that it has
    every segment that their copy of the metadata topic names as copied; a file that is there is
    whole then, or its copy was not finished, as that topic tells.
    """
    if not play.cluster.spec.tiered:
        return None
    folder = play.cluster.work_directory / FOLDER
    count = 0
    for file in sorted((folder / STORE).rglob("*")):
        if file.suffix in _NOT_OF_STORE or not file.is_file():
            continue
        target = root / FOLDER / file.relative_to(folder / STORE)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
        count += 1
    (root / FOLDER).mkdir(exist_ok=True)
    return count


def observe_brokers(play: Play, why: str) -> None:
    """Record every broker's registration and process."""
    for broker in play.cluster.brokers:
        seen = observe_broker(play.cluster, broker)
        play.observed(observations.Broker(why=why, **seen.to_json()))


def collect_decisions(run: RunDirectory, cluster: Cluster) -> None:
    """Copy ZooKeeper's logs, or each node's metadata log."""
    collect_zookeeper(run, cluster.work_directory)
    collect_metadata(run, cluster.metadata_folders(), cluster.record_definitions())


def collect_metadata(
    run: RunDirectory, folders: Mapping[int, Path], definitions: Mapping[str, bytes]
) -> None:
    """Copy each node's metadata log, the highest ids last, and the definitions of its records.

    Controllers come after brokers so, and what brokers had when they were copied, controllers have.
    """
    for node, folder in sorted(folders.items()):
        target = run.path / METADATA / f"node-{node}"
        target.mkdir(parents=True, exist_ok=True)
        files = sorted(folder.iterdir()) if folder.is_dir() else []
        for file in [*files, folder.parent / META_PROPERTIES]:
            is_log = file.suffix in (".log", ".checkpoint")
            if (is_log or file.name in (META_PROPERTIES, "quorum-state")) and file.is_file():
                (target / file.name).write_bytes(file.read_bytes())
    for name, content in definitions.items():
        target = run.path / DEFINITIONS / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def collect_zookeeper(run: RunDirectory, work_directory: Path) -> None:
    """Copy each member's transaction logs without the zeros that they are preallocated with."""
    for member in sorted(work_directory.glob("zookeeper-*")):
        number = member.name.rpartition("-")[2]
        for log in sorted((member / "data").glob("version-2/log.*")):
            target = run.path / "zookeeper" / f"member-{number}" / log.name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(log.read_bytes().rstrip(b"\0"))


def collect_logs(run: RunDirectory, work_directory: Path) -> None:
    """Copy configurations and log lines of a cluster that did not start."""
    for member in sorted(work_directory.glob("*-*")):
        kind, _, number = member.name.partition("-")
        if kind in _LOGS:
            folder = _LOGS[kind]
            _copy_texts(member, run.path / folder / number)


def collect_brokers(run: RunDirectory, cluster: Cluster) -> None:
    """Copy the configuration and log lines of each broker, and of each KRaft controller."""
    for folder, nodes in (("brokers", cluster.brokers), ("controllers", cluster.controllers)):
        for node in nodes.values():
            _copy_texts(node.server_log.parent, run.path / folder / str(node.id))


def _copy_texts(folder: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for name in ("server.properties", "zoo.cfg", "server.log", "console.log"):
        if (folder / name).is_file():
            shutil.copyfile(folder / name, target / name)


def _states(play: Play) -> dict[str, StateSeen | None]:
    metadata = play.cluster.metadata
    states = {
        f"{topic}-{partition}": metadata.state(topic, partition)
        for topic in metadata.topics()
        for partition in metadata.assignment(topic)
    }
    return {name: state if state is None else _seen(state) for name, state in states.items()}


def _seen(state: LeaderAndIsr) -> StateSeen:
    return StateSeen(
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=state.isr,
        controller_epoch=state.controller_epoch,
    )


def _stable_files(broker: Broker) -> tuple[dict[str, bytes], float]:
    """Return the files, and the time at which their last reading began."""
    began = [time.time()]
    if not broker.is_running:
        return _files(broker), began[0]
    digests: list[str] = []
    latest: dict[str, bytes] = {}

    def agree() -> bool:
        began[0] = time.time()
        latest.clear()
        latest.update(_files(broker))
        digests.append(_digest(latest))
        return len(digests) > 1 and digests[-1] == digests[-2]

    await_until(
        agree,
        timeout_s=_STABLE_S,
        waiting_for=f"two equal copies of broker {broker.id}'s log directory",
        last_seen=lambda: f"{len(digests)} copies, each different from the one before",
        remedy="something still writes to it: stop the producers before a snapshot",
    )
    return latest, began[0]


def _files(broker: Broker) -> dict[str, bytes]:
    """Return the files of its log directories and live partitions, by their names in a snapshot."""
    return {
        f"{folder_of(broker.id, number)}/{name}": content
        for number, directory in enumerate(broker.log_directories)
        if directory.is_dir()
        for name, content in _files_in(directory).items()
    }


def _files_in(directory: Path) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    # A broker's metadata log is never at rest; it is collected by itself at the end.
    partitions = [
        partition
        for partition in partition_directories(directory)
        if partition.name != METADATA_FOLDER
    ]
    for folder in (directory, *partitions):
        if folder.name == METADATA_FOLDER:
            # It is written all the time, and collected at the end.
            continue
        for file in sorted(folder.iterdir()):
            hidden = file.name.startswith(".") or file.name.endswith(".tmp")
            if hidden or file.suffix in _SKIPPED_SUFFIXES or not file.is_file():
                continue
            try:
                files[str(file.relative_to(directory))] = file.read_bytes()
            except FileNotFoundError:
                # Renamed or deleted while the folder was listed: the next reading sees it.
                continue
    return files


def _digest(files: dict[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}:{len(content)}:".encode() + content)
    return digest.hexdigest()
