"""Topic ids at a broker: what its metadata cache knows, and which Fetch it refuses for them."""

from dataclasses import replace

import pytest

import tests.support.model as m
from kchaos.checkers.model import generation_for
from kchaos.checkers.model.broker import exchange, leader
from kchaos.checkers.model.broker.control_handling import handle
from kchaos.checkers.model.follow.matching import answers_as_seen, errors_differ, request_differs
from tests.support.model_timelines import cluster, left_alone, state
from tests.support.rule_timelines import made_again_while_away, told_again

T = m.TopicPartition("t", 0)
ASKED = m.PartitionRequest(
    leader_epoch=0, carries_leader_epoch=True, fetch_offset=0, requested_epoch=-1, topic_id="old"
)


def led(release: str) -> m.World:
    """Broker 0 leads and knows the topic's id, broker 1 follows and fetches by it."""
    events = [
        *cluster(release, controller=2, replicas=(0, 1)),
        m.TopicIdentified(topic="t", topic_id="old"),
        state(0, 0, (0, 1)),
    ]
    world = m.World(left_alone(events))
    broker = world.broker(0)
    assert broker is not None
    known = replace(broker, told=frozenset({T}), topic_ids=frozenset({("t", "old")}))
    world.put_broker(0, known)
    return world


def tell(world: m.World, topic_id: str) -> None:
    """Let broker 0 hear of the topic's id by an UpdateMetadata."""
    ids = frozenset({("t", topic_id)}) if topic_id else frozenset()
    told = m.UpdateMetadata(live=frozenset({0, 1, 2}), told=frozenset({T}), topic_ids=ids)
    handle(world, 0, m.Received(number=(1, 1), controller_epoch=1, request=told))


def errors_of(world: m.World, *, in_session: bool) -> list[str]:
    """What broker 0 answers to a Fetch of broker 1, partition by partition."""
    world.put(("exchanges", 1, 0), None)
    thread = world.thread(1, 0)
    assert thread is not None
    world.put_thread(1, 0, replace(thread, session=frozenset({T}) if in_session else None))
    asked = exchange.question(world, 1, 0, exchange.FETCH)
    assert asked is not None
    sent = exchange.send(world, 1, 0, asked)
    return [answer.error for _, answer in exchange.look(world, 1, 0, sent).answers]


def test_a_leader_refuses_a_full_fetch_by_an_id_that_it_was_told_no_more():
    world = led("3.9.1")
    assert errors_of(world, in_session=False) == [""]
    tell(world, "new")
    assert errors_of(world, in_session=False) == ["UNKNOWN_TOPIC_OR_PARTITION"]
    # A session knows the name from before; a leader may have forgotten that all the same.
    assert errors_of(world, in_session=True) == [""]
    (asked,) = world.exchanges(1, 0)
    assert exchange.unnamed(world, 0, asked, in_session=True) == {T}


def test_a_late_request_without_ids_makes_a_broker_forget_them():
    world = led("3.9.1")
    tell(world, "")
    assert errors_of(world, in_session=False) == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_follower_that_names_topics_is_not_asked_for_ids():
    world = led("3.0.2")
    tell(world, "new")
    assert errors_of(world, in_session=False) == [""]


def test_the_refusal_of_an_unknown_id_is_seen_as_that():
    world = led("3.9.1")
    tell(world, "new")
    errors_of(world, in_session=False)
    (answered,) = world.exchanges(1, 0)
    after, _ = exchange.count(world, 1, 0, answered)
    said = m.FetchAnswered(error_code=100, high_watermark=-1, base_offset=None, last_offset=None)
    seen = m.ResponseSeen(
        number=(1, 1), fate=m.Fate.ARRIVES, api="Fetch", follower=1, leader=0, partitions={T: said}
    )
    assert answers_as_seen(after, seen)[1] == ""


@pytest.mark.parametrize(("topic_id", "error"), [("new", "INCONSISTENT_TOPIC_ID"), ("old", "")])
def test_a_leader_compares_the_id_of_a_fetch_with_that_of_its_log_first(topic_id: str, error: str):
    world = led("3.9.1")
    broker = world.broker(0)
    assert broker is not None
    log = replace(world.known_replica(0, T), topic_id="old")
    # The epoch is one that the leader does not know either.
    asked = replace(ASKED, topic_id=topic_id, leader_epoch=0 if topic_id == "old" else 7)
    assert leader.refusal(broker, log, asked) == error


