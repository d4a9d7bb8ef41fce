"""A leader's log when its leader epoch began, by each kind of evidence."""

from dataclasses import fields, replace
from typing import Any

import pytest

import tests.support.model as m
from kchaos.checkers.evidence.led_from import (
    LedEpoch,
    ends_answered,
    ends_cached,
    reached_by_fetching,
    starts_said,
)
from kchaos.checkers.evidence.links import LinkMessage
from tests.support.model_timelines import state

T0 = m.TopicPartition("t", 0)


@pytest.mark.parametrize(
    "line",
    [
        "[x] INFO [Partition t-0 broker=1] t-0 starts at Leader Epoch 2 from offset 10. Previous "
        "Leader Epoch was: 1 (kafka.cluster.Partition)",
        "[x] INFO [Partition t-0 broker=1] t-0 starts at leader epoch 2 from offset 10 with high "
        "watermark 5. Previous leader epoch was 1. (kafka.cluster.Partition)",
        "[x] INFO [Broker id=1] Leader t-0 starts at leader epoch 2 from offset 10 with high "
        "watermark 5 ISR [1] (state.change.logger)",
        "[x] INFO [Broker id=1] Leader t-0 with topic id Some(oK-_1) starts at leader epoch 2 from "
        "offset 10 with partition epoch 4, high watermark 5 (state.change.logger)",
    ],
    ids=["1.0", "2.4", "2.8", "3.3"],
)
def test_a_broker_says_at_which_offset_it_starts_to_lead(line: str):
    later = line.replace("offset 10", "offset 12")

    assert starts_said({1: [line, later], 0: []}) == {LedEpoch(T0, 1, 2): 10}


def test_a_follower_says_nothing_of_its_leader():
    line = "[x] INFO [Broker id=1] Follower t-0 starts at leader epoch 2 from offset 10 with high"

    assert starts_said({1: [line]}) == {}


def test_a_cache_that_has_the_epoch_has_the_ends_of_those_before():
    without, cache = ((0, 0), (1, 4)), ((0, 0), (1, 4), (3, 9), (5, 12))

    assert ends_cached([None, without, cache], 3) == (9, {0: 4, 1: 9})
    assert ends_cached([without], 3) == (None, {})


def messages(asked: Any, answered: Any, fate: m.Fate = m.Fate.ARRIVES) -> list[LinkMessage]:
    """A request of broker 0 to broker 1, and its answer."""
    api = "Fetch" if isinstance(asked, m.FetchAsked) else "OffsetForLeaderEpoch"
    both: dict[str, Any] = {"number": (1, 1), "api": api, "follower": 0, "leader": 1}
    request = m.RequestSeen(fate=m.Fate.ARRIVES, partitions={T0: asked}, **both)
    response = m.ResponseSeen(fate=fate, partitions={T0: answered}, **both)
    shape: dict[str, Any] = dict.fromkeys(field.name for field in fields(LinkMessage))
    return [LinkMessage(**{**shape, "said": said}) for said in (request, response)]


def fetched(**fields: Any) -> m.FetchAnswered:
    empty = {"error_code": 0, "high_watermark": 3, "base_offset": None, "last_offset": None}
    return m.FetchAnswered(**{**empty, **fields})


BATCHES = {"base_offset": 4, "last_offset": 8, "first_leader_epoch": 0, "last_leader_epoch": 1}
FETCH = m.FetchAsked(fetch_offset=4, leader_epoch=2, last_fetched_epoch=0)


@pytest.mark.parametrize(
    ("asked", "answered", "fate", "ends"),
    [
        (FETCH, fetched(**BATCHES), m.Fate.ARRIVES, {1: 9}),
        (FETCH, fetched(diverging=(0, 4)), m.Fate.ARRIVES, {0: 4}),
        (
            m.EpochAsked(requested_epoch=1, leader_epoch=2),
            m.EpochAnswered(error_code=0, leader_epoch=1, end_offset=9),
            m.Fate.ABANDONED,
            {1: 9},
        ),
        (FETCH, fetched(**{**BATCHES, "last_leader_epoch": 2}), m.Fate.ARRIVES, None),
        (FETCH, fetched(**{**BATCHES, "error_code": 74}), m.Fate.ARRIVES, None),
        (FETCH, fetched(**BATCHES), m.Fate.FORGED, None),
    ],
    ids=["records", "diverging epoch", "end of an epoch", "its own records", "error", "forged"],
)
def test_a_leaders_answers_show_how_far_it_has_records_of_earlier_epochs(
    asked: Any, answered: Any, fate: m.Fate, ends: dict[int, int] | None
):
    seen = ends_answered(messages(asked, answered, fate))

    assert seen == ({} if ends is None else {LedEpoch(T0, 1, 2): ends})


def told(leader: int, leader_epoch: int) -> LinkMessage:
    """Broker 0 hears who leads."""
    decided = state(leader, leader_epoch, (leader,))
    said = m.ControlSent(
        number=(1, 1),
        api="LeaderAndIsr",
        controller=2,
        controller_epoch=1,
        broker=0,
        states=(decided,),
    )
    return replace(messages(FETCH, fetched())[0], said=said)


def test_who_is_told_to_lead_had_all_below_its_last_fetch_unless_it_may_have_truncated():
    fetch, _ = messages(replace(FETCH, leader_epoch=None), fetched())

    assert reached_by_fetching([fetch, told(0, 3)]) == {LedEpoch(T0, 0, 3): 4}
    assert reached_by_fetching([fetch, told(1, 3), told(0, 4)]) == {}
    assert reached_by_fetching([told(0, 3), fetch]) == {}
