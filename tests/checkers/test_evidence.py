import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from kchaos.checkers.evidence.assembling import run_evidence
from kchaos.checkers.evidence.partition import (
    BATCH_COLUMNS,
    KEY_COLUMNS,
    PartitionEvidence,
    batch_rows,
    context_row,
    finding_to_json,
    partition_evidence,
)
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.json_form import from_json
from kchaos.checkers.model import predict
from kchaos.checkers.rules import apply_rules
from tests.support.kafka_6361_runs import CASES, kafka_6361
from tests.support.rule_evidence import batch, evidence, replica


def of_run(path: Path, case: str, release: str) -> list[PartitionEvidence]:
    evidence = RunEvidence(kafka_6361(path, case, release))
    return list(run_evidence(evidence, predict(tuple(timed.event for timed in evidence.events))))


def through_rows(partition: PartitionEvidence) -> PartitionEvidence:
    """The evidence after a trip through JSON and rows in any order."""
    rows = json.loads(json.dumps(list(batch_rows(partition))))
    random.Random(7).shuffle(rows)
    return partition_evidence(json.loads(json.dumps(context_row(partition))), rows)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "release"), CASES)
def test_evidence_is_the_same_after_a_trip_through_rows(
    case: str, release: str, tmp_path: Path
) -> None:
    both = of_run(tmp_path / "run", case, release)

    assert [each.snapshot for each in both] == ["before-healing", "final"]
    for each in both:
        assert through_rows(each) == each
        assert apply_rules(through_rows(each)) == apply_rules(each)


def test_evidence_without_prediction_links_and_settling_survives_rows() -> None:
    first = evidence(
        replica(0, batch(0, 0, "a"), epoch_entries=((0, 0),)),
        replica(1, findings=(Finding(kind="torn-tail", brokers=(1,), message="cut"),)),
    )

    assert through_rows(first) == first


def test_rows_have_the_documented_columns(tmp_path: Path) -> None:
    first = of_run(tmp_path / "run", "n20", "1.1.1")[1]

    columns = (*KEY_COLUMNS, "side", "broker", *BATCH_COLUMNS, "finding")
    assert {tuple(row) for row in batch_rows(first)} == {columns}
    assert tuple(context_row(first)) == (*KEY_COLUMNS, "context")
    assert {row["side"] for row in batch_rows(first)} == {
        "observed",
        "predicted",
        "observed-before",
        "predicted-before",
    }


def test_contexts_need_no_segment(tmp_path: Path) -> None:
    run = kafka_6361(tmp_path / "run", "n20", "1.1.1")
    for file in run.path.glob("snapshots/*/broker-*/t-0/*.log"):
        file.write_bytes(b"not to be read")

    read = RunEvidence(run)
    prediction = predict(tuple(timed.event for timed in read.events))

    for each in run_evidence(read, prediction, with_segments=False):
        assert {row["side"] for row in batch_rows(each)} <= {"predicted", "predicted-before"}


def test_batches_of_several_segments_keep_their_order() -> None:
    first = batch(0, 0, "a", "b")
    second = replace(batch(2, 0, "c"), file="00000000000000000002.log", position=0)
    each = evidence(replica(0, first, second))

    assert through_rows(each).replicas[0].batches == (first, second)


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
