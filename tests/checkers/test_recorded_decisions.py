"""Allowed decisions: of a controller by what it saw itself, of a leader by its clock."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kchaos as k
import tests.support.model as m
from kchaos.checkers.evidence import decisions as reading
from kchaos.checkers.evidence.about import ClusterAsked
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.controller.recorded import unexplained
from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.zookeeper_log import ZnodeChange
from tests.golden.stored import HARD, unpacked


def state(zxid: int, epoch: int, isr: tuple[int, ...], controller_epoch: int) -> m.PartitionState:
    return m.PartitionState(
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


STARTED = (SimpleNamespace(event=m.StartBroker(broker=0, release="2.4.1")),)


def messages(evidence: RunEvidence) -> list[str]:
    """Return the zxid of each unexplained decision, and why it is one."""
    decisions = unexplained(reading.recorded_decisions(evidence))
    return [f"zxid {decision.zxid}: {decision.reason}" for decision in decisions]


def impossible(
    *decisions: m.Decision,
    started: Sequence[SimpleNamespace] = STARTED,
    requests: Sequence[ZnodeChange] = (),
    deletions: Sequence[m.TopicDeletion] = (),
    of_other_topic: Sequence[m.TopicDeletion] = (),
    of_brokers: Sequence[tuple[str, tuple[tuple[str, str], ...]]] = (),
    asked_unclean: frozenset[k.TopicPartition] | None = frozenset(),
    links: Sequence[SimpleNamespace] = (),
) -> list[str]:
    """Return what is wrong with decisions while controllers 1 and then 0 had epochs 1 and 2."""
    first: tuple[m.Decision, ...] = (
        m.BrokerRegistered(broker=0, czxid=0, zxid=0),
        m.BrokerRegistered(broker=2, czxid=0, zxid=0),
        m.ControllerElected(broker=1, zxid=1),
        m.TopicCreated(topic="t", assignment=((0, 2),), zxid=2),
        state(3, 0, (0, 2), 1),
    )
    timed = [
        TimedEvent(event=decision, zxid=decision.zxid, time=float(decision.zxid), step=-1)
        for decision in (*first, *decisions)
    ]
    evidence = SimpleNamespace(
        znode_changes=requests,
        decisions=timed,
        events=started,
        deletions={"t": deletions, "u": of_other_topic},
        scenario=SimpleNamespace(cluster=ClusterAsked()),
        broker_configurations=of_brokers,
        asked_unclean=asked_unclean,
        links=links,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "controller_epochs", lambda _: {1: (1, 2), 2: (0, 9)})
        return messages(evidence)  # type: ignore[arg-type]


GONE = m.BrokerUnregistered(broker=2, zxid=4)
BACK = m.BrokerRegistered(broker=2, czxid=5, zxid=5)
NEXT = m.ControllerElected(broker=0, zxid=8)
THROWN_OUT = (
    "no controller decides so: leader 0 and ISR [0] after leader 0 and ISR [0, 2] of replicas "
    "[0, 2]; it knew that [0, 2] lived"
)


def test_the_former_one_had_seen_the_broker_leave():
    assert impossible(GONE, BACK, NEXT, state(10, 1, (0,), 1)) == []


def test_the_new_one_knows_from_the_start_that_it_lives():
    (message,) = impossible(GONE, BACK, NEXT, state(10, 1, (0,), 2))
    assert message == f"zxid 10: {THROWN_OUT}"


def test_no_controller_elects_whom_it_knows_to_be_away():
    elected = replace(state(10, 1, (2,), 1), leader=2, isr=(2,), written_by=0, controller_epoch=2)
    left = m.BrokerUnregistered(broker=0, zxid=9)
    assert impossible(GONE, replace(BACK, zxid=9), NEXT, left, elected) == []
    (message,) = impossible(GONE, NEXT, left, elected)
    assert "no controller decides so: leader 2 and ISR [2] after leader 0" in message


def test_the_leader_is_not_taken_away_that_was_there_all_the_time():
    taken = replace(state(10, 1, (2,), 1), leader=-1)
    assert impossible(m.BrokerUnregistered(broker=0, zxid=9), taken) == []
    (message,) = impossible(taken)
    assert "no controller decides so: leader -1 and ISR [2] after leader 0" in message


FIRST_ELECTED = {
    "one was not seen": (0, (0, 2), True),
    "all were seen": (0, (0, 2, 3), True),
    "not the first of them": (3, (3, 0, 2), False),
    "the first was there": (2, (2, 3), False),
    "never registered": (9, (9, 0, 2, 3), False),
}


@pytest.mark.parametrize(
    ("leader", "isr", "is_explained"), FIRST_ELECTED.values(), ids=FIRST_ELECTED
)
def test_a_new_partition_is_led_by_the_first_replica_that_is_there(
    leader: int, isr: tuple[int, ...], is_explained: bool
):
    more = (
        m.BrokerRegistered(broker=3, czxid=4, zxid=4),
        m.TopicCreated(topic="u", assignment=((9, 0, 2, 3),), zxid=5),
    )
    first = replace(state(6, 0, isr, 1), topic="u", leader=leader)
    messages = impossible(*more, first)
    refused = f"zxid 6: no controller decides so: leader {leader} and ISR {list(isr)} of replicas"
    assert [message[: len(refused)] for message in messages] == [refused] * (not is_explained)


def test_the_former_one_knew_it_too_if_it_never_left():
    (message,) = impossible(NEXT, state(10, 1, (0,), 1))
    assert message == f"zxid 10: {THROWN_OUT}"


def changed(zxid: int, isr: tuple[int, ...]) -> m.PartitionState:
    """The leader changes its ISR within its first term."""
    return replace(state(zxid, 0, isr, 1), written_by=0)


def test_a_follower_is_not_thrown_out_sooner_than_the_lag_time_after_a_term_began():
    assert impossible(changed(5, (0,))) == [
        "zxid 5: broker 2 was thrown out of the ISR 2.000 s after its leader's term had begun, and "
        "replica.lag.time.max.ms is 10 s"
    ]
    assert impossible(changed(14, (0,))) == []


def test_one_that_joins_behind_its_leaders_log_end_may_be_thrown_out_at_once():
    joins, falls_out = changed(15, (0, 2)), changed(16, (0,))
    assert impossible(changed(14, (0,)), joins, falls_out) == []


def test_a_replica_that_is_not_the_first_in_sync_is_not_elected():
    assigned = m.TopicCreated(topic="t", assignment=((0, 2, 3),), zxid=2)
    third = m.BrokerRegistered(broker=3, czxid=2, zxid=2)
    all_in_sync = changed(5, (0, 2, 3))
    left = m.BrokerUnregistered(broker=0, zxid=6)

    def elected(leader: int, isr: tuple[int, ...]) -> list[str]:
        written = replace(state(7, 1, isr, 1), leader=leader)
        return impossible(assigned, third, all_in_sync, left, written)

    assert elected(2, (2, 3)) == []
    (message,) = elected(3, (2, 3))
    assert message == (
        "zxid 7: no controller decides so: leader 3 and ISR [2, 3] after leader 0 and ISR "
        "[0, 2, 3] of replicas [0, 2, 3]; it knew that [2] lived"
    )


def test_a_replica_of_a_failed_log_directory_may_be_taken_for_one_that_is_away():
    assigned = m.TopicCreated(topic="t", assignment=((0, 2),), zxid=2)
    written = replace(state(7, 1, (2,), 1), leader=2)
    failed = SimpleNamespace(
        event=m.FailLogDirectory(broker=0, directory=1, partitions=(("t", 0),)), time=6.0, began=5.0
    )
    restored = SimpleNamespace(event=m.RestoreLogDirectory(broker=0, directory=1), time=6.5)

    def elected(*events: SimpleNamespace) -> list[str]:
        return impossible(assigned, written, started=[*STARTED, *events])

    assert elected(failed) == []
    elsewhere = replace(failed.event, partitions=(("u", 0),))
    for events in ((), (failed, restored), (SimpleNamespace(event=elsewhere, time=6, began=5),)):
        (message,) = elected(*events)
        assert "it knew that [0, 2] lived" in message


@pytest.mark.parametrize(
    ("answers", "is_allowed"),
    [
        ([(6.0, 56)], True),
        ([(6.0, 56), (6.5, 0)], False),
        ([(6.0, 0)], False),
        ([(8.0, 56)], False),
    ],
)
def test_a_replica_whose_broker_answers_a_storage_error_may_be_taken_for_one_that_is_away(
    answers: list[tuple[float, int]], is_allowed: bool
):
    links = [
        SimpleNamespace(
            wall_time_s=time,
            said=m.ControlAnswered(
                number=(1, 1),
                api="LeaderAndIsr",
                broker=0,
                error_code=0,
                errors={k.TopicPartition("t", 0): code},
            ),
        )
        for time, code in answers
    ]
    written = replace(state(7, 1, (2,), 1), leader=2)
    assert (impossible(written, links=links) == []) is is_allowed


def request(zxid: int, replicas: tuple[int, ...] | None) -> ZnodeChange:
    """A request to reassign the partition, as /admin/reassign_partitions has it up to 2.3."""
    asked = {"topic": "t", "partition": 0, "replicas": replicas}
    return changed_znode(
        zxid, "/admin/reassign_partitions", None if replicas is None else {"partitions": [asked]}
    )


def topic_znode(
    zxid: int, replicas: tuple[int, ...], adding: Sequence[int] = (), removing: Sequence[int] = ()
) -> ZnodeChange:
    """The topic's znode, as from 2.4 on (KIP-455)."""
    moving = {"adding_replicas": {"0": adding}, "removing_replicas": {"0": removing}}
    return changed_znode(zxid, "/brokers/topics/t", {"partitions": {"0": replicas}, **moving})


