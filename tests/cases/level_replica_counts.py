"""The high watermark waits for a replica that was level a moment ago, in the ISR or not.

The follower comes back and has everything, and does not join the ISR, since the leader has not
heard that it lives (UpdateMetadata is held). Then it is cut off. Within replica.lag.time.max.ms,
here ten minutes, the high watermark waits for it all the same; from 3.6 on only if it might join
(kafka.cluster.Partition.maybeIncrementLeaderHW, 3.3.2 and 3.6.2).
"""

from typing import Any

import kchaos as k
from tests.support.case_steps import both_have_one, held
from tests.support.looking import number, observations

RELEASES = {"3.3.2": True}


def steps(release):
    after: k.AwaitHighWatermark | k.AwaitHighWatermarkKept
    awaited: dict[str, Any] = {"topic": "t", "partition": 0, "brokers": (0,)}
    if number(release) < (3, 6):
        after = k.AwaitHighWatermarkKept(**awaited, high_watermark=2)
    else:
        after = k.AwaitHighWatermark(**awaited, high_watermark=3)
    return (
        *both_have_one(0, 1),
        k.Inject(name="down", fault=k.KillBroker(broker=1)),
        k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
        k.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
        held("alive", "UpdateMetadata", source=2, target=0),
        k.Heal(name="down"),
        k.AwaitHeld(name="alive"),
        k.AwaitMessage(api="Fetch", source=1, target=0, topic="t", says=(("fetch_offset", 2),)),
        # By then the leader has handled that fetch.
        k.AwaitHighWatermarkKept(**awaited, high_watermark=2),
        k.AwaitDecision(topic="t", partition=0, leader=0, isr=(0,)),
        k.Inject(name="link", fault=k.CutLink(source=0, target=1)),
        k.Produce(operation="later", topic="t", partition=0, records=1, acks=1),
        after,
    )


def seen(run, release):
    kept = [line["value"] for line in observations(run, "high-watermark-kept")]
    assert kept == [2] * (2 if number(release) < (3, 6) else 1)
