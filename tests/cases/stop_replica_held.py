"""A follower that stops is told to stop fetching, and need not hear of it.

The controller takes it out of the ISR and sends StopReplica (KafkaController.doControlledShutdown),
which is held at the link. The answer to its ControlledShutdown comes all the same, so that it goes
on with its shutdown; what is held for a process that has ended reaches nobody.
"""

import kchaos
from tests.support.looking import messages

PROPERTIES = {"controlled.shutdown.enable": "true"}
RELEASES = {"1.1.1": True, "3.9.1": True}
STEPS = (
    kchaos.CreateTopic(topic="t", assignment=((0, 1),)),
    kchaos.Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    kchaos.Inject(
        name="stop", fault=kchaos.HoldRequests(name="stop", api="StopReplica", source=2, target=1)
    ),
    kchaos.Inject(name="down", fault=kchaos.StopBroker(broker=1)),
    kchaos.AwaitHeld(name="stop"),
    kchaos.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    kchaos.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    kchaos.Heal(name="stop"),
    kchaos.Heal(name="down"),
    kchaos.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
)


def seen(run, release):
    fates = [line["fate"] for line in messages(run, "StopReplica", 2, 1, direction="request")]
    assert fates == ["held", "abandoned"], fates
