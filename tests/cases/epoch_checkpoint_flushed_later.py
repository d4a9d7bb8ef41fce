"""From 3.8 on a truncation drops epochs from memory at once, and from the file some time later.

0 leads and has a record in an epoch of its own that 1 never had. It dies, 1 leads on, and 0 comes
back and truncates. The thread that writes leader-epoch-checkpoint afterwards is kept from it
(LeaderEpochFileCache.truncateFromEndAsyncFlush): the file still has the epoch, at the log's end.
Loading the log comes to that place once as well.
"""

import kchaos as k
from tests.support.case_steps import both_have_one
from tests.support.looking import leader_epochs, values

RELEASES = {"3.9.1": True}
STEPS = (
    *both_have_one(1, 0),
    k.ReorderReplicas(topic="t", partition=0, replicas=(0, 1)),
    k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0)),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
    k.Inject(name="link", fault=k.CutLink(source=0, target=1)),
    k.Produce(operation="0-only", topic="t", partition=0, records=1, acks=1),
    k.Inject(name="down", fault=k.KillBroker(broker=0)),
    k.AwaitState(topic="t", partition=0, leader=1, isr=(1,)),
    k.Inject(name="flush", fault=k.HoldPoint(name="flush", broker=0, point="epoch-flush")),
    k.Heal(name="down"),
    k.Heal(name="link"),
    k.AwaitHeld(name="flush", count=2),
    k.TakeSnapshot(label="truncated"),
)


def seen(run, release):
    assert values(run, "truncated", 0) == ["both-0"]
    (_, first), (own, end) = leader_epochs(run, "truncated", 0)
    assert (first, end) == (0, 1)
    assert own not in dict(leader_epochs(run, "final", 0))
