"""A follower that is out of range asks for its leader's log end, and waits for the answer.

1 was elected with one record of three: the topic itself has unclean.leader.election.enable, which
the follower reads too, since without it a broker that has more than its leader ends itself. On
0.10.2 its follower 0 truncates to its high watermark, 3, fetches from there, and is out of range;
what it asks then (ListOffsets) is held. As long as it is, 0 keeps all three records
(kafka.server.ReplicaFetcherThread.handleOffsetOutOfRange).
"""

from looking import values

from kchaos import (
    AwaitHeld,
    AwaitHighWatermark,
    AwaitReplicated,
    AwaitState,
    ConfigureTopic,
    CreateTopic,
    CutLink,
    Heal,
    HoldRequests,
    Inject,
    KillBroker,
    LoseTail,
    Produce,
    TakeSnapshot,
)

RELEASES = {"0.10.2.2": True}
STEPS = (
    CreateTopic(topic="t", assignment=((0, 1),)),
    Inject(
        name="unclean",
        fault=ConfigureTopic(
            topic="t", configuration=(("unclean.leader.election.enable", "true"),)
        ),
    ),
    Produce(operation="both", topic="t", partition=0, records=3, acks=-1, one_record_batches=True),
    AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=3),
    Inject(name="link", fault=CutLink(source=0, target=1)),
    Inject(name="1-down", fault=KillBroker(broker=1)),
    Inject(name="tail", fault=LoseTail(broker=1, topic="t", partition=0, log_end_offset=1)),
    Heal(name="1-down"),
    AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    Inject(name="0-down", fault=KillBroker(broker=0)),
    AwaitState(topic="t", partition=0, leader=1, isr=(1,)),
    Inject(name="question", fault=HoldRequests(name="question", api="ListOffsets", target=1)),
    Heal(name="0-down"),
    Heal(name="link"),
    AwaitHeld(name="question"),
    TakeSnapshot(label="asking"),
    Heal(name="question"),
    AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=1),
)


def seen(run, release):
    assert len(values(run, "asking", 0)) == 3
