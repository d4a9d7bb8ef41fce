"""Start of a broker with a lost or torn leader-epoch-checkpoint, or an empty log directory.

A killed broker recovers its segments, and puts the epochs of their batches back. After a clean stop
nothing is recovered, and the epochs stay lost: the follower asks for nothing, or for epoch -1, and
truncates to its high watermark. A file with fewer lines than it says ends the broker's start: its
only log directory is given up. 2.8.2 then shuts down in order and marks the log directory as clean,
although the broker was killed before: the next start skips recovery, and the epochs stay lost too.
An empty log directory is filled again from the leader.
"""

from typing import Any

import kchaos as k
from kchaos.checkers.formats.checkpoints import LEADER_EPOCHS, parse_leader_epoch_checkpoint
from tests.support.looking import log_lines, observations

LOGS = "Expected 1 entries in checkpoint file|checkpoint file"
RELEASES = {"1.1.1": True, "2.8.2": True}
ABOUT: dict[str, Any] = {"broker": 1, "topic": "t", "partition": 0}


def turn(name, end, fault):
    return (
        k.Inject(name=f"{name}-down", fault=end(broker=1)),
        k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
        k.Inject(name=f"{name}-disk", fault=fault),
        k.Heal(name=f"{name}-down"),
        k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
        k.TakeSnapshot(label=name),
    )


STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.Produce(operation="first", topic="t", partition=0, records=3, acks=-1),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=3),
    *turn("killed", k.KillBroker, k.LoseEpochs(**ABOUT)),
    *turn("torn", k.KillBroker, k.TearEpochs(**ABOUT)),
    *turn("wiped", k.KillBroker, k.WipeLogDirectory(broker=1)),
    *turn("stopped", k.StopBroker, k.LoseEpochs(**ABOUT)),
)


def epochs(run, snapshot):
    file = run.path / f"snapshots/{snapshot}/broker-1/t-0/{LEADER_EPOCHS}"
    entries = parse_leader_epoch_checkpoint(file.read_text(), file=file.name)
    return [(entry.leader_epoch, entry.start_offset) for entry in entries]


def seen(run, release):
    assert [epochs(run, name) for name in ("killed", "wiped")] == [[(0, 0)]] * 2
    assert epochs(run, "torn") == ([(0, 0)] if release == "1.1.1" else [])
    assert epochs(run, "stopped") == []
    injected = {line["name"]: line for line in observations(run, "injected")}
    assert injected["torn-disk"]["effect"]["exit_code"] != 0
    assert log_lines(run, 1, LOGS)
    assert injected["wiped-disk"]["effect"] == {"entries": []}
    assert all("recovery" in line for line in observations(run, "broker-started"))
