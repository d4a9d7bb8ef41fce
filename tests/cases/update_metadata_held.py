"""A held UpdateMetadata keeps back all that follows: one request at a time to each broker.

Another topic is made, and the UpdateMetadata that tells broker 1 so is held. Then 0 dies and leaves
the ISR, and 1, which leads, does not hear of it: its high watermark goes on waiting for 0, and what
it appends has the leader epoch from before (kafka.controller.RequestSendThread).
"""

import kchaos
from tests.support.looking import observations

RELEASES = {"1.1.1": True}
STEPS = (
    kchaos.CreateTopic(topic="t", assignment=((1, 0),)),
    kchaos.Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    kchaos.Inject(
        name="held",
        fault=kchaos.HoldRequests(name="held", api="UpdateMetadata", source=2, target=1),
    ),
    kchaos.CreateTopic(topic="u", assignment=((2,),)),
    kchaos.AwaitHeld(name="held"),
    kchaos.Inject(name="down", fault=kchaos.KillBroker(broker=0)),
    kchaos.AwaitDecision(topic="t", partition=0, leader=1, isr=(1,)),
    kchaos.Produce(operation="waits", topic="t", partition=0, records=1, acks=1, broker=1),
    kchaos.AwaitHighWatermarkKept(topic="t", partition=0, brokers=(1,), high_watermark=1),
    kchaos.Heal(name="held"),
    kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(1,), high_watermark=2),
)


def seen(run, release):
    assert [line["value"] for line in observations(run, "high-watermark-kept")] == [1]
