"""A scenario on a KRaft cluster, from start to seal, and the gates that are other ones there."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

import kchaos as k
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.clusters.ask.client import ListedOffset
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.system.exchange import NotSent
from kchaos.harness.gates import applied
from kchaos.harness.gates.cluster_look import look_at
from kchaos.harness.gates.uninitialised import uninitialised

ABOUT = k.TopicPartition("t", 0)
STATE = LeaderAndIsr(leader=0, leader_epoch=3, isr=(0, 1))


def play_of(**cluster: Any) -> k.Play:
    node = SimpleNamespace(id=0, pid=1, client_address="", is_running=True, is_paused=False)
    brokers = {0: node}
    cluster.setdefault("metadata", SimpleNamespace(topic_id=lambda topic: f"id of {topic}"))
    made = SimpleNamespace(brokers=brokers, is_kraft=True, **cluster)
    return k.Play(cluster=cast(Any, made), run=cast(Any, None), say=print)


@pytest.mark.parametrize(
    ("answer", "has"),
    [
        (0, True),
        (ErrorCode.FENCED_LEADER_EPOCH, True),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, False),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, False),
        (None, False),
    ],
    ids=["this epoch", "a later one", "an earlier one", "no such replica yet", "no answer"],
)
def test_a_broker_has_a_decision_once_its_replica_has_the_leader_epoch(
    answer: int | None, has: bool, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []

    def list_offset(_address: str, **how: Any) -> ListedOffset:
        asked.append(how["leader_epoch"])
        if answer is None:
            raise NotSent("nobody is there")
        return ListedOffset(error_code=answer, offset=0, leader_epoch=3)

    monkeypatch.setattr(applied, "list_offset", list_offset)
    play = play_of()
    assert applied.has_applied(play, ABOUT, 0, STATE) is has
    assert asked == [3]
    assert applied.has_applied(play, ABOUT, 0, STATE) is has, "what was shown stays so"
    assert len(asked) == (1 if has else 2)
    cast(Any, play.cluster.brokers[0]).pid = 2
    applied.has_applied(play, ABOUT, 0, STATE)
    assert len(asked) == (2 if has else 3), "another process starts from its disk"


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_paused_controller_can_decide_nothing(is_paused: bool):
    controller = SimpleNamespace(
        id=100, is_running=True, is_paused=is_paused, pause=print, resume=print
    )
    metadata = SimpleNamespace(registered=lambda: {0}, controller=lambda: 100)
    node = play_of(controllers={100: controller}, metadata=metadata, links=None)
    assert look_at(node).can_decide is not is_paused


@pytest.mark.parametrize(
    ("kept_back", "is_off"), [([(0, 100)], True), ([(100, 0)], False), ([(0, None)], False)]
)
def test_a_broker_hears_of_decisions_where_it_fetches_them(
    kept_back: list[tuple[int, int | None]], is_off: bool
):
    links = SimpleNamespace(may_keep_back=lambda *pair: pair in kept_back)
    metadata = SimpleNamespace(registered=lambda: {0}, controller=lambda: 100)
    look = look_at(play_of(controllers={}, metadata=metadata, links=links))
    assert (look.is_off_metadata(0), look.may_not_hear(0)) == (is_off, is_off)
    assert look.able == (frozenset() if is_off else {0})


def test_nobody_tells_a_broker_of_kraft_anything_so_none_is_untold():
    links = SimpleNamespace(log=lambda _since: [])
    assert uninitialised(play_of(links=links), [0]) == {}
