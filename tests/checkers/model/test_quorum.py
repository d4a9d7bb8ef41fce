"""Decisions of KRaft controllers, each from the metadata before it and its event."""

import base64
from dataclasses import replace
from typing import Any

import pytest

from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.formats.metadata_image import LOST, MIGRATING, UNASSIGNED
from kchaos.checkers.model import generation_for
from kchaos.checkers.model.controller.quorum import (
    Assignment,
    Election,
    IsrAnswer,
    IsrProposal,
    alone,
    answer_to,
    answer_to_assignment,
    cancelled,
    created,
    elected,
    failed,
    fenced,
    isr_asked_for,
    registered,
    said_by,
    unfenced,
    unregistered,
)
from tests.support.quorums import ELIGIBLE, PLACE, UNCLEAN, quorum

NEW = generation_for("4.3.1")
TWO = {"min.insync.replicas": "2"}
NOBODY: dict[str, Any] = {"leader": -1, "isr": (), "fenced": (0, 1, 2), "features": ELIGIBLE}


def asked(members: tuple[int, ...], **fields: Any) -> IsrProposal:
    """Broker 0 asks for an ISR, with the epochs that its partition has."""
    known: dict[str, Any] = {"leader": 0, "leader_epoch": 3, "partition_epoch": 7}
    known |= {"broker_epoch": 10, "is_recovering": False}
    isr = tuple((broker, 10 + broker) for broker in members)
    return IsrProposal(**known | {"isr": isr} | fields)


# -- who leads, and who is in sync --------------------------------------------------------------


def test_with_eligible_replicas_the_isr_becomes_empty_and_the_leader_is_remembered():
    assert fenced(quorum(NEW, features=ELIGIBLE, isr=(0,)), 0) == {
        PLACE: {"Isr": (), "Leader": -1, "EligibleLeaderReplicas": (0,), "LastKnownElr": (0,)}
    }


def test_the_smallest_isr_is_no_larger_than_the_number_of_replicas():
    wide = {"min.insync.replicas": "9"}
    assert fenced(quorum(NEW, features=ELIGIBLE, topic=wide), 1) == {
        PLACE: {"Isr": (0, 2), "EligibleLeaderReplicas": (1,)}
    }


def test_a_topic_s_own_setting_counts_before_that_of_all_and_of_the_controller():
    small = quorum(NEW, features=ELIGIBLE, isr=(0, 1), properties=TWO)
    assert "EligibleLeaderReplicas" in fenced(small, 1)[PLACE]
    small.image.settings[4, ""] = {"min.insync.replicas": "1"}
    assert fenced(small, 1) == {PLACE: {"Isr": (0,)}}
    small.image.settings[4, "100"] = TWO
    assert "EligibleLeaderReplicas" in fenced(small, 1)[PLACE]
    small.image.settings[2, "t"] = {"min.insync.replicas": "1"}
    assert fenced(small, 1) == {PLACE: {"Isr": (0,)}}


def test_an_eligible_replica_leads_alone_and_is_eligible_no_more():
    assert unfenced(quorum(NEW, eligible=(0, 2), last_known=(1,), **NOBODY), 2) == {
        PLACE: {"Isr": (2,), "Leader": 2, "EligibleLeaderReplicas": (0,), "LastKnownElr": ()}
    }


def test_a_replica_outside_the_isr_leads_where_the_topic_allows_it():
    out: dict[str, Any] = {"leader": -1, "isr": (1,), "fenced": (0, 1, 2)}
    assert unfenced(quorum(NEW, topic=UNCLEAN, **out), 2) == {
        PLACE: {"Isr": (2,), "Leader": 2, "LeaderRecoveryState": 1}
    }
    recovering = quorum(NEW, topic=UNCLEAN, is_recovering=True, **out)
    assert unfenced(recovering, 2) == {PLACE: {"Isr": (2,), "Leader": 2}}


# -- processes ----------------------------------------------------------------------------------


def test_a_process_that_registers_once_more_changes_nothing():
    assert registered(quorum(NEW), 1, "process 1", is_clean=False) == {}
    assert registered(quorum(NEW), 1, "another", is_clean=False) == {PLACE: {"Isr": (0, 2)}}


def test_who_is_unregistered_stays_eligible():
    assert unregistered(quorum(NEW), 2) == {PLACE: {"Isr": (0, 1)}}
    state = quorum(NEW, features=ELIGIBLE, topic=TWO, isr=(0,), eligible=(1,), fenced=(1, 2))
    assert unregistered(state, 1) == {}


# -- what a leader asks for ---------------------------------------------------------------------


