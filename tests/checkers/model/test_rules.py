"""Rules together, release by release; each alone is in `test_each_rule`."""

from dataclasses import replace
from typing import Any

import pytest

from kchaos.checkers.acts import (
    CutLink,
    HealLink,
    Hold,
    HoldPoint,
    PauseBroker,
    ReleaseHold,
    ReleasePoint,
    ResumeBroker,
    StartBroker,
)
from kchaos.checkers.model import generation_for, predict
from kchaos.checkers.model.releases.every_rule import RANGES, RULES
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.checkers.model.values.events import Event, Snapshot, TopicConfigured, TopicCreated
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.clusters.releases import KNOWN_RELEASES, release_of
from tests.support.model_timelines import cluster, kill, replica, start, state, write
from tests.support.rule_timelines import pair, shorter_leader, upgraded, zombie_leader

AFTER = Snapshot(label="after")


def test_a_release_follows_the_rules_that_its_source_has() -> None:
    """Each release speaks its own protocol, so only rules for old formats are left out."""
    modes = [(release, mode) for release in KNOWN_RELEASES for mode in release_of(release).modes]
    for release, mode in modes:
        version = parse_version(release)
        wanted = {
            rule.name
            for rule in RULES
            if RANGES[rule.name].includes(version)
            and rule.mode in (None, mode)
            and not rule.is_for_old_formats
        }
        assert {*generation_for(release, mode=mode).rules} == wanted, (release, mode)


def both(
    timeline: list[Event], release: str, rule: str, brokers: tuple[int, ...] = (0, 1, 2)
) -> tuple[Prediction, Prediction]:
    """What the release predicts without the rule, and with it."""
    old = generation_for(release, without=[rule])
    return (
        predict(timeline, generations=dict.fromkeys(brokers, old)),
        predict(timeline, generations=dict.fromkeys(brokers, generation_for(release, also=[rule]))),
    )


def test_a_0_11_binary_with_an_older_protocol_asks_nothing_and_truncates_to_its_watermark():
    def elected(**configuration):
        return [
            *pair("0.11.0.3", **configuration),
            Hold(name="h", api="Fetch", target=0, direction="response", fetch_offset_at_least=1),
            write("m", 0, acks=-1),
            *kill(0, high_watermark=1),
            state(1, 1, (1,)),
            Hold(name="i", api="OffsetForLeaderEpoch"),
            *start(0, "0.11.0.3", czxid=200, **configuration),
            *kill(1, high_watermark=1),
            AFTER,
        ]

    old, new = predict(elected(inter_broker_protocol="0.10.2")), predict(elected())
    assert old.rounds == ()
    assert replica(old, 0).fetcher == "fetching"
    assert [each.requested_epoch for each in new.rounds] == [-1]
    assert replica(new, 0).fetcher == "truncating"


@pytest.mark.parametrize(
    ("on_brokers", "of_topic", "exits"),
    [
        (False, None, True),
        (True, None, False),
        (False, "true", False),
        (False, " True ", False),
        (True, "false", True),
    ],
)
def test_the_topics_word_about_unclean_elections_counts_before_the_brokers(
    on_brokers, of_topic, exits
):
    of_topic = () if of_topic is None else (("unclean.leader.election.enable", of_topic),)
    timeline = [
        replace(each, unclean_leader_election=on_brokers) if isinstance(each, StartBroker) else each
        for each in shorter_leader("1.1.1")
    ]
    created = next(i for i, each in enumerate(timeline) if isinstance(each, TopicCreated))
    timeline.insert(created, TopicConfigured(topic="t", configuration=of_topic))
    follower = replica(predict(timeline), 1)
    assert (follower.is_running, follower.log_end_offset) == ((False, 2) if exits else (True, 1))


@pytest.mark.parametrize(
    ("protocol", "end"), [("2.0", 1), ("2.1-IV0", 1), ("2.1-IV1", 1), ("2.1-IV2", 0), ("2.1", 0)]
)
def test_fetches_are_fenced_from_protocol_2_1_IV2(protocol, end):
    prediction = predict(zombie_leader("2.5.1", inter_broker_protocol=protocol))
    assert replica(prediction, 1).log_end_offset == end


def follower_fenced(release):
    """A=0 leads epoch 1 of which its follower B=1 has not heard."""
    return [
        *pair(release),
        Hold(name="h", api="LeaderAndIsr", target=1),
        state(0, 1, (0, 1)),
        write("m", 0),
        Snapshot(label="fenced"),
        ReleaseHold(name="h"),
        AFTER,
    ]


@pytest.mark.parametrize(
    ("release", "fetcher", "end"),
    [("2.0.1", "fetching", 1), ("2.1.0", "none", 0), ("2.2.2", "none", 0), ("2.3.1", "failed", 0)],
)
def test_a_fenced_follower_waits_for_LeaderAndIsr(release, fetcher, end):
    fences = generation_for(release, also=["KAFKA-9338"])
    prediction = predict(follower_fenced(release), generations={0: fences, 1: fences})
    fenced = replica(prediction, 1, "fenced")
    assert (fenced.fetcher, fenced.log_end_offset) == (fetcher, end)
    assert replica(prediction, 1).log_end_offset == 1
    assert replica(prediction, 1).fetcher == "fetching"


@pytest.mark.parametrize("release", ["2.1.0", "2.2.2", "2.4.1"])
def test_inside_a_fetch_session_nobody_is_fenced_before_KAFKA_9338(release):
    timeline = [write("first", 0, acks=-1), *follower_fenced(release)[-6:]]
    timeline = [*pair(release), *timeline]
    assert replica(predict(timeline), 1, "fenced").log_end_offset == 2
    fences = generation_for(release, also=["KAFKA-9338"])
    fenced = predict(timeline, generations={0: fences, 1: fences})
    assert replica(fenced, 1, "fenced").log_end_offset == 1


