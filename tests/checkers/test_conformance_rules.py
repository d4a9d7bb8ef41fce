from dataclasses import replace
from typing import Any

import pytest

from kchaos.checkers.evidence.partition import BatchEvidence, PartitionEvidence
from kchaos.checkers.model.values.prediction import DisallowedDecision, EpochRound, PredictedProduce
from kchaos.checkers.rules.conformance import (
    decisions_allowed,
    produces_as_predicted,
    replicas_as_predicted,
    rounds_as_predicted,
)
from tests.support.rule_evidence import acknowledged, batch, evidence, replica, shown

BOTH = batch(0, 0, "a", "b")
MINE = batch(2, 1, "c", "d")
THEIRS = batch(2, 2, "C", "D")


def predicted(batch: BatchEvidence) -> BatchEvidence:
    return replace(batch, codec=None, crc=None, file=None, position=None, size_bytes=None)


def compared(real: dict[str, Any], expected: dict[str, Any], **fields: Any) -> PartitionEvidence:
    """One replica, observed and predicted, with the same two batches unless they say otherwise."""
    batches = real.pop("batches", (BOTH, MINE))
    foretold = expected.pop("batches", (BOTH, MINE))
    return evidence(
        replica(0, *batches, **real),
        predicted=(replica(0, *map(predicted, foretold), **expected),),
        **fields,
    )


def whats(seen: Any) -> list[str]:
    return [each.evidence["what"] for each in seen]


def test_a_replica_as_predicted_is_no_finding():
    clean = compared(
        {"epoch_entries": ((0, 0), (1, 2)), "high_watermarks": (4,)},
        {"epoch_entries": ((0, 0), (1, 2)), "high_watermarks": (2, 4)},
    )

    assert list(replicas_as_predicted(clean)) == []


def test_another_batch_is_shown_beside_the_prediction_at_every_snapshot():
    planted = compared({"batches": (BOTH, THEIRS)}, {}, is_final=False)

    (finding,) = replicas_as_predicted(planted)

    assert shown([finding]) == [("not-as-predicted", (0,), 2, 3)]
    assert finding.evidence["observed"][0]["leader_epoch"] == 2
    assert finding.evidence["predicted"][0]["leader_epoch"] == 1


def test_a_missing_batch_and_one_too_many_are_found():
    assert shown(replicas_as_predicted(compared({"batches": (BOTH,)}, {}))) == [
        ("not-as-predicted", (0,), 2, 3)
    ]
    assert shown(replicas_as_predicted(compared({}, {"batches": (BOTH,)}))) == [
        ("not-as-predicted", (0,), 2, 3)
    ]


def test_another_magic_is_not_as_predicted():
    planted = compared({"batches": (BOTH, replace(MINE, magic=1, leader_epoch=1))}, {})

    assert whats(replicas_as_predicted(planted)) == ["batches"]


def test_a_log_that_is_not_predicted_at_all_is_found():
    planted = replace(compared({}, {}), predicted=())

    assert shown(replicas_as_predicted(planted)) == [("not-as-predicted", (0,), -1, -1)]


def test_a_predicted_log_of_which_nothing_is_there_is_found():
    planted = replace(compared({}, {}), replicas=())

    assert "batches" in whats(replicas_as_predicted(planted))


def test_another_epoch_cache_is_found_and_an_absent_one_is_an_empty_one():
    planted = compared({"epoch_entries": ((0, 0),)}, {"epoch_entries": ((0, 0), (1, 2))})
    absent = compared({"epoch_entries": None}, {"epoch_entries": ()})

    assert whats(replicas_as_predicted(planted)) == ["epoch-entries"]
    assert whats(replicas_as_predicted(absent)) == []


