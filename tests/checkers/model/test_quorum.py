"""Decisions of KRaft controllers, each from the metadata before it and its event."""

from dataclasses import replace
from typing import Any

from kchaos.checkers.formats.metadata_image import LOST, MIGRATING, UNASSIGNED
from kchaos.checkers.model import generation_for
from kchaos.checkers.model.controller.quorum import (
    Election,
    IsrProposal,
    alone,
    cancelled,
    created,
    directory_assigned,
    elected,
    failed,
    fenced,
    isr_asked_for,
    reassigned,
    registered,
    said_by,
    unfenced,
    unregistered,
)
from tests.support.quorums import ELIGIBLE, NEWEST, PLACE, UNCLEAN, quorum

NEW = generation_for("4.3.1")
TWO = {"min.insync.replicas": "2"}
ALONE: dict[str, Any] = {"leader": 2, "isr": (2,), "fenced": (0, 1), "features": ELIGIBLE}
NOBODY: dict[str, Any] = {"leader": -1, "isr": (), "fenced": (0, 1, 2), "features": ELIGIBLE}


def asked(members: tuple[int, ...], **fields: Any) -> IsrProposal:
    """Broker 0 asks for an ISR, with the epochs that its partition has."""
    known: dict[str, Any] = {"leader": 0, "leader_epoch": 3, "partition_epoch": 7}
    known |= {"broker_epoch": 10, "is_recovering": False}
    isr = tuple((broker, 10 + broker) for broker in members)
    return IsrProposal(**known | {"isr": isr} | fields)


# -- who leads, and who is in sync --------------------------------------------------------------


def test_a_follower_that_is_fenced_leaves_the_isr_and_no_epoch_begins() -> None:
    assert fenced(quorum(NEW), 1) == {PLACE: {"Isr": (0, 2)}}


def test_before_metadata_version_3_6_a_new_epoch_begins_for_who_leaves_the_isr() -> None:
    assert fenced(quorum(NEW, features={"metadata.version": 11}), 1) == {
        PLACE: {"Isr": (0, 2), "Leader": 0}
    }


def test_the_first_replica_in_sync_leads_after_a_leader_that_is_fenced() -> None:
    assert fenced(quorum(NEW), 0) == {PLACE: {"Isr": (1, 2), "Leader": 1}}
    assert fenced(quorum(NEW, fenced=(1,), isr=(0, 2)), 0) == {PLACE: {"Isr": (2,), "Leader": 2}}


def test_without_eligible_replicas_the_last_member_stays_in_the_isr() -> None:
    assert fenced(quorum(NEW, isr=(0,)), 0) == {PLACE: {"Leader": -1}}


def test_with_eligible_replicas_the_isr_becomes_empty_and_the_leader_is_remembered() -> None:
    assert fenced(quorum(NEW, features=ELIGIBLE, isr=(0,)), 0) == {
        PLACE: {"Isr": (), "Leader": -1, "EligibleLeaderReplicas": (0,), "LastKnownElr": (0,)}
    }


def test_who_leaves_an_isr_that_becomes_too_small_is_eligible() -> None:
    assert fenced(quorum(NEW, features=ELIGIBLE, topic=TWO), 1) == {PLACE: {"Isr": (0, 2)}}
    assert fenced(quorum(NEW, features=ELIGIBLE, topic=TWO, isr=(0, 1)), 1) == {
        PLACE: {"Isr": (0,), "EligibleLeaderReplicas": (1,)}
    }


def test_the_smallest_isr_is_no_larger_than_the_number_of_replicas() -> None:
    wide = {"min.insync.replicas": "9"}
    assert fenced(quorum(NEW, features=ELIGIBLE, topic=wide), 1) == {
        PLACE: {"Isr": (0, 2), "EligibleLeaderReplicas": (1,)}
    }


