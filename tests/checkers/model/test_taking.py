"""Items of a recorded run that only some states, or none, can be seen as."""

from dataclasses import replace
from typing import Any

import pytest

import tests.support.model as m
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.matching import files_differ
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.follow.observed_steps import Excluded, take
from kchaos.checkers.model.releases.request_versions import can_read
from kchaos.checkers.model.releases.versions import parse_version
from tests.support.model_timelines import cluster, kill, left_alone, write
from tests.support.model_timelines import state as partition_state


def question(fate: m.Fate) -> m.RequestSeen:
    asked = m.FetchAsked(fetch_offset=15, leader_epoch=None, last_fetched_epoch=None)
    return m.RequestSeen(
        number=(9, 13),
        fate=fate,
        api="Fetch",
        follower=2,
        leader=0,
        partitions={m.TopicPartition("t", 0): asked},
    )


def take_last(*questions: m.RequestSeen) -> m.World:
    """The transition of the last of these, in a state in which nobody asks anything."""
    seen = [m.Seen(what=each, time=1.0, zxid=0, source="") for each in questions]
    world = m.World(m.EMPTY)
    take(
        world,
        questions[-1],
        Lookahead(Record(seen=tuple(seen), decided=())),
        generations={},
        decided=0,
    )
    return world


def half_sent(*rest: tuple[int, int, int | None], now: tuple[int, ...]) -> list[int]:
    """The epochs of two batches of epoch 0 that broker 2 gets, as links read the second one.

    The leader's log has batches of the epochs `now` when it sends the rest.
    """
    partition = m.TopicPartition("t", 0)
    log = [predicted(at, epoch) for at, epoch in enumerate(now)]
    answer = m.FetchAnswer(high_watermark=0, batches=(predicted(0, 0), predicted(1, 0)))
    asked = m.PartitionRequest(
        leader_epoch=0, carries_leader_epoch=True, fetch_offset=0, requested_epoch=-1
    )
    world = m.World(m.EMPTY)
    world.put_replica(0, partition, m.Replica(log=m.Log().append(log)))
    sent = m.Exchange(
        api="Fetch",
        asked=((partition, asked),),
        stage=m.Stage.ANSWERED,
        answers=((partition, answer),),
        number=(9, 13),
    )
    world.put_exchanges(2, 0, (sent,))
    said = m.FetchAnswered(
        error_code=0,
        high_watermark=0,
        base_offset=0,
        last_offset=1,
        first_leader_epoch=0,
        rest=rest,
    )
    seen = m.ResponseSeen(
        number=(9, 13),
        fate=m.Fate.ARRIVES,
        api="Fetch",
        follower=2,
        leader=0,
        partitions={partition: said},
    )
    record = Record(seen=(m.Seen(what=seen, time=1.0, zxid=0, source=""),), decided=())
    take(world, seen, Lookahead(record), generations={}, decided=0)
    ((_, delivered),) = world.exchanges(2, 0)[0].answers
    assert isinstance(delivered, m.FetchAnswer)
    return [batch.leader_epoch for batch in delivered.batches]


def predicted(offset: int, epoch: int) -> m.PredictedBatch:
    return m.PredictedBatch(
        base_offset=offset, last_offset=offset, leader_epoch=epoch, magic=2, payload=f"{epoch}"
    )


def test_the_rest_of_a_large_answer_is_what_its_leader_has_when_it_sends_that():
    assert half_sent((1, 1, 0), now=(0, 0)) == [0, 0]
    # It has truncated its log and appended another leader's batches meanwhile.
    assert half_sent((1, 1, 1), now=(1, 1)) == [0, 1]
    # That was sent before.
    assert half_sent((1, 1, 0), now=(1, 1)) == [0, 0]
    # A message set of before 0.11 says no epoch.
    assert half_sent((1, 1, None), now=(1, 1)) == [0, 0]


def test_the_rest_of_a_large_answer_is_nothing_that_its_leader_never_had():
    with pytest.raises(Excluded, match="records 1 to 1 of leader epoch 1, possible was 0"):
        half_sent((1, 1, 1), now=(0, 0))
    with pytest.raises(Excluded, match="3 batches or more, possible was 2"):
        half_sent((0, 0, 0), (1, 1, 0), (2, 2, 0), now=(0, 0, 0))


@pytest.mark.parametrize("fate", [m.Fate.ARRIVES, m.Fate.ABANDONED])
def test_a_request_that_waited_while_its_leader_ended_reaches_nobody(fate: m.Fate):
    assert not take_last(question(m.Fate.WAITS), question(fate)).changes


def test_a_request_of_a_fetcher_that_there_is_not_is_not_possible():
    with pytest.raises(Excluded, match="broker 2 has no fetcher for broker 0"):
        take_last(question(m.Fate.ARRIVES))


def test_a_fetcher_may_tell_its_leader_of_its_last_partition_while_it_is_ended():
    farewell = replace(
        question(m.Fate.ARRIVES),
        partitions={},
        is_full=False,
        forgotten=frozenset({m.TopicPartition("t", 0)}),
    )

    assert not take_last(farewell).changes


PAIR = (*cluster("1.1.1", controller=2, replicas=(0, 1)), partition_state(0, 0, (0, 1)))


def arrived(version: int | None) -> bool:
    """Whether a leader of 1.1.1 has a Fetch of that version in its hands."""
    state = left_alone(PAIR)
    topic_partition = m.TopicPartition("t", 0)
    asked = m.FetchAsked(fetch_offset=0, leader_epoch=None, last_fetched_epoch=None)
    seen = m.RequestSeen(
        number=(9, 13),
        fate=m.Fate.ARRIVES,
        api="Fetch",
        follower=1,
        leader=0,
        partitions={topic_partition: asked},
        version=version,
    )
    world = m.World(state)
    record = Record(seen=(m.Seen(what=seen, time=1.0, zxid=0, source=""),), decided=())
    take(world, seen, Lookahead(record), generations={}, decided=0)
    return any(exchange.number == seen.number for exchange in world.exchanges(1, 0))


