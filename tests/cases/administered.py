"""What an administrator does: folders, partitions, a reassignment and its end, an unclean election.

A reassignment to a broker that cannot fetch goes on until it is cancelled. A partition whose ISR is
down gets a leader because somebody asks for it, whatever the settings say, and a record is lost.
"""

from typing import Any

from kchaos import (
    AddPartitions,
    AwaitDecision,
    AwaitHighWatermark,
    AwaitState,
    CancelReassignment,
    CreateTopic,
    CutLink,
    ElectUncleanly,
    Heal,
    Inject,
    KillBroker,
    MoveReplica,
    Produce,
    Reassign,
)
from tests.support.looking import observations, values

RELEASES = {"2.4.1": True, "2.8.2": True, "3.9.1": True}
BROKERS = (0, 1, 2, 3)
FIRST_BROKER = 3
LOG_DIRECTORIES = 2
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_T1: dict[str, Any] = {"topic": "t", "partition": 1}
WITHOUT_FOLDERS = (
    CreateTopic(topic="t", assignment=((0, 1),)),
    Produce(operation="first", records=3, acks=-1, **_T0),
    AwaitHighWatermark(brokers=(0, 1), high_watermark=3, **_T0),
    Inject(name="2-cut", fault=CutLink(source=2, target=0)),
    Reassign(replicas=(0, 1, 2), by="api", is_awaited=False, **_T0),
    CancelReassignment(**_T0),
    Heal(name="2-cut"),
    Produce(operation="cancelled", records=1, acks=-1, **_T0),
    Reassign(replicas=(2, 1), by="api", **_T0),
    Produce(operation="reassigned", records=1, acks=-1, **_T0),
    AddPartitions(topic="t", assignment=((1, 2),)),
    Produce(operation="both", records=2, acks=-1, **_T1),
    AwaitHighWatermark(brokers=(1, 2), high_watermark=2, **_T1),
    Inject(name="2-away", fault=KillBroker(broker=2)),
    AwaitState(leader=1, isr=(1,), **_T1),
    Produce(operation="alone", records=1, acks=1, **_T1),
    Inject(name="1-away", fault=KillBroker(broker=1)),
    AwaitDecision(leader=-1, **_T1),
    Heal(name="2-away"),
    ElectUncleanly(**_T1),
    Produce(operation="uncleanly", records=1, acks=1, **_T1),
    Heal(name="1-away"),
    AwaitState(leader=2, isr=(1, 2), **_T1),
)
STEPS = (*WITHOUT_FOLDERS[:3], MoveReplica(broker=1, directory=1, **_T0), *WITHOUT_FOLDERS[3:])


def seen(run, release):
    (asked,) = observations(run, "unclean-election-asked")
    assert (asked["topic"], asked["partition"]) == ("t", 1)
    # The folder that the broker did not choose by itself.
    assert (run.path / "snapshots/final/broker-1.1/t-0").is_dir()
    records = [f"first-{number}" for number in range(3)]
    written = values(run, "final", 2)
    assert written[:5] == [*records, "cancelled-0", "reassigned-0"]
