"""A follower that stops is told to stop fetching, and need not hear of it.

The controller takes it out of the ISR and sends StopReplica (KafkaController.doControlledShutdown),
which is held at the link. The answer to its ControlledShutdown comes all the same, so that it goes
on with its shutdown; what is held for a process that has ended reaches nobody.
"""

import kchaos as k
from tests.support.case_steps import both_have_one, held
from tests.support.looking import messages

PROPERTIES = {"controlled.shutdown.enable": "true"}
RELEASES = {"1.1.1": True, "3.9.1": True}
STEPS = (
    *both_have_one(0, 1),
    held("stop", "StopReplica", source=2, target=1),
    k.Inject(name="down", fault=k.StopBroker(broker=1)),
    k.AwaitHeld(name="stop"),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    k.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    k.Heal(name="stop"),
    k.Heal(name="down"),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
)


def seen(run, release):
    fates = [line["fate"] for line in messages(run, "StopReplica", 2, 1, direction="request")]
    assert fates == ["held", "abandoned"], fates
