"""What a report tells of a stored run as the cause of its finding, whole and in its order.

A sentence that changed: read it, and set it in the run's cause.txt.
"""

from pathlib import Path

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.results import write_judgement
from kchaos.harness.report.cause.causes import cause_of_run
from kchaos.harness.report.loading import load
from tests.golden.stored import unpacked

TOLD = sorted(file.parent for file in Path(__file__).parent.glob("*/*/cause.txt"))

WITHOUT_DECISIVE = (*("2.0.1", "KAFKA-19522", "KAFKA-7601-mixed-default", "failed-uploads-3.6.2"),)
"""Runs of which the evidence names no fact that decided, or nothing to decide."""


@pytest.mark.slow
@pytest.mark.parametrize("folder", TOLD, ids=lambda folder: folder.name)
def test_the_cause_of_a_stored_run_is_told_as_when_it_was_read(
    folder: Path, tmp_path: Path
) -> None:
    run = unpacked(folder.name, tmp_path, runs=folder.parent)
    write_judgement(run, judge(run))

    steps = cause_of_run(load(run))

    decisive = [step for step in steps if step.is_fatal]
    assert len(decisive) == (folder.name not in WITHOUT_DECISIVE)
    told = [f"{'decisive: ' if step.is_fatal else ''}{step.text}" for step in steps]
    assert told == (folder / "cause.txt").read_text().splitlines()
