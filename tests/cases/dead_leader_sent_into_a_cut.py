"""A leader that sent into a cut and then died: nobody gets it when the cut heals.

The answer to a fetch waits at the link. Its follower has not heard of another leader: the
controller cannot reach it either, so it would append the record.
"""

import kchaos as k
from tests.support.case_steps import both_have_one
from tests.support.looking import values

# The fetch must still wait at the leader when the record comes.
PROPERTIES = {"replica.fetch.wait.max.ms": "900", "replica.socket.timeout.ms": "2000"}
RELEASES = {"1.1.1": True}
STEPS = (
    *both_have_one(1, 0),
    k.Inject(name="controller", fault=k.CutLink(source=2, target=0)),
    k.Inject(name="leader", fault=k.CutLink(source=1, target=0)),
    k.Produce(operation="sent", topic="t", partition=0, records=1, acks=1, broker=1),
    k.AwaitMessage(
        api="Fetch",
        source=0,
        target=1,
        direction="response",
        fates=("cut",),
        topic="t",
        says=(("last_offset", 1),),
    ),
    k.Inject(name="down", fault=k.KillBroker(broker=1)),
    k.Heal(name="leader"),
    k.Heal(name="controller"),
)


def seen(run, release):
    assert values(run, "before-healing", 0) == ["both-0"]
