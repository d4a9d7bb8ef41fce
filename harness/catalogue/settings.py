"""Broker properties that the catalogue's scenarios have in common, and why."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from kchaos.clusters.releases import release_of
from kchaos.clusters.spec import ClusterSpec, brokers_of

QUICK: Mapping[str, str] = {
    # Gates read high watermarks from the checkpoint files.
    "replica.high.watermark.checkpoint.interval.ms": "100",
    # A follower learns a new high watermark with its next fetch, and that waits this long.
    "replica.fetch.wait.max.ms": "200",
    "replica.fetch.backoff.ms": "200",
    # A fetcher whose request is cut off cannot be stopped before its request times out, and the
    # broker handles no LeaderAndIsr until it is; the controller in turn waits for that answer.
    # Up to 1.0 the time is request.timeout.ms (ReplicaFetcherBlockingSend 0.11.0), and not
    # replica.socket.timeout.ms.
    "replica.socket.timeout.ms": "1000",
    "request.timeout.ms": "1000",
    # So long a leader waits for a controller that is gone, before it asks the next one for its ISR.
    "controller.socket.timeout.ms": "3000",
    # Nobody leaves the ISR for being slow: who leaves it is for the scenario to decide.
    "replica.lag.time.max.ms": "600000",
    "zookeeper.session.timeout.ms": "6000",
}

QUICK_KRAFT: Mapping[str, str] = {
    name: QUICK[name]
    for name in (
        "replica.high.watermark.checkpoint.interval.ms",
        "replica.fetch.wait.max.ms",
        "replica.fetch.backoff.ms",
        "replica.lag.time.max.ms",
    )
}
"""For KRaft: the others are about control requests and ZooKeeper, or bound what is asked there."""

SLOW_READS: Mapping[str, str] = {
    **QUICK,
    # Who is slow leaves the ISR; the leader looks every half of it.
    "replica.lag.time.max.ms": "3000",
    # A follower shall not hang up on a read that is slow.
    "replica.socket.timeout.ms": "30000",
    "request.timeout.ms": "30000",
    "zookeeper.session.timeout.ms": "3000",
    # A held read keeps a handler thread; two of two held would stop the broker.
    "num.io.threads": "8",
}
"""Settings that the scenarios of KIP-501 share."""


def quick_cluster(
    *replicas: int, controller: int, properties: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], ClusterSpec]:
    """Return a function from a Kafka to a cluster with `QUICK`.

    Args:
        replicas: Brokers besides the controller.
        controller: One more broker, which starts first.
        properties: More properties of all brokers, or others.
    """

    def cluster(kafka: str) -> ClusterSpec:
        brokers = brokers_of(kafka, tuple(sorted((*replicas, controller))))
        together = {**QUICK, **properties}
        return ClusterSpec(brokers=brokers, first_broker=controller, properties=together)

    return cluster


def why_not_of_mode(case: str, release: str) -> str:
    """Return why a release cannot show a case named "with-kraft" or "with-zookeeper", or ""."""
    mode = case.removeprefix("with-")
    return (
        ""
        if mode in release_of(release).modes
        else f"{release} has no clusters with {mode}; 3.9.1 has both"
    )


def why_not_asked(_case: str, release: str) -> str:
    """Return why a release's leaders ask no broker as controller for an ISR, or ""."""
    if release_of(release) < release_of("2.7.0"):
        return f"leaders of {release} write the ISR themselves (KIP-497): the nearest is 2.7.2"
    if "zookeeper" not in release_of(release).modes:
        return f"{release} has no clusters with zookeeper: the nearest that has is 3.9.1"
    return ""
