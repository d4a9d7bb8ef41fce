"""Steps of an administrator, refused where they are not possible: a ZooKeeper in memory."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import kchaos as k
from kchaos.clusters.metadata.zookeeper import ZooKeeperMetadata
from kchaos.clusters.system.exchange import NotSent
from kchaos.harness.steps import admin
from tests.support.stand_ins import Moments, StandInCluster, Stat, ZooKeeper, play_on

TOPIC = "/brokers/topics/t"
T: dict[str, Any] = {"topic": "t", "partition": 0}


def play(folder: Path, release: str = "2.4.1") -> Any:
    zookeeper = ZooKeeper(Moments())
    written = {"partitions": {"0": [0, 1]}, "topic_id": "x"}
    zookeeper.nodes[TOPIC] = (json.dumps(written).encode(), Stat(1, 0))
    state = {"leader": 0, "leader_epoch": 0, "isr": [0, 1]}
    zookeeper.nodes[f"{TOPIC}/partitions/0/state"] = (json.dumps(state).encode(), Stat(1, 0))
    cluster = StandInCluster(folder=folder, metadata=ZooKeeperMetadata(cast(Any, zookeeper)))
    for broker in cluster.brokers.values():
        broker.judged_as = release
    return play_on(cluster, folder)


@pytest.mark.parametrize(
    ("step", "release", "why"),
    [
        (k.Reassign(replicas=(1, 0), by="api", **T), "2.3.1", "before 2.4 know no such request"),
        (k.CancelReassignment(**T), "2.3.1", "before 2.4 know no such request"),
        (k.ElectUncleanly(**T), "2.3.1", "before 2.4 know no such request"),
        (k.ElectUncleanly(**T), "2.4.1", "t-0 needs no unclean election: leader 0"),
        (k.MoveReplica(broker=0, directory=1, **T), "2.4.1", "broker 0 has the log directories"),
        (k.MoveReplica(broker=0, directory=0, **T), "2.4.1", "broker 0 does not move t-0: nobody"),
    ],
)
def test_what_is_not_possible_says_why(
    step: Any, release: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def unsent(*_: object, **__: object) -> None:
        raise NotSent("nobody listens")

    monkeypatch.setattr(admin, "send", unsent)
    with pytest.raises(k.NotPossible, match=why):
        step.perform(play(tmp_path, release))


def test_a_znode_is_refused_where_there_is_no_zookeeper(tmp_path: Path):
    asked: Any = k.Reassign(replicas=(1, 0), by="znode", **T)
    with pytest.raises(k.NotPossible, match="has no znode: ask by='api'"):
        asked.perform(SimpleNamespace(cluster=SimpleNamespace(is_kraft=True, metadata=None)))


def test_partitions_are_added_to_the_znode_that_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now, awaited = play(tmp_path), []
    client = now.cluster.metadata.client

    def write(path: str, data: bytes, version: int) -> None:
        client.nodes[path] = (data, Stat(2, 0, version + 1))

    client.set = write
    monkeypatch.setattr(admin, "await_created", lambda *given: awaited.append(given[1:3]))
    k.AddPartitions(topic="t", assignment=((1,), (0, 1))).perform(now)
    assert json.loads(client.nodes[TOPIC][0]) == {
        "partitions": {"0": [0, 1], "1": [1], "2": [0, 1]},
        "topic_id": "x",
    }
    assert awaited == [(("t", 1), (1,)), (("t", 2), (0, 1))]


def test_a_deletion_that_is_not_awaited_ends_with_its_request():
    asked: list[str] = []

    def never_deleted() -> list[str]:
        raise AssertionError("nobody waits for it")

    metadata = SimpleNamespace(
        assignment=lambda _: {0: [0]}, delete_topic=asked.append, topics=never_deleted
    )
    play = SimpleNamespace(cluster=SimpleNamespace(metadata=metadata))
    step: Any = k.DeleteTopic(topic="deleted", is_awaited=False)
    step.perform(play)
    assert asked == ["deleted"]
