"""A leader waits for a follower outside the ISR only as long as it may lag.

A fetch that reaches the leader's end of the fetch before counts the follower as caught up, and is
below the high watermark: the follower does not join. Its next fetch is held, so a write with
acks=all waits for it. When replica.lag.time.max.ms has passed, the next append moves the high
watermark without it (kafka.cluster.Partition.maybeIncrementLeaderHW and
kafka.cluster.Replica.updateFetchState, 3.8.0). Up to 2.3 any follower's fetch does (KAFKA-8841).
"""

import kchaos as k
from tests.support.case_steps import held_from, write_that_waits
from tests.support.looking import answer, messages, of_partition

BROKERS = (0, 1, 2, 3)
FIRST_BROKER = 3
RELEASES = {"3.9.1": True}
# A follower shall not hang up on a fetch that is held.
PROPERTIES = {
    "replica.lag.time.max.ms": "8000",
    "replica.socket.timeout.ms": "30000",
    "request.timeout.ms": "30000",
}


def write(operation: str) -> k.Produce:
    return k.Produce(operation=operation, topic="t", partition=0, records=1, acks=-1, broker=0)


STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1, 2),)),
    held_from("from-1", 2, 0, 1),
    k.Produce(operation="first", topic="t", partition=0, records=1, acks=1, broker=0),
    k.AwaitHeld(name="from-1"),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
    write("missed"),
    # This fetch reaches the end of none before it that is recent; the next one reaches its end.
    held_from("from-2", 2, 0, 2),
    k.Heal(name="from-1"),
    k.AwaitHeld(name="from-2"),
    write("missed-too"),
    held_from("from-3", 2, 0, 3),
    k.Heal(name="from-2"),
    k.AwaitHeld(name="from-3"),
    write_that_waits("waits"),
    # The file is written every 100 ms: for longer than the follower may lag.
    k.AwaitHighWatermarkKept(topic="t", partition=0, brokers=(0,), high_watermark=3, writes=120),
    k.Produce(operation="moves", topic="t", partition=0, records=1, acks=1, broker=0),
    k.AwaitAnswer(operation="waits"),
    k.Heal(name="from-3"),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1, 2)),
)


def seen(run, release):
    waited = answer(run, "waits")
    assert waited["type"] == "ok", waited
    released = messages(run, "Fetch", 2, 0, direction="request", fate="released")
    arrived = {of_partition(fetch).get("fetch_offset"): fetch["wall_time_s"] for fetch in released}
    assert arrived[2] < waited["time"] < arrived[3], (waited, arrived)
