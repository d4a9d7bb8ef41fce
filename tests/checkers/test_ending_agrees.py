"""The settle record: in-sync replicas that it saw differ are told in its own form."""

import json
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.cross_checks.ending import ending_disagreements
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.run_directory import RunDirectory
from tests.golden.stored import unpacked


@pytest.mark.parametrize(
    "changed",
    [{"batches": [1, 2]}, {"batches": 5}, {"batches": [[], []]}, {"brokers": [[1]]}],
    ids=["numbers", "a number", "empty lists", "a list of lists"],
)
def test_a_difference_of_another_shape_is_told(changed: dict[str, Any], tmp_path: Path) -> None:
    run = unpacked("1.1.1", tmp_path)
    assert _of_shape(run.path) == []
    file = run.path / "outcome.json"
    outcome = json.loads(file.read_text())
    (seen,) = (each for each in outcome["settle"]["last_seen"].values() if each.get("different"))
    seen["different"] |= changed
    file.write_text(json.dumps(outcome))

    (said,) = _of_shape(run.path)
    assert said.startswith("outcome.json: t-0 has 'different' of another shape")


def _of_shape(run: Path) -> list[str]:
    evidence = RunEvidence(RunDirectory.open(run))
    return [text for text in ending_disagreements(evidence) if "another shape" in text]
