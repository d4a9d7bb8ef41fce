"""The remote tier and the readings on the page: who finds what, and where it was served from."""

from dataclasses import replace
from pathlib import Path

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.tier import FetchedRecord, TierFetch, TierReading
from kchaos.harness.report.tier_drawing import (
    RemoteView,
    boxes_found,
    boxes_of_segment,
    draw_readings,
    drawn_readings,
    remote_views,
    source_of,
)
from kchaos.harness.report.tier_text import in_words
from tests.support.tiered_run import tiered_run

ABOUT = TopicPartition("t", 0)
CHAIN = ((0, 0), (1, 3), (2, 5))


def place(offset: float) -> float:
    return 10 * offset


def segment(tmp_path: Path) -> RemoteView:
    run = tiered_run(tmp_path / "run")
    (remote_view,) = remote_views(RunEvidence(run), "step-1", ABOUT)
    return remote_view


def test_a_segment_is_drawn_batch_by_batch_in_the_colours_of_its_epochs(tmp_path: Path):
    segment_ = segment(tmp_path)
    boxes = boxes_of_segment(segment_, place)
    assert (segment_.name, segment_.broker, segment_.epochs) == ("seg 3-5", 0, CHAIN)
    assert [(box.x, box.width, box.style) for box in boxes] == [
        (30, 10, "e1"),
        (40, 10, "e1"),
        (50, 10, "e2"),
    ]


def test_a_segment_that_the_store_has_lost_is_one_hatched_box(tmp_path: Path):
    (box,) = boxes_of_segment(replace(segment(tmp_path), batches=()), place)
    assert (box.x, box.width, box.style, box.title) == (30, 30, "hole", "seg 3-5 is not there")


def test_a_broker_finds_by_its_own_epochs_what_it_has_not_itself(tmp_path: Path):
    segments = [segment(tmp_path)]
    assert [box.style for box in boxes_found(CHAIN, 6, segments, place)] == ["e1", "e1", "e2"]
    other = boxes_found(((0, 0), (4, 4)), 6, segments, place)
    assert [box.style for box in other] == ["hole", "hole", "hole"]
    assert boxes_found(CHAIN, 3, segments, place) == ()


def reading(*fetches: TierFetch) -> TierReading:
    return TierReading(
        operation="r",
        broker=1,
        topic="t",
        partition=0,
        manner="descending",
        first_offset=0,
        end_offset=3,
        local_start_offset=2,
        fetches=fetches,
    )


def fetch(offset: int, *offsets: int, error_code: int = 0) -> TierFetch:
    records = tuple(FetchedRecord(offset=at, payload="p") for at in offsets)
    return TierFetch(offset=offset, error_code=error_code, records=records)


def test_each_fetch_shows_where_it_was_served_from_and_what_came_of_it():
    reading_ = reading(fetch(2, 2), fetch(1, error_code=1), fetch(0, 0))
    assert [source_of(reading_, each) for each in reading_.fetches] == [
        "local",
        "nowhere",
        "remote",
    ]
    drawn = draw_readings([reading_], ABOUT)
    assert drawn is not None
    assert [(box.style, box.title) for box in drawn.readings[0].boxes] == [
        ("served-local", "offset 2, served from the local log"),
        ("hole", "offset 1: OFFSET_OUT_OF_RANGE"),
        ("served-remote", "offset 0, served from the remote log"),
    ]
    assert drawn.readings[0].note == "broker 1, descending; local from 2, end 3"


def test_a_reading_in_words_has_stretches_by_where_they_were_served_from():
    reading_ = reading(fetch(3, 3), fetch(2, 2), fetch(1, error_code=1), fetch(0, 0))
    assert in_words(reading_) == "r, broker 1, descending: 0 remote, 1 nowhere, 2-3 local"


def test_what_cannot_be_read_says_so_and_draws_nothing(tmp_path: Path):
    run = tiered_run(tmp_path / "run")
    (run.path / "tier.jsonl").write_text("{}\n")
    readings, problem = drawn_readings(RunEvidence(run))
    assert readings == []
    assert "tier.jsonl:1" in problem


def test_a_partition_that_nobody_read_has_no_readings():
    assert draw_readings([reading(fetch(0, 0))], TopicPartition("t", 1)) is None
