"""Requests of a leader for an ISR, and what it counts until the answer (KIP-497)."""

from dataclasses import replace
from pathlib import Path

import pytest

import tests.support.model as m
from kchaos.checkers.model import follow
from kchaos.checkers.model.broker.leader import become_leader, update_view
from kchaos.checkers.model.controller import allowed
from kchaos.checkers.model.controller.allowed import reason_against
from kchaos.checkers.model.follow.internal_leader_steps import epochs_half_told
from kchaos.checkers.model.follow.internal_steps import internal_steps
from kchaos.checkers.model.follow.isr_requests import Asking
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.follow.observed_steps import Excluded, take
from kchaos.checkers.model.settle.apply_event import happen
from tests.golden.stored import OTHERS, recorded
from tests.support.model_timelines import start, state

T = m.TopicPartition("t", 0)
NOTHING_TO_COME = Lookahead(Record(seen=(), decided=()))


def led_by_0(release: str, *, epoch: int, isr: tuple[int, ...]) -> m.World:
    """Broker 0 leads t-0 in that epoch; brokers 1 and 2 follow it."""
    world = m.World(m.EMPTY)
    for broker in (0, 1, 2):
        for event in start(broker, release):
            happen(world, event, {})
    world.put(("assignment", T), (0, 1, 2))
    world.put_replica(0, T, m.Replica())
    leads(world, epoch=epoch, isr=isr)
    return world


def leads(world: m.World, *, epoch: int, isr: tuple[int, ...]) -> None:
    become_leader(world, 0, T, state(0, epoch, isr))


def request(leader_epoch: int, isr: tuple[int, ...]) -> m.IsrAsked:
    return m.IsrAsked(leader=0, isrs={T: m.IsrWanted(leader_epoch=leader_epoch, isr=isr)})


def asked(world: m.World, *, leader_epoch: int, isr: tuple[int, ...]) -> None:
    take(world, request(leader_epoch, isr), NOTHING_TO_COME, generations={}, decided=0)


def followed_by(*messages: m.IsrAsked | m.RequestSeen) -> Lookahead:
    seen = tuple(m.Seen(what=message, time=0.0, source="") for message in messages)
    return Lookahead(Record(seen=seen, decided=()))


def lives(world: m.World, *brokers: int) -> None:
    """Broker 0 hears who lives."""
    broker = world.broker(0)
    assert broker is not None
    world.put_broker(0, replace(broker, live=frozenset(brokers)))


def fetches(world: m.World, follower: int, offset: int, to_come: Lookahead | None = None) -> Asking:
    """The follower lives, and its fetch from there is counted."""
    lives(world, 0, 1, 2)
    asking = Asking(to_come or NOTHING_TO_COME, 0)
    update_view(world, 0, T, follower, offset, asking)
    return asking


def maximal_isr(world: m.World) -> tuple[int, ...]:
    return world.known_replica(0, T).maximal_isr


def test_a_fetch_that_repeats_the_one_before_may_have_led_to_a_request():
    world = led_by_0("3.6.2", epoch=1, isr=(0,))
    update_view(world, 0, T, 1, 0, Asking(NOTHING_TO_COME, 0))
    assert maximal_isr(world) == (0,)
    lives(world, 0, 1)
    after = internal_steps(world.state(m.EMPTY), followed_by(request(1, (0, 1))), 0, 0)
    assert [maximal_isr(each) for each in after].count((0, 1)) == 1


def test_a_leader_asks_in_an_epoch_only_once_it_has_heard_of_it():
    world = led_by_0("2.8.2", epoch=3, isr=(0,))
    with pytest.raises(Excluded, match="has not heard of leader epoch 4 yet"):
        asked(world, leader_epoch=4, isr=(0, 1))


def test_a_refused_isr_counts_until_the_leader_handles_the_refusal():
    world = led_by_0("3.6.2", epoch=1, isr=(0,))
    fetches(world, 1, 0)
    asked(world, leader_epoch=1, isr=(0, 1))
    refusal = m.IsrAnswered(leader=0, isrs={}, refused=frozenset({T}))
    take(world, refusal, NOTHING_TO_COME, generations={}, decided=0)
    assert maximal_isr(world) == (0, 1)
    after = [
        maximal_isr(step) for step in internal_steps(world.state(m.EMPTY), NOTHING_TO_COME, 0, 0)
    ]
    assert (0,) in after


def explained(run: str, runs: Path) -> bool:
    """Whether the present model explains a stored run."""
    prediction = follow(recorded(run, runs=runs))
    assert prediction.limit == ""
    return prediction.emptied_by is None


@pytest.mark.slow
@pytest.mark.parametrize("release", ["3.3.2", "3.9.1"])
def test_a_leader_that_asks_who_lives_when_the_isr_is_written_explains_no_recorded_wish(
    release: str, monkeypatch: pytest.MonkeyPatch
):
    run = f"wish-before-news-{release}"
    assert explained(run, OTHERS)

    def asked_when_written(world: m.World, new: m.PartitionState) -> str:
        later = m.World(world.get)
        later.put(("isr wanted", new.leader, T), None)
        return reason_against(later, new)

    monkeypatch.setattr(allowed, "reason_against", asked_when_written)
    assert not explained(run, OTHERS)


@pytest.mark.parametrize(
    ("told", "half_told"),
    [
        (state(1, 6, (0, 1, 2)), {5}),
        # A leader that goes on to lead leads all the while; an older epoch is not taken over.
        (state(0, 6, (0, 1, 2)), set()),
        (state(0, 5, (0, 1)), set()),
        (state(1, 4, (0, 1, 2)), set()),
    ],
)
def test_a_leader_is_half_told_only_that_it_ends(told: m.PartitionState, half_told: set[int]):
    world = led_by_0("3.6.2", epoch=5, isr=(0, 1, 2))
    request = m.Received(number=(1, 1), controller_epoch=1, request=m.LeaderAndIsr(states=(told,)))
    world.put(("control", 0), (request,))

    assert epochs_half_told(world, 0, T) == half_told
