"""Events of Kafka's own topics are nobody's to judge, and a hold of the metadata log is an act."""

from kchaos.checkers.acts import Hold, StopBroker
from kchaos.checkers.evidence.actions import TimedEvent, in_one_order
from kchaos.checkers.model.values.events import HighWatermarkObserved


def timed(event: Hold | HighWatermarkObserved | StopBroker) -> TimedEvent:
    return TimedEvent(zxid=1, time=0.0, event=event)


def test_a_hold_of_the_metadata_log_stays_in_the_timeline_and_what_is_seen_of_it_does_not() -> None:
    hold = timed(Hold(name="lag", api="Fetch", topic="__cluster_metadata", partition=0))
    own = timed(HighWatermarkObserved(broker=0, topic="t", partition=0, high_watermark=1))
    internal = timed(
        HighWatermarkObserved(broker=0, topic="__cluster_metadata", partition=0, high_watermark=1)
    )
    assert in_one_order([], [hold, internal, own]) == (hold, own)


def test_what_a_stopped_broker_s_checkpoint_says_of_internal_topics_is_not_in_the_timeline() -> (
    None
):
    entries = (("t", 0, 7), ("__consumer_offsets", 0, 8))
    stop = timed(StopBroker(broker=0, clean=False, checkpointed=entries))
    unread = timed(StopBroker(broker=1, clean=False))

    kept, same = in_one_order([], [stop, unread])

    assert kept.event == StopBroker(broker=0, clean=False, checkpointed=(("t", 0, 7),))
    assert same == unread
