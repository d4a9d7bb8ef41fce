"""A follower that sends no fetches falls behind and out of the ISR, and catches up afterwards.

Its fetcher thread comes to the place where it would send and turns back, again and again; the
follower's process, its session and its questions for leader epochs go on. It has just taken
records, so the first fetch that it does not send begins elsewhere than the one before: its leader
still has the earlier offset in their fetch session (KIP-227).
"""

import kchaos
from tests.support.looking import values

PROPERTIES = {"replica.lag.time.max.ms": "3000"}
RELEASES = {"0.10.2.2": True, "1.1.1": True, "2.1.1": True, "3.9.1": True}
SKIPPING = kchaos.HoldPoint(name="no-fetch", broker=1, point="send-fetch", manner="skip")
STEPS = (
    kchaos.CreateTopic(topic="t", assignment=((0, 1),)),
    kchaos.Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    kchaos.Inject(name="answers-late", fault=kchaos.SlowFetchReads(broker=0)),
    kchaos.AwaitHeld(name="answers-late"),
    kchaos.Inject(name="no-fetch", fault=SKIPPING),
    kchaos.Produce(operation="taken", topic="t", partition=0, records=1, acks=1),
    kchaos.Heal(name="answers-late"),
    kchaos.AwaitHeld(name="no-fetch", count=2),
    kchaos.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    kchaos.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    kchaos.TakeSnapshot(label="behind"),
    kchaos.Heal(name="no-fetch"),
    kchaos.AwaitInSync(),
)


def seen(run, release):
    assert [values(run, "behind", broker) for broker in (0, 1)] == [
        ["both-0", "taken-0", "alone-0"],
        ["both-0", "taken-0"],
    ]
