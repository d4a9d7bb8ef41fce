"""Requests of a leader for an ISR, and what it counts until the answer (KIP-497)."""

from dataclasses import replace
from pathlib import Path

import pytest

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model import follow, generation_for
from kchaos.checkers.model.broker.leader import become_leader, give_up_isr, update_view
from kchaos.checkers.model.controller import allowed
from kchaos.checkers.model.controller.allowed import reason_against
from kchaos.checkers.model.follow.internal_leader_steps import epochs_half_told
from kchaos.checkers.model.follow.internal_steps import internal_steps
from kchaos.checkers.model.follow.isr_requests import Asking
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import (
    Fate,
    IsrAnswered,
    IsrAsked,
    IsrWanted,
    Record,
    RequestSeen,
    Seen,
)
from kchaos.checkers.model.follow.observed_steps import Excluded, take
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.state.state import EMPTY
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.log import batches_of
from kchaos.checkers.model.values.replica import Replica, Role
from kchaos.checkers.model.values.requests import LeaderAndIsr, Received
from tests.golden.stored import OTHERS, recorded
from tests.support.model_timelines import start, state, write

T = TopicPartition("t", 0)
NOTHING_TO_COME = Lookahead(Record(seen=(), decided=()))


def led_by_0(release: str, *, epoch: int, isr: tuple[int, ...]) -> World:
    """Broker 0 leads t-0 in that epoch; brokers 1 and 2 follow it."""
    world = World(EMPTY)
    for broker in (0, 1, 2):
        for event in start(broker, release):
            happen(world, event, {})
    world.put(("assignment", T), (0, 1, 2))
    world.put_replica(0, T, Replica())
    leads(world, epoch=epoch, isr=isr)
    return world


def leads(world: World, *, epoch: int, isr: tuple[int, ...]) -> None:
    become_leader(world, 0, T, state(0, epoch, isr))


def request(leader_epoch: int, isr: tuple[int, ...]) -> IsrAsked:
    return IsrAsked(leader=0, isrs={T: IsrWanted(leader_epoch=leader_epoch, isr=isr)})


def asked(world: World, *, leader_epoch: int, isr: tuple[int, ...]) -> None:
    take(world, request(leader_epoch, isr), NOTHING_TO_COME, generations={}, decided=0)


def followed_by(*messages: IsrAsked | RequestSeen) -> Lookahead:
    seen = tuple(Seen(what=message, time=0.0, source="") for message in messages)
    return Lookahead(Record(seen=seen, decided=()))


def lives(world: World, *brokers: int) -> None:
    """Broker 0 hears who lives."""
    broker = world.broker(0)
    assert broker is not None
    world.put_broker(0, replace(broker, live=frozenset(brokers)))


def fetches(world: World, follower: int, offset: int, to_come: Lookahead | None = None) -> Asking:
    """The follower lives, and its fetch from there is counted."""
    lives(world, 0, 1, 2)
    asking = Asking(to_come or NOTHING_TO_COME, 0)
    update_view(world, 0, T, follower, offset, asking)
    return asking


def maximal_isr(world: World) -> tuple[int, ...]:
    return world.known_replica(0, T).maximal_isr


def test_a_leader_counts_who_it_asks_into_the_isr_in_its_present_epoch() -> None:
    world = led_by_0("2.8.2", epoch=3, isr=(0,))
    fetches(world, 1, 0)
    assert maximal_isr(world) == (0, 1)
    asked(world, leader_epoch=3, isr=(0, 1))
    assert maximal_isr(world) == (0, 1)


def test_up_to_2_6_a_leader_asks_nobody() -> None:
    world = led_by_0("2.6.3", epoch=3, isr=(0,))
    fetches(world, 1, 0)
    assert maximal_isr(world) == (0,)


def test_a_leader_asks_for_nobody_whose_fetch_did_not_come_far_enough() -> None:
    world = led_by_0("2.8.2", epoch=3, isr=(0,))
    happen(world, write("m", 0), {})
    leads(world, epoch=4, isr=(0,))
    fetches(world, 1, 0)
    assert maximal_isr(world) == (0,)
    with pytest.raises(Excluded, match=r"asked for the ISR \[0, 1\] of t-0, although it has \[0\]"):
        asked(world, leader_epoch=4, isr=(0, 1))


