"""A leader waits for a follower outside the ISR only as long as it may lag.

The follower's second fetch reaches where the leader's log ended at the first one, which is below
the high watermark: it counts as caught up, and does not join. Its next fetch is held. A write with
acks=all waits for it, and is acknowledged once replica.lag.time.max.ms is over
(kafka.cluster.Partition.maybeIncrementLeaderHW).
"""

from kchaos import (
    AwaitAnswer,
    AwaitHeld,
    AwaitHighWatermark,
    AwaitState,
    CreateTopic,
    Heal,
    HoldRequests,
    Inject,
    KillBroker,
    Produce,
)
from tests.support.looking import answer, messages

BROKERS = (0, 1, 2, 3)
FIRST_BROKER = 3
RELEASES = {"1.1.1": True, "2.8.2": True, "3.9.1": True}
PROPERTIES = {"replica.lag.time.max.ms": "6000"}


def fetches_held(name: str, offset: int) -> Inject:
    return Inject(
        name=name,
        fault=HoldRequests(
            name=name,
            api="Fetch",
            source=2,
            target=0,
            topic="t",
            partition=0,
            fetch_offset_at_least=offset,
        ),
    )


STEPS = (
    CreateTopic(topic="t", assignment=((0, 1, 2),)),
    Produce(operation="all", topic="t", partition=0, records=1, acks=-1),
    AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1, 2), high_watermark=1),
    Inject(name="down", fault=KillBroker(broker=2)),
    AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
    Produce(operation="missed", topic="t", partition=0, records=1, acks=-1),
    fetches_held("second", 2),
    Heal(name="down"),
    AwaitHeld(name="second"),
    Produce(operation="meanwhile", topic="t", partition=0, records=1, acks=-1),
    fetches_held("third", 3),
    Heal(name="second"),
    AwaitHeld(name="third"),
    Produce(
        operation="waits",
        topic="t",
        partition=0,
        records=1,
        acks=-1,
        broker=0,
        await_answer=False,
        timeout_s=60,
    ),
    AwaitAnswer(operation="waits"),
    Heal(name="third"),
    AwaitState(topic="t", partition=0, leader=0, isr=(0, 1, 2)),
)


def seen(run, release):
    waited = answer(run, "waits")
    assert waited["type"] == "ok", waited
    fetches = messages(run, "Fetch", 2, 0, direction="request", fate="released")
    assert any(waited["time"] < fetch["wall_time_s"] for fetch in fetches), (waited, fetches)