def refused(release: str, *, hosted: bool) -> tuple[str, bool]:
    """How a broker with the old folder answers a LeaderAndIsr, and whether it obeyed."""
    world = m.World(left_alone(made_again_while_away(release)))
    replica = m.Replica(topic_id="old", is_hosted=hosted, leader_epoch=0 if hosted else -1)
    world.put_replica(1, T, replica)
    told = m.LeaderAndIsr(states=(state(0, 5, (0,)),), topic_id="new")
    answered = handle(world, 1, m.Received(number=(9, 9), controller_epoch=1, request=told))
    assert answered is not None
    return dict(answered)[T], world.known_replica(1, T).leader_epoch == 5


@pytest.mark.parametrize(
    ("release", "hosted", "expected"),
    [
        ("2.7.2", True, ("", True)),
        ("2.8.2", False, ("", True)),
        ("2.8.2", True, ("INCONSISTENT_TOPIC_ID", False)),
        ("3.0.2", False, ("INCONSISTENT_TOPIC_ID", False)),
        ("3.9.1", False, ("INCONSISTENT_TOPIC_ID", False)),
    ],
)
def test_a_broker_refuses_another_topic_of_the_same_name(
    release: str, hosted: bool, expected: tuple[str, bool]
):
    assert refused(release, hosted=hosted) == expected


def test_only_the_answer_with_that_error_fits():
    for code, differs in ((103, False), (0, True), (3, True)):
        seen = m.ControlAnswered(
            number=(1, 1), api="LeaderAndIsr", broker=1, error_code=0, errors={T: code}
        )
        assert bool(errors_differ(((T, "INCONSISTENT_TOPIC_ID"),), seen)) is differs


def test_a_fetch_by_another_id_than_the_follower_was_told_differs():
    world = led("3.9.1")
    predicted = exchange.question(world, 1, 0, exchange.FETCH)
    thread = world.thread(1, 0)
    assert predicted is not None
    assert thread is not None
    for topic_id, differs in (("old", ""), ("new", "t-0: named topic id new, possible was old")):
        asked = m.FetchAsked(
            fetch_offset=0, leader_epoch=0, last_fetched_epoch=None, topic_id=topic_id
        )
        seen = m.RequestSeen(
            number=(1, 1),
            fate=m.Fate.ARRIVES,
            api="Fetch",
            follower=1,
            leader=0,
            partitions={T: asked},
        )
        assert request_differs(thread, predicted, seen, {}) == differs


def test_an_upgrade_gives_ids_without_a_new_leader_epoch():
    """The log takes the id, and the fetcher names the topic by it from then on."""
    release = "3.9.1"
    events = [*cluster(release, controller=2, replicas=(0, 1)), state(0, 0, (0, 1))]
    world = m.World(left_alone(events))
    told = m.LeaderAndIsr(states=(state(0, 0, (0, 1)),), topic_id="given")
    answered = handle(world, 1, m.Received(number=(9, 9), controller_epoch=1, request=told))
    assert answered is not None
    assert dict(answered)[T] == "KNOWN_LEADER_EPOCH"
    assert world.known_replica(1, T).topic_id == "given"
    asked = exchange.question(world, 1, 0, exchange.FETCH)
    assert asked is not None
    assert dict(asked.asked)[T].topic_id == "given"


def role_and_id(reached: m.State, broker: int) -> tuple[m.Role, str]:
    replica = m.World(reached).known_replica(broker, T)
    return replica.role, replica.topic_id


def test_a_folder_of_a_deleted_topic_keeps_its_id_where_it_has_one():
    """2.8 takes it over with the first LeaderAndIsr, and refuses the second."""
    assert role_and_id(left_alone(told_again("2.8.2")), 1) == (m.Role.FOLLOWER, "old")
    assert role_and_id(left_alone(told_again("3.9.1")), 1) == (m.Role.NONE, "old")
    assert generation_for("2.7.2").takes_topic_id(m.Replica(), "new") == ""