def changed_znode(zxid: int, path: str, data: object) -> ZnodeChange:
    return ZnodeChange(
        zxid=zxid,
        session=1,
        time_ms=zxid * 1000,
        operation="delete" if data is None else "set",
        path=path,
        data=None if data is None else json.dumps(data).encode(),
        version=zxid,
    )


ASKED = (topic_znode(2, (0, 2)), request(5, (2, 3)))
MOVING = (topic_znode(2, (0, 2)), topic_znode(5, (2, 3, 0), adding=(3,), removing=(0,)))


MOVED_BY = {
    "a new epoch for all": (0, (0, 2, 3), True),
    "the first that is wanted": (2, (0, 2, 3), True),
    "the second that is wanted": (3, (0, 2, 3), False),
    "a new replica is removed": (0, (0, 2), False),
    "a wanted one is removed": (0, (0, 3), False),
}


@pytest.mark.parametrize(("leader", "isr", "is_explained"), MOVED_BY.values(), ids=MOVED_BY)
@pytest.mark.parametrize("moving", [ASKED, MOVING], ids=["to-2.3", "kip-455"])
def test_a_reassignment_moves_the_leader_to_the_replicas_that_are_wanted(
    moving: tuple[ZnodeChange, ...], leader: int, isr: tuple[int, ...], is_explained: bool
):
    more = (
        m.BrokerRegistered(broker=3, czxid=4, zxid=4),
        m.TopicCreated(topic="t", assignment=((2, 3, 0),), zxid=6),
        changed(7, (0, 2, 3)),
        m.ControllerElected(broker=1, zxid=8),
    )
    written = replace(state(10, 1, isr, 2), leader=leader, written_by=0)
    messages = impossible(*more, written, requests=moving)
    refused = (
        f"zxid 10: no controller decides so: leader {leader} and ISR {list(isr)} after leader 0 "
        "and ISR [0, 2, 3] of replicas [2, 3, 0], which may move to [2, 3]; it knew that "
        "[0, 2, 3] lived"
    )
    assert messages == [refused] * (not is_explained)


