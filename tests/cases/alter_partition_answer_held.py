"""ZooKeeper's ISR is ahead of the leader's until the controller's answer has come (KIP-497).

The leader asks to take a follower out of the ISR. The controller writes it, and its answer is held:
the high watermark still waits for the follower (kafka.cluster.PendingShrinkIsr.maximalIsr, 2.8.2).
"""

import kchaos
from tests.support.looking import observations

PROPERTIES = {"replica.lag.time.max.ms": "1000"}
RELEASES = {"3.9.1": True}
STEPS = (
    kchaos.CreateTopic(topic="t", assignment=((0, 1),)),
    kchaos.Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    kchaos.Inject(
        name="answer",
        fault=kchaos.HoldRequests(
            name="answer", api="AlterPartition", source=0, target=2, direction="response"
        ),
    ),
    kchaos.Inject(name="out", fault=kchaos.CutLink(source=0, target=1)),
    kchaos.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    kchaos.AwaitHeld(name="answer"),
    kchaos.AwaitDecision(topic="t", partition=0, leader=0, isr=(0,)),
    kchaos.Produce(operation="alone-too", topic="t", partition=0, records=1, acks=1),
    kchaos.AwaitHighWatermarkKept(topic="t", partition=0, brokers=(0,), high_watermark=1),
    kchaos.Heal(name="answer"),
    kchaos.Produce(operation="heard", topic="t", partition=0, records=1, acks=1),
    kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(0,), high_watermark=4),
)


def seen(run, release):
    assert [line["value"] for line in observations(run, "high-watermark-kept")] == [1]
