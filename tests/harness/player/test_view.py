"""Leaders in the view that schedules are drawn from: the model's controller elects them."""

from dataclasses import replace

from kchaos.faults import KillBroker, PreferredElection
from kchaos.harness.player.legal import after
from kchaos.harness.player.view import View, gone, new_view
from kchaos.harness.steps.scenario_steps import CreateTopic, Inject, Reassign, Step

CREATED = CreateTopic(topic="t", assignment=((0, 1, 2),))


def view_after(*steps: Step, without: int | None = None) -> View:
    view = new_view((0, 1, 2, 3), first_broker=3, has_epochs=True, unclean=False)
    if without is not None:
        view = gone(replace(view, running=view.running - {without}), without)
    for step in steps:
        view = after(view, step)
    return view


def leader_and_isr(view: View) -> tuple[int, set[int]]:
    (partition,) = view.partitions
    return partition.leader, set(partition.isr)


def test_a_new_partition_is_led_by_the_first_replica_that_is_registered():
    assert leader_and_isr(view_after(CREATED)) == (0, {0, 1, 2})
    assert leader_and_isr(view_after(CREATED, without=0)) == (1, {1, 2})


def test_a_preferred_replica_that_is_away_is_not_elected():
    prefer = Inject(name="prefer", fault=PreferredElection(topic="t", partition=0))
    kill = Inject(name="kill", fault=KillBroker(broker=0))
    assert leader_and_isr(view_after(CREATED, kill, prefer)) == (1, {1, 2})


def test_a_reassignment_moves_the_leader_only_if_it_does_not_stay():
    stays = Reassign(topic="t", partition=0, replicas=(3, 0))
    goes = Reassign(topic="t", partition=0, replicas=(3, 1))
    assert leader_and_isr(view_after(CREATED, stays)) == (0, {0, 3})
    assert leader_and_isr(view_after(CREATED, goes)) == (3, {1, 3})
    assert leader_and_isr(view_after(CREATED, goes, without=3)) == (1, {1, 3})
