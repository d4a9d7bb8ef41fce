"""Retention deletes what both replicas have, each at a time of its own, and replication goes on.

A broker looks 30 s after its start for the first time, then every
`log.retention.check.interval.ms`. A follower is told where its leader's log begins, and deletes by
itself too.
"""

from typing import Any

from kchaos import AwaitHighWatermark, AwaitLogStart, CreateTopic, Heal, Inject, KillBroker, Produce
from tests.support.looking import actions, number

RELEASES = {"0.10.2.2": True, "1.1.1": True, "2.8.2": True, "3.9.1": True}
PROPERTIES = {"log.retention.check.interval.ms": "1000"}


def steps(release):
    produced: dict[str, Any] = {"topic": "t", "partition": 0, "acks": -1}
    settings = [("retention.ms", "2000")]
    if number(release) >= (0, 11):
        settings.append(("segment.ms", "2000"))
    return (
        CreateTopic(topic="t", assignment=((0, 1),), configuration=tuple(settings)),
        Produce(operation="old", records=5, one_record_batches=True, **produced),
        AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=5),
        AwaitLogStart(topic="t", partition=0, brokers=(0, 1), log_start_offset=5, timeout_s=90),
        Produce(operation="new", records=1, **produced),
        Inject(name="down", fault=KillBroker(broker=1)),
        Produce(operation="alone", records=1, topic="t", partition=0, acks=1),
        Heal(name="down"),
        Produce(operation="both", records=1, **produced),
    )


def seen(run, release):
    starts = {
        action["broker"]: action["log_start_offset"] for action in actions(run, "LogStartObserved")
    }
    assert starts == {0: 5, 1: 5}