def test_epochs_that_a_truncation_dropped_may_be_in_the_file_until_everything_has_settled():
    real = {"epoch_entries": ((0, 0), (1, 2))}
    later = {"epoch_entries": ((0, 0),), "may_keep_dropped_epochs": True}

    assert not whats(replicas_as_predicted(compared({**real}, {**later}, is_final=False)))
    assert whats(replicas_as_predicted(compared({**real}, {**later}))) == ["epoch-entries"]
    # A follower that was in a loop may go on while its files are copied.
    loop = {"state": "failed", "reasons": [{"kind": "fetch-loop"}]}
    assert not whats(replicas_as_predicted(compared({**real}, {**later}, settle=loop)))
    other = {"epoch_entries": ((1, 2),)}
    findings = replicas_as_predicted(compared(other, {**later}, is_final=False))
    assert whats(findings) == ["epoch-entries"]
    at_once = {"epoch_entries": ((0, 0),)}
    findings = replicas_as_predicted(compared({**real}, at_once, is_final=False))
    assert whats(findings) == ["epoch-entries"]


@pytest.mark.parametrize(
    ("checkpointed", "found"),
    [(2, ["high-watermark"]), (3, []), (4, []), (5, []), (6, ["high-watermark"])],
)
def test_a_running_brokers_checkpoint_may_lag_as_far_as_it_was_known_and_not_lead(
    checkpointed: int, found: list[str]
):
    evidence = compared({"high_watermarks": (checkpointed,)}, {"high_watermarks": (5, 3)})

    assert whats(replicas_as_predicted(evidence)) == found


SEEN = {"is_high_watermark_pinned": True}


@pytest.mark.parametrize("checkpointed", [(3,), (5,), ()])
def test_a_pinned_checkpoint_must_be_what_memory_holds(checkpointed: tuple[int, ...]):
    by_settling = compared({"high_watermarks": checkpointed} | SEEN, {"high_watermarks": (4, 3)})
    by_a_gate = compared({"high_watermarks": checkpointed}, {"high_watermarks": (4,)} | SEEN)

    assert whats(replicas_as_predicted(by_settling)) == ["high-watermark"]
    assert whats(replicas_as_predicted(by_a_gate)) == ["high-watermark"]


def test_a_pinned_checkpoint_that_is_predicted_is_no_finding():
    by_settling = compared({"high_watermarks": (4,)} | SEEN, {"high_watermarks": (4, 3)})
    by_a_gate = compared({"high_watermarks": (4,)}, {"high_watermarks": (4,)} | SEEN)

    assert whats(replicas_as_predicted(by_settling)) == []
    assert whats(replicas_as_predicted(by_a_gate)) == []


def test_a_pinned_checkpoint_tells_what_the_run_saw():
    planted = compared({"high_watermarks": (3,)} | SEEN, {"high_watermarks": (4, 3)})

    (finding,) = replicas_as_predicted(planted)

    assert finding.message == (
        "broker 0: its checkpointed high watermark is 3; predicted was 4, which the run saw there "
        "before"
    )


def test_the_checkpoint_of_a_stopped_broker_must_be_one_that_the_file_could_hold():
    clean = compared(
        {"high_watermarks": (3,), "is_running": False} | SEEN,
        {"high_watermarks": (4, 3), "is_running": False},
    )
    ended = compared(
        {"high_watermarks": (1,), "is_running": False},
        {"high_watermarks": (3, 4), "is_running": False},
    )

    assert whats(replicas_as_predicted(clean)) == []
    assert whats(replicas_as_predicted(ended)) == ["high-watermark"]


def test_a_process_that_should_have_ended_is_found():
    assert whats(replicas_as_predicted(compared({}, {"is_running": False}))) == ["process"]


def test_a_process_that_never_registered_may_have_ended_by_itself():
    ended = {"is_running": False}

    assert whats(replicas_as_predicted(compared({**ended}, {}))) == ["process"]
    assert whats(replicas_as_predicted(compared(ended | {"is_registered": False}, {}))) == []


def test_without_a_prediction_nothing_is_compared():
    alone = evidence(
        replica(0, BOTH), operations=(acknowledged("p", 0, "a"),), rounds=(ROUND,), predicted=None
    )

    assert list(replicas_as_predicted(alone)) == []
    assert list(produces_as_predicted(alone)) == []
    assert list(rounds_as_predicted(alone)) == []


ROUND = EpochRound(
    follower=1, leader=0, topic="t", partition=0, requested_epoch=2, answered_epoch=1, end_offset=11
)


def asked(real: tuple[EpochRound, ...] | None, *expected: EpochRound) -> PartitionEvidence:
    return evidence(replica(0), predicted=(), rounds=real, predicted_rounds=expected)


