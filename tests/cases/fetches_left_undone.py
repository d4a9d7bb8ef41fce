"""A follower that sends no fetches falls behind and out of the ISR, and catches up afterwards.

Its fetcher thread comes to the place where it would send and turns back, again and again; the
follower's process, its session and its questions for leader epochs go on.
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
    TakeSnapshot,
)
from tests.support.looking import values

PROPERTIES = {"replica.lag.time.max.ms": "3000"}
RELEASES = {"0.10.2.2": True, "2.1.1": True}
SKIPPING = HoldPoint(name="no-fetch", broker=1, point="send-fetch", manner="skip")
STEPS = (
    CreateTopic(topic="t", assignment=((0, 1),)),
    Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
    Inject(name="no-fetch", fault=SKIPPING),
    AwaitHeld(name="no-fetch", count=2),
    Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
    AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    TakeSnapshot(label="behind"),
    Heal(name="no-fetch"),
    AwaitInSync(),
)


def seen(run, release):
    assert [values(run, "behind", broker) for broker in (0, 1)] == [
        ["both-0", "alone-0"],
        ["both-0"],
    ]
