"""Two logs that end at the same offset are not level while one of them still has to truncate.

R1 leads, then R2, then R1 again; R3 hears nothing of R2's term. R1 and R3 hold one record more than
R2, which R1 gives up when it follows R2. In its second term R1 writes another record at that
offset: now R1 and R3 both end at 2, and R3's last record is one that it must replace.
"""

import kchaos as k
from tests.support.looking import values

BROKERS, FIRST_BROKER = (0, 1, 2, 3), 3
R1, R2, R3 = 0, 1, 2
RELEASES = {"2.0.1": True}
STEPS = (
    k.CreateTopic(topic="t", assignment=((R1, R2, R3),)),
    k.ReorderReplicas(topic="t", partition=0, replicas=(R2, R1, R3)),
    k.Produce(operation="all", topic="t", partition=0, records=1, acks=-1),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(R1, R2, R3), high_watermark=1),
    k.Inject(name="R1-R2", fault=k.CutLink(source=R1, target=R2)),
    k.Produce(operation="old", topic="t", partition=0, records=1, acks=1),
    k.AwaitReplicated(topic="t", partition=0, brokers=(R1, R3), log_end_offset=2),
    k.Inject(name="R1-R3", fault=k.CutLink(source=R1, target=R3)),
    k.Inject(name="R3-ZooKeeper", fault=k.CutZooKeeper(broker=R3)),
    k.Inject(name="R3-session", fault=k.ExpireSession(broker=R3, await_return=False)),
    k.AwaitState(topic="t", partition=0, leader=R1, isr=(R1, R2)),
    k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0)),
    k.AwaitFollowing(topic="t", partition=0, follower=R1, leader=R2),
    k.Heal(name="R1-R2"),
    k.AwaitReplicated(topic="t", partition=0, brokers=(R1, R2), log_end_offset=1),
    k.Inject(name="R2-down", fault=k.KillBroker(broker=R2)),
    k.AwaitState(topic="t", partition=0, leader=R1, isr=(R1,)),
    k.Produce(operation="new", topic="t", partition=0, records=1, acks=1),
    k.Heal(name="R3-ZooKeeper"),
    k.AwaitFollowing(topic="t", partition=0, follower=R3, leader=R1),
    k.Heal(name="R1-R3"),
)


def seen(run, release):
    final = values(run, "final", R3)
    assert final[:2] == ["all-0", "new-0"], final
