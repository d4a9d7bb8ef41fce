"""A stored run of clients that never waited while a leader was killed on 3.9.1."""

from pathlib import Path

import pytest

from kchaos.checkers.availability import measure
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.observations import FreeClientsStopped
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from kchaos.checkers.segments.reader import read_segment
from tests.golden.stored import judged_as_stored, not_asked, unpacked

RUNS = Path(__file__).with_name("clients")
NAME = "3.9.1-free"
PRODUCERS = ("plain", "idempotent")


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return unpacked(NAME, tmp_path, runs=RUNS)


@pytest.mark.slow
def test_it_conforms_and_all_that_its_clients_were_promised_is_there(tmp_path: Path):
    results = judged_as_stored(NAME, tmp_path, runs=RUNS)

    assert (results.conforms, results.safe) == (True, True)


@pytest.mark.slow
def test_its_outage_is_measured_and_over(run: RunDirectory):
    availability = measure(RunEvidence(run))

    (fault,) = availability.faults
    assert (fault.fault, fault.is_back) == ("KillBroker", True)
    assert 0 < (fault.service_back_s or 0) < 10
    led, other = availability.partitions
    assert led.without_leader_s > 0
    assert other.without_leader_s == 0
    assert (led.without_acknowledged_write_s or 0) > led.without_leader_s
    assert [consumer.longest_stall_s is not None for consumer in availability.consumers] == [
        True,
        True,
    ]


@pytest.mark.slow
def test_what_clients_say_of_themselves_is_what_links_saw(run: RunDirectory):
    evidence = RunEvidence(run)

    ((_, stopped),) = lines_of(evidence.observed, FreeClientsStopped)
    acknowledged = [
        operation
        for operation in evidence.operations
        if operation.client and operation.function == "produce" and operation.outcome == "ok"
    ]
    done = sum(client["done"] for client in stopped.clients if client["kind"] in PRODUCERS)
    assert sum(len(operation.payloads) for operation in acknowledged) == done


@pytest.mark.slow
@pytest.mark.parametrize(("partition", "client"), [(0, "clients-plain-0"), (1, "idempotent-0")])
def test_a_record_that_no_disk_has_any_more_is_lost_to_the_client_that_wrote_it(
    run: RunDirectory, partition: int, client: str
):
    (run.path / MANIFEST).unlink()
    for segment in run.path.glob(f"snapshots/final/broker-*/t-{partition}/*.log"):
        content = segment.read_bytes()
        batches = read_segment(content, base_offset=0, file=segment.name).batches
        # Of the last batches one is settling's probe.
        segment.write_bytes(content[: batches[-2].position])
    RunDirectory(run.path).seal()

    results = judge(RunDirectory.open(run.path), predict=not_asked)

    assert results.safe is False
    lost = [finding for finding in results.findings if finding.kind == "committed-loss"]
    assert lost
    assert {finding.partition for finding in lost} == {partition}
    assert any(client in finding.message for finding in lost)
