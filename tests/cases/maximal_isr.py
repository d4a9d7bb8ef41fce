"""KIP-497's maximal ISR: while a change of the ISR is under way, the larger one counts.

The follower leaves the ISR and catches up again. The leader asks the controller to take it back,
and the request is held: in ZooKeeper the ISR is the leader alone, and yet what is written now is
not below the high watermark before the follower has it, since the leader counts the follower
already (kafka.cluster.PendingExpandIsr.maximalIsr, 2.8.2).
"""

import kchaos as k
from tests.support.case_steps import both_have_one, held
from tests.support.looking import observations

PROPERTIES = {"replica.lag.time.max.ms": "1000"}
RELEASES = {"2.8.2": True}
STEPS = (
    *both_have_one(0, 1),
    k.Inject(name="out", fault=k.CutLink(source=0, target=1)),
    k.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    k.Produce(operation="alone-too", topic="t", partition=0, records=1, acks=1),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(0,), high_watermark=3),
    held("pending", "AlterPartition", source=0, target=2),
    k.Heal(name="out"),
    k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=3),
    k.AwaitHeld(name="pending"),
    k.Inject(name="out-again", fault=k.CutLink(source=0, target=1)),
    # A follower that was level within replica.lag.time.max.ms counts on every release from 0.11 on.
    # 15 checkpoints are 1.4 s, so that it no longer does.
    k.AwaitHighWatermarkKept(topic="t", partition=0, brokers=(0,), high_watermark=3, writes=15),
    k.Produce(operation="not-yet", topic="t", partition=0, records=1, acks=1),
    k.AwaitHighWatermarkKept(topic="t", partition=0, brokers=(0,), high_watermark=3),
)


def seen(run, release):
    assert [line["value"] for line in observations(run, "high-watermark-kept")] == [3, 3]
