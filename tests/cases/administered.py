"""What an administrator does: folders, partitions, a reassignment and its end, an unclean election.

A reassignment to a broker that cannot fetch goes on until it is cancelled. A partition whose ISR is
down gets a leader because somebody asks for it, whatever the settings say, and a record is lost.
"""

from typing import Any

import kchaos
from tests.support.looking import observations, values

RELEASES = {"2.4.1": True, "2.8.2": True, "3.9.1": True}
BROKERS = (0, 1, 2, 3)
FIRST_BROKER = 3
LOG_DIRECTORIES = 2
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_T1: dict[str, Any] = {"topic": "t", "partition": 1}
WITHOUT_FOLDERS = (
    kchaos.CreateTopic(topic="t", assignment=((0, 1),)),
    kchaos.Produce(operation="first", records=3, acks=-1, **_T0),
    kchaos.AwaitHighWatermark(brokers=(0, 1), high_watermark=3, **_T0),
    kchaos.Inject(name="2-cut", fault=kchaos.CutLink(source=2, target=0)),
    kchaos.Reassign(replicas=(0, 1, 2), by="api", is_awaited=False, **_T0),
    kchaos.CancelReassignment(**_T0),
    kchaos.Heal(name="2-cut"),
    kchaos.Produce(operation="cancelled", records=1, acks=-1, **_T0),
    kchaos.Reassign(replicas=(2, 1), by="api", **_T0),
    kchaos.Produce(operation="reassigned", records=1, acks=-1, **_T0),
    kchaos.AddPartitions(topic="t", assignment=((1, 2),)),
    kchaos.Produce(operation="both", records=2, acks=-1, **_T1),
    kchaos.AwaitHighWatermark(brokers=(1, 2), high_watermark=2, **_T1),
    kchaos.Inject(name="2-away", fault=kchaos.KillBroker(broker=2)),
    kchaos.AwaitState(leader=1, isr=(1,), **_T1),
    kchaos.Produce(operation="alone", records=1, acks=1, **_T1),
    kchaos.Inject(name="1-away", fault=kchaos.KillBroker(broker=1)),
    kchaos.AwaitDecision(leader=-1, **_T1),
    kchaos.Heal(name="2-away"),
    kchaos.ElectUncleanly(**_T1),
    kchaos.Produce(operation="uncleanly", records=1, acks=1, **_T1),
    kchaos.Heal(name="1-away"),
    kchaos.AwaitState(leader=2, isr=(1, 2), **_T1),
)
STEPS = (
    *WITHOUT_FOLDERS[:3],
    kchaos.MoveReplica(broker=1, directory=1, **_T0),
    *WITHOUT_FOLDERS[3:],
)


def seen(run, release):
    (asked,) = observations(run, "unclean-election-asked")
    assert (asked["topic"], asked["partition"]) == ("t", 1)
    # The folder that the broker did not choose by itself.
    assert (run.path / "snapshots/final/broker-1.1/t-0").is_dir()
    records = [f"first-{number}" for number in range(3)]
    written = values(run, "final", 2)
    assert written[:5] == [*records, "cancelled-0", "reassigned-0"]
