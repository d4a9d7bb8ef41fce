"""Every rule: what happens without it, and what with it."""

from dataclasses import replace

import pytest
from model_timelines import (
    cluster,
    kill,
    replica,
    start,
    state,
    terminate,
    write,
)

from kchaos.checkers.acts import (
    CutLink,
    HealLink,
    Hold,
    HoldPoint,
    LoseTail,
    PauseBroker,
    ReleaseHold,
    ReleasePoint,
    ResumeBroker,
    StartBroker,
)
from kchaos.checkers.model import generation_for, predict
from kchaos.checkers.model.events import (
    BrokerRegistered,
    BrokerUnregistered,
    Snapshot,
    TopicConfigured,
    TopicCreated,
)
from kchaos.checkers.model.prediction import Prediction
from kchaos.checkers.model.rules.order import PROPOSED, RULES
from kchaos.clusters.releases import KNOWN_RELEASES

AFTER = Snapshot(label="after")

NEW_RULES = {
    "0.10.2.2": ["truncation to the high watermark"],
    "0.11.0.3": ["KIP-101", "KAFKA-6857", "OffsetForLeaderEpoch v0"],
    "1.0.2": ["KAFKA-3978"],
    "1.1.1": ["initial fetch offset"],
    "2.0.0": ["KIP-279", "OffsetForLeaderEpoch v1"],
    "2.0.1": ["KAFKA-7128", "KAFKA-7164", "KAFKA-7414", "KAFKA-7415"],
    "2.1.0": ["KIP-320", "OffsetForLeaderEpoch v2", "Fetch v10", "KAFKA-7152"],
    "2.1.1": ["KAFKA-7786", "recovery without epoch 0"],
    "2.2.0": ["KIP-380", "broker epochs", "broker epochs told"],
    "2.2.2": ["KAFKA-7601"],
    "2.3.1": ["KIP-461"],
    "2.4.1": ["high watermark in the log", "KAFKA-8841", "high watermark wakes fetches"],
    "2.5.1": ["KAFKA-9338", "KAFKA-9839", "KAFKA-9654"],
    "2.6.3": ["KAFKA-10432", "KAFKA-10706"],
    "2.7.2": ["diverging epoch in the Fetch response", "KAFKA-12996", "KAFKA-13141", "KIP-497"],
    "2.8.2": ["KAFKA-10554"],
    "3.0.2": [],
    "3.3.2": ["KAFKA-13091", "KIP-841", "no fetch at an election"],
    "3.6.2": ["KAFKA-14704", "KAFKA-15021", "last fetched epoch lost"],
    "3.9.1": [
        "KAFKA-15583",
        "KAFKA-18723",
        "asynchronous epoch checkpoint",
        "KAFKA-15241",
        "KAFKA-15695",
    ],
}
ENDED_RULES = {
    "0.11.0.3": ["truncation to the high watermark"],
    "2.4.1": ["KAFKA-3978"],
    "2.6.3": ["high watermark wakes fetches", "recovery without epoch 0"],
    "3.9.1": ["last fetched epoch lost"],
}


def test_each_release_adds_these_rules_to_the_one_before():
    known: set[str] = set()
    gone: set[str] = set()
    added, ended = {}, {}
    for release in KNOWN_RELEASES:
        rules = generation_for(release).rules
        added[release] = [name for name in rules if name not in known]
        ended[release] = sorted(known - set(rules) - gone)
        gone |= known - set(rules)
        known |= set(rules)
    assert added == NEW_RULES
    assert {release: names for release, names in ended.items() if names} == ENDED_RULES
    never = {rule.name for rule in RULES} - known
    assert never == {"KAFKA-7897", *(rule.name for rule in PROPOSED)}


def both(
    timeline: list, release: str, rule: str, brokers: tuple[int, ...] = (0, 1, 2)
) -> tuple[Prediction, Prediction]:
    """What the release predicts without the rule, and with it."""
    old = generation_for(release, without=[rule])
    return (
        predict(timeline, generations=dict.fromkeys(brokers, old)),
        predict(timeline, generations=dict.fromkeys(brokers, generation_for(release, also=[rule]))),
    )


