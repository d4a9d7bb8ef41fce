"""KIP-380: late control requests, broker generations, and what is forgotten without them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import tests.support.model as m
from kchaos.checkers.model import generation_for, predict
from kchaos.checkers.model.broker.control_handling import handle
from kchaos.checkers.model.controller.outboxes import queue
from kchaos.checkers.model.releases.rules.kip_380 import (
    is_for_an_earlier_generation,
    refuse_earlier_epochs,
    refuse_other_epochs,
)
from kchaos.checkers.model.settle.predict import left_alone_after
from tests.support.model_timelines import cluster, kill, left_alone, start, state, write

AFTER = m.Snapshot(label="after")
EARLIER, PRESENT = 101, 201


def late(api: str, *, broker_epoch: int | None = EARLIER, **fields: Any) -> m.StaleRequest:
    """A request to broker 1's first generation, from controller 2; t-0 was led by broker 0."""
    return m.StaleRequest(
        **{  # type: ignore[arg-type]
            "api": api,
            "broker": 1,
            "target": 1,
            "version": 2,
            "generation": EARLIER,
            "broker_epoch": broker_epoch,
            "controller": 2,
            "controller_epoch": 1,
            "states": (("t", 0, 0, 0, (0, 1), 1, 0, (0, 1)),),
        }
        | fields
    )


def bounced(release: str, *between: m.Event, **configuration: Any) -> list[m.Event]:
    """Broker 1 follows broker 0, has bounced, and follows again."""
    return [
        *cluster(release, controller=2, replicas=(0, 1), **configuration),
        state(0, 0, (0, 1)),
        write("m", 0, acks=-1),
        *kill(1, high_watermark=1),
        state(0, 1, (0,)),
        *between,
        *start(1, release, czxid=PRESENT, **configuration),
        state(0, 1, (0, 1)),
    ]


def forgets(release: str, **configuration: Any) -> list[m.Event]:
    """KAFKA-7235: the first LeaderAndIsr of a process names t alone, and u has a record."""
    u_state = m.PartitionState(
        topic="u", partition=0, leader=0, leader_epoch=0, isr=(0, 1), controller_epoch=1, version=0
    )
    u_record = replace(write("m", 0, acks=-1), topic="u")
    checkpointed = (("t", 0, 0), ("u", 0, 1))
    events = [
        *cluster(release, controller=2, replicas=(0, 1), **configuration),
        m.TopicCreated(topic="u", assignment=((0, 1),)),
        state(0, 0, (0, 1)),
        u_state,
        u_record,
        *kill(1),
        m.CutLink(source=1, target=0),
        m.Hold(name="news", api="LeaderAndIsr", source=2, target=1),
        *start(1, release, czxid=PRESENT, **configuration),
        late("LeaderAndIsr", broker_epoch=None),
        m.ReleaseHold(name="news"),
        AFTER,
    ]
    return [
        replace(timed, checkpointed=checkpointed) if isinstance(timed, m.StopBroker) else timed
        for timed in events
    ]


def placed(events: Sequence[m.Event], *places: tuple[str, int, int]) -> tuple[m.Event, ...]:
    """The same with a broker 1 that has two log directories, and found these replicas in them."""
    return tuple(
        replace(event, placed=places)
        if isinstance(event, m.StartBroker) and event.broker == 1
        else event
        for event in events
    )


def of_u(prediction: m.Prediction):
    return next(
        replica
        for replica in prediction.snapshots["after"]
        if (replica.topic, replica.broker) == ("u", 1)
    )


def test_only_the_file_of_a_log_directory_is_written_in_which_a_named_replica_lies():
    events, apart = forgets("2.1.1"), (("t", 0, 0), ("u", 0, 1))
    together = placed(events, ("t", 0, 1), ("u", 0, 1))
    assert of_u(predict(together)).high_watermarks == (0,)
    assert of_u(predict(placed(events, *apart))).high_watermarks[0] == 1
    # Whether a replica that the model does not follow was named, nobody knows.
    internal = ("__consumer_offsets", 0, 1)
    assert of_u(predict(placed(events, *apart, internal))).high_watermarks[0] == 1