def epoch_for_nothing(zxid: int, epoch: int) -> m.PartitionState:
    return replace(state(zxid, epoch, (0, 2), 1), version=epoch)


REORDERED = (topic_znode(2, (0, 2)), topic_znode(5, (2, 0)))
DONE = (*MOVING, topic_znode(6, (2, 3)))


GOES_ON = {
    "nobody asked": ((), 0),
    "it is asked later": ((request(9, (2, 0)),), 0),
    "it is asked": ((request(5, (2, 0)),), 2),
    "the request is lost": ((request(5, (2, 0)), request(6, None)), 2),
    "it is assigned and not done": ((*REORDERED, request(4, (2, 0))), 2),
    "it is done": ((request(4, (2, 0)), *REORDERED, request(6, None)), 0),
    "only the order is another": (REORDERED, 1),
    "replicas come and go": (MOVING, 2),
    "they have come and gone": (DONE, 0),
    "it is cancelled": ((*MOVING, topic_znode(6, (0, 2))), 1),
}


@pytest.mark.parametrize(("requests", "epochs"), GOES_ON.values(), ids=GOES_ON)
def test_the_epoch_that_changes_nothing_needs_a_reassignment_that_goes_on(
    requests: tuple[ZnodeChange, ...], epochs: int
):
    states = [epoch_for_nothing(7 + number, number + 1) for number in range(2)]
    written = [
        changed_znode(
            each.zxid,
            "/brokers/topics/t/partitions/0/state",
            {"leader_epoch": each.leader_epoch, "isr": each.isr},
        )
        for each in (epoch_for_nothing(3, 0), *states)
    ]
    in_order = sorted((*requests, *written), key=lambda change: change.zxid)
    messages = impossible(*states, requests=in_order)
    assert len(messages) == len(states) - epochs


