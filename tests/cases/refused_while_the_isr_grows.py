"""A leader learns from the controller's answer that its ISR has grown, after ZooKeeper has it.

With min.insync.replicas=2 a write with acks=all in between is refused with NOT_ENOUGH_REPLICAS
(19), though the state znode names two replicas: from 2.7 on the leader counts those that were
confirmed to it (kafka.cluster.Partition.appendRecordsToLeader, 2.8.2). It says nothing about
replication, which goes on.
"""

import kchaos as k
from tests.support.case_steps import both_have_one, held
from tests.support.looking import answer

PROPERTIES = {"min.insync.replicas": "2"}
RELEASES = {"2.8.2": True}
STEPS = (
    *both_have_one(0, 1),
    k.Inject(name="follower", fault=k.KillBroker(broker=1)),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    held("answer", "AlterPartition", source=0, target=2, direction="response"),
    k.Heal(name="follower"),
    k.AwaitHeld(name="answer"),
    k.AwaitDecision(topic="t", partition=0, leader=0, isr=(0, 1)),
    k.Produce(operation="refused", topic="t", partition=0, records=1, acks=-1, accept_error=True),
)


def seen(run, release):
    assert answer(run, "refused")["error_code"] == 19
