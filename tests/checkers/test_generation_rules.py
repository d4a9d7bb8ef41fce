from dataclasses import replace
from typing import Any

import pytest

from kchaos.checkers.evidence.broker_epochs import ControlRequest
from kchaos.checkers.evidence.partition import OBSERVED, PREDICTED
from kchaos.checkers.rules.broker_epochs import (
    generation_not_initialised,
    late_requests_as_predicted,
    stale_request_accepted,
)
from tests.support.rule_evidence import batch, evidence, replica, shown

BOTH = batch(0, 0, "a")
LATE = ControlRequest(
    api="StopReplica",
    version=0,
    broker=1,
    target=1,
    broker_epoch=None,
    meant_for=60,
    in_force=84,
    error_code=0,
    is_late=True,
    is_made=True,
    partitions=(("t", 0, 0),),
    source="links.jsonl:9",
)
AT_REST = {"state": "stalled", "reasons": []}
REFUSED = replace(LATE, version=1, broker_epoch=60, error_code=77, predicted_error_code=77)


def with_requests(*late: ControlRequest, **fields: Any) -> Any:
    return evidence(replica(0, BOTH), replica(1, BOTH), late_requests=late, **fields)


def test_a_late_request_that_was_obeyed_is_found_with_both_epochs():
    (finding,) = stale_request_accepted(with_requests(LATE), OBSERVED)

    assert shown([finding]) == [("stale-request-accepted", (1,), -1, -1)]
    assert (finding.evidence["meant_for"], finding.evidence["in_force"]) == (60, 84)
    assert finding.evidence["source"] == "links.jsonl:9"


@pytest.mark.parametrize(
    "clean",
    [
        REFUSED,
        replace(LATE, is_late=False),
        replace(LATE, error_code=11),
        replace(LATE, partitions=(("t", 0, 11),)),
    ],
    ids=["refused", "in time", "from an older controller", "of an older leader epoch"],
)
def test_what_is_refused_or_in_time_is_no_finding(clean: ControlRequest):
    assert shown(stale_request_accepted(with_requests(clean), OBSERVED)) == []


def test_the_release_that_would_have_refused_it_predicts_no_finding():
    obeyed = with_requests(LATE)
    against_the_rule = with_requests(replace(LATE, broker_epoch=60, predicted_error_code=77))

    assert shown(stale_request_accepted(obeyed, PREDICTED)) == [
        ("stale-request-accepted", (1,), -1, -1)
    ]
    assert shown(stale_request_accepted(against_the_rule, PREDICTED)) == []
    assert shown(stale_request_accepted(against_the_rule, OBSERVED)) != []


def test_late_requests_are_judged_at_the_last_snapshot_alone():
    earlier = with_requests(LATE, is_final=False)

    assert shown(stale_request_accepted(earlier, OBSERVED)) == []
    assert shown(late_requests_as_predicted(earlier)) == []


def test_an_answer_that_is_not_the_releases_is_not_as_predicted():
    planted = with_requests(replace(REFUSED, error_code=0))
    ahead = with_requests(replace(REFUSED, error_code=-1, predicted_error_code=0))

    assert shown(late_requests_as_predicted(planted)) == [("not-as-predicted", (1,), -1, -1)]
    assert shown(late_requests_as_predicted(ahead)) == [("not-as-predicted", (1,), -1, -1)]
    assert shown(late_requests_as_predicted(with_requests(LATE, REFUSED))) == []


def test_a_running_broker_that_nobody_told_is_found():
    planted = evidence(replica(0, BOTH), replica(1, BOTH), never_informed=(1,), settle=AT_REST)

    assert shown(generation_not_initialised(planted, OBSERVED)) == [
        ("generation-not-initialised", (1,), -1, -1)
    ]


def test_a_broker_that_nobody_told_yet_in_a_run_that_never_settled_is_none():
    failed_at_a_step = evidence(replica(0, BOTH), replica(1, BOTH), never_informed=(1,))

    assert shown(generation_not_initialised(failed_at_a_step, OBSERVED)) == []


def test_a_broker_that_was_told_or_does_not_run_is_none():
    told = evidence(replica(0, BOTH), replica(1, BOTH), settle=AT_REST)
    stopped = replica(1, BOTH, is_running=False)
    down = evidence(replica(0, BOTH), stopped, never_informed=(1,), settle=AT_REST)

    assert shown(generation_not_initialised(told, OBSERVED)) == []
    assert shown(generation_not_initialised(down, OBSERVED)) == []


def test_what_settling_says_of_the_whole_broker_is_not_said_twice():
    reason = {"kind": "generation-not-initialised", "broker": 1, "detail": "no LeaderAndIsr"}
    settle = {"state": "failed", "reasons": [reason]}
    planted = evidence(replica(0, BOTH), replica(1, BOTH), never_informed=(0, 1), settle=settle)

    assert shown(generation_not_initialised(planted, OBSERVED)) == [
        ("generation-not-initialised", (0,), -1, -1)
    ]


def test_the_model_predicts_it_of_a_replica_that_no_request_named():
    predicted = (replica(0, BOTH), replica(1, BOTH, is_hosted=False))
    planted = evidence(replica(0, BOTH), replica(1, BOTH), predicted=predicted)

    assert shown(generation_not_initialised(planted, PREDICTED)) == [
        ("generation-not-initialised", (1,), -1, -1)
    ]
    assert shown(generation_not_initialised(planted, OBSERVED)) == []
