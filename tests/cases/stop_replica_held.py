"""A follower that stops is told to stop fetching, and need not hear of it.

The controller takes it out of the ISR and sends StopReplica (KafkaController.doControlledShutdown),
which is held at the link. The answer to its ControlledShutdown comes all the same, so that it goes
on with its shutdown; what is held for a process that has ended reaches nobody.
"""

from kchaos import (
    AwaitHeld,
    AwaitHighWatermark,
    AwaitState,
    CreateTopic,
    Heal,
    HoldRequests,
    Inject,
    Produce,
    StopBroker,
)
from tests.support.looking import messages

PROPERTIES = {"controlled.shutdown.enable": "true"}
RELEASES = {"1.1.1": True, "3.9.1": True}
STEPS = (
    CreateTopic(topic="t", assignment=((0, 1),)),
    Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    Inject(
        name="stop",
        fault=HoldRequests(name="stop", api="StopReplica", source=2, target=1),
    ),
    Inject(name="down", fault=StopBroker(broker=1)),
    AwaitHeld(name="stop"),
    AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    Heal(name="stop"),
    Heal(name="down"),
    AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
)


def seen(run, release):
    fates = [line["fate"] for line in messages(run, "StopReplica", 2, 1, direction="request")]
    assert fates == ["held", "abandoned"], fates
