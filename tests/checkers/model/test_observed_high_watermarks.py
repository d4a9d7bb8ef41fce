from kchaos.checkers.acts import LoseTail, StaleRequest
from kchaos.checkers.model import predict
from kchaos.checkers.model.values.events import (
    Event,
    HighWatermarkObserved,
    Snapshot,
    event_from_json,
    event_to_json,
)
from kchaos.checkers.model.values.prediction import ImpossibleHighWatermark, PredictedReplica
from tests.support.model_timelines import cluster, kill, replica, start, state, write

AFTER = Snapshot(label="after")


def pair(*after: Event) -> list[Event]:
    """Broker 0 leads, 1 follows, and both have three records in three batches."""
    return [
        *cluster("1.1.1", controller=2, replicas=(0, 1)),
        state(0, 0, (0, 1)),
        *[write(name, 0, acks=-1) for name in ("a", "b", "c")],
        *after,
    ]


def observed(high_watermark: int, *, broker: int = 1, topic: str = "t") -> HighWatermarkObserved:
    return HighWatermarkObserved(
        broker=broker, topic=topic, partition=0, high_watermark=high_watermark
    )


def follower(*after: Event) -> PredictedReplica:
    return replica(predict(pair(*after, AFTER)), 1)


def marks(*after: Event) -> tuple[tuple[int, ...], bool]:
    seen = follower(*after)
    return seen.high_watermarks, seen.is_high_watermark_pinned


def test_without_an_observation_the_file_may_hold_any_value_since_the_start():
    assert marks() == ((3, 0, 1, 2), False)


def test_an_observation_drops_older_values_and_keeps_later_ones():
    assert marks(observed(2)) == ((3, 2), False)


def test_the_value_that_memory_holds_is_pinned_once_it_was_observed():
    assert marks(observed(3)) == ((3,), True)
    assert marks(observed(2), observed(3)) == ((3,), True)


def test_a_high_watermark_that_moves_on_is_no_longer_pinned():
    assert marks(observed(3), write("d", 0, acks=-1)) == ((4, 3), False)


def test_an_observation_is_of_one_replica_alone():
    prediction = predict(pair(observed(3), AFTER))

    assert replica(prediction, 0).high_watermarks == (3, 0, 1, 2)
    assert not replica(prediction, 0).is_high_watermark_pinned


def test_a_restart_ends_what_was_pinned_and_the_file_still_holds_it():
    restarted = [*kill(1, high_watermark=3), *start(1, "1.1.1", czxid=301)]

    assert marks(observed(3), *restarted) == ((3,), False)


def test_a_kill_after_which_nobody_looked_begins_with_what_was_observed():
    restarted = [*kill(1), state(0, 1, (0,)), *start(1, "1.1.1", czxid=301)]

    assert marks(observed(2), *kill(1)) == ((2, 3), False)
    assert follower(observed(2), *restarted).high_watermarks[1:] == (2,)


def test_after_a_lost_tail_the_file_still_holds_more_than_the_log():
    lost = LoseTail(broker=1, topic="t", partition=0, log_end_offset=1)
    cut = [*kill(1, high_watermark=3), lost, state(0, 1, (0,)), *start(1, "1.1.1", czxid=301)]

    assert predict(pair(*cut, observed(3), AFTER)).impossible == ()
    assert predict(pair(*cut, observed(0), AFTER)).impossible[0].allowed == (1, 3)


def test_a_value_that_the_file_cannot_hold_is_told_and_changes_nothing():
    prediction = predict(pair(observed(2), observed(1), observed(7), AFTER))

    assert [
        (impossible.high_watermark, impossible.allowed) for impossible in prediction.impossible
    ] == [(1, (2, 3)), (7, (2, 3))]
    assert replica(prediction, 1).high_watermarks == (3, 2)


def test_an_observation_of_a_replica_that_is_not_there_is_told_and_no_error():
    nowhere = predict(pair(observed(0, broker=9), observed(0, topic="other")))

    assert [
        (impossible.broker, impossible.topic, impossible.allowed)
        for impossible in nowhere.impossible
    ] == [(9, "t", ()), (1, "other", ())]


def test_only_what_is_impossible_is_told():
    assert predict(pair(observed(0), observed(2), observed(2), observed(3))).impossible == ()
    assert predict(pair(observed(4))).impossible == (
        ImpossibleHighWatermark(
            index=len(pair()),
            broker=1,
            topic="t",
            partition=0,
            high_watermark=4,
            allowed=(0, 1, 2, 3),
        ),
    )


def test_an_observation_survives_its_json_form():
    assert event_from_json(event_to_json(observed(3))) == observed(3)


def test_a_replica_that_is_made_again_finds_the_line_of_the_deleted_one_in_the_file():
    deleted = StaleRequest(
        api="StopReplica",
        broker=1,
        target=1,
        version=0,
        generation=101,
        broker_epoch=None,
        controller=2,
        controller_epoch=1,
        states=(("t", 0, 0, 0, (0, 1), 1, 0, (0, 1)),),
        deletes=True,
    )
    again: list[Event] = [observed(3), deleted, state(0, 1, (0, 1))]

    assert marks(*again) == ((3, 0), False)
    assert predict(pair(*again, observed(3), observed(0))).impossible == ()
