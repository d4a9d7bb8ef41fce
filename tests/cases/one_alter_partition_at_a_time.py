"""A leader has one AlterPartition in flight, whatever else its partitions need (from 2.7 on).

The follower of `u` falls behind, and the controller's answer about it is held. Then the follower of
`t` falls behind, for longer than replica.lag.time.max.ms, and the leader does not ask: ZooKeeper
keeps it in the ISR until the answer has come (kafka.server.DefaultAlterIsrManager, 2.8.2).
"""

import kchaos as k
from tests.support.case_steps import held
from tests.support.looking import messages, of_partition

BROKERS, FIRST_BROKER = (0, 1, 2, 3), 3
PROPERTIES = {"replica.lag.time.max.ms": "1000"}
RELEASES = {"2.8.2": True}
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.CreateTopic(topic="u", assignment=((0, 2),)),
    k.Produce(operation="t-both", topic="t", partition=0, records=1, acks=-1),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    held("answer", "AlterPartition", source=0, target=3, direction="response"),
    k.Inject(name="u-out", fault=k.CutLink(source=0, target=2)),
    k.Produce(operation="u-alone", topic="u", partition=0, records=1, acks=1),
    k.AwaitHeld(name="answer"),
    k.AwaitDecision(topic="u", partition=0, leader=0, isr=(0,)),
    k.Inject(name="t-out", fault=k.CutLink(source=0, target=1)),
    k.Produce(operation="t-alone", topic="t", partition=0, records=1, acks=1),
    # 25 checkpoints are 2.4 s: the check every half of the lag time has found the follower lagging.
    k.AwaitHighWatermarkKept(topic="t", partition=0, brokers=(0,), high_watermark=1, writes=25),
    k.AwaitDecision(topic="t", partition=0, leader=0, isr=(0, 1)),
    k.Heal(name="answer"),
    k.AwaitDecision(topic="t", partition=0, leader=0, isr=(0,)),
)


def seen(run, release):
    answered = next(messages(run, "AlterPartition", 0, 3, direction="response", fate="released"))
    asked = [
        line["sequence"]
        for line in messages(run, "AlterPartition", 0, 3, direction="request")
        if of_partition(line, "t")
    ]
    assert asked, "the leader never asked about t"
    assert asked[0] > answered["sequence"], (asked, answered)