def pair(release, **configuration):
    return [*cluster(release, controller=2, replicas=(0, 1), **configuration), state(0, 0, (0, 1))]


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


def shorter_leader(release):
    """The leader lost a record that its follower counts as committed; no epochs are known."""
    old = {"message_format": "0.10.2"}
    return [
        *cluster(release, controller=2, replicas=(0, 1), **old),
        state(0, 0, (0, 1)),
        write("a", 0, acks=-1),
        write("b", 0, acks=-1),
        *terminate(1),
        *terminate(0),
        LoseTail(broker=0, topic="t", partition=0, log_end_offset=1),
        *start(0, release, czxid=200, **old),
        state(0, 1, (0, 1)),
        *start(1, release, czxid=201, **old),
        AFTER,
    ]


def test_KAFKA_7414_keeps_a_broker_alive_whose_leader_is_shorter():
    timeline = shorter_leader("2.0.0")
    exits = replica(predict(timeline), 1)
    assert (exits.is_running, exits.log_end_offset) == (False, 2)
    repaired = generation_for("2.0.0", message_format="0.10.2", also=["KAFKA-7414"])
    stays = replica(predict(timeline, generations={0: repaired, 1: repaired}), 1)
    assert (stays.is_running, stays.log_end_offset) == (True, 1)


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
        replace(one, unclean_leader_election=on_brokers) if isinstance(one, StartBroker) else one
        for one in shorter_leader("1.1.1")
    ]
    created = next(i for i, one in enumerate(timeline) if isinstance(one, TopicCreated))
    timeline.insert(created, TopicConfigured(topic="t", configuration=of_topic))
    follower = replica(predict(timeline), 1)
    assert (follower.is_running, follower.log_end_offset) == ((False, 2) if exits else (True, 1))


def zombie_fetch(release, **configuration):
    """B=1 learns of epoch 1 while A=0, which leads in it, is still in epoch 0."""
    return [
        *pair(release, **configuration),
        Hold(name="h", api="LeaderAndIsr", target=0),
        state(0, 1, (0, 1)),
        write("m", 0),
        AFTER,
    ]


@pytest.mark.parametrize(
    ("protocol", "end"), [("2.0", 1), ("2.1-IV0", 1), ("2.1-IV1", 1), ("2.1-IV2", 0), ("2.1", 0)]
)
def test_fetches_are_fenced_from_protocol_2_1_IV2(protocol, end):
    prediction = predict(zombie_fetch("2.5.1", inter_broker_protocol=protocol))
    assert replica(prediction, 1).log_end_offset == end


def test_KIP_320_refuses_a_fetch_in_another_epoch():
    old, new = both(zombie_fetch("2.5.1"), "2.5.1", "KIP-320")
    assert replica(old, 1).log_end_offset == 1
    assert replica(new, 1).log_end_offset == 0


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


def test_KAFKA_15583_keeps_the_high_watermark_below_min_insync_replicas():
    timeline = [
        *pair("3.9.1", min_insync_replicas=2),
        write("both", 0, acks=-1),
        CutLink(source=0, target=1),
        state(0, 0, (0,)),
        write("alone", 0),
        AFTER,
    ]
    old, new = both(timeline, "3.9.1", "KAFKA-15583")
    assert replica(old, 0).high_watermarks[0] == 2
    assert replica(new, 0).high_watermarks[0] == 1


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


def test_KAFKA_13091_moves_the_high_watermark_with_the_controllers_answer():
    timeline = [
        *pair("3.1.2"),
        write("both", 0, acks=-1),
        CutLink(source=0, target=1),
        write("alone", 0),
        state(0, 0, (0,)),
        AFTER,
    ]
    old, new = both(timeline, "3.1.2", "KAFKA-13091")
    assert replica(old, 0).high_watermarks[0] == 1
    assert replica(new, 0).high_watermarks[0] == 2


