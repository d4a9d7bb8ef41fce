"""Holds, pauses, restarts and produces: what stands in replication's way, and what does not."""

from dataclasses import replace

import pytest

import tests.support.model as m
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model import generation_for, predict
from kchaos.checkers.model.settle.apply_event import happen
from kchaos.checkers.model.values.fetchers import fetcher_of, leader_of, source_of
from kchaos.clusters.releases import KNOWN_RELEASES
from tests.support.model_timelines import cluster, kill, replica, state, write
from tests.support.releases import each_release

AFTER = m.Snapshot(label="after")


def pair(release, *, leader=0, **configuration):
    return [
        *cluster(release, controller=2, replicas=(0, 1), **configuration),
        state(leader, 0, (0, 1)),
    ]


def outcome(prediction, operation):
    (produce,) = [each for each in prediction.produces if each.operation == operation]
    return produce.acknowledged, produce.base_offset, produce.error


def test_a_held_response_keeps_the_followers_high_watermark_one_fetch_behind():
    held = m.Hold(name="h", api="Fetch", target=0, direction="response", fetch_offset_at_least=1)
    prediction = predict(
        [
            *pair("1.1.1"),
            held,
            write("m", 0, acks=-1),
            m.Snapshot(label="held"),
            m.ReleaseHold(name="h"),
            AFTER,
        ]
    )
    follower = replica(prediction, 1, "held")
    assert (follower.log_end_offset, follower.high_watermarks) == (1, (0,))
    assert replica(prediction, 0, "held").high_watermarks == (1, 0)
    assert outcome(prediction, "m") == (True, 0, "")
    assert replica(prediction, 1).high_watermarks == (1, 0)


def test_a_held_request_keeps_the_leader_from_knowing():
    held = m.Hold(name="h", api="Fetch", source=1, target=0, fetch_offset_at_least=1)
    events = [*pair("1.1.1"), held, write("m", 0, acks=-1)]
    assert outcome(predict(events), "m") == (None, 0, "")
    assert outcome(predict([*events, m.ReleaseHold(name="h")]), "m") == (True, 0, "")


def test_a_hold_of_one_partition_or_pair_lets_the_others_pass():
    other = m.Hold(name="h", api="Fetch", topic="u", partition=0)
    another = m.Hold(name="i", api="Fetch", source=7)
    prediction = predict([*pair("2.8.2"), other, another, write("m", 0, acks=-1)])
    assert outcome(prediction, "m") == (True, 0, "")


def test_one_way_cuts_let_requests_pass_but_no_answers():
    prediction = predict(
        [*pair("1.1.1"), m.CutLink(source=0, target=1, one_way=True), write("m", 0), AFTER]
    )
    assert replica(prediction, 1).log_end_offset == 0
    assert replica(prediction, 0).high_watermarks[0] == 0


@pytest.mark.parametrize("release", each_release(KNOWN_RELEASES))
def test_produces_are_answered_as_their_leader_must(release):
    prediction = predict(
        [
            *pair(release, min_insync_replicas=2),
            write("fine", 0, acks=-1),
            write("to follower", 1),
            m.CutLink(source=0, target=1),
            write("waits", 0, acks=-1),
            state(0, 0, (0,)),
            write("alone", 0, acks=-1),
            write("zombie", 0),
            *kill(1),
            write("to nobody", 1),
        ]
    )
    # From KAFKA-15583 on the high watermark does not reach it, so that it goes on waiting.
    waits = m.PredictedProduce(operation="waits", acknowledged=None, base_offset=1)
    if "KAFKA-15583" not in generation_for(release).rules:
        error = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
        waits = replace(waits, acknowledged=False, error=error)
    assert prediction.produces == (
        m.PredictedProduce(operation="fine", acknowledged=True, base_offset=0),
        m.PredictedProduce(
            operation="to follower",
            acknowledged=False,
            base_offset=-1,
            error="NOT_LEADER_FOR_PARTITION",
        ),
        waits,
        m.PredictedProduce(
            operation="alone", acknowledged=False, base_offset=-1, error="NOT_ENOUGH_REPLICAS"
        ),
        m.PredictedProduce(operation="zombie", acknowledged=True, base_offset=2),
        m.PredictedProduce(
            operation="to nobody", acknowledged=False, base_offset=-1, error="BROKER_NOT_AVAILABLE"
        ),
    )


