"""From 3.3 on a leader asks whether a follower lives when it makes its wish, and not later.

The follower comes back, and the AlterPartition that would take it into the ISR is held. It dies
again, and its leader hears of that. It comes back once more, and of that its leader does not hear.
Then the controller gets the request, and the follower is in the ISR, although the leader's metadata
cache is without it (kafka.cluster.Partition.maybeExpandIsr, 3.3.0).
"""

import kchaos
from tests.support.looking import messages, of_partition

RELEASES = {"3.2.3": True, "3.3.2": True, "3.9.1": True}
PROPERTIES = {
    # What is held must not make the controller give up.
    "controller.socket.timeout.ms": "60000",
    "zookeeper.session.timeout.ms": "18000",
}
STEPS = (
    kchaos.CreateTopic(topic="t", assignment=((0, 1),)),
    kchaos.Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    kchaos.Inject(name="down", fault=kchaos.KillBroker(broker=1)),
    kchaos.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    kchaos.AwaitQuiet(),
    kchaos.Inject(
        name="wish",
        fault=kchaos.HoldRequests(name="wish", api="AlterPartition", source=0, target=2),
    ),
    kchaos.Heal(name="down"),
    kchaos.AwaitHeld(name="wish"),
    kchaos.Inject(name="down-again", fault=kchaos.KillBroker(broker=1)),
    # Each death is told once.
    kchaos.AwaitMessage(
        api="UpdateMetadata",
        source=2,
        target=0,
        topic="t",
        partition=0,
        says=(("offline_replicas", (1,)),),
        count=2,
    ),
    kchaos.AwaitQuiet(),
    kchaos.Inject(
        name="news",
        fault=kchaos.HoldRequests(name="news", api="UpdateMetadata", source=2, target=0),
    ),
    kchaos.Heal(name="down-again"),
    kchaos.AwaitHeld(name="news"),
    kchaos.Heal(name="wish"),
    kchaos.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
    kchaos.Heal(name="news"),
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
