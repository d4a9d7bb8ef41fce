from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.unknown import BOTH, CONFORMANCE, SAFETY, Cause, Denied, Reason
from kchaos.checkers.verdict import CONFORMANCE_UNKNOWN, Verdict, find_witnesses, verdict
from kchaos.checkers.witness import Witness
from tests.support.run_builder import RunBuilder


def finding_of(kind: str, *brokers: int, first: int = -1, last: int = -1) -> Finding:
    return Finding(
        kind=kind,
        topic="t",
        partition=0,
        brokers=brokers,
        first_offset=first,
        last_offset=last,
        message="planted",
    )


DIVERGENCE = finding_of("divergence", 0, 1, first=11, last=20)
HOLE = finding_of("hole", 1, first=11, last=20)
LOSS = finding_of("permitted-loss", 0, 1, first=11, last=20)
NOT_AS_PREDICTED = finding_of("not-as-predicted", 1)
UNSAFE: dict[str, Any] = {
    "safe": False,
    "findings": [{"kind": "divergence", "brokers": [0, 1], "first_offset": 11, "last_offset": 20}],
    "witness": [],
    "source": "measured",
}
SAFE = {"safe": True, "findings": [], "witness": [], "source": "measured"}
SEEN = Witness(wanted={"round": {"end_offset": 21}}, found=True, seen="a round")
MISSED = Witness(wanted={"round": {"end_offset": 21}}, found=False, seen="no rounds")


def open_by(sentence: str, opens: frozenset[Question], denied: Denied = Denied.NEVER) -> Reason:
    return Reason(sentence=sentence, cause=Cause.EVIDENCE, opens=opens, denied=denied)


def judged(
    findings: Sequence[Finding],
    *,
    predicted: Sequence[Finding] = (),
    expectation: Mapping[str, Any] | None = None,
    witnesses: Sequence[Witness] = (),
    reasons: Sequence[Reason] = (),
    not_predicted: str = "",
) -> Verdict:
    return verdict(
        findings,
        predicted,
        expectation=expectation,
        witnesses=witnesses,
        reasons=reasons,
        not_predicted=not_predicted,
    )


def test_a_run_without_findings_conforms_and_is_safe_and_expected():
    answer = judged([], expectation=SAFE)

    assert (answer.conforms, answer.safe, answer.expected, answer.unknown) == (
        True,
        True,
        True,
        None,
    )
    assert answer.expectation_from == "scenario"


def test_the_expected_finding_and_no_other_is_as_expected():
    assert judged([DIVERGENCE], expectation=UNSAFE, witnesses=[SEEN]).expected
    assert not judged([], expectation=UNSAFE, witnesses=[SEEN]).expected
    assert not judged([HOLE], expectation=UNSAFE, witnesses=[SEEN]).expected
    more = judged([DIVERGENCE, HOLE], expectation=UNSAFE, witnesses=[SEEN])
    assert not more.expected
    assert more.reason == "found and not expected: hole of t-0 on brokers [1] at offsets 11 to 20"


def test_a_finding_at_other_offsets_is_not_the_expected_one():
    answer = judged(
        [finding_of("divergence", 0, 1, first=11, last=15)], expectation=UNSAFE, witnesses=[SEEN]
    )

    assert (answer.safe, answer.expected) == (False, False)
    assert "expected and not found: divergence" in answer.reason


def test_an_expected_finding_may_name_its_partition():
    other = {**UNSAFE, "findings": [UNSAFE["findings"][0] | {"topic": "t", "partition": 1}]}

    assert not judged([DIVERGENCE], expectation=other, witnesses=[SEEN]).expected


def test_a_permitted_loss_makes_nothing_unsafe_or_unexpected():
    answer = judged([LOSS], expectation=SAFE)

    assert (answer.safe, answer.expected) == (True, True)


def test_a_run_that_is_not_as_predicted_is_never_expected():
    answer = judged([NOT_AS_PREDICTED], expectation=SAFE)

    assert (answer.conforms, answer.safe, answer.expected) == (False, True, False)
    assert answer.reason == "the run is not as predicted"


def test_red_without_its_witness_is_not_reproduced():
    answer = judged([DIVERGENCE], expectation=UNSAFE, witnesses=[MISSED])

    assert (answer.conforms, answer.safe, answer.expected) == (True, False, False)
    assert answer.reason.startswith("not reproduced")


def test_green_without_its_witness_is_unknown():
    answer = judged([], expectation=SAFE, witnesses=[SEEN, MISSED])

    assert (answer.conforms, answer.safe, answer.expected) == (True, None, False)
    assert answer.unknown is not None
    assert "nothing shows that the mechanism ran" in answer.unknown


