"""Replication is throttled: a follower that is not in sync waits, and then gets all the same.

The first answer uses the leader's quota up, and those after it carry nothing. Later the follower's
own quota keeps it from fetching at all: it takes leave of the partition, and asks for it anew.
"""

from typing import Any

import kchaos as k
from tests.support.looking import observations

RELEASES = {"1.1.1": True, "2.8.2": True, "3.9.1": True}
PROPERTIES = {"replica.fetch.max.bytes": "400"}


def _throttled(side):
    broker = {"leader": 0, "follower": 1}[side]
    fault = k.ThrottleReplication(broker=broker, topic="t", bytes_per_second=1, side=side)
    replica: dict[str, Any] = {"topic": "t", "partition": 0}
    return (
        k.Inject(name=f"down-{side}", fault=k.KillBroker(broker=1)),
        *(k.Produce(operation=f"{side}-{n}", records=20, acks=1, **replica) for n in range(4)),
        k.Inject(name=side, fault=fault),
        k.Heal(name=f"down-{side}"),
        k.AwaitThrottled(leader=0, follower=1, side=side, **replica),
        k.Heal(name=side),
        k.AwaitReplicated(
            brokers=(0, 1), log_end_offset=81 if side == "leader" else 161, **replica
        ),
        k.AwaitState(leader=0, isr=(0, 1), **replica),
    )


STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.Produce(operation="first", topic="t", partition=0, records=1, acks=-1),
    *_throttled("leader"),
    *_throttled("follower"),
)


def seen(run, release):
    by_leader, by_follower = observations(run, "throttled")
    assert by_leader["last_offset"] < 80
    assert 80 <= by_follower["last_offset"] < 160
