"""The scenarios of the linked golden runs of KRaft clusters: `tests.golden.make --kraft NAME`."""

from dataclasses import replace
from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import QUICK_KRAFT
from tests.cases import administered, log_directory_failed

_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_ALL = (0, 1, 2)
_BEGIN: tuple[k.Step, ...] = (
    k.CreateTopic(topic="t", assignment=(_ALL,)),
    k.Produce(operation="first", records=3, acks=-1, **_T0),
    k.AwaitHighWatermark(brokers=_ALL, high_watermark=3, **_T0),
)


def _without_0(name: str, fault: k.Fault) -> tuple[k.Step, ...]:
    """Broker 0 is away by a fault of that name, and comes back."""
    return (
        k.Inject(name=name, fault=fault),
        k.AwaitState(leader=1, isr=(1, 2), **_T0),
        k.Produce(operation="without-0", records=2, acks=-1, **_T0),
        k.Heal(name=name),
        k.AwaitState(leader=1, isr=_ALL, **_T0),
        k.Produce(operation="with-0", records=1, acks=-1, **_T0),
    )


_LEADER_KILLED: tuple[k.Step, ...] = (
    *_BEGIN,
    k.Produce(operation="leader-only", records=2, acks=1, **_T0),
    *_without_0("0-down", k.KillBroker(broker=0)),
    k.TakeSnapshot(label="level"),
)
_ZOMBIE: tuple[k.Step, ...] = (
    *_BEGIN,
    k.Inject(name="0-cut", fault=k.CutControllers(broker=0)),
    k.Produce(operation="zombie", records=2, acks=1, broker=0, **_T0),
    k.Inject(name="0-fenced", fault=k.FenceBroker(broker=0, await_return=False)),
    k.AwaitState(leader=1, isr=(1, 2), **_T0),
    k.Produce(operation="late", records=2, acks=1, broker=0, **_T0),
    k.Produce(operation="new", records=3, acks=-1, broker=1, one_record_batches=True, **_T0),
    k.Heal(name="0-fenced"),
    k.Heal(name="0-cut"),
    k.AwaitState(leader=1, isr=_ALL, **_T0),
    k.Produce(operation="last", records=1, acks=-1, **_T0),
)
_FENCED: tuple[k.Step, ...] = (
    *_BEGIN,
    k.Inject(name="1-fenced", fault=k.FenceBroker(broker=1)),
    k.Heal(name="1-fenced"),
    k.AwaitState(leader=0, isr=_ALL, **_T0),
    k.Produce(operation="again", records=1, acks=-1, **_T0),
    k.Inject(name="0-fenced", fault=k.FenceBroker(broker=0)),
    k.AwaitState(leader=1, **_T0),
    k.Produce(operation="by-1", records=2, acks=-1, **_T0),
    k.Heal(name="0-fenced"),
    k.AwaitState(leader=1, isr=_ALL, **_T0),
    k.Produce(operation="last", records=1, acks=-1, **_T0),
)
_MOVED: tuple[k.Step, ...] = (
    *_BEGIN,
    k.Inject(name="moved", fault=k.MoveController()),
    *_without_0("0-stopped", k.StopBroker(broker=0)),
)
_LOG_LOST: tuple[k.Step, ...] = (
    *_BEGIN,
    k.Inject(name="100-down", fault=k.KillBroker(broker=100)),
    k.Inject(name="100-wiped", fault=k.WipeLogDirectory(broker=100)),
    k.Heal(name="100-down"),
)
_MOST_LOGS_LOST: tuple[k.Step, ...] = (
    *_BEGIN,
    *(k.Inject(name=f"{node}-down", fault=k.KillBroker(broker=node)) for node in (102, 101, 100)),
    k.Inject(name="100-wiped", fault=k.WipeLogDirectory(broker=100)),
    k.Inject(name="101-wiped", fault=k.WipeLogDirectory(broker=101)),
    *(k.Heal(name=f"{node}-down") for node in (100, 101, 102)),
)
_VOTERS_CHANGED: tuple[k.Step, ...] = (
    *_BEGIN,
    k.Inject(name="103-added", fault=k.AddController(controller=103)),
    # The disk of 101 is replaced, and with it its directory id.
    k.Inject(name="101-down", fault=k.KillBroker(broker=101)),
    k.Inject(name="101-wiped", fault=k.WipeLogDirectory(broker=101)),
    k.Heal(name="101-down"),
    k.Inject(name="101-removed", fault=k.RemoveController(controller=101)),
    k.Inject(name="101-added", fault=k.AddController(controller=101)),
    k.Inject(name="100-removed", fault=k.RemoveController(controller=100)),
    k.Inject(name="100-killed", fault=k.KillBroker(broker=100)),
    k.Inject(name="0-stopped", fault=k.StopBroker(broker=0)),
    k.AwaitState(leader=1, isr=(1, 2), **_T0),
    k.Produce(operation="without-0", records=2, acks=-1, **_T0),
    k.Heal(name="0-stopped"),
    k.AwaitState(leader=1, isr=_ALL, **_T0),
    k.Produce(operation="with-0", records=1, acks=-1, **_T0),
    k.Heal(name="100-killed"),
)
_BOUNCED: tuple[k.Step, ...] = (
    *_BEGIN,
    k.Inject(name="0-killed", fault=k.KillBroker(broker=0)),
    k.AwaitState(leader=1, isr=(1, 2), **_T0),
    k.Produce(operation="without-0", records=2, acks=-1, **_T0),
    k.Heal(name="0-killed"),
    k.AwaitState(leader=1, isr=_ALL, **_T0),
    k.Inject(name="moved", fault=k.MoveController()),
    k.Inject(name="1-stopped", fault=k.StopBroker(broker=1)),
    k.Heal(name="1-stopped"),
    k.AwaitState(isr=_ALL, **_T0),
    k.Produce(operation="last", records=1, acks=-1, **_T0),
)
_FAILED: tuple[k.Step, ...] = log_directory_failed.STEPS


