"""A leader at protocol 2.6 answers a follower at its own release's protocol where they diverge.

Only followers ask their protocol whether a Fetch says its last fetched epoch. A leader answers by
what the Fetch says (kafka.cluster.Partition.readRecords, 2.8.0 and 2.8.1).
"""

import kchaos as k
from tests.support.case_steps import both_have_one
from tests.support.looking import messages, of_partition

RELEASES = {"2.8.0": True, "2.8.1": True, "3.0.2": True}
BROKER_PROPERTIES = {0: {"inter.broker.protocol.version": "2.6"}}
STEPS = (
    *both_have_one(1, 0),
    k.Inject(name="cut", fault=k.CutLink(source=0, target=1)),
    k.Produce(operation="1-only", topic="t", partition=0, records=1, acks=1),
    k.Inject(name="down", fault=k.KillBroker(broker=1)),
    k.AwaitState(topic="t", partition=0, leader=0),
    k.Heal(name="cut"),
    k.Produce(operation="0-only", topic="t", partition=0, records=1, acks=1),
    k.Heal(name="down"),
)


def seen(run, release):
    told = [
        of_partition(line).get("diverging_epoch")
        for line in messages(run, "Fetch", 1, 0, direction="response")
    ]
    diverging = [(each["epoch"], each["end_offset"]) for each in told if each is not None]
    assert (0, 1) in diverging, told
