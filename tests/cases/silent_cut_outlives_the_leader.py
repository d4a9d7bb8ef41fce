"""What a leader sent into a silent cut arrives when that heals, though the leader is dead.

The answer to a fetch lies in the connection, as it would lie in a socket buffer or a switch. Its
follower has not heard of another leader: the controller cannot reach it either.
"""

from looking import values

from kchaos import (
    AwaitHighWatermark,
    CreateTopic,
    CutLink,
    Heal,
    Inject,
    KillBroker,
    Produce,
)

RELEASES = {"1.1.1": True, "3.9.1": True}
STEPS = (
    CreateTopic(topic="t", assignment=((1, 0),)),
    Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    Inject(name="controller", fault=CutLink(source=2, target=0)),
    Inject(name="leader", fault=CutLink(source=1, target=0)),
    Produce(operation="sent", topic="t", partition=0, records=1, acks=1, broker=1),
    Inject(name="down", fault=KillBroker(broker=1)),
    Heal(name="leader"),
    Heal(name="controller"),
)


def seen(run, release):
    print("0 before healing", values(run, "before-healing", 0))
