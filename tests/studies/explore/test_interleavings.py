"""Every interleaving of a small cluster, by the rules of a release: what breaks, what holds."""

from collections.abc import Collection

import pytest

from kchaos.checkers.model import generation_for
from kchaos.checkers.model.state.world import World
from kchaos.studies.explore import system_of
from kchaos.studies.explore.bounds import Grain, Machine
from kchaos.studies.explore.machine import initial_state, next_state
from kchaos.studies.explore.properties import PROPERTIES
from kchaos.studies.explorer import Exploration, explore

pytestmark = pytest.mark.slow


def machine(
    release: str,
    *,
    replicas: int = 2,
    records: int = 2,
    leader_epoch: int = 2,
    also: Collection[str] = (),
    grain: Grain = Grain.ANSWERS,
    skips_epochs: bool = False,
    remembers_promises: bool = False,
) -> Machine:
    return Machine(
        generations=dict.fromkeys(range(replicas), generation_for(release, also=also)),
        records=records,
        leader_epoch=leader_epoch,
        log_size=2,
        grain=grain,
        skips_epochs=skips_epochs,
        remembers_promises=remembers_promises,
    )


def explored(model: Machine, *properties: str, processes: int = 1) -> Exploration:
    return explore(system_of(model, properties), most_states=300_000, processes=processes)


@pytest.mark.parametrize(
    ("release", "steps"), [("0.10.2.2", 8), ("1.1.1", 13), ("2.0.1", 12), ("2.4.1", 15)]
)
def test_the_strong_isr_breaks_after_so_many_steps(release: str, steps: int):
    exploration = explored(machine(release), "strong-isr")
    assert exploration.violation is not None
    assert exploration.violation.invariant == "strong-isr"
    assert len(exploration.violation.trace) == steps


@pytest.mark.parametrize("release", ["2.5.1", "2.8.2", "3.9.1"])
@pytest.mark.parametrize("grain", list(Grain))
def test_the_strong_isr_holds_when_every_fetch_is_fenced(release: str, grain: Grain):
    bound = 1 if grain.splits_reads else 2
    model = machine(release, grain=grain, records=bound, leader_epoch=bound)
    exploration = explored(model, "strong-isr", "agreement")
    assert exploration.is_complete
    assert exploration.distinct > 2_000


def test_kafka_9338_closes_what_a_fetch_session_that_carries_no_epoch_breaks_on_2_4_1():
    assert explored(machine("2.4.1", also=["KAFKA-9338"]), "strong-isr").is_complete


def test_level_logs_differ_without_kafka_7415_and_with_it_they_agree():
    assert explored(machine("2.0.0", records=3), "agreement").violation is not None
    assert explored(machine("2.0.1", records=3), "agreement").is_complete


def test_a_committed_record_is_lost_on_1_1_1_and_kept_on_3_9_1():
    bounds = {"leader_epoch": 3, "remembers_promises": True}
    lost = explored(machine("1.1.1", **bounds), "kept")  # type: ignore[arg-type]
    assert lost.violation is not None
    assert "does not have what was committed at offset 0" in lost.violation.message
    kept = explored(machine("3.9.1", remembers_promises=True), "kept")
    assert kept.is_complete


def test_a_truncation_never_ends_without_kafka_10706_and_with_it_all_do():
    endless = explored(machine("2.5.1", leader_epoch=3), "truncation-ends")
    assert endless.violation is not None
    fixed = machine("2.5.1", leader_epoch=3, also=["KAFKA-10706"])
    assert explored(fixed, "truncation-ends").is_complete


def test_a_leader_that_missed_an_epoch_counts_a_follower_that_has_left_it():
    skipping = machine("3.9.1", replicas=3, records=1, skips_epochs=True)
    exploration = explored(skipping, "strong-isr")
    assert exploration.violation is not None
    assert len(exploration.violation.trace) == 12


def test_brokers_that_are_alike_may_be_exchanged():
    model = machine("3.9.1")
    alike = explore(system_of(model), most_states=100_000)
    all_of_them = explore(system_of(model, is_symmetric=False), most_states=100_000)
    assert alike.is_complete
    assert all_of_them.is_complete
    assert alike.distinct < all_of_them.distinct


def test_brokers_of_different_releases_are_not_exchanged():
    mixed = Machine(
        generations={0: generation_for("1.1.1"), 1: generation_for("2.8.2")},
        records=1,
        leader_epoch=1,
        log_size=1,
    )
    assert system_of(mixed).symmetry == ()
    assert explore(system_of(mixed), most_states=10_000).is_complete


def test_several_processes_find_as_many_states_as_one():
    model = machine("2.8.2")
    alone, together = explored(model, "strong-isr"), explored(model, "strong-isr", processes=2)
    assert (alone.distinct, alone.depth) == (together.distinct, together.depth)


def test_a_counterexample_can_be_walked_through_step_by_step():
    model = machine("0.10.2.2")
    violation = explored(model, "strong-isr").violation
    assert violation is not None
    state = initial_state(model)
    for action in violation.trace:
        assert PROPERTIES["strong-isr"](World(state)) == ""
        state = next_state(model, state, action)  # type: ignore[arg-type]
    assert PROPERTIES["strong-isr"](World(state)) == violation.message
