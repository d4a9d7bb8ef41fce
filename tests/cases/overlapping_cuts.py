"""Two cuts between the same brokers: healing one leaves the other.

The follower gets nothing before both are healed.
"""

import kchaos as k
from tests.support.case_steps import both_have_one
from tests.support.looking import values

RELEASES = {"2.8.2": True}
STEPS = (
    *both_have_one(0, 1),
    k.Inject(name="one", fault=k.CutLink(source=0, target=1)),
    k.Inject(name="two", fault=k.CutLink(source=1, target=0)),
    k.Heal(name="one"),
    k.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    k.TakeSnapshot(label="one-healed"),
    k.Heal(name="two"),
    k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=2),
)


def seen(run, release):
    assert values(run, "one-healed", 1) == ["both-0"]
    assert values(run, "final", 1)[:2] == ["both-0", "alone-0"]