def test_a_leader_asks_before_its_high_watermark_moves() -> None:
    high_watermarks = []
    for asking in (None, Asking(NOTHING_TO_COME, 0)):
        world = led_by_0("2.8.2", epoch=3, isr=(0,))
        replica = world.known_replica(0, T)
        two = batches_of(("m", "n"), base_offset=0, leader_epoch=3, magic=2, codec="none")
        log = replica.log.append(two, ())
        world.put_replica(0, T, replace(replica, log=log))
        update_view(world, 0, T, 1, 1, asking)
        high_watermarks.append(world.known_replica(0, T).high_watermark)
    assert high_watermarks == [2, 1]


@pytest.mark.parametrize(("release", "asks"), [("3.2.3", True), ("3.3.0", False)])
def test_from_3_3_on_a_leader_asks_only_for_who_lives_as_it_knows(
    release: str, *, asks: bool
) -> None:
    world = led_by_0(release, epoch=1, isr=(0,))
    update_view(world, 0, T, 1, 0, Asking(NOTHING_TO_COME, 0))
    assert maximal_isr(world) == ((0, 1) if asks else (0,))


def test_a_decision_needs_no_follower_that_still_lives_when_it_was_alive_for_the_request() -> None:
    world = led_by_0("3.3.0", epoch=1, isr=(0,))
    world.put(("state", T), state(0, 1, (0,)))
    fetches(world, 1, 0)
    lives(world, 0)
    assert reason_against(world, state(0, 1, (0, 1))) == ""
    give_up_isr(world, 0, T)
    assert "does not know that it lives" in reason_against(world, state(0, 1, (0, 1)))


def test_one_request_is_under_way_at_a_time() -> None:
    world = led_by_0("2.8.2", epoch=1, isr=(0,))
    fetches(world, 1, 0)
    fetches(world, 2, 0)
    assert maximal_isr(world) == (0, 1)
    with pytest.raises(Excluded, match=r"and waits for \[0, 1\]"):
        asked(world, leader_epoch=1, isr=(0, 2))


def test_the_request_that_is_seen_next_says_for_whom_a_leader_asked() -> None:
    world = led_by_0("2.8.2", epoch=1, isr=(0,))
    to_come = followed_by(request(1, (0, 2)))
    fetches(world, 1, 0, to_come)
    assert maximal_isr(world) == (0,)
    fetches(world, 2, 0, to_come)
    assert maximal_isr(world) == (0, 2)


def test_where_no_request_is_seen_another_member_may_be_on_its_way_out() -> None:
    alone = fetches(led_by_0("2.8.2", epoch=1, isr=(0,)), 1, 0)
    of_two = fetches(led_by_0("2.8.2", epoch=1, isr=(0, 2)), 1, 0)
    assert (alone.is_open, of_two.is_open) == (False, True)


def test_a_request_of_an_earlier_epoch_without_an_answer_may_keep_the_next() -> None:
    world = led_by_0("2.8.2", epoch=1, isr=(0,))
    fetches(world, 1, 0)
    leads(world, epoch=2, isr=(0,))
    assert maximal_isr(world) == (0,)
    assert fetches(world, 1, 0, followed_by(request(2, (0, 1)))).is_open


def test_a_fetch_that_repeats_the_one_before_may_have_led_to_a_request() -> None:
    world = led_by_0("3.6.2", epoch=1, isr=(0,))
    update_view(world, 0, T, 1, 0, Asking(NOTHING_TO_COME, 0))
    assert maximal_isr(world) == (0,)
    lives(world, 0, 1)
    after = internal_steps(world.state(EMPTY), followed_by(request(1, (0, 1))), 0, 0)
    assert [maximal_isr(each) for each in after].count((0, 1)) == 1


