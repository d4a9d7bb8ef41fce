from dataclasses import replace
from typing import Any

import pytest

from kchaos.checkers.evidence.partition import (
    OBSERVED,
    PREDICTED,
    EarlierReplica,
    Excuse,
    PartitionEvidence,
)
from kchaos.checkers.rules.backwards import (
    high_watermark_regression,
    truncated_below_high_watermark,
)
from kchaos.checkers.rules.settled import not_settled
from tests.support.rule_evidence import acknowledged, batch, evidence, replica, shown

BOTH = batch(0, 0, "a", "b")
MINE = batch(2, 1, "c", "d")
THEIRS = batch(2, 2, "C", "D", "E")


def settled(*reasons: dict[str, Any], state: str = "failed") -> dict[str, Any]:
    return {"state": state, "bound_s": 20.0, "probes": [], "last_seen": {}, "reasons": [*reasons]}


def stopped(broker: int, detail: str = "Error due to") -> dict[str, Any]:
    return {"kind": "replication-stopped", "broker": broker, "detail": detail}


PROBE = acknowledged("settle-t-0", 11, "settle-t-0", is_probe=True)


def test_a_cluster_that_converged_has_nothing_stopped():
    clean = evidence(
        replica(0, BOTH), replica(1, BOTH), settle=settled(state="converged"), operations=(PROBE,)
    )

    assert shown(not_settled(clean, OBSERVED)) == []


@pytest.mark.parametrize("outcome", ["info", "fail", "pending"])
def test_without_an_acknowledged_probe_nothing_shows_that_replication_goes_on(outcome: str):
    probes = (replace(PROBE, outcome=outcome),)
    silent = evidence(
        replica(0, BOTH), replica(1, BOTH), settle=settled(state="converged"), operations=probes
    )

    assert shown(not_settled(silent, OBSERVED)) == [("replication-stopped", (0,), -1, -1)]


@pytest.mark.parametrize(
    ("outcome", "high_watermark", "kinds"),
    [("info", 2, []), ("info", 1, ["replication-stopped"]), ("fail", 2, ["replication-stopped"])],
)
def test_a_probe_without_an_answer_counts_where_the_high_watermark_has_passed_it(
    outcome: str, high_watermark: int, kinds: list[str]
):
    leader = replace(replica(0, BOTH), high_watermarks=(high_watermark,))
    probes = (replace(PROBE, outcome=outcome),)
    late = evidence(leader, replica(1, BOTH), settle=settled(state="converged"), operations=probes)

    assert [kind for kind, *_ in shown(not_settled(late, OBSERVED))] == kinds


@pytest.mark.parametrize(("wanted", "kinds"), [(2, []), (1, ["replication-stopped"])])
def test_a_topic_that_wants_more_replicas_than_it_has_shows_by_a_write_to_its_leader(
    wanted: int, kinds: list[str]
):
    alone = evidence(
        replica(0, BOTH),
        settle=settled(state="converged"),
        operations=(replace(PROBE, acks=1, promised=False),),
        min_insync_replicas=wanted,
    )

    assert [each.kind for each in not_settled(alone, OBSERVED)] == kinds


def test_a_running_replica_outside_the_isr_is_not_at_rest_whatever_settling_says():
    outside = evidence(
        replica(0, BOTH),
        replica(1, BOTH),
        isr=(0,),
        settle=settled(state="converged"),
        operations=(PROBE,),
    )

    assert shown(not_settled(outside, OBSERVED)) == [("replication-stopped", (1,), -1, -1)]
    # A late LeaderAndIsr makes a broker a replica again that a reassignment has left out.
    left_out = replace(outside, assigned=(0,))
    assert shown(not_settled(left_out, OBSERVED)) == []
    assert shown(not_settled(replace(left_out, min_insync_replicas=2), OBSERVED)) == []
    assert shown(not_settled(replace(outside, assigned=(0, 1)), OBSERVED)) == [
        ("replication-stopped", (1,), -1, -1)
    ]


def test_a_reason_about_a_broker_from_which_the_replica_was_taken_is_none():
    reason = {"kind": "replication-stopped", "broker": 1, "detail": "was not in the ISR"}
    stalled = evidence(
        replica(0, BOTH),
        replica(1, BOTH),
        isr=(0,),
        settle=settled(reason, state="stalled"),
        operations=(PROBE,),
    )

    assert shown(not_settled(stalled, OBSERVED)) == [("replication-stopped", (1,), -1, -1)]
    assert shown(not_settled(replace(stalled, assigned=(0, 2)), OBSERVED)) == []


