"""Inside a fetch session nobody is fenced up to 2.4: a follower that missed an epoch goes on.

The follower's session with ZooKeeper ends while it is cut off from it. The controller removes it
from the ISR, in a new leader epoch of the same leader, and cannot tell it, for it is gone. KIP-320
has a leader refuse a fetch of an older epoch (FENCED_LEADER_EPOCH, 74), from 2.1 on. Up to 2.4 that
concerns full fetches alone: a leader keeps no epoch for a session's partitions, and answers even a
request that names one with the older epoch (kafka.server.CachedPartition.reqData, 2.2.2). It puts
the follower, which nobody has registered, back into the ISR as well. From 2.5 on (KAFKA-9338) the
fetch that waits is refused as soon as the leader has heard of its new epoch.
"""

from typing import Any

import kchaos as k
from tests.support.case_steps import both_have_one
from tests.support.looking import messages, number, of_partition

RELEASES = {"2.2.2": True}


def steps(release):
    after: tuple[Any, ...]
    told = k.AwaitMessage(api="LeaderAndIsr", target=0, topic="t", says=(("leader_epoch", 1),))
    if number(release) < (2, 5):
        after = (
            k.AwaitReplicated(topic="t", partition=0, brokers=(0, 1), log_end_offset=2),
            k.AwaitDecision(topic="t", partition=0, leader=0, isr=(0, 1)),
        )
    else:
        refused: dict[str, Any] = {"topic": "t", "says": (("error_code", 74),)}
        after = (k.AwaitMessage(api="Fetch", source=1, target=0, direction="response", **refused),)
    return (
        *both_have_one(0, 1),
        k.Inject(name="zookeeper", fault=k.CutZooKeeper(broker=1)),
        k.Inject(name="session", fault=k.ExpireSession(broker=1, await_return=False)),
        told,
        k.Produce(operation="later", topic="t", partition=0, records=1, acks=1),
        *after,
    )


def seen(run, release):
    # Of the partition's second record on: full fetches, the first ones, begin at 0 and 1.
    old = [
        line
        for line in messages(run, "Fetch", 1, 0, direction="request", fate="passed")
        if of_partition(line).get("fetch_offset") == 2
        and of_partition(line)["current_leader_epoch"] == 0
    ]
    assert bool(old) is (number(release) < (2, 5)), old
    assert all(line["detail"]["session_epoch"] > 0 for line in old), old
