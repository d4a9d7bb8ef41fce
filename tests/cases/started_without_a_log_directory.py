"""A broker starts twice while a log directory of it has failed, and serves the other (KIP-112).

The new process makes no log elsewhere for what lies there: it answers the first LeaderAndIsr for
that replica with KAFKA_STORAGE_ERROR. What lies in the other directory is recovered and followed.
Nor does it make a log for a topic that was made while it was down: its log may lie in the failed
directory. When the directory is back, its log is recovered too, though the broker stopped cleanly
before.
"""

from typing import Any

import kchaos as k
from tests.support.looking import messages

RELEASES = {"1.1.1": True, "2.8.2": True, "3.9.1": True}
LOG_DIRECTORIES = 2
_T: dict[str, Any] = {"topic": "t", "partition": 0}
_U: dict[str, Any] = {"topic": "u", "partition": 0}
_V: dict[str, Any] = {"topic": "v", "partition": 0}
STEPS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.CreateTopic(topic="u", assignment=((0, 1),)),
    k.Produce(operation="of-t", records=3, acks=-1, **_T),
    k.Produce(operation="of-u", records=5, acks=-1, **_U),
    k.AwaitHighWatermark(brokers=(0, 1), high_watermark=3, **_T),
    k.AwaitHighWatermark(brokers=(0, 1), high_watermark=5, **_U),
    k.Inject(name="disk", fault=k.FailLogDirectory(broker=0, **_T)),
    k.AwaitState(leader=1, isr=(1,), **_T),
    k.Produce(operation="without", records=2, acks=-1, **_T),
    k.Inject(name="killed", fault=k.KillBroker(broker=0)),
    k.AwaitState(leader=1, isr=(1,), **_U),
    k.Heal(name="killed"),
    k.AwaitState(leader=1, isr=(0, 1), **_U),
    k.Produce(operation="both-of-u", records=1, acks=-1, **_U),
    k.Produce(operation="one-of-t", records=1, acks=-1, **_T),
    k.Inject(name="stopped", fault=k.StopBroker(broker=0)),
    k.AwaitState(leader=1, isr=(1,), **_U),
    k.CreateTopic(topic="v", assignment=((1, 0),)),
    k.AwaitState(leader=1, isr=(1,), **_V),
    k.Produce(operation="one-of-v", records=1, acks=-1, **_V),
    k.Heal(name="stopped"),
    k.AwaitState(leader=1, isr=(0, 1), **_U),
    k.AwaitState(leader=1, isr=(1,), **_T),
    k.AwaitState(leader=1, isr=(1,), **_V),
    k.Inject(name="stopped-again", fault=k.StopBroker(broker=0)),
    k.AwaitState(leader=1, isr=(1,), **_U),
    k.Heal(name="disk"),
    k.Heal(name="stopped-again"),
    k.AwaitState(leader=1, isr=(0, 1), **_T),
    k.AwaitState(leader=1, isr=(0, 1), **_U),
    k.AwaitState(leader=1, isr=(1, 0), **_V),
    k.Produce(operation="at-last", records=1, acks=-1, **_T),
    k.AwaitHighWatermark(brokers=(0, 1), high_watermark=1, **_V),
)


def seen(run, release):
    answers = messages(run, "LeaderAndIsr", 2, 0, direction="response")
    refused = [
        [entry["topic"] for entry in line["detail"]["partitions"] if entry["error_code"] == 56]
        for line in answers
    ]
    assert sum("t" in topics for topics in refused) >= 3, refused
    assert not any("u" in topics for topics in refused), refused
    assert sum("v" in topics for topics in refused) == 1, refused