def test_a_leader_that_steps_down_refuses_what_still_waits():
    prediction = predict(
        [*pair("2.8.2"), m.CutLink(source=0, target=1), write("m", 0, acks=-1), state(1, 1, (0, 1))]
    )
    assert outcome(prediction, "m") == (False, 0, "NOT_LEADER_FOR_PARTITION")


def test_a_paused_leader_handles_produces_when_it_is_resumed():
    events = [*pair("2.8.2"), m.PauseBroker(broker=0), write("m", 0)]
    assert outcome(predict(events), "m") == (None, -1, "")
    assert outcome(predict([*events, m.ResumeBroker(broker=0)]), "m") == (True, 0, "")


def test_a_lost_tail_must_be_at_a_batch_edge_of_a_stopped_broker():
    events = [*pair("1.1.1"), write("m", 0, count=3, acks=-1)]
    lost = m.LoseTail(broker=1, topic="t", partition=0, log_end_offset=1)
    with pytest.raises(ModelError, match="event 10, LoseTail: broker 1 must be stopped"):
        predict([*events, lost])
    with pytest.raises(ModelError, match="offset 1 is inside a batch"):
        predict([*events, *kill(1), lost])
    whole = m.LoseTail(broker=1, topic="t", partition=0, log_end_offset=0)
    assert replica(predict([*events, *kill(1), whole, AFTER]), 1).batches == ()


def test_impossible_actions_name_the_event():
    running = m.StartBroker(broker=0, release="1.1.1")
    with pytest.raises(ModelError, match="event 1, StartBroker: broker 0 runs already"):
        predict([running, running])
    with pytest.raises(ModelError, match="event 0, StopBroker: broker 4 does not run"):
        predict([m.StopBroker(broker=4, clean=True)])
    twice = write("m", 0)
    with pytest.raises(ModelError, match="operation 'm' was used before"):
        predict([*pair("1.1.1"), twice, twice])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"release": "one"}, "'one' is not a Kafka release"),
        ({"release": "1.1.1", "inter_broker_protocol": "2.0-IVx"}, "not a protocol version"),
        ({"release": "1.1.1", "without": ["KIP-1"]}, "no rule is named KIP-1; known: "),
    ],
)
def test_a_generation_that_cannot_be_composed_says_why(arguments, message):
    with pytest.raises(ModelError, match=message):
        generation_for(**arguments)


def test_every_release_names_its_generation():
    assert {generation_for(release).name for release in KNOWN_RELEASES} == set(KNOWN_RELEASES)
    mixed = generation_for("2.8.2", inter_broker_protocol="2.7-IV0", message_format="0.10.2")
    assert mixed.name == "2.8.2 protocol 2.7-IV0 format 0.10.2"
    assert "KAFKA-10554" not in mixed.rules
    assert "KAFKA-10554" in generation_for("2.8.2", inter_broker_protocol="2.7-IV1").rules
    assert "KAFKA-10554" not in generation_for("2.7.2").rules


def test_an_event_of_which_no_case_says_what_it_changes_is_refused():
    with pytest.raises(AssertionError, match="unreachable"):
        happen(m.World(m.EMPTY), "a comet", {})  # type: ignore[arg-type]


# -- Fetcher threads of a follower, and which of them has a partition --


@pytest.mark.parametrize(
    ("topic", "partition", "fetchers", "fetcher"),
    [
        # java.lang.String.hashCode of "t" is 116, of "hello" 99162322.
        ("t", 0, 2, 0),
        ("t", 1, 2, 1),
        ("t", 0, 1, 0),
        ("hello", 0, 1000, abs(31 * 99162322 - (1 << 32)) % 1000),
        # That of "polygenelubricants" is Integer.MIN_VALUE, and so is 31 times as much.
        ("polygenelubricants", 0, 3, 0),
        ("polygenelubricants", 1, 3, ((1 << 31) - 1) % 3),
    ],
)
def test_a_thread_is_chosen_by_the_hash_of_the_partition(
    topic: str, partition: int, fetchers: int, fetcher: int
):
    assert fetcher_of(m.TopicPartition(topic, partition), fetchers) == fetcher


def test_a_source_has_its_leader_and_that_of_the_first_thread_is_the_leaders_id():
    assert source_of(2, 0) == 2
    assert {leader_of(source_of(2, fetcher)) for fetcher in range(3)} == {2}
    assert len({source_of(leader, fetcher) for leader in range(3) for fetcher in range(3)}) == 9
