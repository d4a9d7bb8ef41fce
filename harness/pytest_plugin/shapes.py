"""Shape of the cluster that a test asks for: marker, release, seed. Imports nothing heavy."""

import re
import secrets
import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kchaos.harness.pytest_plugin.options import PluginSettings, settle_seconds

if TYPE_CHECKING:
    from kchaos.checkers.acts import Mode
    from kchaos.clusters.spec import ClusterSpec

MARKER = "kafka_cluster"
SEED_MARKER = "chaos_seed"
BOUND_MARKER = "chaos_settle_bound"
_SEED_BITS = 32
_RELEASE = re.compile(r"\d+(\.\d+)+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Arguments of `@pytest.mark.kafka_cluster(...)`.

    Attributes:
        release: One release or path; a tuple of them, to run the test on each; brokers' ids to
            their releases, for a cluster of several; or None for what the options say.
        judged_as: The release whose rules the brokers are judged by; None for their own, or the
            nearest one to a build that was not published, or what the options say.
        brokers: How many, where `release` does not name them; their ids count up from 0.
        zookeepers: How many.
        mode: "zookeeper" or "kraft", for a release that has both; None for what is its default.
        controllers: How many KRaft controllers, 1 or 3.
        features: Feature levels by name, such as "eligible.leader.replicas.version"; those that a
            new cluster of the release has are the default. "kraft.version" 1 is a dynamic quorum.
        observers: How many controllers more a dynamic quorum has, which AddController can add.
        combined: Whether the brokers, 1 or 3, are the controllers too.
        properties: Broker properties, over those that make the gates quick; or the path of a
            server.properties, whose settings come beneath them.
        first_broker: The broker that is started alone first, so that it is the first controller;
            None for the last one.
        linked: Whether broker-to-broker and ZooKeeper traffic goes through links.
        client_links: Whether the traffic of others' clients does too, so that what they were
            promised is judged; without the other links it does not.
        broker_memory_mib: Limit of each broker's container, None for none.
        broker_cpus: Likewise.
        log_directories: How many folders the log.dirs of each broker has.
        tiered: Whether brokers have a remote store for the logs of topics that ask for it.
        points: Points of their code at which threads of every broker can be held; with any, their
            JVMs run with an agent.
    """

    release: str | tuple[str, ...] | Mapping[int, str] | None = None
    judged_as: str | None = None
    brokers: int = 3
    zookeepers: int = 1
    mode: "Mode | None" = None
    controllers: int = 1
    features: Mapping[str, int] | None = None
    observers: int = 0
    combined: bool = False
    properties: Mapping[str, str] | str | None = None
    first_broker: int | None = None
    linked: bool = True
    client_links: bool = True
    broker_memory_mib: int | None = None
    broker_cpus: float | None = None
    log_directories: int = 1
    tiered: bool = False
    points: Sequence[str] = ()


def quiet_imports() -> AbstractContextManager[object]:
    """Silence the warnings of kafka-python's import, which users may turn into errors."""
    return warnings.catch_warnings(action="ignore", category=DeprecationWarning)


def shape_of(node: pytest.Item) -> Shape:
    """Return the shape in the closest marker of a test, or the default.

    Raises:
        pytest.UsageError: The marker has arguments that do not exist.
    """
    marker = node.get_closest_marker(MARKER)
    if marker is None:
        return Shape()
    known = ", ".join(Shape.__dataclass_fields__)
    unknown = [*map(repr, marker.args), *(set(marker.kwargs) - set(Shape.__dataclass_fields__))]
    if unknown:
        raise pytest.UsageError(
            f"{node.nodeid}: {MARKER} does not take {', '.join(unknown)}; it takes {known}, by name"
        )
    shape = Shape(**marker.kwargs)
    if isinstance(shape.release, list):
        return Shape(**{**marker.kwargs, "release": tuple(shape.release)})
    if isinstance(shape.release, Mapping):
        _check_mixed(node, shape.release, marker.kwargs)
    return shape


def _check_mixed(
    node: pytest.Item, release: Mapping[Any, Any], given: Mapping[str, object]
) -> None:
    named = sorted(release.items(), key=str)
    if not named or not all(
        isinstance(broker, int) and broker >= 0 and isinstance(kafka, str)
        for broker, kafka in named
    ):
        raise pytest.UsageError(
            f"{node.nodeid}: release={release!r} must give each broker's id its release, such as "
            '{0: "1.1.1", 1: "2.0.1"}'
        )
    if given.get("brokers", len(named)) != len(named):
        raise pytest.UsageError(
            f"{node.nodeid}: release names {len(named)} brokers, and brokers={given['brokers']}"
        )


def releases_of(node: pytest.Item, settings: PluginSettings) -> tuple[str, ...]:
    """Return the releases in the test's marker or an option; else none.

    A test that names one release itself, or each broker's, is about that: it is not multiplied, and
    gets none.
    """
    release = shape_of(node).release
    if isinstance(release, str | Mapping):
        return ()
    return release if release is not None else settings.releases


def release_for(node: pytest.Item) -> str:
    """Return the release of a test that runs on one: the marker's, or the newest known one.

    Of a cluster of several it is that of the broker with the least id.
    """
    release = shape_of(node).release
    if isinstance(release, str):
        return release
    if isinstance(release, Mapping):
        return release[min(release)]
    from kchaos.clusters.releases import KNOWN_RELEASES

    return KNOWN_RELEASES[-1]


def spec_for(node: pytest.Item, release: str, settings: PluginSettings) -> "ClusterSpec":
    """Return the spec of a test's cluster.

    Raises:
        pytest.UsageError: The marker has arguments that do not exist.
        ReleaseError: There is no such cluster.
    """
    with quiet_imports():
        from kchaos.clusters.spec import BrokerSpec, ClusterSpec
        from kchaos.harness.catalogue.settings import QUICK, QUICK_KRAFT
        from kchaos.harness.run.own_settings import with_settings_of
        from kchaos.harness.run.runner import RunOptions

    shape = shape_of(node)
    if isinstance(shape.release, Mapping):
        kafkas = dict(sorted(shape.release.items()))
    else:
        kafkas = dict(enumerate(islice(cycle(_mixed(release)), shape.brokers)))
    first = max(kafkas) if shape.first_broker is None else shape.first_broker
    # An option is about what the options name, not about what a marker does.
    judged_as = shape.judged_as or (settings.judged_as if release in settings.releases else None)
    own = shape.properties or {}
    properties = {} if isinstance(own, str) else {name: str(own[name]) for name in own}
    spec = ClusterSpec(
        brokers=tuple(
            BrokerSpec(
                id=broker,
                kafka=kafka,
                judged_as=judged_as,
                log_directories=shape.log_directories,
                points=tuple(shape.points),
            )
            for broker, kafka in kafkas.items()
        ),
        zookeepers=shape.zookeepers,
        mode=shape.mode,
        controllers=shape.controllers,
        features=shape.features or {},
        observers=shape.observers,
        combined=shape.combined,
        first_broker=first if len(kafkas) > 1 else shape.first_broker,
        linked=shape.linked,
        client_links=shape.linked and shape.client_links,
        broker_memory_mib=shape.broker_memory_mib,
        broker_cpus=shape.broker_cpus,
        tiered=shape.tiered,
    )
    quick = QUICK_KRAFT if spec.is_kraft else QUICK
    spec = replace(spec, properties={**quick, **properties})
    options = RunOptions(driver=settings.driver, offline=settings.offline)
    return with_settings_of(
        Path(own) if isinstance(own, str) else None, spec, options=options, say=print
    )


def _mixed(release: str) -> list[str]:
    """Return the releases of brokers in turn: "1.1.1+2.0.1" is two releases, a path is one."""
    parts = release.split("+")
    are_releases = all(_RELEASE.fullmatch(part) for part in parts)
    return parts if are_releases else [release]


def seed_for(node: pytest.Item, settings: PluginSettings) -> int:
    """Return the test's seed: its marker's, the option's, or a new one.

    Raises:
        pytest.UsageError: The marker has no number.
    """
    marker: Any = node.get_closest_marker(SEED_MARKER)
    if marker is not None:
        if len(marker.args) != 1 or not isinstance(marker.args[0], int) or marker.kwargs:
            raise pytest.UsageError(f"{node.nodeid}: {SEED_MARKER} takes one whole number")
        return int(marker.args[0])
    return settings.seed if settings.seed is not None else secrets.randbits(_SEED_BITS)


def settle_bound_for(node: pytest.Item, settings: PluginSettings) -> float | None:
    """Return the seconds without a change that settling needs: the test's marker, or the option.

    Raises:
        pytest.UsageError: The marker has no number of seconds above 0.
    """
    marker: Any = node.get_closest_marker(BOUND_MARKER)
    if marker is None:
        return settings.settle_bound_s
    try:
        (value,) = marker.args
        return settle_seconds(value)
    except (TypeError, ValueError):
        raise pytest.UsageError(
            f"{node.nodeid}: {BOUND_MARKER} takes one number of seconds above 0"
        ) from None
