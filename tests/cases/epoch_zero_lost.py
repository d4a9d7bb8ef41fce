"""A killed broker has lost the epochs of a log whose batches are all of epoch 0.

Its recovery puts the epochs of batches back. From 2.1.1 to 2.6.0 it leaves out epoch 0
(KAFKA-7897), so that the cache stays empty until the broker leads or appends (KAFKA-10432).
"""

from typing import Any

import kchaos as k
from kchaos.checkers.formats.checkpoints import LEADER_EPOCHS, parse_leader_epoch_checkpoint

RELEASES = {"2.5.1": True, "2.6.3": True}
_T: dict[str, Any] = {"topic": "t", "partition": 0}
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.Produce(operation="first", records=3, acks=-1, **_T),
    k.AwaitHighWatermark(brokers=(0, 1), high_watermark=3, **_T),
    k.Inject(name="down", fault=k.KillBroker(broker=1)),
    k.AwaitState(leader=0, isr=(0,), **_T),
    k.Inject(name="disk", fault=k.LoseEpochs(broker=1, **_T)),
    k.Heal(name="down"),
    k.AwaitState(leader=0, isr=(0, 1), **_T),
    k.TakeSnapshot(label="recovered"),
)


def seen(run, release):
    file = run.path / f"snapshots/recovered/broker-1/t-0/{LEADER_EPOCHS}"
    entries = parse_leader_epoch_checkpoint(file.read_text(), file=file.name)
    kept = [(entry.leader_epoch, entry.start_offset) for entry in entries]
    assert kept == ([] if release == "2.5.1" else [(0, 0)])