def test_what_makes_the_run_unknown_answers_neither_question_whatever_was_found():
    answer = judged([DIVERGENCE], expectation=UNSAFE, reasons=[open_by("a gate timed out", BOTH)])

    assert (answer.conforms, answer.safe, answer.expected) == (None, None, False)
    assert answer.unknown == "a gate timed out"


def test_a_reason_that_may_be_denied_leaves_a_finding_its_answer_and_affirms_nothing():
    reasons = [open_by("nobody saw what they wrote", SAFETY, Denied.ALWAYS)]

    assert judged([DIVERGENCE], reasons=reasons).safe is False
    assert judged([], reasons=reasons).safe is None


def test_an_unsafe_run_that_is_not_known_to_conform_is_expected_by_its_scenario_alone():
    reasons = [open_by("step 3: a gate did not hold", CONFORMANCE)]

    by_model = judged([DIVERGENCE], predicted=[DIVERGENCE], reasons=reasons)
    by_scenario = judged([DIVERGENCE], expectation=UNSAFE, reasons=reasons)

    assert (by_model.safe, by_model.reason) == (False, "safe was expected")
    assert (by_scenario.safe, by_scenario.reason) == (False, CONFORMANCE_UNKNOWN)


def test_a_finding_must_stand_against_every_reason():
    reasons = [
        open_by("nobody saw what they wrote", SAFETY, Denied.ALWAYS),
        open_by("nobody settled", SAFETY),
    ]

    answer = judged([DIVERGENCE], reasons=reasons)

    assert answer.safe is None
    assert answer.unknown == "nobody saw what they wrote; nobody settled"


def test_a_model_that_failed_leaves_safety_answered():
    answer = judged([], expectation=SAFE, reasons=[open_by("the model failed", CONFORMANCE)])

    assert (answer.conforms, answer.safe, answer.expected) == (None, True, False)


def test_what_leaves_only_safety_open_answers_conformance():
    answer = judged([DIVERGENCE], expectation=UNSAFE, reasons=[open_by("nobody settled", SAFETY)])

    assert (answer.conforms, answer.safe, answer.expected) == (True, None, False)
    assert answer.unknown == "nobody settled"


def test_an_offset_alone_is_told_as_one():
    answer = judged([finding_of("divergence", 0, 1, first=1, last=1)], expectation=UNSAFE)

    assert "divergence of t-0 on brokers [0, 1] at offset 1" in answer.reason


def test_without_an_expectation_the_models_findings_are_expected():
    assert judged([DIVERGENCE, LOSS], predicted=[DIVERGENCE]).expected
    assert judged([DIVERGENCE], predicted=[DIVERGENCE]).expectation_from == "model"
    assert judged([], predicted=[LOSS]).expected
    assert not judged([], predicted=[DIVERGENCE]).expected
    assert not judged([DIVERGENCE], predicted=[]).expected


def test_an_expected_finding_without_a_kind_is_refused():
    with pytest.raises(ScenarioDataError, match="needs kind and brokers"):
        judged([], expectation={"safe": True, "findings": [{"brokers": [1]}]})


def witnesses(build: RunBuilder, *wanted: Mapping[str, Any]) -> list[bool]:
    expectation = {"witness": list(wanted)}
    seen = find_witnesses(expectation, RunEvidence(build.run))
    return [each.found for each in seen]


