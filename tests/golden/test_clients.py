"""Stored runs of real clusters to which others' clients wrote, and what damage to them shows.

`1.1.1`, `2.8.2` and `3.9.1`: `kchaos up --judge` with kafka-python's producer and consumer,
librdkafka's idempotent producer and Kafka's own VerifiableProducer. `3.9.1-transactions`: these and
transactional producers of both. `0.10.2.2-lost`: KIP-101's first scenario, in which the record that
is lost was acknowledged to kafka-python.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.clients import CLIENTS
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.results import Results
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from kchaos.checkers.segments.reader import read_segment
from tests.golden.stored import expected_of, said_of, unpacked

pytestmark = pytest.mark.slow

RUNS = Path(__file__).with_name("clients")
HEALTHY = ("1.1.1", "2.8.2", "3.9.1")
TRANSACTIONS, LOST = "3.9.1-transactions", "0.10.2.2-lost"


@pytest.mark.parametrize("name", [*HEALTHY, TRANSACTIONS, LOST])
def test_what_is_said_of_a_run_with_others_clients_stays(name: str, tmp_path: Path) -> None:
    run = unpacked(name, tmp_path, runs=RUNS)

    assert said_of(run, judge(run)) == expected_of(name, runs=RUNS)


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_run_of_plain_and_idempotent_clients_is_safe_and_conforms(
    name: str, tmp_path: Path
) -> None:
    results = judge(unpacked(name, tmp_path, runs=RUNS))

    assert (results.conforms, results.safe) == (True, True)
    # Before 2.0 a fetch may meet a leader too early, and the follower logs that.
    assert {finding.kind for finding in results.findings} <= {"broker-error"}


def test_a_healthy_run_with_transactions_is_safe(tmp_path: Path) -> None:
    results = judge(unpacked(TRANSACTIONS, tmp_path, runs=RUNS))

    assert (results.conforms, results.safe, results.findings) == (None, True, ())
    assert "transactions and their markers" in (results.unknown or "")


def test_a_record_that_a_client_had_acknowledged_and_that_was_lost_is_named(tmp_path: Path) -> None:
    results = judge(unpacked(LOST, tmp_path, runs=RUNS))

    assert (results.conforms, results.safe) == (True, False)
    (lost,) = [finding for finding in results.findings if finding.kind == "committed-loss"]
    assert (lost.topic, lost.first_offset, lost.last_offset) == ("t", 1, 1)
    assert "acknowledged to client 'kafka-python" in lost.message


def _damaged(name: str, folder: Path, damage: Callable[[Path], None]) -> Results:
    run = unpacked(name, folder, runs=RUNS)
    (run.path / MANIFEST).unlink()
    damage(run.path)
    RunDirectory(run.path).seal()
    return judge(RunDirectory.open(run.path), predict=_not_asked)


def _not_asked(_evidence: RunEvidence) -> Prediction:
    """In place of the model, which has nothing to say about promises and searches for long."""
    raise CheckError("the model was not asked")


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize(
    ("topic", "client"), [("python", "kafka-python"), ("librdkafka", "librdkafka")]
)
def test_a_batch_that_no_disk_has_any_more_is_lost_to_its_client(
    name: str, topic: str, client: str, tmp_path: Path
) -> None:
    def lose(path: Path) -> None:
        for segment in path.glob(f"snapshots/final/broker-*/{topic}-0/*.log"):
            content = segment.read_bytes()
            batches = read_segment(content, base_offset=0, file=segment.name).batches
            # Of the last batches one is settling's probe.
            segment.write_bytes(content[: batches[-2].position])

    results = _damaged(name, tmp_path, lose)

    assert results.safe is False
    (lost, *_) = [finding for finding in results.findings if finding.kind == "committed-loss"]
    assert f"client '{client}" in lost.message


def test_what_no_line_of_clients_explains_was_written_by_somebody_else(tmp_path: Path) -> None:
    def forget(path: Path) -> None:
        lines = (path / CLIENTS).read_text().splitlines()
        kept = [line for line in lines if json.loads(line)["client_id"] != "librdkafka"]
        (path / CLIENTS).write_text("".join(f"{line}\n" for line in kept))

    results = _damaged("3.9.1", tmp_path, forget)

    assert results.safe is None
    assert [finding.topic for finding in results.findings if finding.kind == "foreign-write"] == [
        "librdkafka"
    ]
