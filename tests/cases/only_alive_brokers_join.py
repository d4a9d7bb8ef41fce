"""From 3.3 on a leader takes nobody into the ISR of whose life it has not heard.

The follower comes back, and the UpdateMetadata that would tell its leader so is held. It fetches
and has everything. Up to 3.2 its leader takes it into the ISR at once; from 3.3 on only when the
request has come (kafka.cluster.Partition.isReplicaIsrEligible, 3.3.0).
"""

from typing import Any

from kchaos import (
    AwaitDecision,
    AwaitHeld,
    AwaitHighWatermark,
    AwaitReplicated,
    AwaitState,
    CreateTopic,
    Heal,
    HoldRequests,
    Inject,
    KillBroker,
    Produce,
)
from tests.support.looking import messages, number

RELEASES = {"3.9.1": True}


def steps(release):
    after: tuple[Any, ...]
    follower_is_back = (
        Heal(name="down"),
        AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=2),
        AwaitHeld(name="alive"),
    )
    in_sync = AwaitDecision(topic="t", partition=0, leader=0, isr=(0, 1))
    if number(release) < (3, 3):
        after = (in_sync, Heal(name="alive"))
    else:
        after = (Heal(name="alive"), in_sync)
    return (
        CreateTopic(topic="t", assignment=((0, 1),)),
        Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
        AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
        Inject(name="down", fault=KillBroker(broker=1)),
        AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
        Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
        Inject(
            name="alive",
            fault=HoldRequests(name="alive", api="UpdateMetadata", source=2, target=0),
        ),
        *follower_is_back,
        *after,
    )


def seen(run, release):
    asked = [
        line["wall_time_s"] for line in messages(run, "AlterPartition", 0, direction="request")
    ]
    healed = [
        line["time"]
        for line in run.read_lines("observations.jsonl")
        if line["kind"] == "act" and line["act"] == "ReleaseHold"
    ]
    assert (asked[0] > healed[0]) is (number(release) >= (3, 3)), (asked, healed)
