"""What a leader counts while it waits for the controller's word about the ISR (AlterPartition)."""

import pytest

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model import generation_for
from kchaos.checkers.model.broker.leader import become_leader, give_up_isr, update_view
from kchaos.checkers.model.follow.internal_steps import silent_steps
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import IsrAnswered, IsrAsked, IsrWanted, Record
from kchaos.checkers.model.follow.observed_steps import Excluded, take
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.state.state import EMPTY
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.replica import Replica
from tests.support.model_timelines import start, state, write

T = TopicPartition("t", 0)
NOTHING_TO_COME = Lookahead(Record(seen=(), decided=()))


def led_by_0(release: str, *, epoch: int, isr: tuple[int, ...]) -> World:
    """Broker 0 leads t-0 in that epoch, and has one record; broker 1 follows it."""
    world = World(EMPTY)
    for broker in (0, 1):
        for event in start(broker, release):
            happen(world, event, {})
    world.put(("assignment", T), (0, 1))
    world.put_replica(0, T, Replica())
    leads(world, epoch=epoch, isr=isr)
    return world


def leads(world: World, *, epoch: int, isr: tuple[int, ...]) -> None:
    become_leader(world, 0, T, state(0, epoch, isr))


def asked(world: World, *, leader_epoch: int, isr: tuple[int, ...]) -> None:
    wanted = IsrAsked(leader=0, isrs={T: IsrWanted(leader_epoch=leader_epoch, isr=isr)})
    take(world, wanted, NOTHING_TO_COME, generations={}, decided=0)


def maximal_isr(world: World) -> tuple[int, ...]:
    return world.known_replica(0, T).maximal_isr


def test_a_leader_counts_who_it_asks_into_the_isr_in_its_present_epoch() -> None:
    world = led_by_0("2.8.2", epoch=3, isr=(0,))
    asked(world, leader_epoch=3, isr=(0, 1))
    assert maximal_isr(world) == (0, 1)


def test_a_request_of_an_earlier_leader_epoch_that_is_sent_late_counts_no_more() -> None:
    world = led_by_0("2.8.2", epoch=4, isr=(0,))
    asked(world, leader_epoch=3, isr=(0, 1))
    assert maximal_isr(world) == (0,)


def test_a_leader_asks_in_an_epoch_only_once_it_has_heard_of_it() -> None:
    world = led_by_0("2.8.2", epoch=3, isr=(0,))
    with pytest.raises(Excluded, match="has not heard of leader epoch 4 yet"):
        asked(world, leader_epoch=4, isr=(0, 1))


def test_a_refused_isr_counts_until_the_leader_handles_the_refusal() -> None:
    world = led_by_0("3.6.2", epoch=1, isr=(0,))
    asked(world, leader_epoch=1, isr=(0, 1))
    refusal = IsrAnswered(leader=0, isrs={}, refused=frozenset({T}))
    take(world, refusal, NOTHING_TO_COME, generations={}, decided=0)
    assert maximal_isr(world) == (0, 1)
    after = [maximal_isr(one) for one in silent_steps(world.state(EMPTY), NOTHING_TO_COME, 0, 0)]
    assert (0,) in after


def test_after_a_refusal_the_high_watermark_waits_no_more_for_who_may_not_join() -> None:
    world = led_by_0("3.6.2", epoch=1, isr=(0,))
    asked(world, leader_epoch=1, isr=(0, 1))
    happen(world, write("m", 0), {})
    assert world.known_replica(0, T).high_watermark == 0
    give_up_isr(world, 0, T)
    happen(world, write("n", 0), {})
    assert world.known_replica(0, T).high_watermark == 2


@pytest.mark.parametrize(("release", "counts"), [("3.2.3", True), ("3.3.0", False)])
def test_an_election_is_a_fetch_of_who_is_outside_the_isr_up_to_3_2(
    release: str, *, counts: bool
) -> None:
    world = led_by_0(release, epoch=1, isr=(0,))
    happen(world, write("m", 0), {})
    leads(world, epoch=2, isr=(0,))
    happen(world, write("n", 0), {})
    update_view(world, 0, T, 1, 1)
    view = world.known_replica(0, T).view(1)
    assert view is not None
    assert view.is_caught_up is counts
    assert generation_for(release).counts_election_as_fetch is counts
