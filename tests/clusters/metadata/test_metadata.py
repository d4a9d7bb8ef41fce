"""Cluster metadata in ZooKeeper, on a stand-in for its client: what is read, what is refused."""

import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kazoo.exceptions import ConnectionLoss, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from kchaos.clusters.errors import MetadataRefused, MetadataUnavailable
from kchaos.clusters.metadata import zookeeper
from kchaos.clusters.metadata.api import LeaderAndIsr, Registration
from kchaos.clusters.metadata.zookeeper import ZooKeeperMetadata


class ZooKeeper:
    """Znodes in a dict; `problem` is raised by whatever is asked."""

    def __init__(self, nodes: dict[str, Any], problem: Exception | None = None) -> None:
        self.nodes = {path: json.dumps(value).encode() for path, value in nodes.items()}
        self.problem = problem
        self.last_zxid = 1
        self.asked: list[str] = []

    def _ask(self, path: str) -> None:
        if self.problem is not None:
            raise self.problem
        if path not in self.nodes:
            raise NoNodeError(path)

    def get(self, path: str, timeout: float | None = None) -> tuple[bytes, Any]:
        self.asked.append(path)
        self._ask(path)
        return self.nodes[path], SimpleNamespace(czxid=9, ephemeralOwner=0x77, version=4)

    def get_async(self, path: str) -> Any:
        return SimpleNamespace(get=lambda timeout: self.get(path, timeout))

    def get_children(self, path: str) -> list[str]:
        return [node.removeprefix(path + "/") for node in self.nodes if node.startswith(path + "/")]

    def create(self, path: str, data: bytes, makepath: bool) -> None:
        if path in self.nodes:
            raise NodeExistsError(path)
        self.nodes[path] = data

    def exists(self, path: str) -> Any:
        self.asked.append(path)
        return self.nodes.get(path)

    def delete(self, path: str) -> None:
        self._ask(path)
        del self.nodes[path]


def metadata_of(nodes: dict[str, Any], problem: Exception | None = None) -> ZooKeeperMetadata:
    return ZooKeeperMetadata(cast(Any, ZooKeeper(nodes, problem)))


def test_what_the_znodes_say_is_read():
    state = {"controller_epoch": 2, "leader": 1, "version": 1, "leader_epoch": 5, "isr": [1, 0]}
    metadata = metadata_of(
        {
            "/controller": {"version": 1, "brokerid": 3},
            "/controller_epoch": 2,
            "/brokers/ids/1": {"host": "x"},
            "/brokers/topics/t": {"partitions": {"10": [1, 0], "9": [0, 1]}},
            "/brokers/topics/u": {"partitions": {}, "topic_id": "bzYhMyzqRyOcP3bSPTuLWw"},
            "/brokers/topics/t/partitions/9/state": state,
        }
    )
    assert (metadata.controller(), metadata.controller_epoch()) == (3, 2)
    assert metadata.registered() == {1}
    assert metadata.registration(1) == Registration(czxid=9, session_id=0x77, text='{"host": "x"}')
    assert list(metadata.assignment("t").items()) == [(9, [0, 1]), (10, [1, 0])]
    assert (metadata.topic_id("t"), metadata.topic_id("u")) == (None, "bzYhMyzqRyOcP3bSPTuLWw")
    assert metadata.state("t", 9) == LeaderAndIsr(
        leader=1, leader_epoch=5, isr=(1, 0), controller_epoch=2
    )
    state_of_9 = metadata.state("t", 9)
    assert state_of_9 is not None
    assert state_of_9.version == 4


def test_what_was_read_at_the_newest_zxid_is_not_read_again_by_a_look():
    metadata = metadata_of({"/controller": {"brokerid": 3}})
    client = cast(Any, metadata.client)

    def asked_by_a_look(*, zxid: int, controller: int, written: int = 0) -> list[str]:
        """What is asked of ZooKeeper by a look, the second time; a write may come in between."""
        client.last_zxid, client.asked = zxid, []
        client.nodes["/controller"] = json.dumps({"brokerid": controller}).encode()
        with metadata.one_look():
            client.last_zxid += written
            assert (metadata.controller(), metadata.registration(1)) == (controller, None)
        return list(client.asked)

    both = ["/controller", "/brokers/ids/1"]
    assert asked_by_a_look(zxid=5, controller=3) == ["/", *both]
    assert asked_by_a_look(zxid=5, controller=3) == ["/"]
    assert asked_by_a_look(zxid=6, controller=2) == ["/", *both]
    # What was written after the look began may or may not have been read: it is read again.
    assert asked_by_a_look(zxid=7, controller=1, written=1) == ["/", *both]
    assert asked_by_a_look(zxid=8, controller=0) == ["/", *both]
    client.asked = []
    assert (metadata.controller(), metadata.position()) == (0, 8)
    assert client.asked == ["/controller", "/"], "outside of a look everything is read"


