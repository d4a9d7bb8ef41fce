"""The small parts of the report: lanes, axes, rows, headers."""

import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.evidence.epoch_rounds import AskedRound
from kchaos.checkers.model.values.prediction import PredictedBatch
from kchaos.checkers.segments.batch import Batch
from kchaos.harness.catalogue import CATALOGUE
from kchaos.harness.report.control import ControlRow, most_of
from kchaos.harness.report.headers import header_fields, mark_differences
from kchaos.harness.report.lanes import LogSpan, join_equal, lane_of, ticks
from kchaos.harness.report.placement import Box, pack, time_axis
from kchaos.harness.report.rounds import side_by_side
from kchaos.harness.report.witness_text import witness_text


def batch(base: int, last: int, epoch: int, payload: str = "p") -> PredictedBatch:
    return PredictedBatch(
        base_offset=base, last_offset=last, leader_epoch=epoch, magic=2, payload=payload
    )


def test_offsets_between_two_batches_and_before_the_log_end_are_holes():
    lane = lane_of([batch(0, 4, 1), batch(8, 9, 1)], None, log_end_offset=12)

    assert [(s.first_offset, s.last_offset, s.is_hole) for s in lane.spans] == [
        (0, 4, False),
        (5, 7, True),
        (8, 9, False),
        (10, 11, True),
    ]


def test_where_the_log_cleaner_went_what_is_missing_on_both_sides_is_no_hole():
    left = [batch(2, 4, 1), batch(8, 9, 1), batch(12, 12, 1)]
    more = [*left[:1], batch(5, 7, 1), *left[1:]]

    def cleaned(other: list[PredictedBatch]) -> list[tuple[bool, bool]]:
        lane = lane_of(left, other, log_end_offset=13, cleaned_until=10)
        return [(s.cleaned, s.is_hole) for s in lane.spans]

    neither = (False, False)
    assert cleaned(left) == [neither, (True, False), neither, (False, True), neither]
    assert cleaned(more) == [neither, (False, True), neither, (False, True), neither]


def test_a_log_that_begins_late_has_no_hole_before_its_first_batch():
    lane = lane_of([batch(100, 104, 1)], None, log_end_offset=105)

    assert [span.first_offset for span in lane.spans] == [100]


@pytest.mark.parametrize(
    "other", [batch(0, 4, 2), batch(0, 3, 1), batch(0, 4, 1, payload="q"), batch(5, 9, 1)]
)
def test_a_batch_differs_by_offsets_epoch_or_payload(other: PredictedBatch):
    (span,) = lane_of([batch(0, 4, 1)], [other], log_end_offset=5).spans

    assert span.differs


def test_a_hole_differs_only_where_the_other_side_holds_a_batch():
    short = [batch(0, 4, 1), batch(10, 14, 1)]
    whole = [batch(0, 4, 1), batch(5, 9, 1), batch(10, 14, 1)]

    assert [s.differs for s in lane_of(short, whole, log_end_offset=15).spans] == [
        False,
        True,
        False,
    ]
    assert not any(s.differs for s in lane_of(short, short, log_end_offset=15).spans)


def test_neighbours_are_joined_and_a_hole_or_another_epoch_parts_them():
    spans = lane_of(
        [batch(0, 0, 1), batch(1, 1, 1), batch(3, 3, 1), batch(4, 4, 2)], None, log_end_offset=5
    ).spans

    assert [(s.first_offset, s.last_offset, s.batches) for s in join_equal(spans)] == [
        (0, 1, 2),
        (2, 2, 0),
        (3, 3, 1),
        (4, 4, 1),
    ]


def test_a_lane_that_cannot_be_joined_is_narrowed_and_keeps_every_difference():
    batches = [batch(offset, offset, offset) for offset in range(1000)]
    other = [each for each in batches if each.base_offset != 777]
    lane = lane_of(batches, other, log_end_offset=1000, most_spans=50)

    assert lane.joined
    assert len(lane.spans) <= 50
    assert sum(span.batches for span in lane.spans) == 1000
    assert [span for span in lane.spans if span.differs] == [
        LogSpan(first_offset=760, last_offset=779, leader_epoch=760, batches=20, differs=True)
    ]


def test_ticks_are_round_and_few():
    assert ticks(0, 10) == tuple(range(11))
    assert ticks(0, 32) == (0, 5, 10, 15, 20, 25, 30)
    assert ticks(997, 100_000) == tuple(range(10_000, 100_001, 10_000))


def test_the_time_axis_keeps_the_order_and_squeezes_waits():
    axis = time_axis([10.0, 10.001, 10.002, 70.0])

    places = [axis.place(time) for time in (5.0, 10.0, 10.0005, 10.001, 10.002, 70.0, 99.0)]
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0.0, 100.0)
    assert 10 < axis.place(10.001) < 40


def test_labels_never_cover_each_other():
    boxes = [Box(x=x, width=1.0, label="a-long-label") for x in (0.0, 5.0, 50.0, 98.0)]

    assert [(box.x, box.row, box.at) for box in pack(boxes)] == [
        (0.0, 0, "right"),
        (5.0, 1, "right"),
        (50.0, 0, "right"),
        (98.0, 0, "left"),
    ]


