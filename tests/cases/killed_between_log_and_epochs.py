"""A truncation cuts the log first and its leader epochs then, and a kill may come in between.

0 leads and has a record in an epoch of its own that 1 never had. 1 leads on; 0 truncates, and is
kept from truncating its epoch cache as well (Log.truncateTo, 0.11.0.2 to 3.6.2). It is killed
there: its disk has the epoch of records that are gone, at the log's end. Loading the log drops it.
"""

import kchaos as k
from tests.support.case_steps import both_have_one
from tests.support.looking import leader_epochs, values

RELEASES = {"2.8.2": True}
STEPS = (
    *both_have_one(1, 0),
    k.ReorderReplicas(topic="t", partition=0, replicas=(0, 1)),
    k.Inject(name="elect-0", fault=k.PreferredElection(topic="t", partition=0)),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
    k.ReorderReplicas(topic="t", partition=0, replicas=(1, 0)),
    k.Inject(name="link", fault=k.CutLink(source=0, target=1)),
    k.Produce(operation="0-only", topic="t", partition=0, records=1, acks=1),
    k.Inject(name="elect-1", fault=k.PreferredElection(topic="t", partition=0)),
    k.AwaitState(topic="t", partition=0, leader=1, isr=(0, 1)),
    k.Inject(name="epochs", fault=k.HoldPoint(name="epochs", broker=0, point="epoch-truncation")),
    k.Heal(name="link"),
    k.AwaitHeld(name="epochs"),
    k.TakeSnapshot(label="half"),
    k.Inject(name="down", fault=k.KillBroker(broker=0)),
    k.TakeSnapshot(label="killed"),
    k.Heal(name="epochs"),
    k.Heal(name="down"),
)


def seen(run, release):
    for snapshot in ("half", "killed"):
        assert values(run, snapshot, 0) == ["both-0"]
        (_, first), (own, end) = leader_epochs(run, snapshot, 0)
        assert (first, end) == (0, 1)
        assert own not in dict(leader_epochs(run, "final", 0))
