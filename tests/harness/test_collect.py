"""Collecting evidence: what a copy leaves out, and what it refuses to copy."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kchaos as k
from kchaos.clusters.metadata.zookeeper import ZooKeeperMetadata
from kchaos.harness.play import collect
from kchaos.harness.play.collect import (
    collect_logs,
    collect_metadata,
    collect_zookeeper,
    take_snapshot,
)
from tests.support.stand_ins import StandInCluster, play_on


class ZooKeeper:
    """Stands in for a ZooKeeper without topics and brokers."""

    last_zxid = 5

    def exists(self, path: str) -> None:
        assert path == "/"

    def get_children(self, path: str) -> list[str]:
        assert path == "/brokers/topics"
        return []


def play_of(tmp_path: Path, brokers: dict[int, Any]) -> k.Play:
    cluster = StandInCluster(brokers=(), metadata=ZooKeeperMetadata(ZooKeeper()))
    cluster.brokers.update(brokers)
    return play_on(cluster, tmp_path)


def written(root: Path) -> list[str]:
    return sorted(str(file.relative_to(root)) for file in root.rglob("*") if file.is_file())


def stopped_broker(folder: Path, *files: str) -> Any:
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return SimpleNamespace(id=0, is_running=False, log_directories=(folder,))


def copied(play: k.Play, label: str = "s") -> list[str]:
    """The files of broker 0 that a snapshot holds; what ZooKeeper says of it is left out."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(collect, "observe_brokers", lambda _play, _why: None)
        take_snapshot(play, label, is_final=False)
    return written(play.run.path / "snapshots" / label / "broker-0")


def test_a_snapshot_has_what_a_live_partition_says_and_nothing_that_only_repeats_it(tmp_path: Path):
    kept = [
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        "t-0/00000000000000000000.log",
        "t-0/00000000000000000009.snapshot",
        "t-0/leader-epoch-checkpoint",
    ]
    left_out = [
        ".lock",
        "replication-offset-checkpoint.tmp",
        "t-0/00000000000000000000.index",
        "t-0/00000000000000000000.timeindex",
        "t-0/00000000000000000000.log.deleted",
        "t-1.0123456789abcdef0123456789abcdef-delete/00000000000000000000.log",
    ]
    broker = stopped_broker(tmp_path / "data", *kept, *left_out)
    assert copied(play_of(tmp_path, {0: broker})) == kept


def test_a_broker_without_a_log_directory_is_in_the_snapshot_with_no_file(tmp_path: Path):
    play = play_of(tmp_path, {0: stopped_broker(tmp_path / "none")})
    assert copied(play) == []
    assert (play.run.path / "snapshots/s/broker-0").is_dir()
    seen = play.run.read("snapshots/s/snapshot.json")
    of_broker = seen["brokers"]["0"]
    assert of_broker.pop("read_from") <= of_broker.pop("read_until")
    assert of_broker == {"is_running": False, "stable": True, "files": 0}
    assert (seen["zxid"], seen["is_final"]) == (5, False)


def test_each_of_several_log_directories_is_copied_to_a_folder_of_its_own(tmp_path: Path):
    broker = stopped_broker(tmp_path / "data", "t-0/00000000000000000000.log", "meta.properties")
    stopped_broker(tmp_path / "data-1", "u-0/00000000000000000000.log", "meta.properties")
    broker.log_directories += (tmp_path / "data-1", tmp_path / "data-2")
    play = play_of(tmp_path, {0: broker})
    assert copied(play) == ["meta.properties", "t-0/00000000000000000000.log"]
    folders = play.run.path / "snapshots/s"
    assert written(folders / "broker-0.1") == ["meta.properties", "u-0/00000000000000000000.log"]
    assert written(folders / "broker-0.2") == []
    assert play.run.read("snapshots/s/snapshot.json")["brokers"]["0"]["files"] == 4


def test_a_second_snapshot_of_one_name_is_refused_and_leaves_the_first_alone(tmp_path: Path):
    broker = stopped_broker(tmp_path / "data", "t-0/00000000000000000000.log")
    play = play_of(tmp_path, {0: broker})
    before = copied(play)
    (tmp_path / "data/t-0/leader-epoch-checkpoint").write_text("later")
    with pytest.raises(k.ScenarioError, match="two snapshots named 's'"):
        copied(play)
    assert written(play.run.path / "snapshots/s/broker-0") == before


def test_files_that_never_stand_still_are_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "data/t-0/00000000000000000000.log"
    stopped_broker(tmp_path / "data", "t-0/00000000000000000000.log")

    class Writing:
        """Stands in for a broker that writes whenever somebody looks."""

        id = 0
        is_running = True

        @property
        def log_directories(self) -> tuple[Path, ...]:
            file.write_bytes(file.read_bytes() + b"x")
            return (tmp_path / "data",)

    monkeypatch.setattr(collect, "_STABLE_S", 0.1)
    play = play_of(tmp_path, {0: Writing()})
    with pytest.raises(k.AwaitTimeout, match="two equal copies of broker 0's log directory"):
        copied(play)
    assert play.run.snapshots() == ()


