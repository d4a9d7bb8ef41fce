"""Errors in brokers' logs, and replicas that stayed out of sync for no known reason."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import KINDS, Question
from kchaos.checkers.observations import Injected, Standstill, StoodStill
from kchaos.checkers.rules.logged import logged_errors
from kchaos.checkers.rules.out_of_sync import LEAST_S, out_of_sync
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.settings import WAITS_MS
from tests.support.run_builder import RunBuilder

STAMP = "[2026-01-01 00:00:00,000]"


def notes_of_log(
    path: Path, *lines: str, reasons: Sequence[Mapping[str, object]] = ()
) -> list[tuple[str, str]]:
    run = RunDirectory(path)
    (path / "brokers/1").mkdir(parents=True)
    (path / "brokers/1/server.log").write_text("".join(f"{line}\n" for line in lines))
    if reasons:
        run.write("outcome.json", {"settle": {"state": "failed", "reasons": [*reasons]}})
    return [
        (logged_error.kind, logged_error.message)
        for logged_error in logged_errors(RunEvidence(run))
    ]


def test_a_log_without_errors_has_no_note(tmp_path: Path):
    assert notes_of_log(tmp_path, f"{STAMP} INFO started", f"{STAMP} WARN late ERROR") == []


def test_errors_are_one_note_with_their_place_and_number(tmp_path: Path):
    lines = [f"{STAMP} INFO x", f"{STAMP} ERROR failed 1 (kafka.X)", f"{STAMP} ERROR failed 2"]
    ((kind, message),) = notes_of_log(tmp_path, *lines)
    assert kind == "broker-error"
    assert "logged 2 errors" in message
    assert message.endswith("first at brokers/1/server.log:2: failed 1")


FETCHER = "[ReplicaFetcher replicaId=1, leaderId=0, fetcherId=0]"
BREAKS = "Unexpected error occurred while processing data for partition t-0 at offset 3 (kafka.X)"


@pytest.mark.parametrize(
    ("line", "ended"),
    [
        ("ERROR [ReplicaFetcherThread-0-1], Error due to  (kafka.X)", "a fetcher thread"),
        (f"ERROR {FETCHER}: Error due to (kafka.X)", "a fetcher thread"),
        (f"ERROR {FETCHER} {BREAKS}", "the fetches of t-0"),
        (f"ERROR {FETCHER} Error while processing data for partition t-0 at", "the fetches of t-0"),
        (f"ERROR {FETCHER} Failed to truncate t-0 at offset 4", "the fetches of t-0"),
    ],
)
def test_an_error_that_ends_a_thread_that_replicates_is_a_safety_finding(
    line: str, ended: str, tmp_path: Path
):
    notes = notes_of_log(tmp_path, f"{STAMP} {line}")
    assert [kind for kind, _ in notes] == ["broker-error", "fetcher-ended"]
    assert f"ended {ended} of broker 1, at brokers/1/server.log:1" in notes[1][1]
    assert KINDS["fetcher-ended"].question is Question.SAFETY


def test_an_error_that_ends_fetches_says_what_was_thrown_in_whole_words(tmp_path: Path):
    thrown = f"kafka.common.UnexpectedAppendOffsetException: {'First offset 5 is less. ' * 9}"
    notes = notes_of_log(tmp_path, f"{STAMP} ERROR {FETCHER} {BREAKS}", thrown)
    said = notes[1][1]
    assert ": kafka.common.UnexpectedAppendOffsetException: First offset 5 is less." in said
    assert said.endswith("First offset 5 …")


def test_fetches_that_ended_twice_are_found_once(tmp_path: Path):
    notes = notes_of_log(tmp_path, *[f"{STAMP} ERROR {FETCHER} {BREAKS}"] * 2)
    assert [kind for kind, _ in notes] == ["broker-error", "fetcher-ended"]


def test_a_partition_that_waits_for_its_next_leader_epoch_is_no_error(tmp_path: Path):
    waits = f"{FETCHER} Partition t-0 has an older epoch (5) than the current leader. Will await"
    failed = f"{FETCHER} Partition t-0 marked as failed (kafka.server.ReplicaFetcherThread)"
    assert notes_of_log(tmp_path, f"{STAMP} INFO {waits}", f"{STAMP} WARN {failed}") == []


@pytest.mark.parametrize(
    ("broker", "partition", "kind"),
    [(1, 0, "thread-ended"), (0, 0, "thread-ended"), (1, 1, "fetcher-ended")],
)
def test_what_settling_says_of_the_partition_is_not_found_twice(
    broker: int, partition: int, kind: str, tmp_path: Path
):
    reason = {"kind": "replication-stopped", "broker": broker, "topic": "t", "partition": partition}
    notes = notes_of_log(tmp_path, f"{STAMP} ERROR {FETCHER} {BREAKS}", reasons=[reason])
    assert [kind for kind, _ in notes] == ["broker-error", kind]


def test_the_end_of_another_thread_is_a_note(tmp_path: Path):
    line = "ERROR [controller-event-thread]: Error due to (kafka.X)"
    notes = notes_of_log(tmp_path, f"{STAMP} {line}")
    assert [kind for kind, _ in notes] == ["broker-error", "thread-ended"]
    assert "a controller's thread" in notes[1][1]


QUICK = dict.fromkeys(WAITS_MS, "1000")


def out_for(
    path: Path,
    seconds: float,
    *,
    fault: bool = False,
    registered: bool = True,
    properties: Mapping[str, str] = QUICK,
    settled: bool = True,
    stood_still_s: float = 0.0,
) -> int:
    build = RunBuilder(path, properties=dict(properties)).register(0, 0x10)
    build = build.register(1, 0x11) if registered else build
    build = build.topic("t", (0, 1)).state(0, 0, (0, 1)).state(0, 1, (0,))
    if fault:
        cut = Injected(name="cut", fault="CutLink", lasting=True, before={}, effect={})
        build.observe(cut, 0, build.clock)
    if stood_still_s:
        still = Standstill(began=build.clock, ended=build.clock + seconds, seconds=stood_still_s)
        build.observe(StoodStill(times=(still,)), 0, build.clock)
    build.clock += seconds
    build.state(0, 2, (0, 1))
    build.write_zookeeper()
    scenario = build.run.read("scenario.json")
    cluster = {"brokers": [], "properties": build.properties}
    build.run.write("scenario.json", scenario | {"cluster": cluster}, replace=True)
    if not settled:
        reason = {"kind": "replication-stopped", "broker": 1, "topic": "t", "partition": 0}
        settle = {"state": "failed", "reasons": [reason]}
        build.run.write("outcome.json", {"settle": settle}, replace=True)
    doubted = [*out_of_sync(RunEvidence(build.run))]
    findings = [finding for finding, stood in doubted if not stood]
    assert {finding.question for finding in findings} <= {Question.SAFETY}
    doubts = [stood for _, stood in doubted if stood]
    assert doubts == ([stood_still_s] if stood_still_s and not findings else [])
    return len(findings)


def test_a_replica_that_stays_out_of_the_isr_without_a_fault_is_found(tmp_path: Path):
    assert out_for(tmp_path / "long", LEAST_S) == 1
    assert out_for(tmp_path / "short", LEAST_S - 3) == 0
    assert out_for(tmp_path / "fault", LEAST_S, fault=True) == 0
    assert out_for(tmp_path / "gone", LEAST_S, registered=False) == 0
    assert out_for(tmp_path / "settled", LEAST_S, settled=False) == 0


def test_a_machine_that_stood_still_for_what_the_bound_needs_leaves_it_unknown(tmp_path: Path):
    assert out_for(tmp_path / "starved", LEAST_S + 2, stood_still_s=9.0) == 0
    assert out_for(tmp_path / "long", LEAST_S + 12, stood_still_s=9.0) == 1


def test_a_replica_that_may_wait_for_an_answer_is_given_its_time(tmp_path: Path):
    slow = QUICK | {"replica.socket.timeout.ms": "20000"}
    assert out_for(tmp_path / "within", LEAST_S + 10, properties=slow) == 0
    assert out_for(tmp_path / "beyond", 31, properties=slow) == 1
    assert out_for(tmp_path / "defaults", 40, properties={}) == 0
    assert out_for(tmp_path / "beyond defaults", 45, properties={}) == 1