def test_a_topic_s_own_setting_counts_before_that_of_all_and_of_the_controller() -> None:
    small = quorum(NEW, features=ELIGIBLE, isr=(0, 1), properties=TWO)
    assert "EligibleLeaderReplicas" in fenced(small, 1)[PLACE]
    small.image.settings[4, ""] = {"min.insync.replicas": "1"}
    assert fenced(small, 1) == {PLACE: {"Isr": (0,)}}
    small.image.settings[4, "100"] = TWO
    assert "EligibleLeaderReplicas" in fenced(small, 1)[PLACE]
    small.image.settings[2, "t"] = {"min.insync.replicas": "1"}
    assert fenced(small, 1) == {PLACE: {"Isr": (0,)}}


def test_who_comes_back_leads_if_nobody_does_and_it_was_in_sync() -> None:
    assert unfenced(quorum(NEW, leader=-1, isr=(1,), fenced=(0, 1, 2)), 1) == {PLACE: {"Leader": 1}}
    assert unfenced(quorum(NEW, leader=-1, isr=(1,), fenced=(0, 1, 2)), 2) == {}
    assert unfenced(quorum(NEW), 1) == {}


def test_an_eligible_replica_leads_alone_and_is_eligible_no_more() -> None:
    assert unfenced(quorum(NEW, eligible=(0, 2), last_known=(1,), **NOBODY), 2) == {
        PLACE: {"Isr": (2,), "Leader": 2, "EligibleLeaderReplicas": (0,), "LastKnownElr": ()}
    }


def test_the_last_known_leader_is_elected_uncleanly_where_nobody_is_eligible() -> None:
    assert unfenced(quorum(NEW, last_known=(1,), **NOBODY), 1) == {
        PLACE: {"Isr": (1,), "Leader": 1, "LeaderRecoveryState": 1, "LastKnownElr": ()}
    }
    assert unfenced(quorum(NEW, last_known=(1,), **NOBODY), 2) == {}


def test_a_replica_outside_the_isr_leads_where_the_topic_allows_it() -> None:
    out: dict[str, Any] = {"leader": -1, "isr": (1,), "fenced": (0, 1, 2)}
    assert unfenced(quorum(NEW, topic=UNCLEAN, **out), 2) == {
        PLACE: {"Isr": (2,), "Leader": 2, "LeaderRecoveryState": 1}
    }
    recovering = quorum(NEW, topic=UNCLEAN, is_recovering=True, **out)
    assert unfenced(recovering, 2) == {PLACE: {"Isr": (2,), "Leader": 2}}


# -- processes ----------------------------------------------------------------------------------


def test_who_registers_after_a_clean_end_leaves_the_isr_as_one_that_is_fenced() -> None:
    state = quorum(NEW, features=ELIGIBLE, topic=TWO, isr=(0, 1), fenced=(1,))
    assert registered(state, 1, "another", is_clean=True) == {
        PLACE: {"Isr": (0,), "EligibleLeaderReplicas": (1,)}
    }


def test_who_registers_after_an_unclean_end_is_neither_in_sync_nor_eligible() -> None:
    state = quorum(NEW, features=ELIGIBLE, topic=TWO, isr=(0, 1), fenced=(1,))
    assert registered(state, 1, "another", is_clean=False) == {PLACE: {"Isr": (0,)}}
    state = quorum(NEW, features=ELIGIBLE, topic=TWO, isr=(0,), eligible=(1, 2), fenced=(1, 2))
    assert registered(state, 1, "another", is_clean=False) == {
        PLACE: {"EligibleLeaderReplicas": (2,)}
    }


def test_a_process_that_registers_once_more_changes_nothing() -> None:
    assert registered(quorum(NEW), 1, "process 1", is_clean=False) == {}
    assert registered(quorum(NEW), 1, "another", is_clean=False) == {PLACE: {"Isr": (0, 2)}}


def test_who_is_unregistered_stays_eligible() -> None:
    assert unregistered(quorum(NEW), 2) == {PLACE: {"Isr": (0, 1)}}
    state = quorum(NEW, features=ELIGIBLE, topic=TWO, isr=(0,), eligible=(1,), fenced=(1, 2))
    assert unregistered(state, 1) == {}