def test_KAFKA_8841_moves_the_high_watermark_only_with_a_follower_that_moved():
    timeline = [
        *cluster("2.8.2", controller=3, replicas=(0, 1, 2)),
        state(0, 0, (0, 1, 2)),
        write("all", 0, acks=-1),
        CutLink(source=0, target=2),
        write("two", 0),
        state(0, 0, (0, 1)),
        Snapshot(label="level"),
        write("more", 0),
        AFTER,
    ]
    old, new = both(timeline, "2.8.2", "KAFKA-8841", brokers=(0, 1, 2, 3))
    assert [replica(each, 0, "level").high_watermarks[0] for each in (old, new)] == [2, 1]
    assert [replica(each, 0).high_watermarks[0] for each in (old, new)] == [3, 3]


def test_KAFKA_6857_answers_no_epoch_as_undefined():
    timeline = [
        *pair("1.1.1", message_format="0.10.2"),
        write("both", 0, acks=-1),
        CutLink(source=0, target=1),
        write("a", 0),
        state(1, 1, (0, 1)),
        write("b", 1),
        HealLink(source=0, target=1),
        AFTER,
    ]
    formats = {"message_format": "0.10.2"}
    without = generation_for("1.1.1", without=["KAFKA-6857"], **formats)
    old = predict(timeline, generations={0: without, 1: without})
    new = predict(timeline)
    (asked,) = [one for one in old.rounds if one.follower == 0]
    assert (asked.requested_epoch, asked.end_offset) == (-1, 2)
    assert replica(old, 0).batches != replica(old, 1).batches
    assert replica(new, 0).batches == replica(new, 1).batches


def test_KAFKA_13141_does_not_count_a_fetch_that_diverges():
    timeline = [
        *pair("2.8.1"),
        write("both", 0, acks=-1),
        CutLink(source=0, target=1, name="cut"),
        write("a", 0),
        write("a2", 0),
        state(1, 1, (0, 1)),
        write("b", 1),
        Hold(name="h", api="Fetch", target=1, direction="response"),
        HealLink(source=0, target=1, name="cut"),
        AFTER,
    ]
    old, new = both(timeline, "2.8.1", "KAFKA-13141")
    assert replica(old, 1).high_watermarks[0] == 2
    assert replica(new, 1).high_watermarks[0] == 1


def test_KIP_841_lets_only_brokers_join_that_live_for_the_leader():
    timeline = [
        *pair("3.3.2"),
        write("both", 0, acks=-1),
        Hold(name="news", api="UpdateMetadata", target=0),
        BrokerUnregistered(broker=1),
        state(0, 1, (0,)),
    ]
    gone = [*timeline, ReleaseHold(name="news")]
    joins = state(0, 1, (0, 1))
    old, new = both([*gone, joins], "3.3.2", "KIP-841")
    assert [one.reason for one in old.disallowed] == []
    (refused,) = new.disallowed
    assert "does not know that it lives" in refused.reason


def test_KAFKA_9654_lets_a_follower_try_again_that_was_fenced_for_its_older_epoch():
    timeline = [
        *pair("2.8.2"),
        write("first", 0, acks=-1),
        Hold(name="h", api="Fetch", source=1, fetch_offset_at_least=2),
        write("m", 0),
        state(0, 1, (0, 1)),
        ReleaseHold(name="h"),
        write("n", 0),
        AFTER,
    ]
    old, new = both(timeline, "2.8.2", "KAFKA-9654")
    assert (replica(old, 1).fetcher, replica(old, 1).log_end_offset) == ("failed", 2)
    assert (replica(new, 1).fetcher, replica(new, 1).log_end_offset) == ("fetching", 3)


def test_KAFKA_7786_asks_again_when_the_answer_was_for_an_older_epoch():
    timeline = [
        *pair("2.1.1"),
        write("m", 0, acks=-1),
        Hold(name="h", api="OffsetForLeaderEpoch", source=1, direction="response"),
        state(0, 1, (0, 1)),
        state(0, 2, (0, 1)),
        ReleaseHold(name="h"),
        AFTER,
    ]
    old, new = both(timeline, "2.1.1", "KAFKA-7786")
    asked = [[each.requested_epoch for each in each_of.rounds] for each_of in (old, new)]
    assert asked == [[0], [0, 0]]
    assert replica(new, 1).fetcher == "fetching"