def test_a_reason_of_settling_is_a_finding_with_what_differs():
    planted = evidence(
        replica(0, BOTH, MINE), replica(1, BOTH, THEIRS), isr=(0,), settle=settled(stopped(1))
    )

    (finding,) = not_settled(planted, OBSERVED)

    assert shown([finding]) == [("replication-stopped", (1,), -1, -1)]
    assert "Error due to" in finding.message
    assert finding.evidence["difference"]["different"] == [[2, 3]]
    assert finding.evidence["difference"]["alone"] == [[4, 4]]
    assert finding.evidence["ends"] == {"0": 4, "1": 5}
    assert finding.evidence["settle"]["bound_s"] == 20.0


def test_two_reasons_about_one_broker_are_one_finding():
    planted = evidence(
        replica(0), replica(1), isr=(0,), settle=settled(stopped(1, "one"), stopped(1, "two"))
    )

    (finding,) = not_settled(planted, OBSERVED)

    assert finding.evidence["details"] == ["one", "two"]


def test_a_reason_that_the_last_snapshot_refutes_is_no_finding():
    refuted = evidence(replica(0, BOTH), replica(1, BOTH), settle=settled(stopped(1)))

    assert shown(not_settled(refuted, OBSERVED)) == []
    assert shown(not_settled(replace(refuted, isr=(0,)), OBSERVED)) == [
        ("replication-stopped", (1,), -1, -1)
    ]


def test_an_in_sync_replica_that_lacks_the_probe_has_stopped():
    planted = evidence(replica(0, BOTH, MINE), replica(1, BOTH), settle=settled(stopped(1)))

    assert shown(not_settled(planted, OBSERVED)) == [("replication-stopped", (1,), -1, -1)]


def test_a_leader_that_acknowledges_no_probe_has_stopped():
    planted = evidence(
        replica(0, BOTH), replica(1, BOTH), settle=settled(stopped(0, "probe not acknowledged"))
    )

    assert shown(not_settled(planted, OBSERVED)) == [("replication-stopped", (0,), -1, -1)]


def test_other_kinds_of_reasons_pass_through():
    planted = evidence(
        replica(0),
        replica(1),
        settle=settled(
            # The links tell of that, and when it ended.
            {"kind": "fetch-loop", "broker": 1, "detail": "offset 21 asked 400 times"},
            {"kind": "generation-not-initialised", "broker": 1, "detail": "no LeaderAndIsr"},
        ),
    )

    assert shown(not_settled(planted, OBSERVED)) == [("generation-not-initialised", (1,), -1, -1)]


def test_a_partition_without_a_leader_is_offline_once_although_two_sources_say_so():
    reason = {"kind": "offline-partition", "broker": -1, "detail": "leader -1 for 20 s"}
    planted = evidence(replica(0), replica(1), leader=-1, settle=settled(reason, state="stalled"))

    assert shown(not_settled(planted, OBSERVED)) == [("offline-partition", (), -1, -1)]


def test_a_partition_whose_isr_is_down_is_not_offline_by_kafkas_fault():
    down = evidence(replica(0, is_running=False), replica(1), leader=-1, isr=(0,), settle=settled())

    assert shown(not_settled(down, OBSERVED)) == []


def test_too_few_in_sync_replicas_are_found_only_if_enough_run():
    planted = evidence(replica(0), replica(1), isr=(0,), min_insync_replicas=2, settle=settled())
    down = replace(planted, replicas=(replica(0), replica(1, is_running=False)))

    assert shown(not_settled(planted, OBSERVED)) == [("under-min-isr", (), -1, -1)]
    assert shown(not_settled(replace(planted, settle=None), OBSERVED)) == []
    assert shown(not_settled(down, OBSERVED)) == []


def test_a_predicted_fetcher_that_failed_or_whose_broker_exited_has_stopped():
    predicted = (
        replica(0, fetcher="none"),
        replica(1, fetcher="failed"),
        replica(2, fetcher="dead-thread"),
        replica(3, fetcher="fetching"),
        replica(4, fetcher="failed", is_running=False),
        replica(5, fetcher="exited", is_running=False),
    )
    planted = evidence(replica(0), isr=(0,), predicted=predicted)

    assert shown(not_settled(planted, PREDICTED)) == [
        ("replication-stopped", (1,), -1, -1),
        ("replication-stopped", (2,), -1, -1),
        ("replication-stopped", (5,), -1, -1),
    ]


def before(broker: int, *batches: Any, high_watermark: int, leader_epoch: int = 3) -> Any:
    return EarlierReplica(
        side=OBSERVED,
        broker=broker,
        snapshot="before-healing",
        time=900.0,
        leader_epoch=leader_epoch,
        high_watermarks=(high_watermark,),
        batches=batches,
    )