# -- what a leader asks for ---------------------------------------------------------------------


def test_a_leader_is_given_the_isr_that_it_asks_for() -> None:
    assert isr_asked_for(quorum(NEW), PLACE, asked((0, 1))) == {"Isr": (0, 1)}
    assert isr_asked_for(quorum(NEW, isr=(0,)), PLACE, asked((0, 2))) == {"Isr": (0, 2)}
    assert isr_asked_for(quorum(NEW), PLACE, asked((0, 1, 2))) == {}


def test_an_isr_that_is_large_enough_ends_that_others_are_eligible() -> None:
    state = quorum(NEW, features=ELIGIBLE, topic=TWO, isr=(0,), eligible=(1,))
    assert isr_asked_for(state, PLACE, asked((0, 2))) == {
        "Isr": (0, 2),
        "EligibleLeaderReplicas": (),
    }


def test_a_leader_that_has_recovered_says_so() -> None:
    state = quorum(NEW, isr=(0,), is_recovering=True)
    assert isr_asked_for(state, PLACE, asked((0, 1))) == {"Isr": (0, 1), "LeaderRecoveryState": 0}
    assert isr_asked_for(state, PLACE, asked((0,), is_recovering=True)) == {}


def test_what_a_leader_may_not_ask_for_is_refused() -> None:
    state = quorum(NEW, isr=(0,), fenced=(2,))
    for wrong in (
        asked((0, 1), leader_epoch=2),
        asked((0, 1), partition_epoch=6),
        asked((0, 1), broker_epoch=9),
        asked((1, 0), leader=1, broker_epoch=11),
        asked((0, 3)),
        asked((1, 2)),
        asked((0, 1, 1)),
        asked((0, 2)),
        asked((0, 1), isr=((0, 10), (1, 5))),
        asked((0,), is_recovering=True),
    ):
        assert isr_asked_for(state, PLACE, wrong) is None, wrong


def test_an_epoch_that_the_leader_has_not_seen_is_not_asked_for() -> None:
    state = quorum(NEW, isr=(0,))
    assert isr_asked_for(state, PLACE, asked((), isr=((0, -1), (1, -1)))) == {"Isr": (0, 1)}


# -- what somebody asks for ---------------------------------------------------------------------


def test_the_first_replica_is_elected_if_it_is_in_sync_and_active() -> None:
    preferred = Election.PREFERRED
    assert elected(quorum(NEW, leader=2), PLACE, preferred) == {"Leader": 0}
    assert elected(quorum(NEW, leader=2, isr=(1, 2)), PLACE, preferred) == {}
    assert elected(quorum(NEW, leader=2, fenced=(0,)), PLACE, preferred) == {}
    assert elected(quorum(NEW), PLACE, preferred) == {}


def test_an_unclean_election_is_for_a_partition_without_a_leader() -> None:
    state = quorum(NEW, leader=-1, isr=(1,), fenced=(1,))
    assert elected(state, PLACE, Election.UNCLEAN) == {
        "Isr": (0,),
        "Leader": 0,
        "LeaderRecoveryState": 1,
    }
    assert elected(quorum(NEW, isr=(1,)), PLACE, Election.UNCLEAN) == {}


def test_a_reassignment_adds_replicas_first() -> None:
    assert reassigned(quorum(NEW), PLACE, (3, 1)) == {
        "Replicas": (3, 1, 0, 2),
        "RemovingReplicas": (0, 2),
        "AddingReplicas": (3,),
        "Directories": ("D3", "D1", "D0", "D2"),
    }


