"""The scenarios of the linked golden runs of KRaft clusters: `tests.golden.make --kraft NAME`."""

from typing import Any

from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.faults import CutControllers, FenceBroker, KillBroker, MoveController, StopBroker
from kchaos.harness.catalogue.settings import QUICK_KRAFT
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.steps.clients import Produce
from kchaos.harness.steps.scenario_steps import (
    AwaitHighWatermark,
    AwaitState,
    CreateTopic,
    Heal,
    Inject,
    Step,
    TakeSnapshot,
)

_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_ALL = (0, 1, 2)
_BEGIN: tuple[Step, ...] = (
    CreateTopic(topic="t", assignment=(_ALL,)),
    Produce(operation="first", records=3, acks=-1, **_T0),
    AwaitHighWatermark(brokers=_ALL, high_watermark=3, **_T0),
)
_LEADER_KILLED: tuple[Step, ...] = (
    *_BEGIN,
    Produce(operation="leader-only", records=2, acks=1, **_T0),
    Inject(name="0-down", fault=KillBroker(broker=0)),
    AwaitState(leader=1, isr=(1, 2), **_T0),
    Produce(operation="without-0", records=2, acks=-1, **_T0),
    Heal(name="0-down"),
    AwaitState(leader=1, isr=_ALL, **_T0),
    Produce(operation="with-0", records=1, acks=-1, **_T0),
    TakeSnapshot(label="level"),
)
_ZOMBIE: tuple[Step, ...] = (
    *_BEGIN,
    Inject(name="0-cut", fault=CutControllers(broker=0)),
    Produce(operation="zombie", records=2, acks=1, broker=0, **_T0),
    Inject(name="0-fenced", fault=FenceBroker(broker=0, await_return=False)),
    AwaitState(leader=1, isr=(1, 2), **_T0),
    Produce(operation="late", records=2, acks=1, broker=0, **_T0),
    Produce(operation="new", records=3, acks=-1, broker=1, one_record_batches=True, **_T0),
    Heal(name="0-fenced"),
    Heal(name="0-cut"),
    AwaitState(leader=1, isr=_ALL, **_T0),
    Produce(operation="last", records=1, acks=-1, **_T0),
)
_FENCED: tuple[Step, ...] = (
    *_BEGIN,
    Inject(name="1-fenced", fault=FenceBroker(broker=1)),
    Heal(name="1-fenced"),
    AwaitState(leader=0, isr=_ALL, **_T0),
    Produce(operation="again", records=1, acks=-1, **_T0),
    Inject(name="0-fenced", fault=FenceBroker(broker=0)),
    AwaitState(leader=1, **_T0),
    Produce(operation="by-1", records=2, acks=-1, **_T0),
    Heal(name="0-fenced"),
    AwaitState(leader=1, isr=_ALL, **_T0),
    Produce(operation="last", records=1, acks=-1, **_T0),
)
_MOVED: tuple[Step, ...] = (
    *_BEGIN,
    Inject(name="moved", fault=MoveController()),
    Inject(name="0-stopped", fault=StopBroker(broker=0)),
    AwaitState(leader=1, isr=(1, 2), **_T0),
    Produce(operation="without-0", records=2, acks=-1, **_T0),
    Heal(name="0-stopped"),
    AwaitState(leader=1, isr=_ALL, **_T0),
    Produce(operation="with-0", records=1, acks=-1, **_T0),
)
SCENARIOS: dict[str, tuple[str, int, tuple[Step, ...]]] = {
    "3.9.1-leader-killed": ("3.9.1", 1, _LEADER_KILLED),
    "4.0.2-zombie": ("4.0.2", 1, _ZOMBIE),
    "4.3.1-fenced": ("4.3.1", 1, _FENCED),
    "4.1.2-moved": ("4.1.2", 3, _MOVED),
}
"""By name: the release, the number of controllers, and the steps."""


def kraft_scenario(name: str) -> Scenario:
    """Return the scenario of a linked golden run.

    Raises:
        KeyError: None has that name.
    """
    release, controllers, steps = SCENARIOS[name]
    return Scenario(
        entry="golden",
        case="",
        title=f"KRaft: {name}",
        release=release,
        cluster=ClusterSpec(
            brokers=brokers_of(release, _ALL),
            mode="kraft",
            controllers=controllers,
            properties=QUICK_KRAFT,
        ),
        steps=steps,
    )
