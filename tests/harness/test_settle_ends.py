"""Settling of what never ends: a deletion, a reassignment, a cluster in which nobody decides."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.checkers.acts import TopicPartition
from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.harness.gates import settle as settling
from kchaos.harness.gates.settle import moved_since, settle
from kchaos.harness.gates.settled import Settled
from kchaos.harness.gates.uninitialised import NobodyDecides, controller_works
from kchaos.harness.play.play import Play
from tests.support.stand_ins import StandInCluster, play_on

BOUND_S = 0.1
T0 = TopicPartition("t", 0)


class Metadata:
    """Brokers 0 and 1, and a topic with a replica on each."""

    def __init__(self) -> None:
        self.there = ["t"]
        self.deleting: set[str] = set()
        self.alive = frozenset({0, 1})
        self.leads: int | None = 0
        self.moving: frozenset[tuple[str, int]] = frozenset()

    def controller(self) -> int | None:
        return self.leads

    def topics(self) -> list[str]:
        return self.there

    def assignment(self, topic: str) -> dict[int, list[int]]:
        return {0: [0, 1]} if topic in self.there else {}

    def state(self, topic: str, _partition: int) -> LeaderAndIsr | None:
        state = LeaderAndIsr(leader=0, leader_epoch=0, isr=(0, 1))
        return state if topic in self.there else None

    def registered(self) -> frozenset[int]:
        return self.alive

    def is_deleting(self, topic: str) -> bool:
        return topic in self.deleting

    def reassigning(self) -> frozenset[tuple[str, int]]:
        return self.moving

    def create_topic(self, *_: Any) -> None:
        pass


@pytest.fixture
def metadata() -> Metadata:
    return Metadata()


@pytest.fixture
def play(metadata: Metadata) -> Play:
    brokers = {0: SimpleNamespace(id=0, is_running=True, properties={})}
    cluster = SimpleNamespace(metadata=metadata, links=None, is_kraft=False, brokers=brokers)
    return cast(Play, SimpleNamespace(cluster=cluster, observed=lambda _: None))


@pytest.fixture
def at_rest(monkeypatch: pytest.MonkeyPatch) -> list[TopicPartition]:
    """The partitions that were settled, each of which is at rest at once."""
    asked: list[TopicPartition] = []

    def settled_at_once(play: Play, partition: TopicPartition, _: Any, settled: Settled) -> bool:
        asked.append(partition)
        state = play.cluster.metadata.state(*partition)
        assert state is not None
        settled.last_seen[partition.name] = settling._seen_of(state)
        return True

    monkeypatch.setattr(settling, "_settle_partition", settled_at_once)
    return asked


def kinds(settled: Settled) -> list[tuple[str, str]]:
    return [(reason["kind"], reason.get("topic", "")) for reason in settled.reasons]


def test_without_a_controller_for_the_bound_nobody_decides(
    play: Play, metadata: Metadata, at_rest: list[TopicPartition]
):
    metadata.leads = None

    settled = settle(play, bound_s=BOUND_S)

    assert (settled.state, kinds(settled), at_rest) == ("stalled", [("nobody-decides", "")], [])
    assert settled.reasons[0]["detail"] == "there was no controller for 0.1 s"


def test_a_controller_that_gives_no_topic_a_leader_does_not_decide(
    play: Play, monkeypatch: pytest.MonkeyPatch
):
    def never(*_: Any, **__: Any) -> None:
        raise AwaitTimeout(waited_for="a leader", last_seen="none", remedy="", timeout_s=20)

    monkeypatch.setattr("kchaos.harness.gates.gates.await_state", never)

    with pytest.raises(NobodyDecides, match="controller 0 gave a new topic no leader in 20 s"):
        controller_works(play)


def test_a_topic_that_stays_though_its_replicas_live_is_a_reason_and_is_not_probed(
    play: Play, metadata: Metadata, at_rest: list[TopicPartition]
):
    metadata.deleting = {"t"}

    settled = settle(play, bound_s=BOUND_S)

    assert (settled.state, kinds(settled)) == ("stalled", [("deletion-does-not-end", "t")])
    assert (at_rest, [*settled.last_seen]) == ([], ["t-0"])


def test_a_topic_of_which_a_replica_does_not_live_may_stay(
    play: Play, metadata: Metadata, at_rest: list[TopicPartition]
):
    metadata.deleting, metadata.alive = {"t"}, frozenset({0})

    assert kinds(settle(play, bound_s=BOUND_S)) == []


def test_a_reassignment_that_goes_on_while_all_is_at_rest_is_a_reason(
    play: Play, metadata: Metadata, at_rest: list[TopicPartition]
):
    metadata.moving = frozenset({T0})

    settled = settle(play, bound_s=BOUND_S)

    assert (settled.state, kinds(settled)) == ("stalled", [("reassignment-does-not-end", "t")])


def test_what_ends_in_time_is_no_reason(
    play: Play, metadata: Metadata, at_rest: list[TopicPartition]
):
    settled = settle(play, bound_s=BOUND_S)

    assert (settled.state, kinds(settled), at_rest) == ("converged", [], [T0])


def test_a_topic_that_is_deleted_while_others_settle_has_settled_for_good(
    play: Play, metadata: Metadata, at_rest: list[TopicPartition]
):
    settled = settle(play, bound_s=BOUND_S)
    metadata.there = []

    assert moved_since(play, settled.partitions, settled) == []


class Deletion(Metadata):
    """Of a topic without a leader, which after some looks is being deleted, and then is gone."""

    def __init__(self, there: int, deleting: int) -> None:
        super().__init__()
        self._looks = iter([True] * there + [False] * deleting)

    def assignment(self, topic: str) -> dict[int, list[int]]:
        is_left = next(self._looks, None)
        self.there = [] if is_left is None else ["t"]
        self.deleting = {"t"} if is_left is False else set()
        return super().assignment(topic)

    def state(self, topic: str, _partition: int) -> LeaderAndIsr | None:
        state = super().state(topic, _partition)
        return None if state is None else replace(state, leader=-1)


def play_of(folder: Path, metadata: Metadata) -> Play:
    return play_on(StandInCluster(linked=False, metadata=cast(Any, metadata)), folder)


@pytest.mark.parametrize("there", range(6))
@pytest.mark.parametrize("deleting", range(4))
def test_a_topic_that_somebody_deletes_needs_no_settling(tmp_path: Path, there: int, deleting: int):
    settled = settle(play_of(tmp_path, Deletion(there, deleting)), bound_s=60)
    assert (settled.state, kinds(settled)) == ("converged", [])


def test_a_deletion_that_begins_while_others_settle_and_does_not_end_is_named_once(tmp_path: Path):
    settled = settle(play_of(tmp_path, Deletion(5, 10**6)), bound_s=BOUND_S)
    assert (settled.state, kinds(settled)) == ("stalled", [("deletion-does-not-end", "t")])
