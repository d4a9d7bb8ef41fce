"""From 3.3 on a leader asks whether a follower lives when it makes its wish, and not later.

The follower comes back, and the AlterPartition that would take it into the ISR is held. It dies
again, and its leader hears of that. It comes back once more, and of that its leader does not hear.
Then the controller gets the request, and the follower is in the ISR, although the leader's metadata
cache is without it (kafka.cluster.Partition.maybeExpandIsr, 3.3.0).
"""

import kchaos as k
from tests.support.case_steps import both_have_one, held
from tests.support.looking import messages, of_partition

RELEASES = {"3.2.3": True, "3.3.2": True, "3.9.1": True}
PROPERTIES = {
    # What is held must not make the controller give up.
    "controller.socket.timeout.ms": "60000",
    "zookeeper.session.timeout.ms": "18000",
}
STEPS = (
    *both_have_one(0, 1),
    k.Inject(name="down", fault=k.KillBroker(broker=1)),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    k.AwaitQuiet(),
    held("wish", "AlterPartition", source=0, target=2),
    k.Heal(name="down"),
    k.AwaitHeld(name="wish"),
    k.Inject(name="down-again", fault=k.KillBroker(broker=1)),
    # Each death is told once.
    k.AwaitMessage(
        api="UpdateMetadata",
        source=2,
        target=0,
        topic="t",
        partition=0,
        says=(("offline_replicas", (1,)),),
        count=2,
    ),
    k.AwaitQuiet(),
    held("news", "UpdateMetadata", source=2, target=0),
    k.Heal(name="down-again"),
    k.AwaitHeld(name="news"),
    k.Heal(name="wish"),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
    k.Heal(name="news"),
)


def seen(run, release):
    (asked,) = messages(run, "AlterPartition", 0, 2, direction="request", fate="released")
    (answered,) = messages(run, "AlterPartition", 0, 2, direction="response")
    assert of_partition(answered)["isr"] == [0, 1], answered
    told = [
        line
        for line in messages(run, "UpdateMetadata", 2, 0, direction="request")
        if line["fate"] == "passed" and line["sequence"] < asked["sequence"]
    ]
    assert 1 not in told[-1]["detail"]["live_brokers"], told[-1]
