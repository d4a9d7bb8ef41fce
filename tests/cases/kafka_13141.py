"""KAFKA-13141: a leader takes a diverging fetch for replicated records, on 2.8.0.

0 and 1 each wrote a record at offset 1 that the other never saw, 0 even two. When 0 follows 1 it
fetches from offset 3, and 1 answers that 0's log diverges. 2.8.0 notes all the same that 0 has
everything up to 3, and moves the high watermark over its own record, which no other replica holds
(kafka.server.ReplicaManager.updateFollowerFetchState, 2.8.0); 2.8.1 does not.
"""

from typing import Any

from kchaos import (
    AwaitFollowing,
    AwaitHeld,
    AwaitHighWatermark,
    AwaitHighWatermarkKept,
    AwaitState,
    CreateTopic,
    CutLink,
    Heal,
    HoldRequests,
    Inject,
    PreferredElection,
    Produce,
    ReorderReplicas,
)
from tests.support.looking import high_watermark, messages, of_partition

RELEASES = {"2.8.0": True, "2.8.1": True}


def steps(release):
    after: AwaitHighWatermark | AwaitHighWatermarkKept
    awaited: dict[str, Any] = {"topic": "t", "partition": 0, "brokers": (1,)}
    if release == "2.8.0":
        after = AwaitHighWatermark(**awaited, high_watermark=2)
    else:
        after = AwaitHighWatermarkKept(**awaited, high_watermark=1)
    return (
        CreateTopic(topic="t", assignment=((0, 1),)),
        Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
        AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
        ReorderReplicas(topic="t", partition=0, replicas=(1, 0)),
        Inject(name="link", fault=CutLink(source=0, target=1)),
        Produce(
            operation="0-only",
            topic="t",
            partition=0,
            records=2,
            acks=1,
            one_record_batches=True,
        ),
        Inject(name="elect", fault=PreferredElection(topic="t", partition=0)),
        AwaitState(topic="t", partition=0, leader=1, isr=(0, 1)),
        AwaitFollowing(topic="t", partition=0, follower=0, leader=1),
        Produce(operation="1-only", topic="t", partition=0, records=1, acks=1),
        Inject(
            name="answer",
            fault=HoldRequests(
                name="answer", api="Fetch", source=0, target=1, direction="response"
            ),
        ),
        Heal(name="link"),
        AwaitHeld(name="answer"),
        after,
    )


def seen(run, release):
    answers = [
        of_partition(line)["diverging_epoch"]
        for line in messages(run, "Fetch", 0, 1, direction="response", fate="held")
        if of_partition(line)
    ]
    assert answers[-1]["end_offset"] == 1, answers
    assert high_watermark(run, "before-healing", 1) == (2 if release == "2.8.0" else 1)