def test_a_round_is_found_by_the_fields_that_are_named(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").epoch_round(1, 0, 2, None, 21)

    assert witnesses(
        build,
        {"round": {"follower": 1, "leader": 0, "end_offset": 21}},
        {"round": {"answered_epoch": None}},
        {"round": {"follower": 1, "end_offset": 20}},
    ) == [True, True, False]


def test_a_round_is_told_in_words(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").epoch_round(1, 0, 2, None, 21)
    expectation = {"witness": [{"round": {"end_offset": 21}}, {"round": {"end_offset": 20}}]}

    seen = [witness.seen for witness in find_witnesses(expectation, RunEvidence(build.run))]

    words = "broker 1 asked broker 0 for epoch 2, answered with end offset 21"
    assert seen == [words, f"questions for leader epochs (1): {words}"]


def test_the_offsets_at_which_epochs_begin_and_the_formats_of_batches_are_witnesses(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").snapshot(
        "final", {0: [(0, 3, ["a"])], 1: [(0, 3, ["a"])]}, epochs={0: [(3, 0), (5, 4)]}
    )
    of = {"snapshot": "final", "broker": 0, "partition": "t-0"}
    assert witnesses(
        build,
        {"epochs": {**of, "starts": [0, 4]}},
        {"epochs": {**of, "starts": [0]}},
        {"epochs": {**of, "broker": 1, "starts": []}},
        {"epochs": {**of, "broker": 7, "starts": []}},
        {"epochs": {**of, "snapshot": "other", "starts": []}},
        {"magics": {**of, "runs": [2]}},
        {"magics": {**of, "runs": [2, 1]}},
        {"magics": {**of, "broker": 7, "runs": []}},
    ) == [True, False, True, False, False, True, False, False]
    with pytest.raises(ScenarioDataError, match="which is no partition"):
        witnesses(build, {"epochs": {**of, "partition": "t", "starts": []}})


def test_a_line_of_a_broker_s_log_is_found_by_its_pattern(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").server_log(1, "INFO start\nWARN Truncating t-0 to 11\n")
    build.server_log(2, "")

    assert witnesses(
        build,
        {"log": {"broker": 1, "pattern": r"Truncating .* 1\d$"}},
        {"log": {"pattern": "Truncating"}},
        {"log": {"broker": 2, "pattern": "Truncating"}},
        {"log": {"broker": 3, "pattern": "Truncating"}},
    ) == [True, True, False, False]


def test_a_message_at_a_link_is_found_by_its_fields(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").epoch_round(1, 0, 2, None, 21)

    assert witnesses(
        build,
        {"link": {"api": "OffsetForLeaderEpoch", "source": 1, "direction": "response"}},
        {"link": {"partition": {"topic": "t", "end_offset": 21}}},
        {"link": {"api": "Fetch"}},
        {"link": {"partition": {"topic": "t", "end_offset": 22}}},
    ) == [True, True, False, False]


def test_a_hit_at_a_point_is_found_by_its_fields(tmp_path: Path):
    build = RunBuilder(tmp_path / "run")
    assert witnesses(build, {"hit": {"fate": "held"}}) == [False]
    hit = {"number": 1, "broker": 0, "life": 1, "point": "log-read", "thread": "handler-0"}
    for fate in ("passed", "held"):
        rest = {"reader": "2", "seen": "(t-0,offset=3)", "fate": fate, "hold": ""}
        build.run.append("hits.jsonl", {"time": 1.0, **hit, **rest})

    assert witnesses(
        build,
        {"hit": {"point": "log-read", "fate": "held"}},
        {"hit": {"point": "log-read", "fate": "released"}},
        {"hit": {"point": "fetch-read"}},
    ) == [True, False, False]


def test_an_operation_of_a_client_is_found_by_its_fields(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").produce("m1", 0, ["m1-0"], acks=-1, error_code=19)

    assert witnesses(
        build,
        {"operation": {"operation": "m1", "error_code": 19, "isr_when_ended": []}},
        {"operation": {"operation": "m1", "outcome": "ok"}},
        {"operation": {"operation": "m2"}},
    ) == [True, False, False]


def test_without_links_no_round_is_found(tmp_path: Path):
    build = RunBuilder(tmp_path / "run")

    assert witnesses(build, {"round": {}}, {"link": {}}) == [False, False]


@pytest.mark.parametrize(
    "wrong",
    [
        {"rounds": {}},
        {"round": {}, "log": {"pattern": "x"}},
        {"log": {"broker": 1}},
        {"log": {"pattern": "("}},
        {"round": {"end": 21}},
        {"operation": {"name": "m1"}},
    ],
)
def test_a_witness_of_another_form_is_refused(wrong: Mapping[str, Any], tmp_path: Path):
    build = RunBuilder(tmp_path / "run").epoch_round(1, 0, 2, None, 21)

    with pytest.raises(ScenarioDataError, match=r"scenario\.json"):
        witnesses(build, wrong)


NOTHING_PREDICTED = "nothing is predicted of such a cluster"
OF_CONFORMANCE = {
    "safe": True,
    "findings": [{"kind": "not-as-predicted", "brokers": [1]}],
    "witness": [],
    "source": "measured",
}


def test_where_nothing_is_predicted_a_finding_denies_conformance_and_none_affirms_it():
    denied = judged([NOT_AS_PREDICTED], not_predicted=NOTHING_PREDICTED)
    open_one = judged([], not_predicted=NOTHING_PREDICTED)

    assert (denied.conforms, denied.safe, denied.expected) == (False, True, False)
    assert denied.unknown is None
    assert denied.reason == "found and not expected: not-as-predicted of t-0 on brokers [1]"
    assert (open_one.conforms, open_one.safe, open_one.expected) == (None, True, True)
    assert open_one.unknown == NOTHING_PREDICTED


def test_where_nothing_is_predicted_an_entry_may_expect_a_finding_about_conformance():
    shown = judged([NOT_AS_PREDICTED], expectation=OF_CONFORMANCE, not_predicted=NOTHING_PREDICTED)
    missed = judged([], expectation=OF_CONFORMANCE, not_predicted=NOTHING_PREDICTED)

    assert (shown.conforms, shown.safe, shown.expected) == (False, True, True)
    assert missed.reason == "expected and not found: not-as-predicted on brokers [1]"
