"""What an administrator does: folders, partitions, a reassignment and its end, an unclean election.

A reassignment to a broker that cannot fetch goes on until it is cancelled. A partition whose ISR is
down gets a leader because somebody asks for it, whatever the settings say, and a record is lost.
"""

from typing import Any

import kchaos as k
from tests.support.looking import observations, values

RELEASES = {"2.4.1": True, "2.8.2": True, "3.9.1": True}
BROKERS = (0, 1, 2, 3)
FIRST_BROKER = 3
LOG_DIRECTORIES = 2
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_T1: dict[str, Any] = {"topic": "t", "partition": 1}
WITHOUT_FOLDERS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.Produce(operation="first", records=3, acks=-1, **_T0),
    k.AwaitHighWatermark(brokers=(0, 1), high_watermark=3, **_T0),
    k.Inject(name="2-cut", fault=k.CutLink(source=2, target=0)),
    k.Reassign(replicas=(0, 1, 2), by="api", is_awaited=False, **_T0),
    k.CancelReassignment(**_T0),
    k.Heal(name="2-cut"),
    k.Produce(operation="cancelled", records=1, acks=-1, **_T0),
    k.Reassign(replicas=(2, 1), by="api", **_T0),
    k.Produce(operation="reassigned", records=1, acks=-1, **_T0),
    k.AddPartitions(topic="t", assignment=((1, 2),)),
    k.Produce(operation="both", records=2, acks=-1, **_T1),
    k.AwaitHighWatermark(brokers=(1, 2), high_watermark=2, **_T1),
    k.Inject(name="2-away", fault=k.KillBroker(broker=2)),
    k.AwaitState(leader=1, isr=(1,), **_T1),
    k.Produce(operation="alone", records=1, acks=1, **_T1),
    k.Inject(name="1-away", fault=k.KillBroker(broker=1)),
    k.AwaitDecision(leader=-1, **_T1),
    k.Heal(name="2-away"),
    k.ElectUncleanly(**_T1),
    k.Produce(operation="uncleanly", records=1, acks=1, **_T1),
    k.Heal(name="1-away"),
    k.AwaitState(leader=2, isr=(1, 2), **_T1),
)
STEPS = (*WITHOUT_FOLDERS[:3], k.MoveReplica(broker=1, directory=1, **_T0), *WITHOUT_FOLDERS[3:])


def seen(run, release):
    (asked,) = observations(run, "unclean-election-asked")
    assert (asked["topic"], asked["partition"]) == ("t", 1)
    # The folder that the broker did not choose by itself.
    assert (run.path / "snapshots/final/broker-1.1/t-0").is_dir()
    records = [f"first-{number}" for number in range(3)]
    written = values(run, "final", 2)
    assert written[:5] == [*records, "cancelled-0", "reassigned-0"]