def test_whom_a_reassignment_removes_its_leader_may_have_forgotten_at_once():
    falls_out = changed(7, (0,))
    assert impossible(falls_out, requests=[request(5, (0,))]) == []
    (message,) = impossible(falls_out, requests=[request(5, (2,))])
    assert "broker 2 was thrown out of the ISR 4.000 s after" in message


def elected_again(
    *between: m.Decision,
    release: str = "2.3.1",
    epoch: int = 1,
    of_other_topic: Sequence[m.TopicDeletion] = (),
) -> list[str]:
    """Broker 0 leaves; broker 2 is elected for the partition, and once more."""
    started = (SimpleNamespace(event=m.StartBroker(broker=0, release=release)),)
    other = m.TopicCreated(topic="u", assignment=((2, 0),), zxid=4)
    of_other = replace(state(5, 0, (2, 0), 1), topic="u", leader=2)
    left = m.BrokerUnregistered(broker=0, zxid=6)
    first = replace(state(18, 1, (2,), 1), leader=2)
    again = replace(first, zxid=20, leader_epoch=2, controller_epoch=epoch, written_by=2 - epoch)
    decisions = (other, of_other, left, *between, first, again)
    in_order = sorted(decisions, key=lambda decision: decision.zxid)
    return impossible(*in_order, started=started, of_other_topic=of_other_topic)


def test_a_topic_that_is_made_anew_has_had_no_election():
    other = m.TopicCreated(topic="u", assignment=((2, 0),), zxid=4)
    of_other = replace(state(5, 0, (2, 0), 1), topic="u", leader=2)
    messages = impossible(
        *(other, of_other, epoch_for_nothing(6, 1), epoch_for_nothing(7, 2)),
        m.TopicCreated(topic="t", assignment=((0, 2),), zxid=9),
        *(epoch_for_nothing(10, 0), replace(of_other, zxid=20, isr=(2,), written_by=2)),
        epoch_for_nothing(21, 1),
        started=(SimpleNamespace(event=m.StartBroker(broker=0, release="2.3.1")),),
        deletions=(m.TopicDeletion(topic="t", asked=7, zxid=8, time=8.0),),
    )
    assert [message.split(":")[0] for message in messages] == ["zxid 6", "zxid 7", "zxid 21"]


