"""Brokers with two log directories each: what lies in one of them has no part in the other's files.

A new process that is told of t alone (KAFKA-7235) writes the high watermarks of t's log directory
anew, and those of u's not, also when it stops cleanly. From 2.2 on nothing can tell it so late.
"""

import kchaos as k
from tests.support.case_steps import ON_TWO_FOLDERS, T, U

RELEASES = {"1.1.1": False, "2.8.2": True, "3.9.1": True}
LOG_DIRECTORIES = 2
# The controller stands still for longer than others' sessions live.
BROKER_PROPERTIES = {2: {"zookeeper.session.timeout.ms": "40000"}}
_BEFORE = (*ON_TWO_FOLDERS,)
_LATE = k.StaleRequest(api="LeaderAndIsr", broker=1, partitions=(("t", 0),))
_BOUNCED = (
    k.Inject(name="still", fault=k.PauseBroker(broker=2)),
    k.Inject(name="killed", fault=k.KillBroker(broker=1)),
    k.Heal(name="killed"),
)
_AFTER = (
    k.Inject(name="stopped", fault=k.StopBroker(broker=1)),
    k.Heal(name="still"),
    k.AwaitState(leader=0, isr=(0,), **U),
    k.Produce(operation="alone", records=1, acks=1, **U),
    k.Heal(name="stopped"),
    k.AwaitState(leader=0, isr=(0, 1), **T),
    k.AwaitState(leader=0, isr=(0, 1), **U),
    k.Produce(operation="both", records=1, acks=-1, **U),
)


def steps(release):
    if release != "1.1.1":
        return (*_BEFORE, *_BOUNCED, *_AFTER)
    late = k.Inject(name="late", fault=_LATE)
    return (*_BEFORE, late, *_BOUNCED, k.Heal(name="late"), *_AFTER)


def seen(run, release):
    for broker in (0, 1):
        folders = [run.path / f"snapshots/final/broker-{broker}{end}" for end in ("", ".1")]
        replicas = [{entry.name for entry in folder.glob("?-0")} for folder in folders]
        assert sorted(map(sorted, replicas)) == [["t-0"], ["u-0"]]
    actions = [line["action"] for line in run.read_lines("actions.jsonl")]
    (stopped,) = (action for action in actions if action.get("clean") is True)
    assert ["u", 0, 5] in stopped["checkpointed"]
