"""Rebuilds from the remote tier as links saw them, and tier.jsonl."""

import json
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.history import record_payload
from kchaos.checkers.evidence.links import read_links
from kchaos.checkers.evidence.tier import FetchedRecord, read_tier
from kchaos.checkers.model.follow.observations import (
    Fate,
    OffsetAnswered,
    RequestSeen,
    ResponseSeen,
)
from kchaos.checkers.run_directory import RunDirectory


def run_with(tmp_path: Path, name: str, *lines: dict[str, Any]) -> EvidenceFiles:
    run = RunDirectory.create(tmp_path / "run", run={}, scenario={})
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
        message.said.api if isinstance(message.said, RequestSeen | ResponseSeen) else "nothing"
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
    assert kept[1] == ResponseSeen(
        number=(7, 1),
        fate=Fate.ARRIVES,
        api="ListOffsets",
        follower=1,
        leader=0,
        partitions={TopicPartition("t", 0): OffsetAnswered(error_code=0, offset=3)},
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
    with pytest.raises(CheckError):
        read_tier(run_with(tmp_path, "tier.jsonl", {**READ, "fetches": fetches}))


@pytest.mark.parametrize(
    "lines", [(READ, READ), ({**READ, "fetches": "none"},), ({**READ, "kind": "write"},)]
)
def test_readings_of_another_shape_are_refused(tmp_path, lines):
    with pytest.raises(CheckError):
        read_tier(run_with(tmp_path, "tier.jsonl", *lines))
