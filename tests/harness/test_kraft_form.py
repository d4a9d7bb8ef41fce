"""Entries that were written for ZooKeeper, on releases that have none."""

import pytest

import kchaos as k
from kchaos.harness.catalogue import entry_named
from kchaos.harness.catalogue.settings import QUICK_KRAFT
from kchaos.harness.run.steps_checked import check_modes


def test_each_fault_that_names_zookeeper_is_replaced_by_its_counterpart():
    scenario = k.scenario_of(entry_named("KAFKA-6361"), "n20", "4.4.0")
    faults = [step.fault for step in scenario.steps if isinstance(step, k.Inject)]

    assert k.CutControllers(broker=1) in faults
    assert k.FenceBroker(broker=1, await_return=False) in faults
    assert scenario.cluster.is_kraft
    assert scenario.cluster.first_broker is None
    assert scenario.cluster.properties == dict(QUICK_KRAFT)
    check_modes(scenario, {"4.4.0": "4.4.0"})


def test_with_zookeeper_an_entry_is_as_it_was_written():
    scenario = k.scenario_of(entry_named("KAFKA-6361"), "n20", "3.9.1")
    assert scenario.steps == entry_named("KAFKA-6361").steps("n20")
    assert not scenario.cluster.is_kraft


def test_what_an_entry_sets_itself_stays():
    scenario = k.scenario_of(entry_named("KIP-501-slow-reads"), "held-before-the-lock", "4.1.2")
    assert scenario.cluster.properties["replica.lag.time.max.ms"] == "3000"
    assert "zookeeper.session.timeout.ms" not in scenario.cluster.properties


def test_an_entry_that_has_no_kraft_form_is_refused_before_a_cluster_starts():
    entry = entry_named("KIP-380-stale-leader-and-isr")
    scenario = k.scenario_of(entry, next(iter(entry.cases)), "4.1.2")
    with pytest.raises(k.ScenarioError, match="KRaft controllers keep this cluster's metadata"):
        check_modes(scenario, {"4.1.2": "4.1.2"})


def test_a_release_with_both_modes_plays_an_entry_with_kraft_when_asked():
    scenario = k.scenario_of(entry_named("KAFKA-6361"), "n20", "3.9.1", mode="kraft")

    assert scenario.cluster.is_kraft
    assert scenario.expectation is None
    assert k.CutControllers(broker=1) in [
        step.fault for step in scenario.steps if isinstance(step, k.Inject)
    ]


def test_a_schedule_of_a_release_with_both_modes_is_drawn_for_the_one_asked_for():
    with_kraft = k.draw(3, kafka="3.9.1", steps=10, mode="kraft")

    assert with_kraft.cluster.is_kraft
    assert with_kraft.case == "mixed-kraft"
    assert not k.draw(3, kafka="3.9.1", steps=10).cluster.is_kraft


def test_small_segments_are_set_by_the_name_that_the_release_takes():
    """From 4.1 on segment.bytes has a bound of 1 MiB (KIP-1030, LogConfig 4.1.2)."""
    entry = entry_named("KIP-405-5")

    def names(release: str) -> set[str]:
        steps = k.scenario_of(entry, next(iter(entry.cases)), release).steps
        topics = [step.configuration for step in steps if isinstance(step, k.CreateTopic)]
        changed = [step.fault for step in steps if isinstance(step, k.Inject)]
        topics += [fault.configuration for fault in changed if isinstance(fault, k.ConfigureTopic)]
        return {name for settings in topics for name, _ in settings if "segment" in name}

    assert names("3.9.1") == {"segment.bytes"}
    assert names("4.1.2") == {"internal.segment.bytes"}


def test_the_last_one_in_sync_may_be_an_eligible_leader_replica():
    """Where it stops, the ISR of a 4.1 is empty (KIP-966)."""
    entry = entry_named("KIP-405-5")

    def isrs(release: str) -> set[tuple[int, ...] | None]:
        steps = k.scenario_of(entry, next(iter(entry.cases)), release).steps
        return {step.isr for step in steps if isinstance(step, k.AwaitState) and step.leader == -1}

    assert isrs("3.9.1") == {(1,)}
    assert isrs("4.1.2") == {None}