def test_rounds_in_the_predicted_order_are_no_finding():
    second = replace(ROUND, requested_epoch=1)
    of_another = replace(ROUND, follower=2)

    clean = asked((ROUND, of_another, second), of_another, ROUND, second)

    assert list(rounds_as_predicted(clean)) == []


def test_the_first_round_that_differs_is_found_for_each_follower():
    second = replace(ROUND, requested_epoch=1)
    planted = asked((ROUND, second, second), ROUND, replace(second, end_offset=7), second)

    (finding,) = rounds_as_predicted(planted)

    assert finding.brokers == (1,)
    assert finding.message == (
        "broker 1: question 2 for a leader epoch: broker 1 asked broker 0 for epoch 1, answered "
        "with epoch 1 and end offset 11; predicted was: broker 1 asked broker 0 for epoch 1, "
        "answered with epoch 1 and end offset 7"
    )
    assert finding.evidence["predicted"][1]["end_offset"] == 7


def test_a_round_too_many_or_too_few_is_found():
    assert "predicted was: none" in next(rounds_as_predicted(asked((ROUND,)))).message
    assert "epoch: none" in next(rounds_as_predicted(asked((), ROUND))).message


def test_a_run_without_links_has_no_rounds_to_compare():
    assert list(rounds_as_predicted(asked(None, ROUND))) == []


def outcome(real: dict[str, Any], expected: PredictedProduce | None) -> list[str]:
    operation = replace(acknowledged("p", 2, "c"), **real)
    findings = produces_as_predicted(
        evidence(
            replica(0),
            predicted=(),
            operations=(operation,),
            predicted_produces=() if expected is None else (expected,),
        )
    )
    return [each.message for each in findings]


ACKNOWLEDGED = PredictedProduce(operation="p", acknowledged=True, base_offset=2)
REFUSED = PredictedProduce(
    operation="p", acknowledged=False, base_offset=-1, error="NOT_ENOUGH_REPLICAS"
)
WAITING = PredictedProduce(operation="p", acknowledged=None, base_offset=2)
FAILED = {"outcome": "fail", "base_offset": -1, "error": "NOT_ENOUGH_REPLICAS", "error_code": 19}
NO_ANSWER = {"outcome": "info", "base_offset": -1, "error": "connection reset"}
TIMED_OUT = {"outcome": "info", "base_offset": -1, "error": "REQUEST_TIMED_OUT", "error_code": 7}


def test_a_produce_that_ended_as_predicted_is_no_finding():
    assert outcome({}, ACKNOWLEDGED) == []
    assert outcome(FAILED, REFUSED) == []


def test_an_acknowledgement_at_another_offset_or_against_the_prediction_is_found():
    assert outcome({"base_offset": 3}, ACKNOWLEDGED) != []
    assert outcome({}, REFUSED) != []
    assert outcome({}, WAITING) != []


def test_an_error_against_the_prediction_is_found():
    assert outcome(FAILED, ACKNOWLEDGED) != []
    assert outcome(FAILED | {"error": "CORRUPT_MESSAGE", "error_code": 2}, REFUSED) != []
    assert outcome({"outcome": "fail", "base_offset": -1, "error": "refused"}, ACKNOWLEDGED) != []


def test_a_produce_that_nothing_predicts_is_found():
    assert outcome({}, None) != []


def test_nobody_knows_how_a_produce_without_an_answer_ended():
    for real in (NO_ANSWER, TIMED_OUT):
        for expected in (ACKNOWLEDGED, REFUSED, WAITING):
            assert outcome(real, expected) == []


def test_a_decision_that_the_rules_forbid_is_found_once():
    forbidden = DisallowedDecision(
        index=7,
        decision={"event": "PartitionState", "leader": 1},
        reason="broker 1 was not in the ISR",
    )
    planted = evidence(replica(0), disallowed=(forbidden,))

    (finding,) = decisions_allowed(planted)

    assert finding.kind == "decision-not-allowed"
    assert finding.message == "PartitionState: broker 1 was not in the ISR"
    assert list(decisions_allowed(replace(planted, is_final=False))) == []
    assert list(decisions_allowed(evidence(replica(0)))) == []
