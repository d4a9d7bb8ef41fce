"""A leader waits for a follower outside the ISR only as long as it may lag.

The follower's first fetch reaches where the leader's epoch began, which is below the high
watermark: it counts as caught up, and does not join. Its next fetch is held, so that a write with
acks=all waits for it. Once replica.lag.time.max.ms is over, the next append moves the high
watermark (kafka.cluster.Partition.maybeIncrementLeaderHW, 2.8.2 and 3.8.0). Up to 2.6 any fetch
does that.
"""

from kchaos import (
    AwaitAnswer,
    AwaitHeld,
    AwaitHighWatermark,
    AwaitHighWatermarkKept,
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
RELEASES = {"2.8.2": True, "3.9.1": True}
PROPERTIES = {"replica.lag.time.max.ms": "2000"}


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
    fetches_held("next", 2),
    Heal(name="down"),
    AwaitHeld(name="next"),
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
    # The file is written every 100 ms: for longer than the follower may lag.
    AwaitHighWatermarkKept(topic="t", partition=0, brokers=(0,), high_watermark=2, writes=40),
    Produce(operation="moves", topic="t", partition=0, records=1, acks=1, broker=0),
    AwaitAnswer(operation="waits"),
    Heal(name="next"),
    AwaitState(topic="t", partition=0, leader=0, isr=(0, 1, 2)),
)


def seen(run, release):
    waited = answer(run, "waits")
    assert waited["type"] == "ok", waited
    fetches = messages(run, "Fetch", 2, 0, direction="request", fate="released")
    assert any(waited["time"] < fetch["wall_time_s"] for fetch in fetches), (waited, fetches)
