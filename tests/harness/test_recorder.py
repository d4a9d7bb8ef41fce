"""Lines that the recorder writes and evidence reads: the same dataclasses, field by field."""

from pathlib import Path

import pytest

from kchaos.checkers.evidence.actions import read_actions
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.observed import read_observed
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model import events
from kchaos.checkers.observations import AwaitedState
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.play.recorder import Recorder

DETAIL = {"function": "produce", "broker": 1, "topic": "t", "partition": 0, "acks": -1}
TAKEN = events.Snapshot(label="s")


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    return Recorder(RunDirectory.create(tmp_path / "run", run={}, scenario={}))


def test_an_operation_is_read_as_it_was_written(recorder: Recorder):
    asked = {"probe": False, "timestamp_ms": 5, "records": ["n-0"]}
    recorder.history("n", "invoke", **DETAIL, **asked)
    recorder.history("n", "ok", **DETAIL, probe=False, base_offset=3, promised=True)
    (operation,) = RunEvidence(recorder.run).client_operations
    assert (operation.outcome, operation.base_offset, operation.promised) == ("ok", 3, True)
    assert (operation.broker, operation.acks, operation.timestamp_ms) == (1, -1, 5)
    first, last = recorder.run.read_lines("history.jsonl")
    assert first == {"time": first["time"], "operation": "n", "type": "invoke", **DETAIL, **asked}
    assert "records" not in last


def test_an_action_is_read_as_it_was_written(recorder: Recorder):
    recorder.step = 2
    recorder.action(TAKEN, 7, began=1.0)
    (timed,) = read_actions(EvidenceFiles(recorder.run))
    assert (timed.event, timed.zxid, timed.step, timed.began) == (TAKEN, 7, 2, 1.0)


def test_an_observation_is_read_as_it_was_written(recorder: Recorder):
    recorder.step = 3
    recorder.observed(AwaitedState(topic="t", partition=0, state=None))
    (seen,) = read_observed(EvidenceFiles(recorder.run))
    (line,) = recorder.run.read_lines("observations.jsonl")
    assert line == seen.line()
    assert line == {
        "time": seen.time,
        "step": 3,
        "kind": "state",
        "topic": "t",
        "partition": 0,
        "state": None,
    }


def test_a_field_that_nobody_reads_is_not_written(recorder: Recorder):
    with pytest.raises(TypeError, match="colour"):
        recorder.history("n", "invoke", colour="red")
