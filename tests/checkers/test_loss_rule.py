from dataclasses import replace
from typing import Any

import pytest

from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.partition import OBSERVED, PREDICTED, Excuse
from kchaos.checkers.model.values.prediction import PredictedProduce
from kchaos.checkers.rules.loss import loss
from tests.support.rule_evidence import acknowledged, batch, evidence, replica, shown

KEPT = batch(0, 0, "a", "b")
OTHER = batch(2, 2, "X", "Y")
PROMISED = acknowledged("p", 2, "c", "d")
UNCLEAN = Excuse(kind="unclean-election", broker=1, time=850.0, leader_epoch=2)


def tail_of(broker: int, first_lost_offset: int, *, time: float = 850.0) -> Excuse:
    return Excuse(kind="lost-tail", broker=broker, time=time, first_lost_offset=first_lost_offset)


def test_a_promised_record_that_one_in_sync_replica_holds_is_not_lost():
    clean = evidence(
        replica(0, KEPT, batch(2, 1, "c", "d")), replica(1, KEPT, OTHER), operations=(PROMISED,)
    )

    assert shown(loss(clean, OBSERVED)) == []


def test_a_promised_record_that_no_in_sync_replica_holds_is_lost_although_all_are_equal():
    planted = evidence(replica(0, KEPT, OTHER), replica(1, KEPT, OTHER), operations=(PROMISED,))

    (finding,) = loss(planted, OBSERVED)

    assert shown([finding]) == [("committed-loss", (0, 1), 2, 3)]
    assert finding.evidence["operations"][0]["operation"] == "p"
    assert finding.evidence["held_instead"]["1"][0]["leader_epoch"] == 2


def test_a_record_at_another_offset_is_lost_at_its_own():
    moved = batch(2, 1, "x", "c", "d")

    assert shown(loss(evidence(replica(0, KEPT, moved), operations=(PROMISED,)), OBSERVED)) == [
        ("committed-loss", (0,), 2, 3)
    ]


def test_what_only_a_replica_outside_the_isr_holds_is_lost():
    planted = evidence(
        replica(0, KEPT), replica(1, KEPT, batch(2, 1, "c", "d")), isr=(0,), operations=(PROMISED,)
    )

    assert shown(loss(planted, OBSERVED)) == [("committed-loss", (0,), 2, 3)]


def test_only_the_part_that_is_gone_is_lost():
    old = acknowledged("p", 2, "c", "d", "e")
    half = [batch(2, -1, "c", magic=1), batch(4, -1, "e", magic=1)]

    assert shown(loss(evidence(replica(0, KEPT, *half), operations=(old,)), OBSERVED)) == [
        ("committed-loss", (0,), 3, 3)
    ]


def test_a_record_of_acks_1_is_never_promised():
    planted = evidence(
        replica(0, KEPT, OTHER), operations=(acknowledged("p", 2, "c", "d", acks=1),)
    )

    (finding,) = loss(planted, OBSERVED)

    assert shown([finding]) == [("permitted-loss", (0,), 2, 3)]
    assert "acks=1" in finding.message


def test_neighbouring_losses_with_one_reason_are_one_finding_and_others_are_not():
    operations = (
        acknowledged("p0", 2, "c", acks=1),
        acknowledged("p1", 3, "d", acks=1),
        acknowledged("p2", 4, "e"),
    )

    assert shown(loss(evidence(replica(0, KEPT), operations=operations), OBSERVED)) == [
        ("permitted-loss", (0,), 2, 3),
        ("committed-loss", (0,), 4, 4),
    ]


def test_what_was_not_acknowledged_cannot_be_lost():
    failed = replace(PROMISED, outcome="fail", base_offset=-1, promised=False)
    nobody_knows = replace(PROMISED, outcome="info", base_offset=-1, promised=False)

    clean = evidence(replica(0, KEPT), operations=(failed, nobody_knows))

    assert shown(loss(clean, OBSERVED)) == []


def test_an_unclean_election_after_the_acknowledgement_permits_the_loss():
    planted = evidence(replica(0, KEPT), operations=(PROMISED,), excuses=(UNCLEAN,))

    (finding,) = loss(planted, OBSERVED)

    assert finding.kind == "permitted-loss"
    assert "unclean election" in finding.message