def test_a_leader_that_has_recovered_says_so():
    state = quorum(NEW, isr=(0,), is_recovering=True)
    assert isr_asked_for(state, PLACE, asked((0, 1))) == {"Isr": (0, 1), "LeaderRecoveryState": 0}
    assert isr_asked_for(state, PLACE, asked((0,), is_recovering=True)) == {}


def test_what_a_leader_may_not_ask_for_is_refused():
    state = quorum(NEW, isr=(0,), fenced=(2,))
    for wrong, error in (
        (asked((0, 1), leader_epoch=4), ErrorCode.NOT_CONTROLLER),
        (asked((0, 1), partition_epoch=8), ErrorCode.NOT_CONTROLLER),
        (asked((0, 1), leader_epoch=2), ErrorCode.FENCED_LEADER_EPOCH),
        (asked((0, 1), partition_epoch=6), ErrorCode.INVALID_UPDATE_VERSION),
        (asked((0, 1), broker_epoch=9), ErrorCode.STALE_BROKER_EPOCH),
        (asked((1, 0), leader=1, broker_epoch=11), ErrorCode.INVALID_REQUEST),
        (asked((0, 3)), ErrorCode.INVALID_REQUEST),
        (asked((1, 2)), ErrorCode.INVALID_REQUEST),
        (asked((0, 1, 1)), ErrorCode.INVALID_REQUEST),
        (asked((0,), is_recovering=True), ErrorCode.INVALID_REQUEST),
        (asked((0, 2)), ErrorCode.INELIGIBLE_REPLICA),
        (asked((0, 1), isr=((0, 10), (1, 5))), ErrorCode.INELIGIBLE_REPLICA),
    ):
        assert isr_asked_for(state, PLACE, wrong) is None, wrong
        assert answer_to(state, PLACE, wrong) == IsrAnswer(error), wrong
    no_topic = ("another topic", 0)
    assert answer_to(state, no_topic, asked((0,))).error == ErrorCode.UNKNOWN_TOPIC_ID


def test_an_answer_names_the_state_that_it_leads_to():
    state = quorum(NEW, isr=(0,))
    assert answer_to(state, PLACE, asked((0, 1))) == IsrAnswer(ErrorCode.NONE, (0, 1), 8)
    assert answer_to(state, PLACE, asked((0,))) == IsrAnswer(ErrorCode.NONE, (0,), 7)


def test_a_leader_that_its_proposal_takes_away_learns_that_another_was_elected():
    moving = quorum(
        NEW,
        replicas=(3, 1, 0),
        directories=("D3", "D1", "D0"),
        adding=(3,),
        removing=(0,),
        isr=(0, 1),
    )
    answer = answer_to(moving, PLACE, asked((0, 1, 3)))
    assert answer == IsrAnswer(ErrorCode.NEW_LEADER_ELECTED)


# -- what somebody asks for ---------------------------------------------------------------------


def test_a_reassignment_ends_as_what_it_adds_is_in_sync():
    moving = quorum(
        NEW,
        replicas=(3, 1, 0, 2),
        directories=("D3", "D1", "D0", "D2"),
        adding=(3,),
        removing=(0, 2),
        isr=(0, 1, 2),
    )
    assert isr_asked_for(moving, PLACE, asked((0, 1, 2, 3))) == {
        "Isr": (1, 3),
        "Leader": 3,
        "Replicas": (3, 1),
        "RemovingReplicas": (),
        "AddingReplicas": (),
        "Directories": ("D3", "D1"),
    }
    assert cancelled(moving, PLACE) == {
        "Leader": 0,
        "Replicas": (1, 0, 2),
        "RemovingReplicas": (),
        "AddingReplicas": (),
        "Directories": ("D1", "D0", "D2"),
    }


def test_nothing_is_cancelled_where_nothing_moves_or_nobody_else_is_in_sync():
    assert cancelled(quorum(NEW), PLACE) == {}
    moving: dict[str, Any] = {"replicas": (3, 0), "adding": (3,), "isr": (3,), "leader": 3}
    assert cancelled(quorum(NEW, **moving), PLACE) == {}
    assert cancelled(quorum(NEW, topic=UNCLEAN, **moving), PLACE)["Isr"] == (0,)


def test_a_topic_is_led_by_its_first_replica_that_is_active():
    fields = created(quorum(NEW, fenced=(1,)), (1, 3, 0))
    assert fields["Isr"] == (3, 0)
    assert fields["Leader"] == 3
    assert fields["Directories"] == ("D1", "D3", "D0")
    assert "Directories" not in created(quorum(NEW, features={"metadata.version": 16}), (1,))


# -- log directories ----------------------------------------------------------------------------


def test_a_replica_in_a_directory_that_failed_leaves_the_isr_and_leads_no_more():
    state = quorum(NEW)
    assert failed(state, 0, {"D0"}) == {PLACE: {"Isr": (1, 2), "Leader": 1}}
    assert failed(state, 0, {"another"}) == {}