def a_batch(**changes: Any) -> Batch:
    fields: dict[str, Any] = {
        "base_offset": 7,
        "last_offset": 7,
        "leader_epoch": -1,
        "magic": 1,
        "codec": "none",
        "crc": 1,
        "record_count": 1,
        "is_control": False,
        "is_transactional": False,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "max_timestamp": 1000,
        "position": 3,
        "size_bytes": 40,
        "payload": None,
    }
    return Batch(**fields | changes)


def test_the_header_of_an_old_message_is_read_by_its_own_layout(tmp_path: Path):
    file = tmp_path / "x.log"
    file.write_bytes(b"..." + struct.pack(">qiIbbq", 7, 28, 0xCAFE, 1, 1, 1000))

    fields = header_fields(file, a_batch())

    assert [(field.at, field.name, field.value) for field in fields] == [
        (3, "offset", "7"),
        (11, "messageSize", "28"),
        (15, "crc", "0x0000cafe"),
        (19, "magic", "1"),
        (20, "attributes", "0x0001, codec gzip"),
        (21, "timestamp", "1970-01-01 00:00:01.000Z"),
    ]
    assert fields[0].raw == "00 00 00 00 00 00 00 07"


def test_a_header_that_the_file_is_too_short_for_is_not_shown(tmp_path: Path):
    file = tmp_path / "x.log"
    file.write_bytes(b"...short")

    assert header_fields(file, a_batch()) == ()
    assert header_fields(tmp_path / "missing.log", a_batch()) == ()


def test_only_fields_that_say_something_else_are_marked(tmp_path: Path):
    headers = []
    for offset in (7, 8):
        file = tmp_path / f"{offset}.log"
        file.write_bytes(b"..." + struct.pack(">qiIbbq", offset, 28, 1, 1, 0, 1000))
        headers.append(header_fields(file, a_batch()))

    for header in mark_differences(headers):
        assert [field.name for field in header if field.differs] == ["offset"]


def question(epoch: int, end_offset: int | None, *, time: float | None = None) -> AskedRound:
    return AskedRound(
        time=time,
        follower=1,
        leader=0,
        topic="t",
        partition=0,
        requested_epoch=epoch,
        answered_epoch=None,
        end_offset=end_offset,
    )


def test_rounds_are_paired_when_question_and_answer_are_the_same():
    predicted = [question(1, 10), question(2, 20)]
    observed = [question(1, 10, time=1.0), question(2, None, time=2.0), question(2, 21, time=3.0)]

    pairs = side_by_side(predicted, observed)

    assert [pair.agree for pair in pairs] == [True, False, False, False]
    assert [pair.observed for pair in pairs if pair.observed] == observed
    assert [pair.predicted for pair in pairs if pair.predicted] == predicted


# -- Control requests that a report shows when there are too many --

ROW = ControlRow(
    time=1.0,
    request="r",
    partitions="",
    carried="7",
    in_force="7",
    answer="accepted",
    is_late=False,
)
LATE = replace(ROW, carried="3", is_late=True)


def test_late_requests_are_left_out_last():
    rows = [LATE, replace(ROW, time=2.0), replace(ROW, time=3.0), replace(ROW, time=4.0)]

    assert [row.time for row in most_of(rows, 2)] == [1.0, 4.0]
    assert most_of(rows, 4) == tuple(rows)


# -- Witnesses as sentences --


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (
            {"round": {"follower": 1, "leader": 0, "requested_epoch": 2, "end_offset": 21}},
            "Broker 1 asks broker 0 where leader epoch 2 ends, and the answer is 21",
        ),
        (
            {"log": {"broker": 1, "pattern": "Truncating"}},
            "The log of broker 1 has a line that matches Truncating",
        ),
        (
            {"hit": {"point": "fetch-read", "broker": 0, "fate": "held"}},
            "A thread of broker 0 came to fetch-read and was held",
        ),
        (
            {"link": {"api": "Fetch", "direction": "response", "detail": {"error_code": 6}}},
            "The answer to a Fetch request, detail with error code 6",
        ),
        (
            {
                "link": {
                    **{"api": "Fetch", "direction": "response"},
                    **{"source": 2, "target": 1, "fate": "held"},
                }
            },
            "Broker 1's answer to a Fetch request of broker 2, held by kchaos",
        ),
        (
            {"link": {"api": "Fetch", "direction": "request", "source": 2, "target": 1}},
            "A Fetch request of broker 2 to broker 1",
        ),
        (
            {"epochs": {"snapshot": "final", "broker": 0, "partition": "t-0", "starts": [0, 5]}},
            "The leader epochs of t-0 on broker 0 begin at 0, 5 in snapshot final",
        ),
    ],
)
def test_each_form_reads_as_a_sentence(wanted: Mapping[str, Any], told: str):
    assert witness_text(wanted) == told


def test_no_witness_of_the_catalogue_shows_json():
    for entry in CATALOGUE.values():
        for expectation in entry.expectations.values():
            for wanted in expectation.to_json()["witness"]:
                ((form, fields),) = wanted.items()
                told = witness_text(wanted)
                # A regular expression is shown as it is.
                shown = told.replace(fields["pattern"], "") if form == "log" else told
                assert not set("{}[]") & set(shown), (entry.name, told)