def test_a_leader_hangs_up_on_a_version_that_its_release_cannot_read():
    assert arrived(None)
    assert arrived(7)
    assert not arrived(8)


@pytest.mark.parametrize(
    ("release", "api", "version"),
    [
        ("0.10.2.2", "Fetch", 3),
        ("0.11.0.3", "OffsetForLeaderEpoch", 0),
        ("1.1.1", "Fetch", 7),
        ("2.0.1", "OffsetForLeaderEpoch", 1),
        ("2.8.2", "Fetch", 12),
        ("3.9.1", "Fetch", 17),
        ("4.1.2", "WriteTxnMarkers", 1),
        ("4.2.0", "WriteTxnMarkers", 2),
    ],
)
def test_a_release_reads_what_it_sends_itself_and_nothing_newer(
    release: str, api: str, version: int
):
    numbers = parse_version(release)
    assert can_read(numbers, api, version)
    assert not can_read(numbers, api, version + 1)


def test_0_10_2_reads_no_question_for_an_epoch():
    assert not can_read(parse_version("0.10.2.2"), "OffsetForLeaderEpoch", 0)


def on_the_way(*acted: m.Action) -> tuple[str, ...]:
    """Produces that brokers may still read, after two were sent and these acts."""
    state = left_alone(PAIR)
    world = m.World(state)
    sent = [
        m.Produce(
            operation=f"to-{broker}", broker=broker, topic="t", partition=0, records=("a",), acks=1
        )
        for broker in (0, 1)
    ]
    for what in (*sent, *acted):
        record = Record(seen=(m.Seen(what=what, time=1.0, zxid=0, source=""),), decided=())
        take(world, what, Lookahead(record), generations={}, decided=0)
    return tuple(produce.operation for produce in world.get(("sent",)) or ())


def test_what_a_process_had_not_read_when_it_ended_is_read_by_nobody():
    stop = m.StopBroker(broker=0, clean=True)

    assert on_the_way() == ("to-0", "to-1")
    assert on_the_way(stop) == ("to-1",)
    assert on_the_way(stop, m.StartBroker(broker=0, release="1.1.1")) == ("to-1",)


def refuses_what_it_reached(outcome: str, error: str, *later: m.Event) -> bool:
    """Whether a leader may say so of what it appended, once its high watermark has reached that."""
    spec = cluster("3.9.1", controller=2, replicas=(0, 1), min_insync_replicas=2)
    sent = write("a", 0, acks=-1)
    state = left_alone((*spec, partition_state(0, 0, (0, 1)), sent, *later))
    answered = m.ClientAnswered(operation="a", outcome=outcome, base_offset=-1, error=error)
    seen = [m.Seen(what=each, time=1.0, zxid=0, source="") for each in (sent, answered)]
    world = m.World(state)
    try:
        take(
            world,
            answered,
            Lookahead(Record(seen=tuple(seen), decided=())),
            generations={},
            decided=0,
        )
    except Excluded:
        return False
    *_, predicted = (note for note in world.notes if isinstance(note, m.PredictedProduce))
    return predicted.error == error


def test_an_isr_may_become_too_small_between_the_high_watermark_and_the_answer():
    too_few = "info", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    assert not refuses_what_it_reached(*too_few)
    assert refuses_what_it_reached(*too_few, *kill(1), partition_state(0, 1, (0,)))


def test_a_leader_may_be_deposed_between_the_high_watermark_and_the_answer():
    deposed = "fail", "NOT_LEADER_FOR_PARTITION"
    assert not refuses_what_it_reached(*deposed)
    assert not refuses_what_it_reached(*deposed, partition_state(0, 1, (0, 1)))
    assert refuses_what_it_reached(*deposed, partition_state(1, 1, (0, 1)))


# -- Differences between what was seen and what is possible are shown where they are --

SOME_BROKER: Any = object()


def differ(seen: tuple[int, ...], possible: tuple[int, ...]) -> str:
    """How files with batches of one record differ from a replica, of which both have offsets."""
    log = m.Log(
        batches=m.Shared(
            m.PredictedBatch(base_offset=at, last_offset=at, leader_epoch=0, magic=2, payload="")
            for at in possible
        )
    )
    files = m.Files(batches=tuple((at, at, 0, 2) for at in seen), epoch_entries=None)
    return files_differ(SOME_BROKER, m.Replica(log=log), files)


def test_the_first_batch_that_differs_is_shown_on_both_sides():
    behind = tuple(range(20, 30))

    assert differ((0, 1, 4, *behind), (0, 1, 2, *behind)) == (
        "batches …, 1-1 of epoch 0, 4-4 of epoch 0, 20-20 of epoch 0, 21-21 of epoch 0, 22-22 of "
        "epoch 0, 23-23 of epoch 0, … 29-29, possible was …, 1-1 of epoch 0, 2-2 of epoch 0, 20-20 "
        "of epoch 0, 21-21 of epoch 0, 22-22 of epoch 0, 23-23 of epoch 0, … 29-29"
    )


def test_batches_that_are_too_many_or_too_few_are_shown():
    assert differ((0, 1), (0,)) == (
        "batches 0-0 of epoch 0, 1-1 of epoch 0, possible was 0-0 of epoch 0"
    )
    assert differ((), (0,)) == "batches none, possible was 0-0 of epoch 0"