def test_ids_of_no_directory_are_those_of_kafka():
    """DirectoryId.MIGRATING, UNASSIGNED and LOST: 0, 1 and 2 (3.8.0, 4.1.2, 4.3.1)."""
    ids = [base64.urlsafe_b64decode(f"{each}==") for each in (MIGRATING, UNASSIGNED, LOST)]
    assert [int.from_bytes(each, "big") for each in ids] == [0, 1, 2]


def test_a_new_replica_is_in_the_only_directory_of_its_broker():
    state = quorum(NEW)
    state.image.brokers[3] = replace(state.image.brokers[3], directories=("D3", "D4"))
    assert [state.default_directory(broker) for broker in (2, 3, 9)] == [
        "D2",
        UNASSIGNED,
        UNASSIGNED,
    ]
    state.image.brokers[3] = replace(state.image.brokers[3], directories=())
    assert state.default_directory(3) == MIGRATING


# -- which event it was -------------------------------------------------------------------------


def test_without_links_a_leader_may_have_asked_for_what_was_written():
    ways = dict(alone(quorum(NEW), PLACE, {"Isr": (0, 2)}, None, asked=()))
    assert ways["AlterPartition"] == {"Isr": (0, 2)}
    ways = dict(alone(quorum(NEW), PLACE, {"Isr": (0, 2)}, (), asked=()))
    assert {"Isr": (0, 2)} not in ways.values()


def test_a_broker_that_shuts_down_leaves_isrs_again_after_the_controller_moved():
    state = quorum(NEW, leader=1)
    state.image.brokers[1] = replace(state.image.brokers[1], is_shutting_down=True)
    ways = [*alone(state, PLACE, {"Isr": (0, 2), "Leader": 0}, (), asked=())]
    assert ("shutdown", {"Isr": (0, 2), "Leader": 0}) in ways


def test_a_directory_is_noted_only_for_the_process_that_told_of_it():
    told = Assignment(broker=1, broker_epoch=11, directory="D9")
    written, fields = {"Directories": ("D0", "D9", "D2")}, {"Directories": ("D0", "D9", "D2")}
    for assignments, is_possible in (
        (None, True),
        ((told,), True),
        ((), False),
        ((replace(told, broker_epoch=5),), False),
        ((replace(told, directory="D8"),), False),
        ((replace(told, broker=2, broker_epoch=12),), False),
    ):
        ways = dict(alone(quorum(NEW), PLACE, written, (), asked=(), assignments=assignments))
        assert (ways.get("directory assigned") == fields) is is_possible, assignments


@pytest.mark.parametrize(
    ("release", "fields"), [("4.1.2", {"EligibleLeaderReplicas": ()}), ("4.3.1", {})]
)
def test_a_directory_that_is_told_again_clears_who_is_eligible_until_4_3(
    release: str, fields: dict[str, Any]
):
    told = Assignment(broker=1, broker_epoch=11, directory="D1")
    state = quorum(generation_for(release), features=ELIGIBLE, isr=(0,), eligible=(1,), topic=TWO)

    ways = dict(
        alone(state, PLACE, {"EligibleLeaderReplicas": ()}, (), asked=(), assignments=[told])
    )

    assert ways["directory assigned"] == fields


def test_what_a_broker_tells_of_a_directory_is_answered_partition_by_partition():
    told = Assignment(broker=1, broker_epoch=11, directory="D9")
    for place, assignment, error in (
        (PLACE, told, ErrorCode.NONE),
        (PLACE, replace(told, broker_epoch=5), ErrorCode.STALE_BROKER_EPOCH),
        (PLACE, replace(told, broker=3, broker_epoch=13), ErrorCode.NOT_LEADER_FOR_PARTITION),
        ((PLACE[0], 1), told, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (("another topic", 0), told, ErrorCode.UNKNOWN_TOPIC_ID),
    ):
        assert answer_to_assignment(quorum(NEW), place, assignment) == error, place


def test_a_record_says_what_is_set_in_it():
    record = {"TopicId": "t", "PartitionId": 0, "Leader": -2, "LeaderRecoveryState": -1}
    assert said_by(record | {"Isr": None, "EligibleLeaderReplicas": (2, 1)}) == {
        "EligibleLeaderReplicas": (1, 2)
    }


def test_a_replica_without_a_directory_that_works_is_not_elected():
    for directory, may_lead in ((LOST, False), ("gone", False), (UNASSIGNED, True), (MIGRATING, 1)):
        state = quorum(NEW, leader=1, directories=(directory, "D1", "D2"))
        assert bool(elected(state, PLACE, Election.PREFERRED)) == bool(may_lead), directory
