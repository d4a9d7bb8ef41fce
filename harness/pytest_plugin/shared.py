"""Clusters that tests share."""

import contextlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass

from kchaos.clusters.errors import MetadataUnavailable
from kchaos.clusters.front.drivers import make_cluster
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.start.jvm_cluster import JvmCluster
from kchaos.clusters.system.leftovers import work_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedCluster:
    """A cluster that other tests use too.

    Attributes:
        cluster: The running cluster.
    """

    cluster: JvmCluster

    def topic(self, name: str = "t") -> str:
        """Return an unused topic name, without creating the topic."""
        return f"{name}-{secrets.token_hex(4)}"


class ClusterPool:
    """Calls give the running cluster of a specification; the one before is stopped first.

    One at a time, because each is a few JVMs: tests of one shape are ordered to follow each
    other. A cluster of which a broker has died, or is not registered, is replaced.
    """

    def __init__(self, *, driver: str, offline: bool, say: Callable[[str], None]) -> None:
        self._driver = driver
        self._offline = offline
        self._say = say
        self._spec: ClusterSpec | None = None
        self._cluster: JvmCluster | None = None
        self._ended: list[JvmCluster] = []
        self._ending = contextlib.ExitStack()

    def __call__(self, spec: ClusterSpec) -> JvmCluster:
        """Return the running cluster of a spec.

        Raises:
            ReleaseError, MachineError: It cannot be started.
        """
        if self._cluster is not None and spec == self._spec and _is_whole(self._cluster):
            return self._cluster
        self.stop()
        work = self._ending.enter_context(work_directory("pytest-shared"))
        cluster = make_cluster(
            self._driver, spec, work_directory=work, offline=self._offline, say=self._say
        )
        cluster.start()
        self._spec, self._cluster = spec, cluster
        return cluster

    def stop(self) -> None:
        """Stop the running cluster, if any. Safe to call twice."""
        cluster, self._cluster = self._cluster, None
        with self._ending:
            if cluster is not None:
                self._ended.append(cluster)
                cluster.stop()

    def has_ended(self, value: object) -> bool:
        """Return whether the value is a cluster of this pool that it has stopped."""
        return any(value is cluster for cluster in self._ended)


def _is_whole(cluster: JvmCluster) -> bool:
    if not all(broker.is_running for broker in cluster.brokers.values()):
        return False
    try:
        return cluster.metadata.registered() >= cluster.brokers.keys()
    except MetadataUnavailable:
        return False