def _with_acks_1(step: k.Step) -> k.Step:
    """With acks=all the leader would wait for a follower that does not fetch (docs/kraft.md)."""
    if isinstance(step, k.Produce) and step.operation == "without":
        return replace(step, acks=1)
    return step


# A broker ends where its first log directory fails, so that t is to lie in the second one.
_DIRECTORY_FAILED: tuple[k.Step, ...] = (_FAILED[1], _FAILED[0], *map(_with_acks_1, _FAILED[2:]))
_DISK_FAILED: tuple[k.Step, ...] = (
    *_BEGIN,
    k.Inject(name="full", fault=k.FailDisk(broker=0, error="ENOSPC")),
    k.AwaitState(leader=1, isr=(1, 2), **_T0),
    k.Produce(operation="without-0", records=2, acks=-1, **_T0),
    k.Heal(name="full"),
    k.AwaitState(leader=1, isr=_ALL, **_T0),
    k.Produce(operation="with-0", records=1, acks=-1, **_T0),
)
SCENARIOS: dict[str, tuple[str, int, tuple[k.Step, ...]]] = {
    "3.9.1-leader-killed": ("3.9.1", 1, _LEADER_KILLED),
    "4.0.2-zombie": ("4.0.2", 1, _ZOMBIE),
    "4.3.1-fenced": ("4.3.1", 1, _FENCED),
    "3.9.1-administered": ("3.9.1", 1, administered.WITHOUT_FOLDERS),
    "4.1.2-directory-failed": ("4.1.2", 1, _DIRECTORY_FAILED),
    "4.1.2-disk-failed": ("4.1.2", 1, _DISK_FAILED),
    "4.1.2-moved": ("4.1.2", 3, _MOVED),
    "4.1.2-log-lost": ("4.1.2", 1, _LOG_LOST),
    "3.9.1-most-logs-lost": ("3.9.1", 3, _MOST_LOGS_LOST),
    "3.9.1-voters-changed": ("3.9.1", 3, _VOTERS_CHANGED),
    "4.1.2-only-voter-lost": ("4.1.2", 1, _LOG_LOST),
    "4.1.2-combined": ("4.1.2", 1, _BOUNCED),
}
"""By name: the release, the number of controllers, and the steps."""
LOST = {
    "4.1.2-log-lost": [0, 1, 2],
    "3.9.1-most-logs-lost": [0, 1, 2, 102],
    "4.1.2-only-voter-lost": [0, 1, 2, 101],
}
"""Those whose controllers lose the metadata log, each with the nodes that still have it."""
DYNAMIC = ("3.9.1-voters-changed", "4.1.2-only-voter-lost")
"""Those with a dynamic quorum (KIP-853), and one observer."""
COMBINED = ("4.1.2-combined",)
"""Those whose brokers are the controllers too."""


def kraft_scenario(name: str) -> k.Scenario:
    """Return the scenario of a linked golden run.

    Raises:
        KeyError: None has that name.
    """
    release, controllers, steps = SCENARIOS[name]
    return k.Scenario(
        entry="golden",
        case="",
        title=f"KRaft: {name}",
        release=release,
        cluster=k.ClusterSpec(
            brokers=tuple(
                replace(broker, log_directories=2 if steps is _DIRECTORY_FAILED else 1)
                for broker in k.brokers_of(release, _ALL)
            ),
            mode="kraft",
            controllers=controllers,
            observers=int(name in DYNAMIC),
            combined=name in COMBINED,
            features={"kraft.version": 1} if name in DYNAMIC else {},
            properties=QUICK_KRAFT,
            linked=name not in LOST,
        ),
        steps=steps,
        expectation=_lost(LOST[name]) if name in LOST else None,
    )


def _lost(nodes: list[int]) -> dict[str, Any]:
    return {"safe": False, "findings": [{"kind": "metadata-lost", "brokers": nodes}]}
