"""The KRaft form of a scenario that was written for ZooKeeper: each fault by its counterpart."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kchaos.clusters.spec import ClusterSpec
from kchaos.faults import CutControllers, CutZooKeeper, ExpireSession, FenceBroker
from kchaos.harness.catalogue.settings import QUICK, QUICK_KRAFT
from kchaos.harness.steps.scenario_steps import Inject, Step

_OF_ZOOKEEPER = ("zookeeper.session.timeout.ms", "controller.socket.timeout.ms")
COUNTERPARTS: Mapping[type[Any], Callable[[Any], Any]] = {
    CutZooKeeper: lambda fault: CutControllers(broker=fault.broker),
    ExpireSession: lambda fault: FenceBroker(broker=fault.broker, await_return=fault.await_return),
}
"""The faults that name ZooKeeper, and what does the same to a broker of a KRaft cluster."""


def kraft_cluster(spec: ClusterSpec) -> ClusterSpec:
    """Return the cluster with KRaft's settings for quick gates in place of ZooKeeper's."""
    own = {
        name: value
        for name, value in spec.properties.items()
        if QUICK.get(name) != value and name not in _OF_ZOOKEEPER
    }
    return replace(spec, first_broker=None, properties={**QUICK_KRAFT, **own})


def kraft_steps(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps with KRaft's counterpart of each fault of ZooKeeper."""
    return tuple(
        replace(step, fault=COUNTERPARTS[type(step.fault)](step.fault))
        if isinstance(step, Inject) and type(step.fault) in COUNTERPARTS
        else step
        for step in steps
    )
