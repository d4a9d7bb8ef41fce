"""A follower asks again in each new leader epoch of the same leader, from 2.1 on (KIP-320).

Of three replicas one dies: the leader stays, its epoch grows, and the other follower asks where its
own epoch ends. Its session with ZooKeeper ends right after that, which gives the leader one more
epoch: a question that comes too late is refused with FENCED_LEADER_EPOCH and asked again.
"""

from looking import about, messages

from kchaos import (
    AwaitHighWatermark,
    CreateTopic,
    ExpireSession,
    Inject,
    KillBroker,
    Produce,
)

FIRST_BROKER = 0
RELEASES = {"2.2.2": True, "2.8.2": True}
STEPS = (
    CreateTopic(topic="t", assignment=((0, 1, 2),)),
    Produce(operation="all", topic="t", partition=0, records=1, acks=-1),
    AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1, 2), high_watermark=1),
    Inject(name="one", fault=KillBroker(broker=1)),
    Inject(name="other", fault=ExpireSession(broker=2)),
)


def seen(run, release):
    epochs = sorted(
        {
            about(line)["current_leader_epoch"]
            for line in messages(run, "OFFSET_FOR_LEADER_EPOCH", 2, 0, direction="request")
            if about(line)
        }
        | {
            about(line)["current_leader_epoch"]
            for line in messages(run, "FETCH", 2, 0, direction="request")
            if about(line)
        }
    )
    print("epochs in which broker 2 named the partition", epochs)
