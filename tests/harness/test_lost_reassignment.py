"""A reassignment that the controller deleted unread is asked for again: a ZooKeeper in memory."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.clusters.metadata.zookeeper import ZooKeeperMetadata
from kchaos.harness.gates import gates
from kchaos.harness.steps.scenario_steps import ReorderReplicas
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

    def assign(self, replicas: list[int]) -> None:
        data = json.dumps({"partitions": {"0": replicas}}).encode()
        self.nodes[TOPIC] = (data, Stat(self.last_zxid, 0))


def test_a_request_that_was_deleted_unread_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zookeeper = LosesTheFirst(Moments())
    zookeeper.assign([0, 1])
    cluster = StandInCluster(folder=tmp_path, metadata=ZooKeeperMetadata(cast(Any, zookeeper)))
    monkeypatch.setattr(gates, "await_state", lambda *_, **__: SimpleNamespace())
    monkeypatch.setattr(gates, "await_delivered", lambda *_, **__: None)

    ReorderReplicas(topic="t", partition=0, replicas=(1, 0), timeout_s=5).perform(
        play_on(cluster, tmp_path)
    )

    assert zookeeper.requests == 2
    assert cluster.metadata.assignment("t") == {0: [1, 0]}
