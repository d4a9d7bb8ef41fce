"""Python's garbage collector while a run is judged."""

import gc
from pathlib import Path

import pytest

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.garbage import no_garbage_collection
from kchaos.checkers.judge import judge
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.record import predict_run
from tests.golden.stored import unpacked


def test_the_collector_is_off_meanwhile_and_then_as_before() -> None:
    was_enabled: list[bool] = []

    @no_garbage_collection()
    def fail() -> None:
        was_enabled.append(gc.isenabled())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    was_enabled.append(gc.isenabled())

    gc.disable()
    with no_garbage_collection():
        pass
    was_enabled.append(gc.isenabled())
    gc.enable()
    assert was_enabled == [False, True, False]


@pytest.mark.slow
def test_a_run_is_judged_without_the_collector_and_leaves_no_cycles(tmp_path: Path) -> None:
    run = unpacked("1.1.1", tmp_path)
    while_judged: list[bool] = []

    def predict(evidence: RunEvidence) -> Prediction:
        while_judged.append(gc.isenabled())
        return predict_run(evidence)

    judge(run)  # The first run of a process leaves what Python makes once.
    gc.collect()
    gc.disable()
    try:
        judge(run)
        left = gc.collect()
    finally:
        gc.enable()
    judge(run, predict=predict)

    assert left == 0
    assert while_judged == [False]
