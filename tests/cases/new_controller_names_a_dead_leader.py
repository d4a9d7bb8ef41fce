"""A new controller's first LeaderAndIsr names the leader that it finds in ZooKeeper, dead or not.

Broker 1 has not heard that 0 leads. Then 0 dies, and the controller with it loses its session
before it can elect another leader. The new controller (1 itself) sends UpdateMetadata first,
without 0, then the state as it found it, then its election. For the second, 1 logs that it cannot
become a follower "since the new leader 0 is unavailable", and stays what it was, in the leader
epoch that it had (kafka.server.ReplicaManager.makeFollowers); it answers without an error. What the
old controller had sent comes last, and is refused for its controller epoch.
"""

import kchaos as k
from tests.support.case_steps import leads_without_hearing_of_the_next
from tests.support.looking import values

# 1 leads, and asks the old controller to grow the ISR, who never answers: see
# zombie_controller_drops_alter_partition.
PROPERTIES = {"controller.socket.timeout.ms": "3000"}
RELEASES = {"3.9.1": True}
STEPS = (
    *leads_without_hearing_of_the_next(),
    k.Inject(name="old-controller", fault=k.CutZooKeeper(broker=2)),
    k.Inject(name="leader", fault=k.KillBroker(broker=0)),
    k.Inject(name="old-session", fault=k.ExpireSession(broker=2, await_return=False)),
    k.AwaitState(topic="t", partition=0, leader=1, isr=(1,)),
    k.AwaitLog(broker=1, pattern="the new leader 0 is unavailable"),
    k.Heal(name="late"),
    k.AwaitLog(broker=1, pattern="controller 2 .*(epoch 1 is old|is old|epoch 1 )"),
)


def seen(run, release):
    assert values(run, "before-healing", 1) == ["both-0", "unheard-0"]
