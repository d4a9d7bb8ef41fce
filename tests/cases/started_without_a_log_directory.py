"""A broker starts twice while a log directory of it has failed, and serves the other (KIP-112).

The new process makes no log elsewhere for what lies there: it answers the first LeaderAndIsr for
that replica with KAFKA_STORAGE_ERROR. What lies in the other directory is recovered and followed.
Nor does it make a log for a topic that was made while it was down: its log may lie in the failed
directory. When the directory is back, its log is recovered too, though the broker stopped cleanly
before.
"""

from typing import Any

import kchaos as k
from tests.support.case_steps import ON_TWO_FOLDERS, T, U
from tests.support.looking import messages

RELEASES = {"1.1.1": True, "2.8.2": True, "3.9.1": True}
LOG_DIRECTORIES = 2
_V: dict[str, Any] = {"topic": "v", "partition": 0}
STEPS = (
    *ON_TWO_FOLDERS,
    k.Inject(name="disk", fault=k.FailLogDirectory(broker=0, **T)),
    k.AwaitState(leader=1, isr=(1,), **T),
    k.Produce(operation="without", records=2, acks=-1, **T),
    k.Inject(name="killed", fault=k.KillBroker(broker=0)),
    k.AwaitState(leader=1, isr=(1,), **U),
    k.Heal(name="killed"),
    k.AwaitState(leader=1, isr=(0, 1), **U),
    k.Produce(operation="both-of-u", records=1, acks=-1, **U),
    k.Produce(operation="one-of-t", records=1, acks=-1, **T),
    k.Inject(name="stopped", fault=k.StopBroker(broker=0)),
    k.AwaitState(leader=1, isr=(1,), **U),
    k.CreateTopic(topic="v", assignment=((1, 0),)),
    k.AwaitState(leader=1, isr=(1,), **_V),
    k.Produce(operation="one-of-v", records=1, acks=-1, **_V),
    k.Heal(name="stopped"),
    k.AwaitState(leader=1, isr=(0, 1), **U),
    k.AwaitState(leader=1, isr=(1,), **T),
    k.AwaitState(leader=1, isr=(1,), **_V),
    k.Inject(name="stopped-again", fault=k.StopBroker(broker=0)),
    k.AwaitState(leader=1, isr=(1,), **U),
    k.Heal(name="disk"),
    k.Heal(name="stopped-again"),
    k.AwaitState(leader=1, isr=(0, 1), **T),
    k.AwaitState(leader=1, isr=(0, 1), **U),
    k.AwaitState(leader=1, isr=(1, 0), **_V),
    k.Produce(operation="at-last", records=1, acks=-1, **T),
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
