"""Two cuts between the same brokers: healing one leaves the other.

The follower gets nothing before both are healed.
"""

from kchaos import (
    AwaitHighWatermark,
    AwaitReplicated,
    CreateTopic,
    CutLink,
    Heal,
    Inject,
    Produce,
    TakeSnapshot,
)
from tests.support.looking import values

RELEASES = {"2.8.2": True}
STEPS = (
    CreateTopic(topic="t", assignment=((0, 1),)),
    Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    Inject(name="one", fault=CutLink(source=0, target=1)),
    Inject(name="two", fault=CutLink(source=1, target=0)),
    Heal(name="one"),
    Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    TakeSnapshot(label="one-healed"),
    Heal(name="two"),
    AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=2),
)


def seen(run, release):
    assert values(run, "one-healed", 1) == ["both-0"]
    assert values(run, "final", 1)[:2] == ["both-0", "alone-0"]
