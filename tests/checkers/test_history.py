from pathlib import Path

import pytest

import tests.support.model as m
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.history import record_payload
from kchaos.checkers.evidence.run import RunEvidence
from tests.support.run_builder import RunBuilder

ABOUT = {"topic": "t", "partition": 0}


def asked(leader_epoch: int) -> dict[str, object]:
    return {"partitions": [ABOUT | {"leader_epoch": leader_epoch}]}


def answered(leader_epoch: int | None, end_offset: int, error_code: int = 0) -> dict[str, object]:
    answer = {"error_code": error_code, "leader_epoch": leader_epoch, "end_offset": end_offset}
    return {"partitions": [ABOUT | answer]}


def test_an_operation_has_its_records_from_the_start_and_its_offset_from_the_end(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").produce("p", 0, ["x", "y"], acks=-1, base_offset=5)

    (operation,) = RunEvidence(build.run).operations

    assert (
        operation.outcome,
        operation.promised,
        operation.base_offset,
        operation.last_offset,
    ) == ("ok", True, 5, 6)
    assert operation.payloads == (record_payload("x"), record_payload("y"))


def test_an_operation_that_nothing_ended_is_pending(tmp_path: Path):
    build = RunBuilder(tmp_path / "run")
    build.history("p", "invoke", function="produce", broker=0, acks=1, records=["x"], **ABOUT)

    assert RunEvidence(build.run).operations[0].outcome == "pending"


def test_a_read_has_the_records_that_it_got(tmp_path: Path):
    build = RunBuilder(tmp_path / "run")
    build.history("r", "invoke", function="read", broker=0, **ABOUT)
    build.history(
        "r", "ok", function="read", broker=0, **ABOUT, records=["x"], base_offset=3, promised=True
    )

    (operation,) = RunEvidence(build.run).operations

    assert (operation.function, operation.promised, operation.base_offset) == ("read", True, 3)
    assert operation.payloads == (record_payload("x"),)


def test_an_end_without_a_start_is_named_with_its_line(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").history("p", "ok", base_offset=0)

    with pytest.raises(ScenarioDataError, match=r"history\.jsonl:1 "):
        RunEvidence(build.run).read()


def test_a_round_joins_question_and_answer(tmp_path: Path):
    build = RunBuilder(tmp_path / "run").epoch_round(1, 0, 2, None, 21)

    assert RunEvidence(build.run).rounds == (
        m.EpochRound(
            follower=1,
            leader=0,
            topic="t",
            partition=0,
            requested_epoch=2,
            answered_epoch=None,
            end_offset=21,
        ),
    )


def test_only_an_answer_that_arrived_without_error_is_a_round(tmp_path: Path):
    build = RunBuilder(tmp_path / "run")
    build.link(correlation_id=1, detail=asked(2))
    build.link(correlation_id=1, direction="response", detail=answered(-1, -1, error_code=6))
    build.link(correlation_id=2, detail=asked(2))
    build.link(correlation_id=2, direction="response", fate="cut", detail=answered(2, 7))
    build.link(correlation_id=3, detail=asked(3))
    build.link(correlation_id=3, direction="response", fate="held", detail=answered(3, 8))
    build.link(correlation_id=3, direction="response", fate="released", detail=answered(3, 8))
    build.link(correlation_id=4, source=None, detail=asked(3))
    build.link(correlation_id=4, source=None, direction="response", detail=answered(3, 8))

    rounds = RunEvidence(build.run).rounds

    assert rounds is not None
    assert [(each.requested_epoch, each.end_offset) for each in rounds] == [(3, 8)]


def test_a_diverging_epoch_in_a_fetch_response_is_a_round(tmp_path: Path):
    build = RunBuilder(tmp_path / "run")
    fetch = {"api_key": 1, "api": "Fetch"}
    asked_for = ABOUT | {"fetch_offset": 12, "last_fetched_epoch": 2}
    build.link(**fetch, correlation_id=1, detail={"session_epoch": 0, "partitions": [asked_for]})
    subject = ABOUT | {"error_code": 0, "high_watermark": 11}
    nothing = subject | {"diverging_epoch": {"epoch": -1, "end_offset": -1}}
    build.link(**fetch, correlation_id=1, direction="response", detail={"partitions": [nothing]})
    # The session leaves the partition out of the next request: nothing about it has changed.
    build.link(**fetch, correlation_id=2, detail={"session_epoch": 1, "partitions": []})
    diverging = subject | {"diverging_epoch": {"epoch": 1, "end_offset": 11}}
    build.link(**fetch, correlation_id=2, direction="response", detail={"partitions": [diverging]})

    rounds = RunEvidence(build.run).rounds

    assert rounds is not None
    assert [
        (each.requested_epoch, each.answered_epoch, each.end_offset, each.by_fetch)
        for each in rounds
    ] == [(2, 1, 11, True)]


def test_an_answer_tells_whether_it_has_news_of_an_internal_topic(tmp_path: Path):
    build = RunBuilder(tmp_path / "run")
    nothing = ABOUT | {"error_code": 0, "high_watermark": 11}
    internal = nothing | {"topic": "__consumer_offsets"}
    told = [
        (nothing | {"base_offset": 3, "last_offset": 4},),
        (nothing, internal),
        (nothing, internal | {"base_offset": 3, "last_offset": 4}),
        (nothing, internal | {"error_code": 6}),
        (nothing, internal | {"diverging_epoch": {"epoch": -1, "end_offset": -1}}),
        (nothing, internal | {"diverging_epoch": {"epoch": 1, "end_offset": 3}}),
    ]
    for partitions in told:
        answer = {"partitions": list(partitions)}
        build.link(api_key=1, api="Fetch", direction="response", detail=answer)

    said = [message.said for message in RunEvidence(build.run).links or ()]

    assert [reply.answers_others for reply in said if isinstance(reply, m.ResponseSeen)] == [
        *(False, False),
        *(True, True),
        *(False, True),
    ]


def test_a_large_answer_says_what_links_read_of_it_while_its_rest_passed(tmp_path: Path):
    build = RunBuilder(tmp_path / "run")
    head = ABOUT | {"error_code": 0, "high_watermark": 3, "base_offset": 3, "last_offset": 3}
    answer = {"api_key": 1, "api": "Fetch", "direction": "response"}
    in_part = {"partitions": [head], "is_whole": False}
    whole = {"partitions": [head | {"last_offset": 4, "rest": [[4, 4, 1]]}]}
    for number, fate, detail in (
        (7, "held", in_part),
        (7, "released", in_part),
        (7, "completed", whole),
        # The rest of this one never passed.
        (8, "passed", in_part),
    ):
        build.link(**answer, correlation_id=number, fate=fate, detail=detail)

    links = RunEvidence(build.run).links or ()

    said = [message.said for message in links]
    assert said[2] is None
    replies = [reply for reply in said if isinstance(reply, m.ResponseSeen)]
    answered = [reply.partitions[m.TopicPartition("t", 0)] for reply in replies]
    assert [(reply.number[1], reply.is_whole) for reply in replies] == [
        *((7, True), (7, True)),
        (8, False),
    ]
    rests = [each.rest for each in answered if isinstance(each, m.FetchAnswered)]
    assert rests == [((4, 4, 1),), ((4, 4, 1),), ()]


def test_without_links_rounds_are_unknown(tmp_path: Path):
    assert RunEvidence(RunBuilder(tmp_path / "run").run).rounds is None