def test_a_reassignment_to_fewer_that_are_in_sync_is_over_at_once_in_a_new_epoch() -> None:
    assert reassigned(quorum(NEW), PLACE, (0, 1)) == {
        "Replicas": (0, 1),
        "Isr": (0, 1),
        "Leader": 0,
        "Directories": ("D0", "D1"),
    }
    assert reassigned(quorum(NEW), PLACE, (2, 1, 0)) == {
        "Replicas": (2, 1, 0),
        "Directories": ("D2", "D1", "D0"),
    }


def test_a_reassignment_ends_as_what_it_adds_is_in_sync() -> None:
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


def test_nothing_is_cancelled_where_nothing_moves_or_nobody_else_is_in_sync() -> None:
    assert cancelled(quorum(NEW), PLACE) == {}
    moving: dict[str, Any] = {"replicas": (3, 0), "adding": (3,), "isr": (3,), "leader": 3}
    assert cancelled(quorum(NEW, **moving), PLACE) == {}
    assert cancelled(quorum(NEW, topic=UNCLEAN, **moving), PLACE)["Isr"] == (0,)


def test_a_topic_is_led_by_its_first_replica_that_is_active() -> None:
    fields = created(quorum(NEW, fenced=(1,)), (1, 3, 0))
    assert fields["Isr"] == (3, 0)
    assert fields["Leader"] == 3
    assert fields["Directories"] == ("D1", "D3", "D0")
    assert "Directories" not in created(quorum(NEW, features={"metadata.version": 16}), (1,))


# -- log directories ----------------------------------------------------------------------------


def test_a_replica_in_a_directory_that_failed_leaves_the_isr_and_leads_no_more() -> None:
    state = quorum(NEW)
    assert failed(state, 0, {"D0"}) == {PLACE: {"Isr": (1, 2), "Leader": 1}}
    assert failed(state, 0, {"another"}) == {}


def test_a_replica_without_a_directory_that_works_is_not_elected() -> None:
    for directory, may_lead in ((LOST, False), ("gone", False), (UNASSIGNED, True), (MIGRATING, 1)):
        state = quorum(NEW, leader=1, directories=(directory, "D1", "D2"))
        assert bool(elected(state, PLACE, Election.PREFERRED)) == bool(may_lead), directory


def test_a_broker_tells_in_which_directory_a_replica_lies() -> None:
    assert directory_assigned(quorum(NEW), PLACE, 1, "D9") == {"Directories": ("D0", "D9", "D2")}


def test_a_new_replica_is_in_the_only_directory_of_its_broker() -> None:
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


def test_without_links_a_leader_may_have_asked_for_what_was_written() -> None:
    ways = dict(alone(quorum(NEW), PLACE, {"Isr": (0, 2)}, None, asked=()))
    assert ways["AlterPartition"] == {"Isr": (0, 2)}
    ways = dict(alone(quorum(NEW), PLACE, {"Isr": (0, 2)}, (), asked=()))
    assert {"Isr": (0, 2)} not in ways.values()


def test_a_broker_that_shuts_down_leaves_isrs_again_after_the_controller_moved() -> None:
    state = quorum(NEW, leader=1)
    state.image.brokers[1] = replace(state.image.brokers[1], is_shutting_down=True)
    ways = [*alone(state, PLACE, {"Isr": (0, 2), "Leader": 0}, (), asked=())]
    assert ("shutdown", {"Isr": (0, 2), "Leader": 0}) in ways


def test_a_record_says_what_is_set_in_it() -> None:
    record = {"TopicId": "t", "PartitionId": 0, "Leader": -2, "LeaderRecoveryState": -1}
    assert said_by(record | {"Isr": None, "EligibleLeaderReplicas": (2, 1)}) == {
        "EligibleLeaderReplicas": (1, 2)
    }


def test_a_release_without_the_setting_elects_nobody_uncleanly() -> None:
    old = generation_for("3.8.1")
    out: dict[str, Any] = {
        "leader": -1,
        "isr": (1,),
        "fenced": (0, 1, 2),
        "topic": UNCLEAN,
        "features": NEWEST,
    }
    assert unfenced(quorum(old, **out), 2) == {}
