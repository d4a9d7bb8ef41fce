"""Two logs that end at the same offset are not level while one of them still has to truncate.

R1 leads, then R2, then R1 again; R3 hears nothing of R2's term. R1 and R3 hold one record more than
R2, which R1 gives up when it follows R2. In its second term R1 writes another record at that
offset: now R1 and R3 both end at 2, and R3's last record is one that it must replace.
"""

import kchaos
from tests.support.looking import values

BROKERS, FIRST_BROKER = (0, 1, 2, 3), 3
R1, R2, R3 = 0, 1, 2
RELEASES = {"2.0.1": True}
STEPS = (
    kchaos.CreateTopic(topic="t", assignment=((R1, R2, R3),)),
    kchaos.ReorderReplicas(topic="t", partition=0, replicas=(R2, R1, R3)),
    kchaos.Produce(operation="all", topic="t", partition=0, records=1, acks=-1),
    kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(R1, R2, R3), high_watermark=1),
    kchaos.Inject(name="R1-R2", fault=kchaos.CutLink(source=R1, target=R2)),
    kchaos.Produce(operation="old", topic="t", partition=0, records=1, acks=1),
    kchaos.AwaitReplicated(topic="t", partition=0, brokers=(R1, R3), log_end_offset=2),
    kchaos.Inject(name="R1-R3", fault=kchaos.CutLink(source=R1, target=R3)),
    kchaos.Inject(name="R3-ZooKeeper", fault=kchaos.CutZooKeeper(broker=R3)),
    kchaos.Inject(name="R3-session", fault=kchaos.ExpireSession(broker=R3, await_return=False)),
    kchaos.AwaitState(topic="t", partition=0, leader=R1, isr=(R1, R2)),
    kchaos.Inject(name="elect", fault=kchaos.PreferredElection(topic="t", partition=0)),
    kchaos.AwaitFollowing(topic="t", partition=0, follower=R1, leader=R2),
    kchaos.Heal(name="R1-R2"),
    kchaos.AwaitReplicated(topic="t", partition=0, brokers=(R1, R2), log_end_offset=1),
    kchaos.Inject(name="R2-down", fault=kchaos.KillBroker(broker=R2)),
    kchaos.AwaitState(topic="t", partition=0, leader=R1, isr=(R1,)),
    kchaos.Produce(operation="new", topic="t", partition=0, records=1, acks=1),
    kchaos.Heal(name="R3-ZooKeeper"),
    kchaos.AwaitFollowing(topic="t", partition=0, follower=R3, leader=R1),
    kchaos.Heal(name="R1-R3"),
)


def seen(run, release):
    final = values(run, "final", R3)
    assert final[:2] == ["all-0", "new-0"], final
