"""Coverage of a night, and the weights that the next one takes from it."""

from pathlib import Path

import pytest

from kchaos.checkers.decision_points import POINTS
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.releases.asked import watching_rules
from kchaos.checkers.model.releases.composition import generation_for, owners_of
from kchaos.checkers.occasions import OCCASIONS
from kchaos.checkers.record import predict_run
from kchaos.checkers.run_line import RunLine
from kchaos.harness.summary.exercised import exercised_by, rules_of
from tests.golden.stored import unpacked


def line(*faults: tuple[str, float, float], case: str = "mixed") -> RunLine:
    return RunLine(entry="chaos", case=case, faults=faults)


def test_a_drawn_fault_goes_by_its_kind_and_another_one_by_its_class():
    told = exercised_by(
        [
            line(("KillBroker kill-3", 0.1, 0.2), ("KillBroker kill-9", 0.5, 0.6)),
            line(("KillBroker kill-4", 0.1, 0.2), ("CutLink the link", 0.5, 0.6)),
            line(("KillBroker down-4", 0.1, 0.2), case="wide-walks"),
        ]
    )
    assert told.faults == {"kill": (2, 3), "CutLink": (1, 1), "KillBroker": (1, 1)}


def test_faults_met_that_acted_at_the_same_time():
    kill, cut, pause = "KillBroker kill-1", "CutLink cut-2", "PauseBroker pause-3"
    told = exercised_by(
        [
            line((kill, 0.1, 0.5), (cut, 0.4, 0.6), (pause, 0.7, 0.8)),
            line((kill, 0.1, 0.5), (cut, 0.2, 0.2), ("KillBroker kill-4", 0.3, 0.4)),
        ]
    )
    assert told.pairs == {("cut", "kill"): 2, ("kill", "kill"): 1}
    # Of kill-kill, kill-cut, kill-pause, cut-cut, cut-pause and pause-pause.
    assert told.unmet == 4


def test_an_occasion_that_no_run_had_is_counted_as_none():
    runs = [RunLine(occasions={"election": 2}), RunLine(occasions={"election": 1}), RunLine()]
    told = exercised_by(runs).occasions
    assert told["election"] == (2, 3)
    assert told["truncation"] == (0, 0)
    assert {*told} == {*OCCASIONS}


def test_a_decision_point_that_no_run_came_to_is_listed_too():
    point, other = "truncation: inside a batch", "Fetch: UNKNOWN_SERVER_ERROR"
    told = exercised_by([RunLine(points=(point, other)), RunLine(points=(point,)), RunLine()])
    assert (told.points[point], told.points[other]) == (2, 1)
    assert told.points["Fetch: records"] == 0
    assert {*told.points} == {*POINTS, other}


@pytest.mark.slow
@pytest.mark.parametrize("release", ["1.1.1", "2.8.2"])
def test_watching_a_run_says_which_rules_it_came_to_and_changes_nothing(
    release: str, tmp_path: Path
):
    run = unpacked(release, tmp_path)
    plain = predict_run(RunEvidence(run))
    with watching_rules():
        watched = predict_run(RunEvidence(run))
    assert watched.states == plain.states
    told = rules_of(run.path)
    assert set(told["asked"]) < set(told["in_force"])
    assert "KIP-101" in told["asked"]
    # Nobody is watched any more.
    assert type(generation_for(release)).__name__ == "Generation"


def test_each_decision_point_is_the_rules_that_changed_it_last():
    point = "error_of_broker_epoch"
    assert point not in owners_of(generation_for("2.1.1"))
    assert owners_of(generation_for("2.2.2"))[point] == "broker epochs"