def test_the_topics_own_min_insync_replicas_counts_before_the_brokers():
    timeline = [
        *pair("2.8.2", min_insync_replicas=2),
        TopicConfigured(topic="t", configuration=(("min.insync.replicas", "1"),)),
        CutLink(source=0, target=1),
        state(0, 0, (0,)),
        write("alone", 0, acks=-1),
    ]
    (outcome,) = predict(timeline).produces
    assert (outcome.acknowledged, outcome.base_offset) == (True, 0)


def test_only_from_2_1_1_to_2_6_0_recovery_forgets_epoch_0():
    """The cache file was lost in no way that Kafka knows; an old binary in between deletes it."""

    kept = {
        release: replica(predict(upgraded(release)), 1).epoch_entries
        for release in ("2.1.0", "2.1.1", "2.5.1", "2.6.3", "3.9.1")
    }
    assert kept == {
        "2.1.0": ((0, 0),),
        "2.1.1": (),
        "2.5.1": (),
        "2.6.3": ((0, 0),),
        "3.9.1": ((0, 0),),
    }


def missed_bounce(release, begin, end):
    return [
        *pair(release),
        write("m", 0, acks=-1),
        begin,
        *kill(1, high_watermark=1),
        *start(1, release, czxid=201),
        end,
        write("n", 0),
        AFTER,
    ]


HELD = HoldPoint(name="c", broker=2, point="controller-broker-change")


@pytest.mark.parametrize(
    ("begin", "end"),
    [(PauseBroker(broker=2), ResumeBroker(broker=2)), (HELD, ReleasePoint(name="c"))],
)
def test_KIP_380_lets_the_controller_see_a_broker_that_was_away_while_it_slept(begin, end):
    old, new = both(missed_bounce("2.2.0", begin, end), "2.2.0", "KIP-380")
    assert (replica(old, 1).leader_epoch, replica(old, 1).log_end_offset) == (-1, 1)
    assert (replica(new, 1).leader_epoch, replica(new, 1).log_end_offset) == (0, 2)


@pytest.mark.parametrize(
    "other", [replace(HELD, broker=0), replace(HELD, point="controlled-shutdown")]
)
def test_a_hold_elsewhere_does_not_keep_the_controller_from_seeing_who_left(other):
    old, _ = both(missed_bounce("2.2.0", other, ReleasePoint(name="c")), "2.2.0", "KIP-380")
    assert (replica(old, 1).leader_epoch, replica(old, 1).log_end_offset) == (0, 2)


def two_partitions(release):
    """KIP-279's first case on t-0 while u-0 has the same leader and follower."""
    first = [
        *cluster(release, controller=2, replicas=()),
        *start(0, release),
        *start(1, release),
        TopicCreated(topic="t", assignment=((1, 0),)),
        TopicCreated(topic="u", assignment=((0, 1),)),
    ]

    def other(operation):
        produce = write(operation, 0)
        return type(produce)(
            operation=operation, broker=0, topic="u", partition=0, records=("x",), acks=1
        )

    u_state = state(0, 0, (0, 1))
    u_state = type(u_state)(
        topic="u", partition=0, leader=0, leader_epoch=0, isr=(0, 1), controller_epoch=1, version=0
    )
    return [
        *first,
        u_state,
        state(0, 1, (1, 0)),
        write("a1", 0, count=11, acks=-1),
        CutLink(source=0, target=1),
        write("a2", 0, count=10),
        state(1, 2, (1, 0)),
        write("b", 1, count=5),
        state(0, 3, (0,)),
        write("a3", 0, count=10),
        HealLink(source=0, target=1),
        other("u1"),
        AFTER,
    ]


def test_KIP_461_stops_one_partition_where_the_whole_thread_died_before():
    timeline = two_partitions("2.3.1")
    protocol: dict[str, Any] = {"inter_broker_protocol": "1.1"}
    dead = generation_for("2.3.1", without=["KIP-461"], **protocol)
    failed = generation_for("2.3.1", **protocol)
    old = predict(timeline, generations=dict.fromkeys((0, 1, 2), dead))
    new = predict(timeline, generations=dict.fromkeys((0, 1, 2), failed))

    def follower(prediction):
        return {
            each.topic: (each.fetcher, each.log_end_offset)
            for each in prediction.snapshots["after"]
            if each.broker == 1
        }

    assert follower(old)["t"] == ("dead-thread", 16)
    assert follower(old)["u"] == ("dead-thread", 0)
    assert follower(new) == {"t": ("failed", 16), "u": ("fetching", 1)}


@pytest.mark.parametrize("release", ["2.7.2", "2.8.2", "3.9.1"])
def test_truncation_follows_from_the_fetch_response_from_2_8(release):
    timeline = [
        *pair(release),
        write("a", 0, acks=-1),
        CutLink(source=0, target=1),
        write("lost", 0),
        state(1, 1, (1,)),
        write("b", 1),
        HealLink(source=0, target=1),
        AFTER,
    ]
    prediction = predict(timeline)
    last = prediction.rounds[-1]
    assert (last.follower, last.requested_epoch, last.answered_epoch, last.end_offset) == (
        0, 0, 0, 1
    )  # fmt: skip
    assert last.by_fetch == (release != "2.7.2")
    assert replica(prediction, 0).batches == replica(prediction, 1).batches
