"""From 3.3 on a leader takes nobody into the ISR of whose life it has not heard.

The follower comes back, and the UpdateMetadata that would tell its leader so is held. It fetches
and has everything. Up to 3.2 its leader takes it into the ISR at once; from 3.3 on only when the
request has come (kafka.cluster.Partition.isReplicaIsrEligible, 3.3.0).
"""

from typing import Any

import kchaos as k
from tests.support.case_steps import both_have_one, held
from tests.support.looking import messages, number

RELEASES = {"3.9.1": True}


def steps(release):
    after: tuple[Any, ...]
    follower_is_back = (
        k.Heal(name="down"),
        k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=2),
        k.AwaitHeld(name="alive"),
    )
    in_sync = k.AwaitDecision(topic="t", partition=0, leader=0, isr=(0, 1))
    if number(release) < (3, 3):
        after = (in_sync, k.Heal(name="alive"))
    else:
        after = (k.Heal(name="alive"), in_sync)
    return (
        *both_have_one(0, 1),
        k.Inject(name="down", fault=k.KillBroker(broker=1)),
        k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
        k.Produce(operation="alone", topic="t", partition=0, records=1, acks=1),
        held("alive", "UpdateMetadata", source=2, target=0),
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
