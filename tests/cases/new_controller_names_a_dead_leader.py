"""A new controller's first LeaderAndIsr names the leader that it finds in ZooKeeper, dead or not.

Broker 1 has not heard that 0 leads. Then 0 dies, and the controller with it loses its session
before it can elect another leader. The new controller (1 itself) sends UpdateMetadata first,
without 0, then the state as it found it, then its election. For the second, 1 logs that it cannot
become a follower "since the new leader 0 is unavailable", and stays what it was, in the leader
epoch that it had (kafka.server.ReplicaManager.makeFollowers); it answers without an error. What the
old controller had sent comes last, and is refused for its controller epoch.
"""

from kchaos import (
    AwaitHeld,
    AwaitHighWatermark,
    AwaitLog,
    AwaitState,
    CreateTopic,
    CutZooKeeper,
    ExpireSession,
    Heal,
    HoldRequests,
    Inject,
    KillBroker,
    PreferredElection,
    Produce,
    ReorderReplicas,
)
from tests.support.looking import values

# 1 leads, and asks the old controller to grow the ISR, who never answers: see
# zombie_controller_drops_alter_partition.
PROPERTIES = {"controller.socket.timeout.ms": "3000"}
RELEASES = {"3.9.1": True}
STEPS = (
    CreateTopic(topic="t", assignment=((1, 0),)),
    Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    ReorderReplicas(topic="t", partition=0, replicas=(0, 1)),
    Inject(
        name="late",
        fault=HoldRequests(name="late", api="LeaderAndIsr", source=2, target=1),
    ),
    Inject(name="elect", fault=PreferredElection(topic="t", partition=0)),
    AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
    AwaitHeld(name="late"),
    Produce(operation="unheard", topic="t", partition=0, records=1, acks=1, broker=1),
    Inject(name="old-controller", fault=CutZooKeeper(broker=2)),
    Inject(name="leader", fault=KillBroker(broker=0)),
    Inject(name="old-session", fault=ExpireSession(broker=2, await_return=False)),
    AwaitState(topic="t", partition=0, leader=1, isr=(1,)),
    AwaitLog(broker=1, pattern="the new leader 0 is unavailable"),
    Heal(name="late"),
    AwaitLog(broker=1, pattern="controller 2 .*(epoch 1 is old|is old|epoch 1 )"),
)


def seen(run, release):
    assert values(run, "before-healing", 1) == ["both-0", "unheard-0"]
