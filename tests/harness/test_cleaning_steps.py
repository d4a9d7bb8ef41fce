"""Waiting for a log cleaner, on literal checkpoint files and segments: no cluster."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from kafka.record.memory_records import MemoryRecordsBuilder

import kchaos as k
from tests.support.stand_ins import StandInCluster, play_on

CLEANED = k.AwaitCleaned(broker=0, topic="t", partition=0, cleaned_until=4, timeout_s=0.2)


def segment(base_offset: int, *values: bytes) -> bytes:
    builder = MemoryRecordsBuilder(2, 0, 1 << 20)
    for value in values:
        assert builder.append(0, value, value) is not None
    builder.close()
    written = bytearray(builder.buffer())
    written[:8] = base_offset.to_bytes(8, "big")
    return bytes(written)


@pytest.fixture
def play(tmp_path: Path) -> k.Play:
    cluster = StandInCluster(brokers=(0,), folder=tmp_path)
    (cluster.brokers[0].log_directory / "t-0").mkdir(parents=True)
    return play_on(cluster, tmp_path)


def checkpoint(play: k.Play, offset: int) -> None:
    file = play.cluster.brokers[0].log_directory / "cleaner-offset-checkpoint"
    file.write_text(f"0\n1\nt 0 {offset}\n")


@pytest.mark.parametrize("waited_for", [3, 4])
def test_the_model_is_told_which_offsets_are_left_below_where_the_cleaner_ended(
    play: k.Play, waited_for: int
):
    directory = play.cluster.brokers[0].log_directory / "t-0"
    (directory / f"{0:020}.log").write_bytes(segment(0, b"a") + segment(2, b"b", b"c"))
    (directory / f"{0:020}.log.deleted").write_bytes(segment(1, b"gone"))
    (directory / f"{4:020}.log").write_bytes(segment(4, b"d"))
    checkpoint(play, 4)

    replace(CLEANED, cleaned_until=waited_for).perform(play)

    (line,) = (play.run.path / "actions.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert told["action"]["event"] == "LogCleaned"
    assert told["action"]["cleaned_until"] == 4
    assert told["action"]["kept"] == [[0, 0], [2, 3]]


@pytest.mark.slow
@pytest.mark.parametrize("came_to", [None, 2])
def test_a_cleaner_that_did_not_come_there_is_waited_for(play: k.Play, came_to: int | None):
    if came_to is not None:
        checkpoint(play, came_to)

    with pytest.raises(k.AwaitTimeout, match=rf"up to offset 4.*cleaned up to {came_to}"):
        CLEANED.perform(play)
