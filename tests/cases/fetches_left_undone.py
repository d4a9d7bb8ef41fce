"""A follower that sends no fetches falls behind and out of the ISR, and catches up afterwards.

Its fetcher thread comes to the place where it would send and turns back, again and again; the
follower's process, its session and its questions for leader epochs go on. It has just taken
records, so the first fetch that it does not send begins elsewhere than the one before: its leader
still has the earlier offset in their fetch session (KIP-227).
"""

from kchaos import (
    AwaitHeld,
    AwaitInSync,
    AwaitState,
    CreateTopic,
    Heal,
    HoldPoint,
    Inject,
    Produce,
    SlowFetchReads,
    TakeSnapshot,
)
from tests.support.looking import values

PROPERTIES = {"replica.lag.time.max.ms": "3000"}
RELEASES = {"0.10.2.2": True, "1.1.1": True, "2.1.1": True, "3.9.1": True}
SKIPPING = HoldPoint(name="no-fetch", broker=1, point="send-fetch", manner="skip")
STEPS = (
    CreateTopic(topic="t", assignment=((0, 1),)),
    Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    Inject(name="answers-late", fault=SlowFetchReads(broker=0)),
    AwaitHeld(name="answers-late"),
    Inject(name="no-fetch", fault=SKIPPING),
    Produce(operation="taken", topic="t", partition=0, records=1, acks=1),
    Heal(name="answers-late"),
    AwaitHeld(name="no-fetch", count=2),
    Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    TakeSnapshot(label="behind"),
    Heal(name="no-fetch"),
    AwaitInSync(),
)


def seen(run, release):
    assert [values(run, "behind", broker) for broker in (0, 1)] == [
        ["both-0", "taken-0", "alone-0"],
        ["both-0", "taken-0"],
    ]
