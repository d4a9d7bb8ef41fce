"""An incremental fetch carries no leader epoch, so that a follower who missed one is not fenced.

The follower's session with ZooKeeper ends while it is cut off from it. The controller removes it
from the ISR, in a new leader epoch of the same leader, and does not tell it, for it is gone.
KIP-320 has a leader refuse a fetch of an older epoch (FENCED_LEADER_EPOCH, 2.1), but a partition of
a fetch session that does not change is not named in the request, and up to 2.2 the session keeps no
leader epoch for it (kafka.server.CachedPartition.reqData, 2.2.2): the follower goes on fetching.
"""

from looking import values

from kchaos import (
    AwaitHighWatermark,
    AwaitState,
    CreateTopic,
    CutZooKeeper,
    ExpireSession,
    Inject,
    Produce,
)

RELEASES = {"2.0.1": True, "2.2.2": True, "2.8.2": True}
STEPS = (
    CreateTopic(topic="t", assignment=((0, 1),)),
    Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    Inject(name="zookeeper", fault=CutZooKeeper(broker=1)),
    Inject(name="session", fault=ExpireSession(broker=1, await_return=False)),
    AwaitState(topic="t", partition=0, leader=0),
    Produce(operation="later", topic="t", partition=0, records=1, acks=1),
)


def seen(run, release):
    print("follower before healing", values(run, "before-healing", 1))