@pytest.mark.parametrize(
    ("excuse", "kinds"),
    [
        # Broker 1 was in the ISR when both records were acknowledged, and its log ended behind.
        ({"start_offset": 4}, {"committed-loss": (2, 3)}),
        ({"start_offset": 3}, {"permitted-loss": (3, 3), "committed-loss": (2, 2)}),
        ({"start_offset": 2}, {"permitted-loss": (2, 3)}),
        # Broker 7 was not: only its leader epochs show that it had them.
        ({"broker": 7, "start_offset": 4}, {"permitted-loss": (2, 3)}),
        ({"broker": 7, "kept": ((1, 4),)}, {"committed-loss": (2, 3)}),
        ({"broker": 7, "kept": ((1, 3),)}, {"permitted-loss": (3, 3), "committed-loss": (2, 2)}),
        ({"broker": 7, "kept": ((0, 4),), "start_offset": 4}, {"permitted-loss": (2, 3)}),
    ],
)
def test_an_unclean_election_permits_the_loss_of_what_its_leader_did_not_have(
    excuse: dict[str, Any], kinds: dict[str, tuple[int, int]]
):
    written = replace(PROMISED, leader_epochs=(1,))
    planted = evidence(
        replica(0, KEPT), operations=(written,), excuses=(replace(UNCLEAN, **excuse),)
    )

    lost = {each.kind: (each.first_offset, each.last_offset) for each in loss(planted, OBSERVED)}

    assert lost == kinds


def test_an_unclean_election_before_the_acknowledgement_permits_nothing():
    earlier = replace(UNCLEAN, time=700.0)
    planted = evidence(replica(0, KEPT), operations=(PROMISED,), excuses=(earlier,))

    assert shown(loss(planted, OBSERVED)) == [("committed-loss", (0,), 2, 3)]


@pytest.mark.parametrize(
    ("tails", "kind"),
    [
        ((tail_of(0, 2), tail_of(1, 0)), "permitted-loss"),
        ((tail_of(0, 2),), "committed-loss"),
        ((tail_of(0, 3), tail_of(1, 2)), "committed-loss"),
    ],
    ids=["of all in-sync disks", "of one of two disks", "behind the record"],
)
def test_tails_that_all_in_sync_disks_lost_permit_the_loss(tails: tuple[Excuse, ...], kind: str):
    planted = evidence(replica(0, KEPT), operations=(PROMISED,), excuses=tails)

    assert [finding.kind for finding in loss(planted, OBSERVED)] == [kind]


def test_a_tail_that_the_only_keeper_lost_permits_the_loss_and_another_s_does_not():
    keeper = replace(tail_of(0, 2), isr=(0,))
    bystander = replace(tail_of(0, 2), isr=(1,))

    permitted = evidence(replica(0, KEPT), operations=(PROMISED,), excuses=(keeper,))
    planted = evidence(replica(0, KEPT), operations=(PROMISED,), excuses=(bystander,))

    assert [finding.kind for finding in loss(permitted, OBSERVED)] == ["permitted-loss"]
    assert [finding.kind for finding in loss(planted, OBSERVED)] == ["committed-loss"]