def test_a_partition_is_elected_again_only_where_another_one_was_refused():
    refused = replace(state(16, 0, (2,), 1), topic="u", leader=2, written_by=2)
    asked = m.TopicDeletion(topic="u", asked=15, zxid=15, time=math.inf)
    deleted = replace(refused, leader_epoch=1, leader=-1, isr=(0,), written_by=1)
    assert elected_again(refused) == []
    assert elected_again(deleted, of_other_topic=(asked,)) == []
    for messages in (
        elected_again(),
        elected_again(replace(refused, zxid=21)),
        elected_again(refused, changed(17, (0, 2))),
        elected_again(refused, release="2.4.1"),
        elected_again(refused, NEXT, epoch=2),
    ):
        assert [message for message in messages if "zxid 20: no controller decides so" in message]


@pytest.mark.slow
def test_an_upgrade_has_two_leader_epochs_for_one_shutdown_as_all_are_elected_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    evidence = RunEvidence(unpacked("2.3.1-elected-again", tmp_path, runs=HARD))
    assert messages(evidence) == []

    def without(broker: m.StartBroker) -> Generation:
        return generation_for(
            broker.release,
            inter_broker_protocol=broker.inter_broker_protocol,
            message_format=broker.message_format,
            without=("all are elected again",),
        )

    monkeypatch.setattr(reading, "generation_of", without)
    (message,) = messages(evidence)
    assert "no controller decides so" in message


def removed(
    *between: m.Decision,
    release: str = "2.2.2",
    epoch: int = 2,
    events: Sequence[SimpleNamespace] = (),
    requests: Sequence[ZnodeChange] = (),
) -> list[str]:
    """Broker 2 leaves the ISR in a new leader epoch after controller 0 was elected at zxid 8."""
    written = state(14, 1, (0,), epoch)
    in_order = sorted((*between, NEXT, written), key=lambda decision: decision.zxid)
    started = (SimpleNamespace(event=m.StartBroker(broker=0, release=release)), *events)
    return impossible(*in_order, started=started, requests=requests)


NOT_SEEN = (
    "zxid 14: no controller decides so: leader 0 and ISR [0] after leader 0 and ISR [0, 2] of "
    "replicas [0, 2]; it knew that [0] lived"
)


@pytest.mark.parametrize("release", ["0.10.2.2", "1.1.1", "2.2.2"])
def test_up_to_2_2_a_new_controller_does_not_remove_who_was_away_before_it(release: str):
    assert removed(GONE, release=release) == [NOT_SEEN]
    assert removed(GONE, BACK, replace(GONE, zxid=6), release=release) == [NOT_SEEN]
    assert removed(GONE, release="2.3.1") == []


STOPPED = SimpleNamespace(
    event=m.StopBroker(broker=2, clean=True), time=4.0, began=3.5, at=None, step=-1
)
DIRECTORY = SimpleNamespace(
    event=m.FailLogDirectory(broker=2, directory=1, partitions=(("t", 0),)), time=4.0, began=3.5
)


REMOVED = {
    "it left afterwards": ((replace(GONE, zxid=9),), {}),
    "it came and left again": ((GONE, replace(BACK, zxid=11), replace(GONE, zxid=12)), {}),
    "the former controller may have seen it leave": ((GONE,), {"epoch": 1}),
    "its shutdown was asked for": ((GONE,), {"events": (STOPPED,)}),
    "its log directory had failed": ((GONE,), {"events": (DIRECTORY,)}),
    "the partition moves away from it": (
        (GONE,),
        {"requests": (topic_znode(2, (0, 2)), request(5, (0,)))},
    ),
    "the leader was away and is elected again": (
        (
            GONE,
            m.BrokerUnregistered(broker=0, zxid=10),
            m.BrokerRegistered(broker=0, czxid=11, zxid=11),
        ),
        {},
    ),
}


