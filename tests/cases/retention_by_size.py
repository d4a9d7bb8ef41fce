"""Retention by size deletes whole segments at the beginning, on each replica by itself.

A broker looks 30 s after its start for the first time, then every
`log.retention.check.interval.ms`. What is left is at least `retention.bytes`, and the segment that
is written to. A follower that is back with an empty disk begins where its leader's log does.
"""

from typing import Any

import kchaos as k
from tests.support.looking import actions

RELEASES = {"1.1.1": True, "2.8.2": True, "3.9.1": True}
PROPERTIES = {"log.retention.check.interval.ms": "1000"}
_BATCHES = 4
_RECORDS = 20
_T: dict[str, Any] = {"topic": "t", "partition": 0}
# Each batch is larger than half a segment, and fills one of its own.
_SETTINGS = (("segment.bytes", "500"), ("retention.bytes", "700"))
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),), configuration=_SETTINGS),
    *(
        k.Produce(operation=f"old-{number}", records=_RECORDS, acks=-1, **_T)
        for number in range(_BATCHES)
    ),
    k.AwaitHighWatermark(brokers=(0, 1), high_watermark=_BATCHES * _RECORDS, **_T),
    k.AwaitLogStart(brokers=(0, 1), log_start_offset=_RECORDS, timeout_s=90, **_T),
    k.Produce(operation="new", records=1, acks=-1, **_T),
    k.Inject(name="down", fault=k.KillBroker(broker=1)),
    k.AwaitState(leader=0, isr=(0,), **_T),
    k.Inject(name="wiped", fault=k.WipeLogDirectory(broker=1)),
    k.Produce(operation="alone", records=1, acks=1, **_T),
    k.Heal(name="down"),
    k.AwaitReplicated(brokers=(0, 1), log_end_offset=_BATCHES * _RECORDS + 2, **_T),
    k.AwaitState(leader=0, isr=(0, 1), **_T),
    k.Produce(operation="both", records=1, acks=-1, **_T),
)


def seen(run, release):
    starts = {
        action["broker"]: action["log_start_offset"] for action in actions(run, "LogStartObserved")
    }
    assert sorted(starts) == [0, 1]
    assert all(0 < start < _BATCHES * _RECORDS for start in starts.values()), starts