def test_what_one_thread_has_seen_is_not_told_to_another():
    metadata = metadata_of({"/controller": {"brokerid": 3}})
    client = cast(Any, metadata.client)
    with metadata.one_look(), ThreadPoolExecutor(1) as pool:
        assert metadata.controller() == 3
        client.nodes["/controller"] = json.dumps({"brokerid": 2}).encode()
        assert pool.submit(metadata.controller).result() == 2


def test_what_is_not_there_is_none_and_not_an_error():
    metadata = metadata_of({})
    assert (metadata.controller(), metadata.controller_epoch()) == (None, None)
    assert (metadata.registration(1), metadata.state("t", 0)) == (None, None)
    assert metadata.assignment("t") == {}
    assert metadata.topic_id("t") is None
    metadata.depose_controller()
    metadata.withdraw_election()


def test_kafkas_own_topics_are_left_out():
    topics: dict[str, Any] = {
        f"/brokers/topics/{name}": {} for name in ("b", "__consumer_offsets", "a")
    }
    assert metadata_of(topics).topics() == ["a", "b"]


def test_a_topic_is_asked_for_once_with_its_configuration():
    metadata = metadata_of({})
    metadata.create_topic("t", [(1, 0), (0, 1)], {"min.insync.replicas": "2"})
    nodes = cast(Any, metadata.client).nodes
    assert json.loads(nodes["/config/topics/t"])["config"] == {"min.insync.replicas": "2"}
    assert metadata.assignment("t") == {0: [1, 0], 1: [0, 1]}
    with pytest.raises(MetadataRefused, match="has /config/topics/t already"):
        metadata.create_topic("t", [(0,)])


def test_one_election_and_one_reassignment_go_on_at_a_time():
    metadata = metadata_of({})
    metadata.elect_preferred("t", 0)
    metadata.reassign("t", 0, (1, 0))
    assert (metadata.is_electing(), bool(metadata.reassigning())) == (True, True)
    with pytest.raises(MetadataRefused):
        metadata.elect_preferred("t", 1)
    with pytest.raises(MetadataRefused):
        metadata.reassign("t", 1, (1, 0))
    metadata.withdraw_election()
    assert (metadata.is_electing(), bool(metadata.reassigning())) == (False, True)


def test_a_reassignment_whose_znode_was_deleted_unread_is_lost():
    metadata = metadata_of({"/brokers/topics/t": {"partitions": {"0": [0, 1]}}})
    metadata.reassign("t", 0, (1, 0))
    assert not metadata.has_lost_reassignment("t", 0, (1, 0))
    metadata.client.delete("/admin/reassign_partitions")
    assert metadata.has_lost_reassignment("t", 0, (1, 0))
    assert not metadata.has_lost_reassignment("t", 0, (0, 1)), "it is done"


@pytest.mark.parametrize("problem", [ConnectionLoss(), KazooTimeoutError()], ids=repr)
def test_a_zookeeper_that_is_away_says_nothing_about_what_it_holds(
    problem: Exception, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(zookeeper, "_LOOKS_S", 0.1)
    metadata = metadata_of({}, problem)
    with pytest.raises(MetadataUnavailable, match="see the logs of its members"):
        metadata.registration(1, timeout_s=0.1)
    with pytest.raises(MetadataUnavailable):
        metadata.state("t", 0)


def test_what_is_only_read_is_asked_again_when_a_member_of_the_ensemble_ends():
    client = ZooKeeper({"/controller_epoch": 3})
    lost = iter([ConnectionLoss(), ConnectionLoss()])
    get = client.get

    def get_at_the_third_time(path: str, timeout: float | None = None) -> tuple[bytes, Any]:
        for problem in lost:
            raise problem
        return get(path, timeout)

    client.get = get_at_the_third_time  # type: ignore[method-assign]
    assert ZooKeeperMetadata(client=cast(Any, client)).controller_epoch() == 3