def test_without_KAFKA_7786_a_follower_is_stuck_when_its_question_is_fenced_too_late():
    timeline = [
        *pair("2.1.1"),
        write("m", 0, acks=-1),
        Hold(name="h", api="OffsetForLeaderEpoch", source=1),
        state(0, 1, (0, 1)),
        state(0, 2, (0, 1)),
        ReleaseHold(name="h"),
        write("n", 0),
        AFTER,
    ]
    old, new = both(timeline, "2.1.1", "KAFKA-7786")
    assert (replica(old, 1).fetcher, replica(old, 1).log_end_offset) == ("none", 1)
    assert (replica(new, 1).fetcher, replica(new, 1).log_end_offset) == ("fetching", 2)


def test_only_from_2_1_1_to_2_6_0_recovery_forgets_epoch_0():
    """The cache file was lost in no way that Kafka knows; an old binary in between deletes it."""

    def upgraded(release):
        return [
            *pair(release),
            write("m", 0, acks=-1),
            *kill(1, high_watermark=1),
            *start(1, "0.10.2.2", czxid=201),
            *kill(1, high_watermark=1),
            *start(1, release, czxid=301),
            CutLink(source=0, target=1),
            AFTER,
        ]

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
    [
        (PauseBroker(broker=2), ResumeBroker(broker=2)),
        (HELD, ReleasePoint(name="c")),
    ],
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
    protocol = {"inter_broker_protocol": "1.1"}
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


def test_from_2_4_a_truncation_takes_the_high_watermark_down_with_the_log():
    def elected_after_truncation(release):
        return [
            *cluster(release, controller=2, replicas=(0, 1), unclean_leader_election=True),
            state(0, 0, (0, 1)),
            write("a", 0, acks=-1),
            *kill(1, high_watermark=1),
            state(0, 1, (0,)),
            write("b", 0, count=2, acks=-1),
            *terminate(0),
            state(-1, 2, (0,)),
            *start(1, release, czxid=201, unclean_leader_election=True),
            state(1, 3, (1,)),
            write("c", 1),
            Hold(name="h", api="Fetch", source=0),
            *start(0, release, czxid=200, unclean_leader_election=True),
            CutLink(source=0, target=1),
            state(0, 4, (0, 1)),
            AFTER,
        ]

    old = replica(predict(elected_after_truncation("2.3.1")), 0)
    new = replica(predict(elected_after_truncation("2.4.1")), 0)
    assert (old.log_end_offset, old.high_watermarks[0]) == (1, 0)
    assert (new.log_end_offset, new.high_watermarks[0]) == (1, 1)


def test_KAFKA_10706_ends_a_truncation_that_asks_without_end():
    timeline = [
        *cluster("2.5.1", controller=3, replicas=(0, 1, 2)),
        state(1, 0, (1, 0, 2)),
        write("a", 1, acks=-1),
        state(1, 1, (1, 0, 2)),
        CutLink(source=0, target=1),
        CutLink(source=0, target=2),
        write("b", 1),
        state(0, 2, (0, 2)),
        BrokerUnregistered(broker=0),
        state(2, 3, (2,)),
        HealLink(source=0, target=2),
        BrokerRegistered(broker=0, czxid=200),
        AFTER,
    ]
    old, new = both(timeline, "2.5.1", "KAFKA-10706", brokers=(0, 1, 2, 3))
    stuck, healed = replica(old, 0), replica(new, 0)
    assert (stuck.fetcher, stuck.epoch_entries, stuck.log_end_offset) == (
        "truncating", ((0, 0), (2, 1)), 1
    )  # fmt: skip
    assert [
        (each.requested_epoch, each.answered_epoch, each.end_offset)
        for each in old.rounds
        if each.follower == 0
    ] == [(0, 0, 1), (2, 1, 2)]
    assert (healed.fetcher, healed.log_end_offset) == ("fetching", 2)
    assert healed.batches == replica(new, 2).batches


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