def test_a_running_brokers_copy_is_what_was_read_last(tmp_path: Path):
    file = tmp_path / "data/t-0/00000000000000000000.log"
    stopped_broker(tmp_path / "data", "t-0/00000000000000000000.log")
    appends = [b"1", b"2", b"3"]

    class Writing:
        """Stands in for a broker that is still at work when it is first looked at."""

        id = 0
        is_running = True

        @property
        def log_directories(self) -> tuple[Path, ...]:
            if appends:
                file.write_bytes(appends.pop(0))
            return (tmp_path / "data",)

    play = play_of(tmp_path, {0: Writing()})
    assert copied(play) == ["t-0/00000000000000000000.log"]
    copy = play.run.path / "snapshots/s/broker-0/t-0/00000000000000000000.log"
    assert copy.read_bytes() == b"3"


def test_zookeepers_logs_lose_only_the_zeros_they_were_preallocated_with(tmp_path: Path):
    for member, content in (("zookeeper-1", b"ZKLG\0a\0\0\0"), ("zookeeper-2", b"ZKLG")):
        folder = tmp_path / "work" / member / "data" / "version-2"
        folder.mkdir(parents=True)
        (folder / "log.1").write_bytes(content)
        (folder / "snapshot.0").write_bytes(b"not a log")
    run = k.RunDirectory.create(tmp_path / "run", run={}, scenario={})
    collect_zookeeper(run, tmp_path / "work")
    root = run.path / "zookeeper"
    assert written(root) == ["member-1/log.1", "member-2/log.1"]
    assert (root / "member-1/log.1").read_bytes() == b"ZKLG\0a"


def test_each_nodes_metadata_log_is_kept_with_what_its_records_consist_of(tmp_path: Path):
    folders = {node: tmp_path / str(node) / "__cluster_metadata-0" for node in (0, 100, 7)}
    for node in (0, 100):
        folders[node].mkdir(parents=True)
        (folders[node].parent / "meta.properties").write_text(f"node.id={node}\n")
        for name in (f"{0:020d}.log", "quorum-state", f"{0:020d}.index", "leader-epoch-checkpoint"):
            (folders[node] / name).write_text(str(node))
    (folders[100] / f"{7:020d}-{1:010d}.checkpoint").write_text("state")
    run = k.RunDirectory.create(tmp_path / "run", run={}, scenario={})

    collect_metadata(run, folders, {"TopicRecord.json": b"{}"})

    root = run.path / "metadata"
    assert written(root) == [
        "definitions/TopicRecord.json",
        f"node-0/{0:020d}.log",
        "node-0/meta.properties",
        "node-0/quorum-state",
        f"node-100/{0:020d}.log",
        f"node-100/{7:020d}-{1:010d}.checkpoint",
        "node-100/meta.properties",
        "node-100/quorum-state",
    ]
    assert (root / "node-7").is_dir()
    assert (root / f"node-100/{0:020d}.log").read_text() == "100"


def test_a_cluster_with_zookeeper_has_no_metadata_log(tmp_path: Path):
    run = k.RunDirectory.create(tmp_path / "run", run={}, scenario={})

    collect_metadata(run, {}, {})

    assert not (run.path / "metadata").exists()


def test_a_brokers_metadata_log_is_not_waited_for(tmp_path: Path):
    file = tmp_path / "data" / "__cluster_metadata-0" / f"{0:020d}.log"
    file.parent.mkdir(parents=True)
    appends = iter(range(1_000_000))

    class Writing:
        id = 0
        is_running = True

        @property
        def log_directories(self) -> tuple[Path, ...]:
            file.write_text(str(next(appends)))
            return (tmp_path / "data",)

    assert copied(play_of(tmp_path, {0: Writing()})) == []


def test_a_cluster_that_never_came_up_leaves_every_log_there_is(tmp_path: Path):
    work = tmp_path / "work"
    present = [
        "broker-0/server.properties",
        "broker-0/console.log",
        "broker-1/server.log",
        "broker-1/data/t-0/00000000000000000000.log",
        "zookeeper-1/zoo.cfg",
        "zookeeper-1/server.log",
        "other-1/server.log",
    ]
    stopped_broker(work, *present)
    run = k.RunDirectory.create(tmp_path / "run", run={}, scenario={})
    collect_logs(run, work)
    assert written(run.path / "brokers") == ["0/console.log", "0/server.properties", "1/server.log"]
    assert written(run.path / "zookeeper") == ["logs/1/server.log", "logs/1/zoo.cfg"]
