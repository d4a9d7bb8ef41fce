"""Allowed decisions: of a former controller by what it saw itself, of a leader by its clock."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from kchaos.checkers.acts import FailLogDirectory, RestoreLogDirectory, StartBroker
from kchaos.checkers.evidence.about import ClusterAsked
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    Decision,
    PartitionState,
    TopicCreated,
)
from kchaos.checkers.rules import decided
from tests.golden.stored import HARD, unpacked


def state(zxid: int, epoch: int, isr: tuple[int, ...], controller_epoch: int) -> PartitionState:
    return PartitionState(
        topic="t",
        partition=0,
        leader=0,
        leader_epoch=epoch,
        isr=isr,
        controller_epoch=controller_epoch,
        version=epoch,
        written_by=1 if controller_epoch == 1 else 0,
        zxid=zxid,
    )


def impossible(
    monkeypatch: pytest.MonkeyPatch, *decisions: Decision, started: Sequence[SimpleNamespace] = ()
) -> list[str]:
    """Return what is wrong with decisions while controllers 1 and then 0 had epochs 1 and 2."""
    monkeypatch.setattr(decided, "controller_epochs", lambda _: {1: (1, 2), 2: (0, 9)})
    first: tuple[Decision, ...] = (
        BrokerRegistered(broker=0, czxid=0, zxid=0),
        BrokerRegistered(broker=2, czxid=0, zxid=0),
        ControllerElected(broker=1, zxid=1),
        state(3, 0, (0, 2), 1),
    )
    timed = [
        TimedEvent(event=decision, zxid=decision.zxid, time=float(decision.zxid), step=-1)
        for decision in (*first, *decisions)
    ]
    evidence = SimpleNamespace(
        znode_changes=(),
        decisions=timed,
        events=started,
        deletions={},
        scenario=SimpleNamespace(cluster=ClusterAsked()),
    )
    return [finding.message for finding in decided.impossible_decisions(evidence)]  # type: ignore[arg-type]


GONE = BrokerUnregistered(broker=2, zxid=4)
BACK = BrokerRegistered(broker=2, czxid=5, zxid=5)
NEXT = ControllerElected(broker=0, zxid=8)
THROWN_OUT = "broker 2 was thrown out of the ISR by an election and lived all the time"


def test_the_former_one_had_seen_the_broker_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    assert impossible(monkeypatch, GONE, BACK, NEXT, state(10, 1, (0,), 1)) == []


def test_the_new_one_knows_from_the_start_that_it_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    (message,) = impossible(monkeypatch, GONE, BACK, NEXT, state(10, 1, (0,), 2))
    assert message == f"zxid 10: {THROWN_OUT}"


def test_the_former_one_knew_it_too_if_it_never_left(monkeypatch: pytest.MonkeyPatch) -> None:
    (message,) = impossible(monkeypatch, NEXT, state(10, 1, (0,), 1))
    assert message == f"zxid 10: {THROWN_OUT}"


def changed(zxid: int, isr: tuple[int, ...]) -> PartitionState:
    """The leader changes its ISR within its first term."""
    return replace(state(zxid, 0, isr, 1), written_by=0)


def test_a_follower_is_not_thrown_out_sooner_than_the_lag_time_after_a_term_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert impossible(monkeypatch, changed(5, (0,))) == [
        "zxid 5: broker 2 was thrown out of the ISR 2.000 s after its leader's term had begun, and "
        "replica.lag.time.max.ms is 10 s"
    ]
    assert impossible(monkeypatch, changed(14, (0,))) == []


def test_one_that_joins_behind_its_leaders_log_end_may_be_thrown_out_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    joins, falls_out = changed(15, (0, 2)), changed(16, (0,))
    assert impossible(monkeypatch, changed(14, (0,)), joins, falls_out) == []


def test_a_replica_that_is_not_the_first_in_sync_is_not_elected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assigned = TopicCreated(topic="t", assignment=((0, 2, 3),), zxid=2)
    third = BrokerRegistered(broker=3, czxid=2, zxid=2)
    all_in_sync = changed(5, (0, 2, 3))
    left = BrokerUnregistered(broker=0, zxid=6)
    started = SimpleNamespace(event=StartBroker(broker=0, release="2.8.2"))

    def elected(leader: int, isr: tuple[int, ...]) -> list[str]:
        written = replace(state(7, 1, isr, 1), leader=leader)
        return impossible(
            monkeypatch, assigned, third, all_in_sync, left, written, started=[started]
        )

    assert elected(2, (2, 3)) == []
    (message,) = elected(3, (2, 3))
    assert message == (
        "zxid 7: no controller decides so: leader 3 and ISR [2, 3] after leader 0 and ISR "
        "[0, 2, 3] of replicas [0, 2, 3]; it knew that [2] lived"
    )


def test_a_replica_of_a_failed_log_directory_may_be_taken_for_one_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assigned = TopicCreated(topic="t", assignment=((0, 2),), zxid=2)
    started = SimpleNamespace(event=StartBroker(broker=0, release="2.8.2"))
    written = replace(state(7, 1, (2,), 1), leader=2)
    failed = SimpleNamespace(
        event=FailLogDirectory(broker=0, directory=1, partitions=(("t", 0),)), time=6.0, began=5.0
    )
    restored = SimpleNamespace(event=RestoreLogDirectory(broker=0, directory=1), time=6.5)

    def elected(*events: SimpleNamespace) -> list[str]:
        return impossible(monkeypatch, assigned, written, started=[started, *events])

    assert elected(failed) == []
    elsewhere = replace(failed.event, partitions=(("u", 0),))
    for events in ((), (failed, restored), (SimpleNamespace(event=elsewhere, time=6, began=5),)):
        (message,) = elected(*events)
        assert "and lived all the time" in message


TOLD = [f"zxid 10: {THROWN_OUT}"]


@pytest.mark.parametrize(
    ("before", "after", "more", "wrong"),
    [
        ((0, 2), (0,), (), []),
        ((0, 2, 3), (0, 3), (), []),
        ((0, 2), (0, 2), (), TOLD),
        ((0, 2), (0, 3), (), TOLD),
        ((0, 2), (0,), (state(11, 2, (0,), 1),), TOLD),
    ],
    ids=["fewer", "another one", "it stays", "none goes on", "a state in between"],
)
def test_whom_a_reassignment_leaves_out_leaves_the_isr_first(
    monkeypatch: pytest.MonkeyPatch,
    before: tuple[int, ...],
    after: tuple[int, ...],
    more: tuple[Decision, ...],
    wrong: list[str],
) -> None:
    made = [
        TopicCreated(topic="t", assignment=(replicas,), zxid=zxid)
        for zxid, replicas in ((4, before), (12, after))
    ]

    messages = impossible(monkeypatch, made[0], state(10, 1, (0,), 1), *more, made[1])
    assert [message for message in messages if "thrown out" in message] == wrong


@pytest.mark.slow
def test_an_upgrade_has_two_leader_epochs_for_one_shutdown_as_all_are_elected_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evidence = RunEvidence(unpacked("2.3.1-elected-again", tmp_path, runs=HARD))
    assert [*decided.impossible_decisions(evidence)] == []

    without = partial(generation_for, without=("all are elected again",))
    monkeypatch.setattr(decided, "generation_for", without)
    (finding,) = decided.impossible_decisions(evidence)
    assert (finding.kind, finding.topic, finding.brokers) == ("decision-not-allowed", "t", ())
