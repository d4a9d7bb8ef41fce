"""Two logs that end at the same offset are not level while one of them still has to truncate.

R1 leads, then R2, then R1 again; R3 hears nothing of R2's term. R1 and R3 hold one record more than
R2, which R1 gives up when it follows R2. In its second term R1 writes another record at that
offset: now R1 and R3 both end at 2, and R3's last record is one that it must replace.
"""

from kchaos import (
    AwaitFollowing,
    AwaitHighWatermark,
    AwaitReplicated,
    AwaitState,
    CreateTopic,
    CutLink,
    CutZooKeeper,
    ExpireSession,
    Heal,
    Inject,
    KillBroker,
    PreferredElection,
    Produce,
    ReorderReplicas,
)
from tests.support.looking import values

BROKERS, FIRST_BROKER = (0, 1, 2, 3), 3
R1, R2, R3 = 0, 1, 2
RELEASES = {"2.0.1": True}
STEPS = (
    CreateTopic(topic="t", assignment=((R1, R2, R3),)),
    ReorderReplicas(topic="t", partition=0, replicas=(R2, R1, R3)),
    Produce(operation="all", topic="t", partition=0, records=1, acks=-1),
    AwaitHighWatermark(topic="t", partition=0, brokers=(R1, R2, R3), high_watermark=1),
    Inject(name="R1-R2", fault=CutLink(source=R1, target=R2)),
    Produce(operation="old", topic="t", partition=0, records=1, acks=1),
    AwaitReplicated(topic="t", partition=0, brokers=(R1, R3), log_end_offset=2),
    Inject(name="R1-R3", fault=CutLink(source=R1, target=R3)),
    Inject(name="R3-ZooKeeper", fault=CutZooKeeper(broker=R3)),
    Inject(name="R3-session", fault=ExpireSession(broker=R3, await_return=False)),
    AwaitState(topic="t", partition=0, leader=R1, isr=(R1, R2)),
    Inject(name="elect", fault=PreferredElection(topic="t", partition=0)),
    AwaitFollowing(topic="t", partition=0, follower=R1, leader=R2),
    Heal(name="R1-R2"),
    AwaitReplicated(topic="t", partition=0, brokers=(R1, R2), log_end_offset=1),
    Inject(name="R2-down", fault=KillBroker(broker=R2)),
    AwaitState(topic="t", partition=0, leader=R1, isr=(R1,)),
    Produce(operation="new", topic="t", partition=0, records=1, acks=1),
    Heal(name="R3-ZooKeeper"),
    AwaitFollowing(topic="t", partition=0, follower=R3, leader=R1),
    Heal(name="R1-R3"),
)


def seen(run, release):
    final = values(run, "final", R3)
    assert final[:2] == ["all-0", "new-0"], final
