"""A topic is deleted, and another one is made under its name: its leader epochs begin at 0 again.

Nothing of the first one is lost that should be there, and nothing of it comes back.
"""

from typing import Any

import kchaos as k
from tests.support.looking import observations, values

RELEASES = {"1.1.1": True, "2.8.2": True, "3.9.1": True}
_T: dict[str, Any] = {"topic": "t", "partition": 0}
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.CreateTopic(topic="u", assignment=((0, 1),)),
    k.Produce(operation="first", records=3, acks=-1, **_T),
    k.AwaitHighWatermark(brokers=(0, 1), high_watermark=3, **_T),
    k.Inject(name="epochs", fault=k.KillBroker(broker=0)),
    k.AwaitState(leader=1, isr=(1,), **_T),
    k.Produce(operation="of-epoch-1", records=2, acks=-1, **_T),
    k.Heal(name="epochs"),
    k.AwaitState(leader=1, isr=(0, 1), **_T),
    k.DeleteTopic(topic="t"),
    k.CreateTopic(topic="t", assignment=((1, 0),)),
    k.AwaitState(leader=1, leader_epoch=0, isr=(0, 1), **_T),
    k.Produce(operation="second", records=2, acks=-1, **_T),
    k.Produce(operation="beside", topic="u", partition=0, records=1, acks=-1),
    k.Inject(name="down", fault=k.KillBroker(broker=1)),
    k.AwaitState(leader=0, leader_epoch=1, isr=(0,), **_T),
    k.Produce(operation="third", records=1, acks=-1, **_T),
    k.Heal(name="down"),
    k.AwaitState(leader=0, isr=(0, 1), **_T),
)


def seen(run, release):
    assert [observation["topic"] for observation in observations(run, "topic-deleted")] == ["t"]
    for broker in (0, 1):
        assert len(values(run, "final", broker)) >= 3
