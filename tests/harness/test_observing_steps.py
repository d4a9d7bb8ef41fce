"""Steps that only look, on literal log lines, link records and checkpoint files: no cluster."""

import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import kchaos as k
from kchaos.clusters.links import ApiKey, LinkRecord
from tests.support.stand_ins import StandInBroker, StandInCluster, link_record, play_on

KEPT = k.AwaitHighWatermarkKept(
    topic="t", partition=0, brokers=(0,), high_watermark=3, writes=2, timeout_s=0.3
)


@dataclass
class Broker(StandInBroker):
    """Each time somebody asks whether it runs, it may write a file."""

    writes: list[int] = field(default_factory=list)
    _written: int = 0

    def check_running(self) -> None:
        if self.writes:
            self.write_checkpoint(self.writes.pop(0))

    def write_checkpoint(self, high_watermark: int) -> None:
        self._written += 1
        file = self.log_directory / "replication-offset-checkpoint"
        file.write_text(f"0\n1\nt 0 {high_watermark}\n")
        # Two writes within one tick of the file system's clock are two writes all the same.
        os.utime(file, ns=(self._written, self._written))


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    cluster = StandInCluster(brokers=())
    broker = Broker(cluster, 0, log_directory=tmp_path, server_log=tmp_path / "server.log")
    broker.start()
    return broker


def play_of(broker: Broker, *records: LinkRecord) -> k.Play:
    cluster = StandInCluster(brokers=(), records=records)
    cluster.brokers[0] = broker
    return play_on(cluster, broker.log_directory)


def answer(error_code: int, **changed: Any) -> LinkRecord:
    """Broker 2's answer to broker 0's AlterPartition."""
    entry = {"topic": "t", "partition": 0, "error_code": error_code, "isr": [0, 1]}
    fields = {
        **{"correlation_id": 9, "direction": "response"},
        "detail": {"error_code": 0, "partitions": [entry]},
    }
    return link_record(ApiKey.ALTER_PARTITION, 0, 2, **fields | changed)


def test_a_line_of_the_present_process_is_found(broker: Broker):
    broker.server_log.write_text("INFO truncating t-0 to 1\n")
    k.AwaitLog(broker=0, pattern=r"t-0 to \d", timeout_s=0.1).perform(play_of(broker))


def test_a_line_of_an_earlier_process_does_not_count(broker: Broker):
    broker.server_log.write_text("INFO truncating t-0 to 1\n")
    play = play_of(broker)
    play.observer.log_started[0] = broker.server_log.stat().st_size
    with pytest.raises(k.AwaitTimeout, match="1 lines like 't-0' in broker 0's log"):
        k.AwaitLog(broker=0, pattern="t-0", timeout_s=0.1).perform(play)


def test_one_line_of_two_is_not_enough(broker: Broker):
    broker.server_log.write_text("INFO truncating t-0 to 1\n")
    with pytest.raises(k.AwaitTimeout, match="INFO truncating"):
        k.AwaitLog(broker=0, pattern="t-0", count=2, timeout_s=0.1).perform(play_of(broker))


def test_a_message_is_recognised_by_what_it_says_of_the_partition(broker: Broker):
    wanted = k.AwaitMessage(
        api="AlterPartition",
        source=0,
        target=2,
        direction="response",
        topic="t",
        says=(("error_code", 0), ("isr", (0, 1))),
    )
    wanted.perform(play_of(broker, answer(50), answer(0)))


@pytest.mark.parametrize(
    "other",
    [
        answer(50),
        answer(0, source=1),
        answer(0, target=1),
        answer(0, direction="request"),
        answer(0, fate="held"),
        answer(0, api_key=ApiKey.FETCH, api="Fetch"),
        answer(0, detail=None),
    ],
    ids=["error", "source", "target", "direction", "fate", "api", "unread"],
)
def test_another_message_is_none(broker: Broker, other: LinkRecord):
    wanted = k.AwaitMessage(
        api="AlterPartition",
        source=0,
        target=2,
        direction="response",
        topic="t",
        says=(("error_code", 0),),
    )
    with pytest.raises(k.AwaitTimeout):
        wanted.perform(play_of(broker, other))


def test_without_a_partition_the_message_itself_is_asked(broker: Broker):
    wanted = k.AwaitMessage(
        api="AlterPartition", direction="response", says=(("error_code", 0),), count=2
    )
    wanted.perform(play_of(broker, answer(50), answer(50)))


def test_a_high_watermark_that_is_written_again_is_kept_and_told_to_the_model(broker: Broker):
    # What the file held before, and the first new one, may be from before the step.
    broker.writes = [1, 2, 3, 3]
    play = play_of(broker)
    KEPT.perform(play)
    (line,) = play.run.read_lines("actions.jsonl")
    assert line["action"]["high_watermark"] == 3


