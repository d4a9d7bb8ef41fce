"""The KRaft form of a scenario that was written for ZooKeeper: each fault by its counterpart."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from kchaos.clusters.releases import release_of
from kchaos.clusters.settings import SEGMENT_BYTES, segment_size_setting
from kchaos.clusters.spec import ClusterSpec
from kchaos.faults import ConfigureTopic, CutControllers, CutZooKeeper, ExpireSession, FenceBroker
from kchaos.harness.catalogue.settings import QUICK, QUICK_KRAFT
from kchaos.harness.steps.scenario_steps import AwaitState, CreateTopic, Inject, Step

_OF_ZOOKEEPER = (
    "zookeeper.session.timeout.ms",
    "controller.socket.timeout.ms",
    "reserved.broker.max.id",
)
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


def kraft_steps(steps: tuple[Step, ...], release: str) -> tuple[Step, ...]:
    """Return the steps with KRaft's counterpart of each fault of ZooKeeper, for a release.

    From 4.1 on a topic's small segments are set by the setting for tests (KIP-1030). Where nobody
    leads, an eligible leader replica may be in place of the last one in sync (KIP-966).
    """
    segment_bytes = segment_size_setting(release_of(release).number)

    def of_topic(settings: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        return tuple(
            (segment_bytes if name == SEGMENT_BYTES else name, value) for name, value in settings
        )

    def in_kraft(step: Step) -> Step:
        match step:
            case CreateTopic():
                return replace(step, configuration=of_topic(step.configuration))
            case AwaitState(leader=-1):
                return replace(step, isr=None)
            case Inject(fault=ConfigureTopic() as fault):
                changed = replace(fault, configuration=of_topic(fault.configuration))
                return replace(step, fault=changed)
            case Inject() if type(step.fault) in COUNTERPARTS:
                return replace(step, fault=COUNTERPARTS[type(step.fault)](step.fault))
        return step

    return tuple(map(in_kraft, steps))
