"""Every interleaving of a small cluster whose processes, sessions and controllers come and go."""

import pytest

from kchaos.checkers.model import generation_for
from kchaos.studies.explore import system_of
from kchaos.studies.explore.actions import Kill
from kchaos.studies.explore.bounds import Faults, Grain, Machine
from kchaos.studies.explorer import Exploration, explore

pytestmark = pytest.mark.slow

PROPERTIES = ("strong-isr", "kept", "agreement")


def explored(
    release: str,
    faults: Faults,
    *properties: str,
    grain: Grain = Grain.ANSWERS,
    leader_epoch: int = 2,
    most_states: int = 100_000,
) -> Exploration:
    model = Machine(
        generations=dict.fromkeys((0, 1), generation_for(release)),
        records=1,
        leader_epoch=leader_epoch,
        log_size=1,
        grain=grain,
        faults=faults,
        remembers_promises="kept" in properties,
    )
    return explore(system_of(model, properties), most_states=most_states)


@pytest.mark.parametrize(
    ("faults", "grain"),
    [
        (Faults(kills=1), Grain.ANSWERS),
        (Faults(stops=1), Grain.ANSWERS),
        (Faults(expiries=1), Grain.ANSWERS),
        (Faults(controllers=1), Grain.ANSWERS),
        (Faults(time_outs=1), Grain.REQUESTS),
    ],
)
def test_with_two_replicas_of_3_9_1_everything_holds_whatever_ends(faults: Faults, grain: Grain):
    leader_epoch = 1 if faults.controllers else 2
    exploration = explored("3.9.1", faults, *PROPERTIES, grain=grain, leader_epoch=leader_epoch)
    assert exploration.is_complete
    assert exploration.distinct > 1_000


def test_a_kill_loses_what_was_committed_up_to_kip_101():
    lost = explored("0.10.2.2", Faults(kills=1), "kept")
    assert lost.violation is not None
    assert any(isinstance(step, Kill) for step in lost.violation.trace)
    assert explored("0.11.0.3", Faults(kills=1), "kept").is_complete


def test_without_a_kill_nothing_is_lost_in_so_many_steps():
    lost = explored("0.10.2.2", Faults(kills=1), "kept")
    assert lost.violation is not None
    without = explored("0.10.2.2", Faults(), "kept")
    assert without.violation is None or len(without.violation.trace) > len(lost.violation.trace)
