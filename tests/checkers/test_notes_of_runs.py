"""Notes of a run: what brokers logged, and replicas that stayed out of sync for no known reason."""

from pathlib import Path

import pytest

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.rules.logged import logged_errors
from kchaos.checkers.rules.out_of_sync import BOUND_S, out_of_sync
from kchaos.checkers.run_directory import RunDirectory
from tests.support.run_builder import RunBuilder

STAMP = "[2026-01-01 00:00:00,000]"


def notes_of_log(path: Path, *lines: str) -> list[tuple[str, str]]:
    (path / "brokers/1").mkdir(parents=True)
    (path / "brokers/1/server.log").write_text("".join(f"{line}\n" for line in lines))
    return [(one.kind, one.message) for one in logged_errors(RunEvidence(RunDirectory(path)))]


def test_a_log_without_errors_has_no_note(tmp_path: Path) -> None:
    assert notes_of_log(tmp_path, f"{STAMP} INFO started", f"{STAMP} WARN late ERROR") == []


def test_errors_are_one_note_with_their_place_and_number(tmp_path: Path) -> None:
    lines = [f"{STAMP} INFO x", f"{STAMP} ERROR failed 1 (kafka.X)", f"{STAMP} ERROR failed 2"]
    ((kind, message),) = notes_of_log(tmp_path, *lines)
    assert kind == "broker-error"
    assert "logged 2 errors" in message
    assert "first at brokers/1/server.log:2: failed 1 (kafka.X)" in message


@pytest.mark.parametrize(
    ("line", "ended"),
    [
        ("ERROR [ReplicaFetcherThread-0-1], Error due to  (kafka.X)", "a fetcher thread"),
        ("WARN [ReplicaFetcher replicaId=0] Partition t-0 marked as failed", "of a partition"),
        ("ERROR [controller-event-thread]: Error due to (kafka.X)", "a controller's thread"),
    ],
)
def test_a_line_that_ends_a_thread_is_a_note_of_its_own(
    line: str, ended: str, tmp_path: Path
) -> None:
    notes = notes_of_log(tmp_path, f"{STAMP} {line}")
    assert [kind for kind, _ in notes] == ["broker-error", "thread-ended"]
    assert ended in notes[1][1]


def out_for(path: Path, seconds: float, *, fault: bool = False, registered: bool = True) -> int:
    build = RunBuilder(path).register(0, 0x10)
    build = build.register(1, 0x11) if registered else build
    build = build.topic("t", (0, 1)).state(0, 0, (0, 1)).state(0, 1, (0,))
    if fault:
        line = {"time": build.clock, "kind": "injected", "name": "cut", "lasting": True}
        build.run.append("observations.jsonl", line | {"step": 0, "fault": "CutLink"})
    build.clock += seconds
    build.state(0, 2, (0, 1))
    build.write_zookeeper()
    return len([*out_of_sync(RunEvidence(build.run))])


def test_a_replica_that_stays_out_of_the_isr_without_a_fault_is_told(tmp_path: Path) -> None:
    assert out_for(tmp_path / "long", BOUND_S) == 1
    assert out_for(tmp_path / "short", BOUND_S - 3) == 0
    assert out_for(tmp_path / "fault", BOUND_S, fault=True) == 0
    assert out_for(tmp_path / "gone", BOUND_S, registered=False) == 0
