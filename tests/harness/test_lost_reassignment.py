"""A reassignment that the controller deleted unread is asked for again: a ZooKeeper in memory."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import kchaos as k
from kchaos.clusters.metadata.zookeeper import ZooKeeperMetadata
from kchaos.harness.gates import gates
from tests.support.stand_ins import Moments, StandInCluster, Stat, ZooKeeper, play_on

TOPIC = "/brokers/topics/t"
REQUEST = "/admin/reassign_partitions"


class LosesTheFirst(ZooKeeper):
    """Deletes the first request unread; the controller obeys the second."""

    requests = 0

    def create(self, path: str, data: bytes, makepath: bool = False) -> None:
        assert path == REQUEST
        self.requests += 1
        if self.requests == 2:
            (wanted,) = json.loads(data)["partitions"]
            self.assign(wanted["replicas"])

    def get_children(self, path: str) -> list[str]:
        """The topics, by the znodes of topics that there are."""
        return [name.removeprefix(f"{path}/") for name in self.nodes if name.startswith(path)]

    def assign(self, replicas: list[int]) -> None:
        data = json.dumps({"partitions": {"0": replicas}}).encode()
        self.nodes[TOPIC] = (data, Stat(self.last_zxid, 0))


def play_and_zookeeper(folder: Path, *releases: str) -> tuple[k.Play, LosesTheFirst]:
    """A play on brokers of these releases, whose first reassignment is lost."""
    zookeeper = LosesTheFirst(Moments())
    zookeeper.assign([0, 1])
    cluster = StandInCluster(folder=folder, metadata=ZooKeeperMetadata(cast(Any, zookeeper)))
    for broker, release in enumerate(releases):
        cluster.brokers[broker].judged_as = release
    return play_on(cluster, folder), zookeeper


@pytest.mark.parametrize("releases", [("2.3.1", "2.3.1"), ("2.4.1", "2.3.1")])
def test_a_request_that_was_deleted_unread_is_written_again_and_the_run_tells_it(
    releases: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    play, zookeeper = play_and_zookeeper(tmp_path, *releases)
    monkeypatch.setattr(gates, "await_state", lambda *_, **__: SimpleNamespace())
    monkeypatch.setattr(gates, "await_delivered", lambda *_, **__: None)

    k.ReorderReplicas(topic="t", partition=0, replicas=(1, 0), timeout_s=5).perform(play)

    assert zookeeper.requests == 2
    assert play.cluster.metadata.assignment("t") == {0: [1, 0]}
    (seen,) = play.run.read_lines("observations.jsonl")
    assert (seen["kind"], seen["topic"], seen["partition"], seen["replicas"]) == (
        "reassigned-again",
        "t",
        0,
        [1, 0],
    )


@pytest.mark.slow
def test_a_request_that_a_release_from_2_4_on_dropped_is_not_written_again(tmp_path: Path):
    play, zookeeper = play_and_zookeeper(tmp_path, "2.4.0", "2.4.1")
    with pytest.raises(k.AwaitTimeout, match="t-0 to have the replicas"):
        k.ReorderReplicas(topic="t", partition=0, replicas=(1, 0), timeout_s=0.5).perform(play)
    assert zookeeper.requests == 1
