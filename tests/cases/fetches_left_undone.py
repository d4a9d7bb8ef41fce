"""A follower that sends no fetches falls behind and out of the ISR, and catches up afterwards.

Its fetcher thread comes to the place where it would send and turns back, again and again; the
follower's process, its session and its questions for leader epochs go on. It has just taken
records, so the first fetch that it does not send begins elsewhere than the one before: its leader
still has the earlier offset in their fetch session (KIP-227).
"""

import kchaos as k
from tests.support.looking import values

PROPERTIES = {"replica.lag.time.max.ms": "3000"}
RELEASES = {"0.10.2.2": True, "1.1.1": True, "2.1.1": True, "3.9.1": True}
SKIPPING = k.HoldPoint(name="no-fetch", broker=1, point="send-fetch", manner="skip")
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    k.Inject(name="answers-late", fault=k.SlowFetchReads(broker=0)),
    k.AwaitHeld(name="answers-late"),
    k.Inject(name="no-fetch", fault=SKIPPING),
    k.Produce(operation="taken", topic="t", partition=0, records=1, acks=1),
    k.Heal(name="answers-late"),
    k.AwaitHeld(name="no-fetch", count=2),
    k.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    k.TakeSnapshot(label="behind"),
    k.Heal(name="no-fetch"),
    k.AwaitInSync(),
)


def seen(run, release):
    assert [values(run, "behind", broker) for broker in (0, 1)] == [
        ["both-0", "taken-0", "alone-0"],
        ["both-0", "taken-0"],
    ]