LAST_OF_THREE: dict[str, Any] = {
    "operations": (replace(PROMISED, isr_when_ended=(0, 1, 2)),),
    "excuses": (replace(tail_of(0, 2), isr=(0,)),),
    "min_insync_replicas": 2,
}


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({}, "last-replica-loss"),
        ({"unclean_stops": ((0, 849.0), (1, 700.0), (7, 849.0))}, "last-replica-loss"),
        ({"unclean_stops": ((0, 849.0), (1, 849.0))}, "permitted-loss"),
        ({"min_insync_replicas": 1}, "permitted-loss"),
        ({"min_insync_replicas": 4}, "permitted-loss"),
        ({"isr": (0,)}, "permitted-loss"),
        # Brokers 1 and 2 had their copies taken away before the disk of 0 lost the record, and got
        # the partition back; one copy that was moved away leaves another.
        ({"moved_away": ((1, 810.0), (2, 811.0))}, "permitted-loss"),
        ({"moved_away": ((1, 810.0),)}, "last-replica-loss"),
        ({"moved_away": ((1, 790.0), (2, 790.0))}, "last-replica-loss"),
        ({"moved_away": ((1, 860.0), (2, 860.0))}, "last-replica-loss"),
        ({"operations": (replace(PROMISED, isr_when_ended=(0,)),)}, "permitted-loss"),
        ({"operations": (acknowledged("p", 2, "c", "d", acks=1),)}, "permitted-loss"),
        ({"excuses": (*LAST_OF_THREE["excuses"], UNCLEAN)}, "permitted-loss"),
    ],
)
def test_the_last_replica_may_not_lose_what_others_kept_whose_ends_were_all_clean(
    changed: dict[str, Any], kind: str
):
    three = (replica(0, KEPT), replica(1, KEPT), replica(2, KEPT))

    (finding,) = loss(evidence(*three, **{**LAST_OF_THREE, **changed}), OBSERVED)

    assert finding.kind == kind
    if not changed:
        assert "brokers 1, 2 had acknowledged it too, had no unclean end" in finding.message


def test_the_last_replica_has_lost_nothing_where_one_in_sync_replica_holds_it():
    held = (replica(0, KEPT), replica(1, KEPT), replica(2, KEPT, batch(2, 1, "c", "d")))

    assert shown(loss(evidence(*held, **LAST_OF_THREE), OBSERVED)) == []


def read_of(base_offset: int, *values: str) -> Operation:
    return acknowledged("r", base_offset, *values, acks=1, function="read", promised=True)


def test_a_record_that_was_read_is_promised():
    planted = evidence(replica(0, KEPT, OTHER), operations=(read_of(1, "b", "c", "d"),))

    assert shown(loss(planted, OBSERVED)) == [("committed-loss", (0,), 2, 3)]


def test_what_was_acknowledged_by_the_leader_alone_and_read_is_one_loss():
    alone = acknowledged("p", 2, "c", "d", acks=1)
    planted = evidence(replica(0, KEPT), operations=(alone, read_of(2, "c")))

    lost = list(loss(planted, OBSERVED))

    assert shown(lost) == [("permitted-loss", (0,), 3, 3), ("committed-loss", (0,), 2, 2)]
    assert lost[1].message == "the read records at offset 2 are in no in-sync replica"


def test_a_read_across_batches_that_are_all_there_lost_nothing():
    clean = evidence(
        replica(0, KEPT, batch(2, 1, "c", "d")), operations=(read_of(1, "b", "c", "d"),)
    )

    assert shown(loss(clean, OBSERVED)) == []


def test_what_retention_deleted_everywhere_is_not_lost():
    left = evidence(replica(0, batch(4, 1, "e"), log_start_offset=4), operations=(PROMISED,))

    assert shown(loss(replace(left, may_delete=True), OBSERVED)) == []


def test_a_log_that_begins_later_though_nothing_may_be_deleted_has_lost_what_it_promised():
    left = evidence(replica(0, batch(4, 1, "e"), log_start_offset=4), operations=(PROMISED,))

    assert shown(loss(left, OBSERVED)) == [("committed-loss", (0,), 2, 3)]


def test_the_predicted_side_takes_the_predicted_acknowledgements():
    expected = (
        PredictedProduce(operation="p", acknowledged=True, base_offset=2),
        PredictedProduce(operation="q", acknowledged=False, base_offset=-1, error="X"),
    )
    planted = evidence(
        replica(0, KEPT, batch(2, 1, "c", "d")),
        predicted=(replica(0, KEPT, OTHER),),
        predicted_produces=expected,
        operations=(PROMISED, replace(PROMISED, operation="q")),
    )

    (finding,) = loss(planted, PREDICTED)

    assert shown([finding]) == [("committed-loss", (0,), 2, 3)]
    assert [operation["operation"] for operation in finding.evidence["operations"]] == ["p"]


def test_an_earlier_snapshot_has_lost_nothing_yet():
    early = evidence(replica(0, KEPT), operations=(PROMISED,), is_final=False)

    assert shown(loss(early, OBSERVED)) == []
