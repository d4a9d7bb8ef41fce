"""Rebuilds from the remote tier as links saw them, and tier.jsonl."""

import json
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
import tests.support.model as m
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.history import record_payload
from kchaos.checkers.evidence.links import read_links
from kchaos.checkers.evidence.tier import FetchedRecord, read_tier
from kchaos.checkers.formats.remote_log_metadata import (
    RemoteLogMetadataError,
    RemoteSegmentRecord,
    parse_remote_segment,
)
from kchaos.checkers.run_directory import MANIFEST
from kchaos.checkers.segments.tier import remote_segments
from tests.golden.stored import unpacked


def run_with(tmp_path: Path, name: str, *lines: dict[str, Any]) -> EvidenceFiles:
    run = k.RunDirectory.create(tmp_path / "run", run={}, scenario={})
    (run.path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return EvidenceFiles(run)


def message(number: int, api: str, direction: str, **entry: Any) -> dict[str, Any]:
    """Broker 1's fetcher and broker 0, its leader, about t-0."""
    return {
        "connection": 7,
        "correlation_id": number,
        "wall_time_s": 100.0 + number,
        "source": 1,
        "target": 0,
        "api_key": 1 if api == "Fetch" else 23,
        "api": api,
        "direction": direction,
        "fate": "passed",
        "api_version": 0,
        "client_id": "broker-1-fetcher-0",
        "sequence": 1,
        "monotonic_s": 1.0,
        "detail": {"session_epoch": 0, "partitions": [{"topic": "t", "partition": 0, **entry}]},
    }


def fetch(number: int, error_code: int) -> tuple[dict[str, Any], dict[str, Any]]:
    return (
        message(number, "Fetch", "request", fetch_offset=0),
        message(number, "Fetch", "response", error_code=error_code, high_watermark=3),
    )


def epochs(number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    api = "OffsetForLeaderEpoch"
    return (
        message(number, api, "request", leader_epoch=0),
        message(number, api, "response", error_code=0, leader_epoch=0, end_offset=3),
    )


def offsets(number: int, partition: int = 0) -> tuple[dict[str, Any], dict[str, Any]]:
    asked, answered = (
        message(number, "ListOffsets", "request", timestamp=-4),
        message(number, "ListOffsets", "response", error_code=0, offset=3),
    )
    for each in (asked, answered):
        each["detail"]["partitions"][0]["partition"] = partition
    return asked, answered


def said(files: EvidenceFiles) -> list[str]:
    return [
        message.said.api if isinstance(message.said, m.RequestSeen | m.ResponseSeen) else "nothing"
        for message in read_links(files) or ()
    ]


def test_what_a_follower_asks_while_it_rebuilds_says_nothing_about_its_truncation(tmp_path):
    files = run_with(tmp_path, "links.jsonl", *fetch(1, 109), *epochs(2), *fetch(3, 0))
    assert said(files) == ["Fetch", "Fetch", "nothing", "nothing", "Fetch", "Fetch"]


def test_a_question_after_any_other_answer_is_what_it_was(tmp_path):
    files = run_with(tmp_path, "links.jsonl", *fetch(1, 0), *epochs(2))
    assert said(files)[2:] == ["OffsetForLeaderEpoch", "OffsetForLeaderEpoch"]


def test_what_is_asked_after_the_next_fetch_counts_again(tmp_path):
    files = run_with(tmp_path, "links.jsonl", *fetch(1, 109), *epochs(2), *fetch(3, 0), *epochs(4))
    assert said(files)[-2:] == ["OffsetForLeaderEpoch", "OffsetForLeaderEpoch"]


def test_while_it_rebuilds_one_partition_a_follower_may_be_out_of_range_of_another(tmp_path):
    rebuilds = (*fetch(1, 109), *offsets(2))
    files = run_with(tmp_path, "links.jsonl", *rebuilds, *offsets(3, partition=1), *fetch(4, 0))
    assert said(files)[2:] == ["nothing", "nothing", "ListOffsets", "ListOffsets", "Fetch", "Fetch"]


def test_the_oldest_answer_about_offsets_has_a_list_and_internal_topics_say_nothing(tmp_path):
    asked, answered = offsets(1)
    entry = answered["detail"]["partitions"][0]
    entry["offsets"] = [entry.pop("offset"), 0]
    internal = offsets(2)
    for each in internal:
        each["detail"]["partitions"][0]["topic"] = "__consumer_offsets"
    files = run_with(tmp_path, "links.jsonl", asked, answered, *internal)
    kept = [message.said for message in read_links(files) or ()]
    assert kept[1] == m.ResponseSeen(
        number=(7, 1),
        fate=m.Fate.ARRIVES,
        api="ListOffsets",
        follower=1,
        leader=0,
        partitions={k.TopicPartition("t", 0): m.OffsetAnswered(error_code=0, offset=3)},
    )
    assert kept[2:] == [None, None]


READ: dict[str, Any] = {
    "time": 1.0,
    "step": 3,
    "kind": "read",
    "operation": "r",
    "broker": 0,
    "topic": "t",
    "partition": 0,
    "manner": "descending",
    "first_offset": 0,
    "end_offset": 2,
    "local_start_offset": 1,
    "fetches": [
        {"offset": 1, "error_code": 0, "records": [[1, "m1"]], "keys": ["k1"]},
        {"offset": 0, "error_code": 1, "records": []},
    ],
}


def test_a_reading_has_every_fetch_with_what_it_brought(tmp_path):
    (reading,) = read_tier(run_with(tmp_path, "tier.jsonl", READ))
    assert reading.fetches[0].records == (
        FetchedRecord(offset=1, payload=record_payload("m1", "k1")),
    )
    assert (reading.fetches[1].error_code, reading.fetches[1].records) == (1, ())


def test_a_reading_without_keys_has_records_without_any(tmp_path):
    fetches = [{"offset": 1, "error_code": 0, "records": [[1, "m1"]]}]
    (reading,) = read_tier(run_with(tmp_path, "tier.jsonl", {**READ, "fetches": fetches}))
    assert reading.fetches[0].records == (FetchedRecord(offset=1, payload=record_payload("m1")),)


@pytest.mark.parametrize("keys", [[], ["k1", "k2"], [7]])
def test_a_reading_must_have_a_key_or_none_for_each_record(tmp_path, keys):
    fetches = [{"offset": 1, "error_code": 0, "records": [[1, "m1"]], "keys": keys}]
    with pytest.raises(k.CheckError):
        read_tier(run_with(tmp_path, "tier.jsonl", {**READ, "fetches": fetches}))


@pytest.mark.parametrize(
    "lines", [(READ, READ), ({**READ, "fetches": "none"},), ({**READ, "kind": "write"},)]
)
def test_readings_of_another_shape_are_refused(tmp_path, lines):
    with pytest.raises(k.CheckError):
        read_tier(run_with(tmp_path, "tier.jsonl", *lines))


# -- Tiered runs of which something is not known: they are unknown, and say what --


def _without(run: k.RunDirectory, file: str, word: str) -> None:
    lines = (run.path / file).read_text().splitlines(keepends=True)
    kept = [line for line in lines if word not in json.dumps(json.loads(line))]
    assert len(kept) < len(lines)
    (run.path / file).write_text("".join(kept))


@pytest.mark.slow
def test_a_run_in_which_nobody_read_from_a_follower_in_sync_is_not_known_to_be_safe(tmp_path: Path):
    run = unpacked("tiered-3.9.1", tmp_path)
    assert k.judge(run).safe is True
    for file in ("actions.jsonl", "tier.jsonl"):
        _without(run, file, "end-t-0-broker-0-")
    (run.path / MANIFEST).unlink()
    run.seal()
    judged = k.judge(run)
    assert (judged.safe, judged.conforms) == (None, True)
    assert judged.unknown == "nobody has read the tiered log of t-0 from broker 0 at the end"


# -- Records of `__remote_log_metadata`, as brokers of 3.9.1 wrote them --

STARTED = bytes.fromhex(
    "0100000274ce3d36176e3c489b88a7b33d793663400000000000732e65e8b0e84a018c57ddc4080e85930000000000"
    "00000003000000000000000500000000000001a200fe457a000001a200fe46f40300000001000000000000000300000"
    "00002000000000000000500000000fc000000"
)
FINISHED = bytes.fromhex(
    "0101000274ce3d36176e3c489b88a7b33d793663400000000000732e65e8b0e84a018c57ddc4080e85930000000000"
    "000001a200fe47c6000100"
)


def test_a_copy_that_begins_says_offsets_and_epochs_of_its_segment():
    assert parse_remote_segment(STARTED) == RemoteSegmentRecord(
        segment_id="cy5l6LDoSgGMV93ECA6Fkw",
        topic_id="zj02F248SJuIp7M9eTZjQA",
        topic="t",
        partition=0,
        broker=0,
        time_ms=1795312994036,
        state="COPY_SEGMENT_STARTED",
        start_offset=3,
        end_offset=5,
        leader_epochs=((1, 3), (2, 5)),
        size_bytes=252,
        max_timestamp_ms=1795312993658,
    )


def test_a_copy_that_ends_gives_the_segment_its_newest_state():
    records = [parse_remote_segment(each) for each in (STARTED, FINISHED)]
    (segment,) = remote_segments(record for record in records if record is not None)
    assert (segment.state, segment.start_offset) == ("COPY_SEGMENT_FINISHED", 3)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (STARTED[:-1], "breaks off"),
        (STARTED[:9], "breaks off"),
        (STARTED + b"\0", "1 bytes after its end"),
        (b"\x02" + STARTED[1:], "frame version 2"),
        (STARTED[:2] + b"\x01" + STARTED[3:], "has version 1"),
        (FINISHED[:-2] + b"\x09\x00", "damaged"),
    ],
)
def test_another_shape_is_refused(value, why):
    with pytest.raises(RemoteLogMetadataError, match=why):
        parse_remote_segment(value)


def test_a_record_about_a_whole_partition_is_about_no_segment():
    assert parse_remote_segment(b"\x01\x02\x00rest") is None