@pytest.mark.parametrize(("between", "given"), REMOVED.values(), ids=REMOVED)
def test_up_to_2_2_a_new_controller_removes_who_is_away_for_other_reasons(
    between: tuple[m.Decision, ...], given: dict[str, Any]
):
    assert removed(*between, **given) == []


SHRUNK = replace(state(50, 0, (0,), 1), version=1, written_by=0)
UNCLEAN = replace(state(70, 1, (2,), 1), leader=2, version=2)
ALLOWED, FORBIDDEN = (
    m.TopicConfigured(
        topic="t", configuration=(("unclean.leader.election.enable", setting),), zxid=3
    )
    for setting in ("true", "false")
)


ELECTED_UNCLEANLY = {
    "the brokers'": (True, (), {}, True),
    "not the brokers'": (False, (), {}, False),
    "the topic's": (False, (ALLOWED,), {}, True),
    "not the topic's": (True, (FORBIDDEN,), {}, False),
    "allowed meanwhile": (False, (FORBIDDEN, replace(ALLOWED, zxid=65)), {}, True),
    "forbidden meanwhile": (False, (ALLOWED, replace(FORBIDDEN, zxid=65)), {}, True),
    "forbidden before": (True, (ALLOWED, replace(FORBIDDEN, zxid=49)), {}, False),
    "given while brokers ran": (
        False,
        (),
        {"of_brokers": [("<default>", ALLOWED.configuration)]},
        True,
    ),
    "somebody else may have asked": (False, (FORBIDDEN,), {"asked_unclean": None}, True),
    "nobody can ask a broker of that release": (
        False,
        (FORBIDDEN,),
        {"asked_unclean": None, "release": "2.3.1"},
        False,
    ),
    "a step has asked": (
        False,
        (FORBIDDEN,),
        {"asked_unclean": frozenset({k.TopicPartition("t", 0)})},
        True,
    ),
    "a step has asked for another partition's": (
        False,
        (FORBIDDEN,),
        {"asked_unclean": frozenset({k.TopicPartition("u", 0)})},
        False,
    ),
}


@pytest.mark.parametrize(
    ("of_broker", "of_topic", "more", "is_explained"),
    ELECTED_UNCLEANLY.values(),
    ids=ELECTED_UNCLEANLY,
)
def test_nobody_outside_the_isr_is_elected_against_the_settings(
    of_broker: bool,
    of_topic: tuple[m.TopicConfigured, ...],
    more: dict[str, Any],
    is_explained: bool,
):
    given = dict(more)
    release = given.pop("release", "2.4.1")
    start = m.StartBroker(broker=0, release=release, unclean_leader_election=of_broker)
    left, back = m.BrokerUnregistered(broker=0, zxid=60), replace(BACK, zxid=61)
    decisions: list[m.Decision] = [*of_topic, GONE, SHRUNK, left, back, UNCLEAN]
    in_order = sorted(decisions, key=lambda decision: decision.zxid)
    started = (SimpleNamespace(event=start),)
    messages = impossible(*in_order, started=started, **given)
    assert [message[:45] for message in messages] == (
        [] if is_explained else ["zxid 70: no controller decides so: leader 2 a"]
    )


def test_nobody_joins_the_isr_in_an_election():
    left = m.BrokerUnregistered(broker=0, zxid=60)
    for decisions in (
        (SHRUNK, left, replace(UNCLEAN, isr=(2, 0))),
        (SHRUNK, replace(UNCLEAN, leader=0, isr=(0, 2))),
    ):
        (message,) = impossible(ALLOWED, *decisions)
        assert "zxid 70: no controller decides so" in message


