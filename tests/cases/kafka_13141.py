"""KAFKA-13141: a leader takes a diverging fetch for replicated records, on 2.8.0.

0 and 1 each wrote a record at offset 1 that the other never saw, 0 even two. When 0 follows 1 it
fetches from offset 3, and 1 answers that 0's log diverges. 2.8.0 notes all the same that 0 has
everything up to 3, and moves the high watermark over its own record, which no other replica holds
(kafka.server.ReplicaManager.updateFollowerFetchState, 2.8.0); 2.8.1 does not.
"""

from typing import Any

import kchaos as k
from tests.support.case_steps import both_have_one, held
from tests.support.looking import high_watermark, messages, of_partition

RELEASES = {"2.8.0": True, "2.8.1": True}


def steps(release):
    after: k.AwaitHighWatermark | k.AwaitHighWatermarkKept
    awaited: dict[str, Any] = {"topic": "t", "partition": 0, "brokers": (1,)}
    if release == "2.8.0":
        after = k.AwaitHighWatermark(**awaited, high_watermark=2)
    else:
        after = k.AwaitHighWatermarkKept(**awaited, high_watermark=1)
    return (
        *both_have_one(0, 1),
        k.ReorderReplicas(topic="t", partition=0, replicas=(1, 0)),
        k.Inject(name="link", fault=k.CutLink(source=0, target=1)),
        k.Produce(
            operation="0-only", topic="t", partition=0, records=2, acks=1, one_record_batches=True
        ),
        k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitState(topic="t", partition=0, leader=1, isr=(0, 1)),
        k.AwaitFollowing(topic="t", partition=0, follower=0, leader=1),
        k.Produce(operation="1-only", topic="t", partition=0, records=1, acks=1),
        held("answer", "Fetch", source=0, target=1, direction="response"),
        k.Heal(name="link"),
        k.AwaitHeld(name="answer"),
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