def stopped(*places: tuple[str, int, int], checkpointed: int) -> list[m.ImpossibleHighWatermark]:
    """What is impossible when broker 1 stops, which only t was told of, with this checkpoint."""
    *before, _ = forgets("2.1.1")
    kept = [event for event in before if not isinstance(event, m.ReleaseHold)]
    last = m.StopBroker(broker=1, clean=True, checkpointed=(("t", 0, 0), ("u", 0, checkpointed)))
    notes = predict((*placed(kept, *places), last)).impossible
    return [note for note in notes if note.topic == "u"]


def test_a_clean_stop_leaves_the_file_alone_of_a_log_directory_without_a_named_replica():
    apart, internal = (("t", 0, 0), ("u", 0, 1)), ("__consumer_offsets", 0, 1)
    assert stopped(checkpointed=1)
    assert not stopped(checkpointed=0)
    assert not stopped(*apart, checkpointed=1)
    assert stopped(*apart, checkpointed=0)
    assert not stopped(*apart, internal, checkpointed=1)
    assert not stopped(*apart, internal, checkpointed=0)


@pytest.mark.parametrize(
    ("told", "up_to_2_5_0", "later"),
    [
        (-1, "", ""),
        (100, "STALE_BROKER_EPOCH", "STALE_BROKER_EPOCH"),
        (101, "", ""),
        (102, "UNKNOWN_SERVER_ERROR", ""),
    ],
)
def test_what_a_broker_of_epoch_101_answers_to_an_epoch(told, up_to_2_5_0, later):
    assert generation_for("2.1.1").error_of_broker_epoch(told, 101) == ""
    assert refuse_other_epochs(told, 101) == up_to_2_5_0
    assert refuse_earlier_epochs(told, 101) == later
    for release, expected in (("2.2.2", up_to_2_5_0), ("2.5.0", up_to_2_5_0), ("2.5.1", later)):
        assert generation_for(release).error_of_broker_epoch(told, 101) == expected


def test_a_controller_refuses_a_shutdown_that_an_earlier_generation_asked_for():
    assert is_for_an_earlier_generation(100, 101)
    assert generation_for("2.2.2").refuses_shutdown(100, 101)
    assert not generation_for("2.2.2").refuses_shutdown(101, 101)
    assert not generation_for("2.2.2").refuses_shutdown(-1, 101)
    assert not generation_for("2.1.1").refuses_shutdown(100, 101)


def after(*events: m.Event) -> m.State:
    return left_alone(events)


def test_after_error_77_the_controller_goes_on_and_sends_nothing_again():
    before = after(*bounced("2.2.2"))
    world = m.World(before)
    seen = dict(world.controller(1).seen)
    world.put(("controller", 1), replace(world.controller(1), seen=tuple({**seen, 1: 7}.items())))
    queue(world, 1, 1, m.StopReplica(partition=world.partitions(1)[0]))
    settled, _ = left_alone_after(world.state(before), write("n", 0), {})
    outbox = m.World(settled).outbox(1, 1)
    assert outbox is not None
    assert (outbox.requests, outbox.is_unanswered) == ((), False)
    assert (
        m.World(settled).known_replica(1, m.World(settled).partitions(1)[0]).log.log_end_offset == 2
    )


def test_a_broker_knows_its_epoch_until_it_hears_of_the_next_registration():
    state_ = after(*bounced("2.2.2"))
    world = m.World(state_)
    broker = world.broker(1)
    assert broker is not None
    assert broker.epoch == PRESENT
    stop = m.StopReplica(partition=world.partitions(1)[0])
    ahead = m.Received(number=(1, 0), controller_epoch=1, request=stop, broker_epoch=300)
    assert handle(world, 1, ahead) == ((None, "UNKNOWN_SERVER_ERROR"),)


@pytest.mark.parametrize(("is_left_out", "error", "epoch"), [(False, "", 1), (True, "UNKNOWN", 0)])
def test_a_broker_that_the_replicas_leave_out_refuses_a_newer_epoch_and_keeps_its_own(
    is_left_out, error, epoch
):
    before = after(*cluster("1.1.1", controller=2, replicas=(0, 1)), state(0, 0, (0, 1)))
    world = m.World(before)
    (partition,) = world.partitions(1)
    told = m.LeaderAndIsr(states=(state(0, 1, (0, 1)),), is_left_out=is_left_out)
    received = m.Received(number=(1, 0), controller_epoch=1, request=told)

    errors = handle(world, 1, received)
    assert errors is not None
    ((_, of_all), (_, answered)) = errors

    assert (of_all, answered[:7]) == ("", error)
    assert world.known_replica(1, partition).leader_epoch == epoch
