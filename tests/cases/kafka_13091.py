"""KAFKA-13091: after a shrunk ISR the high watermark waits for the next append or fetch.

The follower is cut off with one record less, and the leader takes it out of the ISR. Up to 2.6 the
leader writes the ISR itself and moves the high watermark with it. From 2.7 to 3.0 it does nothing
when the controller's answer comes (kafka.cluster.Partition.handleAlterIsrResponse, 2.8.2), from 3.1
on it does.
"""

from typing import Any

import kchaos as k
from tests.support.case_steps import both_have_one
from tests.support.looking import high_watermark, number, observations

PROPERTIES = {"replica.lag.time.max.ms": "1000"}
RELEASES = {"2.8.2": True, "3.1.2": True}


def steps(release):
    after: tuple[Any, ...]
    if (2, 7) <= number(release) < (3, 1):
        after = (
            k.AwaitMessage(api="AlterPartition", source=0, target=2, direction="response"),
            k.AwaitHighWatermarkKept(topic="t", partition=0, brokers=(0,), high_watermark=1),
        )
    else:
        after = (k.AwaitHighWatermark(topic="t", partition=0, brokers=(0,), high_watermark=2),)
    return (
        *both_have_one(0, 1),
        k.Inject(name="link", fault=k.CutLink(source=0, target=1)),
        k.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
        k.AwaitDecision(topic="t", partition=0, leader=0, isr=(0,)),
        *after,
        k.Produce(operation="next", topic="t", partition=0, records=1, acks=1),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(0,), high_watermark=3),
    )


def seen(run, release):
    assert high_watermark(run, "before-healing", 0) == 3
    kept = observations(run, "high-watermark-kept")
    assert [line["value"] for line in kept] == [1] * ((2, 7) <= number(release) < (3, 1))
