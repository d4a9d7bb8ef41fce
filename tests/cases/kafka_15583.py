"""KAFKA-15583: with fewer in-sync replicas than min.insync.replicas no high watermark moves.

The follower dies, and its leader alone is fewer than the two that the topic wants. What is written
with acks=1 is below the high watermark up to 3.6, and above it from 3.7 on
(kafka.cluster.Partition.maybeIncrementLeaderHW, 3.7.0).
"""

import kchaos as k
from tests.support.case_steps import both_have_one
from tests.support.looking import high_watermark, number

PROPERTIES = {"min.insync.replicas": "2"}
RELEASES = {"2.8.2": True, "3.9.1": True}


def steps(release):
    after: k.AwaitHighWatermark | k.AwaitHighWatermarkKept
    if number(release) >= (3, 7):
        after = k.AwaitHighWatermarkKept(topic="t", partition=0, brokers=(0,), high_watermark=1)
    else:
        after = k.AwaitHighWatermark(topic="t", partition=0, brokers=(0,), high_watermark=3)
    return (
        *both_have_one(0, 1),
        k.Inject(name="follower", fault=k.KillBroker(broker=1)),
        k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
        k.Produce(operation="alone", topic="t", partition=0, records=2, acks=1),
        after,
    )


def seen(run, release):
    at = high_watermark(run, "before-healing", 0)
    assert at == (1 if number(release) >= (3, 7) else 3), at
