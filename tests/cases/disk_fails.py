"""A disk is full, and later gives errors: its broker ends, comes back, and is killed in recovery.

Before 1.0 a broker ends where it cannot write its high watermarks. From then on its log directory
fails, and a broker without another one ends for that (KIP-112). Nothing that was acknowledged is
lost, and what could not be written is fetched again.
"""

from typing import Any

import kchaos as k
from kchaos.checkers.model.releases.versions import parse_version
from tests.support.looking import log_lines

RELEASES = {"0.10.2.2": True, "1.1.1": True, "2.8.2": True, "3.9.1": True}
LOGS = r"all log dirs in|highwatermark file|Loading logs"
_T: dict[str, Any] = {"topic": "t", "partition": 0}
_CHECKPOINT = "replication-offset-checkpoint.tmp"
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.Produce(operation="before", records=3, acks=-1, **_T),
    k.AwaitHighWatermark(brokers=(0, 1), high_watermark=3, **_T),
    k.Inject(name="full", fault=k.FailDisk(broker=0, error="ENOSPC")),
    k.AwaitState(leader=1, isr=(1,), **_T),
    k.Produce(operation="without", records=2, acks=-1, **_T),
    k.Heal(name="full"),
    k.AwaitState(leader=1, isr=(0, 1), **_T),
    k.Produce(operation="with", records=1, acks=-1, **_T),
    k.Inject(name="bad", fault=k.FailDisk(broker=1, error="EIO", path=_CHECKPOINT)),
    k.AwaitState(leader=0, isr=(0,), **_T),
    k.Produce(operation="alone", records=2, acks=-1, **_T),
    k.Heal(name="bad"),
    k.AwaitState(leader=0, isr=(0, 1), **_T),
    k.Inject(name="twice", fault=k.KillBroker(broker=0, in_recovery=True)),
    k.AwaitState(leader=1, isr=(1,), **_T),
    k.Heal(name="twice"),
    k.AwaitState(leader=1, isr=(0, 1), **_T),
)


def seen(run, release):
    exits = [
        (line["broker"], line["exit_code"])
        for line in run.read_lines("observations.jsonl")
        if line["kind"] == "broker-gone"
    ]
    assert exits == [(0, 1), (1, 1), (0, -9), (0, -9)], exits
    ends = "all log dirs in" if parse_version(release) >= (1, 0) else "highwatermark file"
    assert len(log_lines(run, 0, ends)) == 1
    # At its first start, after its disk, and twice after it was killed.
    assert len(log_lines(run, 0, "Loading logs")) == 4
