import json
from pathlib import Path

from kchaos.checkers.evidence.assembling import run_evidence
from kchaos.checkers.evidence.partition import PartitionEvidence, finding_to_json
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.json_form import from_json
from kchaos.checkers.model import predict
from tests.support.kafka_6361_runs import kafka_6361


def of_run(path: Path, case: str, release: str) -> list[PartitionEvidence]:
    evidence = RunEvidence(kafka_6361(path, case, release))
    return list(run_evidence(evidence, predict(tuple(timed.event for timed in evidence.events))))


def test_a_finding_is_the_same_after_a_trip_through_json() -> None:
    finding = Finding(
        kind="hole", topic="t", partition=0, brokers=(1, 2), message="x", evidence={"a": [1]}
    )

    assert from_json(Finding, json.loads(json.dumps(finding_to_json(finding)))) == finding


def test_the_isr_of_an_acknowledgement_is_that_of_its_time(tmp_path: Path) -> None:
    (_, final) = of_run(tmp_path / "run", "n20", "1.1.1")

    assert {operation.operation: operation.isr_when_ended for operation in final.operations} == {
        "both": (0, 1),
        "a-only": (0, 1),
        "b-only": (0, 1),
        "a-again": (0,),
        "settle-t-0": (0, 1),
    }