def test_a_controller_takes_any_replica_out_of_the_isr_of_a_topic_that_it_deletes():
    asked = m.TopicDeletion(topic="t", asked=9, zxid=30, time=30.0)
    out, left_alone, elected = (
        replace(state(20 + epoch, epoch, isr, 1), leader=leader)
        for epoch, leader, isr in ((1, -1, (2,)), (2, -1, (2,)), (3, 0, (0,)))
    )
    for deletion in (asked, replace(asked, zxid=9, time=math.inf)):
        assert impossible(out, left_alone, deletions=[deletion]) == []
        (message,) = impossible(out, left_alone, elected, deletions=[deletion])
        assert "zxid 23: no controller decides so" in message
    is_over = impossible(out, left_alone, deletions=[replace(asked, zxid=19)])
    is_kept = impossible(out, left_alone)
    for messages_then in (is_over, is_kept):
        assert [message.split(":")[0] for message in messages_then] == ["zxid 21", "zxid 22"]


def test_who_leaves_the_isr_of_a_deleted_topic_is_not_known_to_be_away():
    made = m.TopicCreated(topic="u", assignment=((0, 2),), zxid=4)
    of_deleted = replace(state(5, 0, (0, 2), 1), topic="u")
    left = m.BrokerUnregistered(broker=2, zxid=20)
    taken_out = replace(state(21, 1, (0,), 1), topic="u")
    elected = replace(state(22, 1, (2,), 1), leader=2)
    asked = m.TopicDeletion(topic="u", asked=19, zxid=30, time=30.0)
    stop = SimpleNamespace(event=m.StopBroker(broker=0, clean=True), time=19.0, began=None)
    decisions = (made, of_deleted, left, taken_out, elected)
    started = (*STARTED, stop)
    assert impossible(*decisions, started=started, of_other_topic=[asked]) == []
    (message,) = impossible(*decisions, started=started)
    assert "zxid 22: no controller decides so: leader 2" in message


OTHER = m.TopicCreated(topic="u", assignment=((0,),), zxid=20)
ELECTED = replace(state(21, 0, (0,), 2), topic="u")
TAKEN_OUT = state(15, 1, (0,), 2)
LONELY = (
    m.TopicCreated(topic="v", assignment=((2,),), zxid=3),
    replace(state(3, 0, (2,), 1), topic="v", leader=2),
)
LEFT = (
    "zxid 21: broker 0 elects broker 0 while broker 2, which was away when it became the "
    "controller, is in the ISR [0, 2] of t-0"
)


TAKES_OUT = {
    "left in": ("2.3.1", (), (), False),
    "up to 2.2.2": ("2.2.2", (), (), True),
    "no known release": ("trunk", (), (), True),
    "taken out": ("2.3.1", (), (TAKEN_OUT,), True),
    "the last member": ("2.3.1", LONELY, (TAKEN_OUT,), True),
    "back": ("2.3.1", (), (replace(BACK, zxid=12),), True),
    "its session was over": (
        "2.3.1",
        (),
        (m.BrokerUnregistered(broker=0, zxid=12), m.BrokerRegistered(broker=0, czxid=13, zxid=13)),
        True,
    ),
    "taken in once more": (
        "2.3.1",
        (),
        (TAKEN_OUT, replace(state(16, 1, (0, 2), 2), version=2)),
        True,
    ),
}


@pytest.mark.parametrize(
    ("release", "before", "meanwhile", "is_allowed"), TAKES_OUT.values(), ids=TAKES_OUT
)
def test_a_new_controller_takes_out_who_is_away_before_it_elects(
    release: str,
    before: tuple[m.Decision, ...],
    meanwhile: tuple[m.Decision, ...],
    is_allowed: bool,
):
    started = (SimpleNamespace(event=m.StartBroker(broker=0, release=release)),)
    decisions = (*before, GONE, NEXT, *meanwhile, OTHER, ELECTED)
    messages = impossible(*decisions, started=started)
    assert messages == ([] if is_allowed else [LEFT])


def test_who_is_away_may_stay_in_the_isr_of_a_topic_that_is_to_be_deleted():
    deletion = m.TopicDeletion(topic="t", asked=19, zxid=30, time=30.0)
    messages = impossible(GONE, NEXT, OTHER, ELECTED, deletions=[deletion])
    assert messages == []
