"""A cut of a follower's requests leaves the answers alone: the fetch in flight is answered.

The fetch waits at the leader for records when the follower's way to it is cut. What is written
after that is its answer, and reaches the follower; there is no next fetch.
"""

import kchaos as k
from tests.support.case_steps import both_have_one
from tests.support.looking import values

# The fetch must still wait when the record comes.
PROPERTIES = {"replica.fetch.wait.max.ms": "900", "replica.socket.timeout.ms": "2000"}
RELEASES = {"1.1.1": True}
STEPS = (
    *both_have_one(0, 1),
    k.Inject(name="requests", fault=k.CutLink(source=1, target=0, one_way=True)),
    k.Produce(operation="answered", topic="t", partition=0, records=1, acks=1),
    k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=2),
    k.Produce(operation="cut", topic="t", partition=0, records=1, acks=1),
    k.AwaitCutOff(source=1, target=0),
)


def seen(run, release):
    assert values(run, "before-healing", 0) == ["both-0", "answered-0", "cut-0"]
    assert values(run, "before-healing", 1) == ["both-0", "answered-0"]
