"""The controller's decisions, the same for the explorer, for schedules and for recorded runs."""

from dataclasses import replace

import pytest

from kchaos.checkers.model import generation_for
from kchaos.checkers.model.controller.decisions import (
    ControllerContext,
    LeaderAndIsr,
    after_brokers_left,
    elect_for_new,
    elect_for_offline,
    elect_for_reassignment,
    elect_for_shutdown,
    elect_preferred,
    explain,
    remove_from_isr,
)
from kchaos.checkers.model.values.events import NO_LEADER
from kchaos.studies.explore.at_once import at_failover

ALL_IN_SYNC = LeaderAndIsr(leader=1, isr=(1, 2, 3))


def context(*live: int, release: str = "2.8.2", is_unclean: bool = False) -> ControllerContext:
    generation = generation_for(release)
    return ControllerContext(
        assignment=(1, 2, 3),
        live=frozenset(live),
        is_unclean=is_unclean,
        isr_without=generation.isr_without,
        isr_of_preferred=generation.proposed.isr_of_preferred,
    )


def test_the_first_assigned_replica_that_is_online_and_in_sync_is_elected():
    elected = elect_for_offline(context(2, 3), ALL_IN_SYNC)
    assert elected == LeaderAndIsr(leader=2, isr=(2, 3))
    assert elect_for_offline(context(2), LeaderAndIsr(leader=1, isr=(1,))) is None


def test_an_unclean_election_leaves_the_leader_alone_in_the_isr():
    only_one = LeaderAndIsr(leader=1, isr=(1,))
    elected = elect_for_offline(context(2, 3, is_unclean=True), only_one)
    assert elected == LeaderAndIsr(leader=2, isr=(2,))


@pytest.mark.parametrize(
    ("live", "isr", "wanted", "leader"),
    [
        ((1, 2, 3), (1, 2, 3), (2, 1), 1),
        ((2, 3), (1, 2, 3), (1, 3, 2), 3),
        ((1, 2, 3), (1, 2, 3), (3, 2), 3),
        ((1, 2, 3), (1, 2), (3, 2), 2),
        ((1, 3), (1, 2), (3, 2), None),
    ],
    ids=["stays", "is-gone", "is-not-wanted", "first-is-not-in-sync", "none-is-able"],
)
def test_a_reassignment_keeps_the_isr_and_the_leader_where_it_can(
    live: tuple[int, ...], isr: tuple[int, ...], wanted: tuple[int, ...], leader: int | None
):
    known = LeaderAndIsr(leader=1, isr=isr)
    elected = None if leader is None else LeaderAndIsr(leader=leader, isr=isr)
    assert elect_for_reassignment(context(*live), known, wanted) == elected


def test_a_preferred_election_keeps_the_isr():
    known = LeaderAndIsr(leader=2, isr=(1, 2))
    assert elect_preferred(context(1, 2), known) == LeaderAndIsr(leader=1, isr=(1, 2))
    assert elect_preferred(context(2), known) is None
    assert elect_preferred(context(1, 2), replace(known, isr=(2,))) is None


def test_a_new_partition_has_all_in_sync_that_are_online():
    stopping = replace(context(1, 2, 3), shutting_down=frozenset({1}))
    assert elect_for_new(context(1, 2, 3)) == ALL_IN_SYNC
    assert elect_for_new(stopping) == LeaderAndIsr(leader=2, isr=(2, 3))
    assert elect_for_new(context()) is None


def test_a_broker_that_shuts_down_hands_over_and_leaves_the_isr():
    stopping = replace(context(1, 2, 3), shutting_down=frozenset({1}))
    assert elect_for_shutdown(stopping, ALL_IN_SYNC) == LeaderAndIsr(leader=2, isr=(2, 3))
    assert elect_for_shutdown(stopping, LeaderAndIsr(leader=1, isr=(1,))) is None


