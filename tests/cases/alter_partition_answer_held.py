"""ZooKeeper's ISR is ahead of the leader's until the controller's answer has come (KIP-497).

The leader asks to take a follower out of the ISR. The controller writes it, and its answer is held:
the high watermark still waits for the follower (kafka.cluster.PendingShrinkIsr.maximalIsr, 2.8.2).
"""

import kchaos as k
from tests.support.case_steps import both_have_one, held
from tests.support.looking import observations

PROPERTIES = {"replica.lag.time.max.ms": "1000"}
RELEASES = {"3.9.1": True}
STEPS = (
    *both_have_one(0, 1),
    held("answer", "AlterPartition", source=0, target=2, direction="response"),
    k.Inject(name="out", fault=k.CutLink(source=0, target=1)),
    k.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    k.AwaitHeld(name="answer"),
    k.AwaitDecision(topic="t", partition=0, leader=0, isr=(0,)),
    k.Produce(operation="alone-too", topic="t", partition=0, records=1, acks=1),
    k.AwaitHighWatermarkKept(topic="t", partition=0, brokers=(0,), high_watermark=1),
    k.Heal(name="answer"),
    k.Produce(operation="heard", topic="t", partition=0, records=1, acks=1),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(0,), high_watermark=4),
)


def seen(run, release):
    assert [line["value"] for line in observations(run, "high-watermark-kept")] == [1]
