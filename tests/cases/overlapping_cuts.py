"""Two cuts between the same brokers: healing one leaves the other.

The follower gets nothing before both are healed.
"""

import kchaos
from tests.support.looking import values

RELEASES = {"2.8.2": True}
STEPS = (
    kchaos.CreateTopic(topic="t", assignment=((0, 1),)),
    kchaos.Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    kchaos.Inject(name="one", fault=kchaos.CutLink(source=0, target=1)),
    kchaos.Inject(name="two", fault=kchaos.CutLink(source=1, target=0)),
    kchaos.Heal(name="one"),
    kchaos.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    kchaos.TakeSnapshot(label="one-healed"),
    kchaos.Heal(name="two"),
    kchaos.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=2),
)


def seen(run, release):
    assert values(run, "one-healed", 1) == ["both-0"]
    assert values(run, "final", 1)[:2] == ["both-0", "alone-0"]