def test_replicas_leave_the_isr_one_by_one_down_to_one_member():
    written = list(after_brokers_left(context(), ALL_IN_SYNC, {1, 2, 3}))
    assert written == [
        LeaderAndIsr(leader=NO_LEADER, isr=(2, 3)),
        LeaderAndIsr(leader=NO_LEADER, isr=(3,)),
        LeaderAndIsr(leader=NO_LEADER, isr=(3,)),
    ]


def test_before_1_1_0_the_last_member_leaves_too_where_unclean_elections_are_allowed():
    alone = LeaderAndIsr(leader=1, isr=(1,))
    old = remove_from_isr(context(release="1.0.2", is_unclean=True), alone, 1)
    new = remove_from_isr(context(release="1.1.1", is_unclean=True), alone, 1)
    assert old == LeaderAndIsr(leader=NO_LEADER, isr=())
    assert new == LeaderAndIsr(leader=NO_LEADER, isr=(1,))


def test_a_new_controller_removes_who_is_offline_before_it_elects():
    of_2_2_2 = list(at_failover(context(2, 3), ALL_IN_SYNC, removes_offline=False))
    of_2_3_0 = list(at_failover(context(2, 3), ALL_IN_SYNC, removes_offline=True))
    assert of_2_2_2 == [LeaderAndIsr(leader=2, isr=(2, 3))]
    assert of_2_3_0 == [
        LeaderAndIsr(leader=NO_LEADER, isr=(2, 3)),
        LeaderAndIsr(leader=2, isr=(2, 3)),
    ]


WRITTEN = {
    "the leader was not seen": (LeaderAndIsr(leader=2, isr=(2, 3)), {2, 3}, True),
    "the leader was surely seen": (LeaderAndIsr(leader=2, isr=(2, 3)), {1, 2, 3}, False),
    "only the last was seen": (LeaderAndIsr(leader=3, isr=(3,)), {3}, True),
    "an earlier replica was surely seen": (LeaderAndIsr(leader=3, isr=(3,)), {2, 3}, False),
    "who was not elected cannot stay": (LeaderAndIsr(leader=3, isr=(2, 3)), {3}, False),
    "a follower was not seen": (LeaderAndIsr(leader=1, isr=(1, 3)), {1, 3}, True),
    "two followers at once": (LeaderAndIsr(leader=1, isr=(1,)), {1, 3}, False),
    "a new epoch for nothing": (LeaderAndIsr(leader=1, isr=(1, 2, 3)), {1, 2, 3}, False),
    "a leader that was away for its controller": (
        LeaderAndIsr(leader=1, isr=(1, 2, 3)),
        {2, 3},
        True,
    ),
}


@pytest.mark.parametrize(("written", "surely_live", "is_explained"), WRITTEN.values(), ids=WRITTEN)
def test_a_decision_is_explained_by_what_its_controller_can_have_known(
    written: LeaderAndIsr, surely_live: set[int], is_explained: bool
):
    known = replace(context(1, 2, 3), was_away=frozenset({1, 2, 3} - surely_live))
    assert explain(known, ALL_IN_SYNC, written, surely_live=surely_live) is is_explained


@pytest.mark.parametrize(
    ("wanted", "assignment", "is_explained"),
    [((2,), (1, 2, 3), False), ((4,), (1, 2, 3, 4), True), ((2,), (2, 3), True)],
    ids=["another leads", "nobody else can lead", "it has no replica any more"],
)
def test_a_leader_that_is_not_wanted_is_removed_where_nobody_took_over(
    wanted: tuple[int, ...], assignment: tuple[int, ...], is_explained: bool
):
    removed = LeaderAndIsr(leader=NO_LEADER, isr=(2, 3))
    known = replace(context(1, 2, 3, 4), assignment=assignment)
    explained = explain(known, ALL_IN_SYNC, removed, surely_live={1, 2, 3, 4}, wanted=[wanted])
    assert explained is is_explained
