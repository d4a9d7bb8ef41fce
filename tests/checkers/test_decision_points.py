"""Decision points of a run: each is named where its run came to it, and in no other run."""

from pathlib import Path

import pytest

from kchaos.checkers.acts import LoseTail, StartBroker, StopBroker
from kchaos.checkers.decision_points import POINTS, decision_points
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.judge import judge
from tests.golden.stored import KRAFT, unpacked
from tests.support.clean_runs import clean_run
from tests.support.run_builder import RunBuilder

_ALONE = "ISR: its last member is gone"


def reached(build: RunBuilder) -> set[str]:
    return {*decision_points(RunEvidence(build.seal()), None)}


def test_a_quiet_run_has_its_writes_alone(tmp_path: Path):
    assert reached(clean_run(tmp_path / "run")) == {"Produce: NONE"}


@pytest.mark.parametrize(
    ("leader", "epoch", "isr", "points"),
    [
        (0, 1, [0], {"ISR: without who lags"}),
        (0, 2, [0], {"election: of the same leader", "ISR: without who left"}),
        (1, 2, [1], {"election: in the ISR", "ISR: without the leader before"}),
        (1, 2, [0, 1], {"election: in the ISR"}),
        (2, 2, [2], {"election: outside of the ISR", "ISR: without the leader before"}),
        (-1, 2, [0], {"election: nobody can lead"} | {"ISR: without who left", _ALONE}),
    ],
)
def test_elections_and_changes_of_an_isr_have_their_cause(
    leader: int, epoch: int, isr: list[int], points: set[str], tmp_path: Path
):
    build = clean_run(tmp_path / "run").state(leader, epoch, isr)
    assert reached(build) == {"Produce: NONE"} | points


def test_the_preferred_replica_is_elected_while_the_leader_lives(tmp_path: Path):
    build = clean_run(tmp_path / "run").state(1, 2, [0, 1]).state(0, 3, [0, 1])
    assert "election: of the preferred replica" in reached(build)


def test_a_broker_starts_with_what_its_disk_has_left(tmp_path: Path):
    build = clean_run(tmp_path / "run").act(StopBroker(broker=0, clean=False))
    build.act(LoseTail(broker=0, topic="t", partition=0, log_end_offset=0))
    assert "start: after a kill" not in reached(build)

    build = clean_run(tmp_path / "back").act(StopBroker(broker=0, clean=False))
    build.act(LoseTail(broker=0, topic="t", partition=0, log_end_offset=0))
    build.act(StartBroker(broker=0, release="1.1.1"))
    assert {"start: after a kill", "start: with a tail lost"} <= reached(build)


def test_a_write_is_answered_with_an_error(tmp_path: Path):
    build = clean_run(tmp_path / "run")
    error = ErrorCode.NOT_LEADER_FOR_PARTITION
    build.produce("refused", 0, ["one"], acks=1, error=error.name, error_code=error)
    assert "Produce: NOT_LEADER_FOR_PARTITION" in reached(build)


def test_links_and_the_model_tell_of_answers_and_truncations(tmp_path: Path):
    points = {*judge(unpacked("1.1.1", tmp_path)).points}
    assert {"Fetch: records", "epoch end: undefined", "truncation: of one record"} <= points
    assert "truncation: inside a batch" not in points
    assert points <= {*POINTS}


@pytest.mark.slow
def test_with_kraft_brokers_are_fenced(tmp_path: Path):
    points = {*judge(unpacked("3.9.1-leader-killed", tmp_path, runs=KRAFT)).points}
    assert {"registration: fenced", "start: after a kill"} <= points
