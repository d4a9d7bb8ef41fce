"""A held UpdateMetadata keeps back all that follows: one request at a time to each broker.

Another topic is made, and the UpdateMetadata that tells broker 1 so is held. Then 0 dies and leaves
the ISR, and 1, which leads, does not hear of it: its high watermark goes on waiting for 0, and what
it appends has the leader epoch from before (kafka.controller.RequestSendThread).
"""

import kchaos as k
from tests.support.case_steps import both_have_one, held
from tests.support.looking import observations

RELEASES = {"1.1.1": True}
STEPS = (
    *both_have_one(1, 0),
    held("held", "UpdateMetadata", source=2, target=1),
    k.CreateTopic(topic="u", assignment=((2,),)),
    k.AwaitHeld(name="held"),
    k.Inject(name="down", fault=k.KillBroker(broker=0)),
    k.AwaitDecision(topic="t", partition=0, leader=1, isr=(1,)),
    k.Produce(operation="waits", topic="t", partition=0, records=1, acks=1, broker=1),
    k.AwaitHighWatermarkKept(topic="t", partition=0, brokers=(1,), high_watermark=1),
    k.Heal(name="held"),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(1,), high_watermark=2),
)


def seen(run, release):
    assert [line["value"] for line in observations(run, "high-watermark-kept")] == [1]