@pytest.mark.parametrize(("last", "asks"), [(2, False), (3, True)])
def test_no_fetch_was_repeated_where_the_numbers_leave_no_room_for_it(
    last: int, *, asks: bool
) -> None:
    world = led_by_0("3.6.2", epoch=1, isr=(0,))
    update_view(world, 0, T, 1, 0, Asking(NOTHING_TO_COME, 0))
    lives(world, 0, 1)
    first, second = (
        RequestSeen(
            number=(7, number), fate=Fate.ARRIVES, api="Fetch", follower=1, leader=0, partitions={}
        )
        for number in (1, last)
    )
    after = internal_steps(world.state(EMPTY), followed_by(first, request(1, (0, 1)), second), 1, 0)
    assert ((0, 1) in [maximal_isr(each) for each in after]) is asks


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
    fetches(world, 1, 0)
    asked(world, leader_epoch=1, isr=(0, 1))
    refusal = IsrAnswered(leader=0, isrs={}, refused=frozenset({T}))
    take(world, refusal, NOTHING_TO_COME, generations={}, decided=0)
    assert maximal_isr(world) == (0, 1)
    after = [
        maximal_isr(step) for step in internal_steps(world.state(EMPTY), NOTHING_TO_COME, 0, 0)
    ]
    assert (0,) in after


@pytest.mark.parametrize(
    ("release", "gives_up"), [("2.8.2", False), ("3.1.2", True), ("3.2.0", True), ("3.2.1", False)]
)
def test_a_leader_of_3_1_gives_up_an_isr_that_the_controller_failed_to_write(
    release: str, *, gives_up: bool
) -> None:
    world = led_by_0(release, epoch=1, isr=(0,))
    fetches(world, 1, 0)
    asked(world, leader_epoch=1, isr=(0, 1))
    failure = IsrAnswered(leader=0, isrs={}, failed=frozenset({T}))
    take(world, failure, NOTHING_TO_COME, generations={}, decided=0)
    after = [
        maximal_isr(step) for step in internal_steps(world.state(EMPTY), NOTHING_TO_COME, 0, 0)
    ]
    assert ((0,) in after) is gives_up


def test_after_a_refusal_the_high_watermark_waits_no_more_for_who_may_not_join() -> None:
    world = led_by_0("3.6.2", epoch=1, isr=(0,))
    fetches(world, 1, 0)
    asked(world, leader_epoch=1, isr=(0, 1))
    happen(world, write("m", 0), {})
    assert world.known_replica(0, T).high_watermark == 0
    give_up_isr(world, 0, T)
    lives(world, 0)
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


def explained(run: str, runs: Path) -> bool:
    """Whether the present model explains a stored run."""
    prediction = follow(recorded(run, runs=runs))
    assert prediction.limit == ""
    return prediction.emptied_by is None


@pytest.mark.slow
@pytest.mark.parametrize("release", ["3.3.2", "3.9.1"])
def test_a_leader_that_asks_who_lives_when_the_isr_is_written_explains_no_recorded_wish(
    release: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = f"wish-before-news-{release}"
    assert explained(run, OTHERS)

    def asked_when_written(world: World, new: PartitionState) -> str:
        later = World(world.get)
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
def test_a_leader_is_half_told_only_that_it_ends(told: PartitionState, half_told: set[int]) -> None:
    world = led_by_0("3.6.2", epoch=5, isr=(0, 1, 2))
    request = Received(number=(1, 1), controller_epoch=1, request=LeaderAndIsr(states=(told,)))
    world.put(("control", 0), (request,))

    assert epochs_half_told(world, 0, T) == half_told


def test_a_follower_is_half_told_that_it_begins_to_lead() -> None:
    world = led_by_0("3.6.2", epoch=5, isr=(0, 1, 2))
    world.put_replica(1, T, Replica(role=Role.FOLLOWER, leader=0, leader_epoch=5))
    begins = [state(1, epoch, (0, 1, 2)) for epoch in (4, 5, 6)]
    request = LeaderAndIsr(states=tuple(begins))
    world.put(("control", 1), (Received(number=(1, 1), controller_epoch=1, request=request),))

    assert epochs_half_told(world, 1, T) == {6}