def test_a_high_watermark_that_falls_within_one_epoch_is_found():
    planted = evidence(replica(0, high_watermarks=(3,)), earlier=(before(0, high_watermark=5),))

    assert shown(high_watermark_regression(planted, OBSERVED)) == [
        ("high-watermark-regression", (0,), 3, 4)
    ]


def test_a_high_watermark_may_grow_and_may_fall_in_another_epoch():
    grown = evidence(replica(0, high_watermarks=(7,)), earlier=(before(0, high_watermark=5),))
    other = evidence(
        replica(0, high_watermarks=(3,)), earlier=(before(0, high_watermark=5, leader_epoch=2),)
    )

    assert shown(high_watermark_regression(grown, OBSERVED)) == []
    assert shown(high_watermark_regression(other, OBSERVED)) == []


def test_what_was_below_the_high_watermark_and_is_gone_was_truncated_below_it():
    planted = evidence(replica(1, BOTH, THEIRS), earlier=(before(1, BOTH, MINE, high_watermark=4),))

    assert shown(truncated_below_high_watermark(planted, OBSERVED)) == [
        ("truncated-below-high-watermark", (1,), 2, 3)
    ]


@pytest.mark.parametrize(
    ("moved_away", "now", "is_truncated"),
    [
        ((1, 950.0), (THEIRS,), False),
        ((1, 850.0), (THEIRS,), True),
        ((1, 850.0), (), False),
        ((0, 950.0), (THEIRS,), True),
    ],
)
def test_a_replica_that_was_moved_away_did_not_truncate_its_log(
    moved_away: tuple[int, float], now: tuple[Any, ...], is_truncated: bool
):
    seen = evidence(
        replica(1, *now), earlier=(before(1, BOTH, high_watermark=2),), moved_away=(moved_away,)
    )
    assert bool(shown(truncated_below_high_watermark(seen, OBSERVED))) is is_truncated


def test_what_was_above_the_high_watermark_may_go():
    clean = evidence(replica(1, BOTH, THEIRS), earlier=(before(1, BOTH, MINE, high_watermark=3),))

    assert shown(truncated_below_high_watermark(clean, OBSERVED)) == []


def lost_tail(first_lost_offset: int, *, time: float = 950.0) -> Excuse:
    return Excuse(kind="lost-tail", broker=0, time=time, first_lost_offset=first_lost_offset)


UNCLEAN = Excuse(kind="unclean-election", broker=0, time=950.0, leader_epoch=2)


def cut(*excuses: Excuse) -> PartitionEvidence:
    """Broker 1 has cut offsets 2 and 3, below its high watermark, which fell from 4 to 2."""
    return evidence(
        replica(1, BOTH, high_watermarks=(2,)),
        earlier=(before(1, BOTH, MINE, high_watermark=4),),
        excuses=excuses,
    )


def test_a_tail_that_a_disk_lost_may_be_cut_on_every_replica():
    had_two = replace(UNCLEAN, kept=((0, 2),))
    for excuse in (lost_tail(2), lost_tail(0), UNCLEAN, had_two):
        assert shown(truncated_below_high_watermark(cut(excuse), OBSERVED)) == []
        assert shown(high_watermark_regression(cut(excuse), OBSERVED)) == []


def test_an_excuse_for_other_offsets_or_a_later_one_excuses_nothing():
    had_all = replace(UNCLEAN, kept=((0, 2), (1, 4)))
    for excuse in (lost_tail(4), lost_tail(2, time=1001.0), had_all):
        assert shown(truncated_below_high_watermark(cut(excuse), OBSERVED)) == [
            ("truncated-below-high-watermark", (1,), 2, 3)
        ]
        assert shown(high_watermark_regression(cut(excuse), OBSERVED)) == [
            ("high-watermark-regression", (1,), 2, 3)
        ]


def restarted(leader_kept: Any) -> PartitionEvidence:
    """Broker 1 has cut offsets 2 and 3; it knew of 2 committed offsets, its leader 0 of 4."""
    return evidence(
        replica(0, BOTH, leader_kept),
        replica(1, BOTH),
        earlier=(before(0, BOTH, MINE, high_watermark=4), before(1, BOTH, MINE, high_watermark=2)),
    )


def test_what_the_leader_had_committed_and_still_has_may_not_be_cut_either():
    assert shown(truncated_below_high_watermark(restarted(MINE), OBSERVED)) == [
        ("truncated-below-high-watermark", (1,), 2, 3)
    ]


def test_what_the_leader_has_let_go_of_itself_is_not_kept_by_its_followers():
    told = shown(truncated_below_high_watermark(restarted(THEIRS), OBSERVED))
    assert told == [("truncated-below-high-watermark", (0,), 2, 3)]
