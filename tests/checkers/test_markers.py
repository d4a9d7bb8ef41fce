"""WriteTxnMarkers at the links: what it says, and what the model is told of it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.links import LinkMessage
from kchaos.checkers.evidence.markers import markers_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.record import _markers
from kchaos.checkers.segments.batch import Record, payload_digest


def message(direction: Any, entry: dict[str, Any], **fields: Any) -> LinkMessage:
    usual: dict[str, Any] = {
        "sequence": 1,
        "monotonic_s": 0.0,
        "wall_time_s": 100.0 if direction == "request" else 101.0,
        "connection": 3,
        "source": 1,
        "target": 2,
        "api_key": 27,
        "api": "WriteTxnMarkers",
        "api_version": 1,
        "correlation_id": 9,
        "client_id": "broker-1-txn-marker-sender",
        "direction": direction,
        "fate": "passed",
        "detail": {"partitions": [{"topic": "t", "partition": 0, **entry}]},
    }
    return LinkMessage(**{**usual, **fields})


MARKER = {"producer_id": 7, "producer_epoch": 2, "transaction_result": True, "coordinator_epoch": 5}
ASKED = message("request", MARKER)


def answer(error_code: int) -> LinkMessage:
    return message("response", {"producer_id": 7, "error_code": error_code})


def test_a_marker_is_what_was_asked_with_what_was_answered():
    (marker,) = markers_of([ASKED, answer(0)]) or ()

    assert (marker.broker, marker.topic, marker.partition) == (2, "t", 0)
    assert (marker.asked_at, marker.answered_at) == (100.0, 101.0)
    assert marker.is_written
    assert str(marker.mark) == "transactional, control, producer 7, 2, -1"


def test_a_marker_s_batch_is_known_before_it_is_written():
    (marker,) = markers_of([ASKED]) or ()
    commit = Record(
        offset=4, timestamp=8, key=b"\0\0\0\1", value=b"\0\0\0\0\0\5", control_type="COMMIT"
    )

    assert marker.payload == payload_digest([commit])
    assert replace(marker, is_commit=False).payload != marker.payload


@pytest.mark.parametrize(
    ("error_code", "outcome"),
    [(0, "ok"), (6, "info"), (19, "fail"), (52, "fail"), (20, "info"), (7, "info")],
)
def test_an_error_says_whether_a_marker_may_be_there(error_code: int, outcome: str):
    (marker,) = markers_of([ASKED, answer(error_code)]) or ()

    assert (marker.outcome, marker.is_written) == (outcome, error_code == 0)


@pytest.mark.parametrize(("unfollowed", "told"), [({}, 2), ({TopicPartition("t", 0): "why"}, 0)])
def test_the_model_is_told_of_markers_also_in_a_topic_that_is_gone_by_the_end(
    unfollowed: dict[TopicPartition, str], told: int
):
    markers = markers_of([ASKED, answer(0)])
    evidence = SimpleNamespace(partitions=(), unfollowed_clients=unfollowed, markers=markers)

    assert len([*_markers(cast(RunEvidence, evidence))]) == told


def test_what_never_arrived_is_no_marker_and_internal_topics_are_left_out():
    internal = message("request", {**MARKER, "topic": "__consumer_offsets"})

    assert markers_of([replace(ASKED, fate="abandoned")]) == ()
    assert markers_of([internal]) == ()


def test_a_marker_that_its_leader_cannot_read_was_never_asked_for():
    assert markers_of([ASKED], lambda message: message.api_version != 1) == ()


def test_markers_that_the_links_could_not_read_are_not_known():
    assert markers_of([ASKED, replace(ASKED, detail=None)]) is None
    whole = {**(ASKED.detail or {}), "is_whole": False}
    assert markers_of([replace(ASKED, detail=whole)]) is None