@pytest.mark.slow
def test_a_high_watermark_that_moves_is_not_kept(broker: Broker):
    broker.writes = [3, 3, 3, 4, 3]
    kept = k.AwaitHighWatermarkKept(
        topic="t", partition=0, brokers=(0,), high_watermark=3, writes=3, timeout_s=0.3
    )
    with pytest.raises(k.AwaitTimeout, match=r"\{3, 4\}"):
        kept.perform(play_of(broker))


@pytest.mark.slow
def test_a_file_that_nobody_writes_again_says_nothing(broker: Broker):
    broker.writes = [3]
    with pytest.raises(k.AwaitTimeout, match="to be checkpointed 2 times"):
        KEPT.perform(play_of(broker))


class Gate:
    """Stands in for the gate: one more thread has come each time that somebody asks."""

    def __init__(self) -> None:
        self.asked = 0

    def hits(self, broker: int, point: str) -> int:
        assert (broker, point) == (0, "isr-check")
        self.asked += 1
        return self.asked


def at_a_point(gate: Gate | None, folder: Path) -> k.Play:
    cluster = StandInCluster(brokers=(0,))
    cluster.spec = k.ClusterSpec(
        brokers=(k.BrokerSpec(id=0, kafka="2.8.2", points=("isr-check",)),)
    )
    cluster.gate = cast(Any, gate)
    return play_on(cluster, folder)


def test_a_point_is_awaited_so_often_from_now_on(tmp_path: Path):
    gate = Gate()
    k.AwaitPoint(broker=0, point="isr-check", times=3).perform(at_a_point(gate, tmp_path))
    assert gate.asked == 4


def test_a_point_that_the_broker_does_not_have_is_refused(tmp_path: Path):
    without = at_a_point(None, tmp_path / "none"), at_a_point(Gate(), tmp_path / "other")
    for play, point in zip(without, ("isr-check", "x"), strict=True):
        with pytest.raises(k.ScenarioError, match=rf"broker 0 runs without the point {point}"):
            k.AwaitPoint(broker=0, point=point).perform(play)


def heartbeat(offset: int, source: int = 0) -> LinkRecord:
    """Broker 0's heartbeat, which the stand-in's metadata log, at offset 5, is compared with."""
    said = {"broker_epoch": 7, "current_metadata_offset": offset}
    named: dict[str, Any] = {"api_key": ApiKey.BROKER_HEARTBEAT, "api": "BrokerHeartbeat"}
    return answer(0, **named, direction="request", detail=said, source=source, target=100)


@pytest.mark.parametrize(
    ("records", "is_read"),
    [
        ([heartbeat(offset) for offset in (4, 5, 6, 6, 7)], True),
        ([heartbeat(offset) for offset in (4, 5, 5, 6, 6)], False),
        ([heartbeat(5), heartbeat(6), heartbeat(7, source=1)], False),
    ],
)
def test_a_broker_has_read_what_was_decided_once_three_offsets_beyond_were_told(
    broker: Broker, records: list[LinkRecord], is_read: bool
):
    play = play_of(broker, *records)
    play.cluster.spec = k.ClusterSpec(brokers=(k.BrokerSpec(id=0, kafka="4.1.2"),))  # type: ignore[misc]
    play.cluster.metadata = SimpleNamespace(position=lambda: 5)  # type: ignore[misc]

    wanted = k.AwaitMetadataRead(broker=0, timeout_s=0.2)
    with contextlib.nullcontext() if is_read else pytest.raises(k.AwaitTimeout, match="a record"):
        wanted.perform(play)


@pytest.mark.parametrize(("end", "holds"), [(6, True), (5, True), (4, False)])
def test_the_newest_snapshot_of_every_node_counts(
    broker: Broker, tmp_path: Path, end: int, holds: bool
):
    folders = {0: tmp_path / "0", 100: tmp_path / "100"}
    for node, newest in ((0, end), (100, 7)):
        folders[node].mkdir()
        for offset in (3, newest):
            (folders[node] / f"{offset:020}-0000000001.checkpoint").touch()
    play = play_of(broker)
    play.cluster.spec = k.ClusterSpec(brokers=(k.BrokerSpec(id=0, kafka="4.1.2"),))  # type: ignore[misc]
    play.cluster.metadata = SimpleNamespace(position=lambda: 5)  # type: ignore[misc]
    play.cluster.metadata_folders = lambda: folders  # type: ignore[method-assign]

    wanted = k.AwaitMetadataSnapshots(timeout_s=0.1)
    with contextlib.nullcontext() if holds else pytest.raises(k.AwaitTimeout, match=r"\{0: 4"):
        wanted.perform(play)


@pytest.mark.parametrize("step", [k.AwaitMetadataRead(broker=0), k.AwaitMetadataSnapshots()])
def test_with_zookeeper_there_is_no_metadata_log(broker: Broker, step: Any):
    with pytest.raises(k.ScenarioError, match="with KRaft alone"):
        step.perform(play_of(broker))
