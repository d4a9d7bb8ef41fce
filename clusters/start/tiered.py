"""Tiered storage: a folder in place of an object store, by Kafka's own test implementation.

`LocalTieredStorage` stands in the test jar of Kafka's storage module, which no distribution has. It
is taken by package name, in the release of the brokers, and only where a cluster asks for it.

Sources: org.apache.kafka.server.log.remote.storage.LocalTieredStorage and RemoteLogManagerConfig,
3.6.2 and 3.9; kafka.log.remote.RemoteLogManager.
"""

from collections.abc import Collection, Mapping
from pathlib import Path

from kchaos.clusters.api import Broker
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.kafka.distribution import Distribution, own_jar
from kchaos.clusters.metadata.api import ClusterMetadata
from kchaos.clusters.releases import Release, release_of
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.start.host import Host, Node
from kchaos.clusters.system.waiting import await_until

FOLDER = "remote"
"""The folder within a cluster's work directory that stands for the object store."""
METADATA_TOPIC = "__remote_log_metadata"
"""Kafka's own topic in which brokers write down what is in the remote store."""
FIRST_TIERED = (3, 6)
"""The first release line whose logs can be tiered."""
_LEAST_PROTOCOL = (2, 8)
_CREATED_S = 60.0
_LISTENER = "METADATA"
_OWN = ("rsm.config.", "rlmm.config.", "remote.log.storage.", "remote.log.metadata.")
SYSTEM = "remote.log.storage.system.enable"


def listeners_with_tiering(
    spec: ClusterSpec, node: Node, listeners: Mapping[str, tuple[str, str]]
) -> dict[str, tuple[str, str]]:
    """Return a broker's listeners, with one for the metadata topic where it is to have its own.

    That is so where brokers do not reach each other by the listener for clients, as in containers.
    """
    if not spec.tiered or not node.inner_ports[1:]:
        return dict(listeners)
    port = node.inner_ports[1]
    return {**listeners, _LISTENER: (f"{node.listen_host}:{port}", f"{node.host}:{port}")}


def properties_of_tiering(
    spec: ClusterSpec, work_directory: Path, listeners: Collection[str]
) -> dict[str, str]:
    """Return what a broker of a tiered cluster is configured with; nothing for any other.

    The metadata topic has one partition with one replica (`create_metadata_topic`), so
    that what brokers write there takes no part in what is replicated; its clients use one of the
    broker's `listeners`. Tasks and checks run often, since scenarios wait for what they do.
    """
    if not spec.tiered:
        return {}
    return {
        SYSTEM: "true",
        "remote.log.storage.manager.class.name": (
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
        ),
        "remote.log.storage.manager.impl.prefix": "rsm.config.",
        "rsm.config.dir": str(work_directory / FOLDER),
        "remote.log.metadata.manager.class.name": (
            "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"
        ),
        "remote.log.metadata.manager.listener.name": (
            _LISTENER if _LISTENER in listeners else "CLIENT"
        ),
        "remote.log.metadata.manager.impl.prefix": "rlmm.config.",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "remote.log.manager.task.interval.ms": "300",
        "log.retention.check.interval.ms": "300",
        # Not known to 3.6 and 3.7, where the first check comes after 30 s.
        "log.initial.task.delay.ms": "500",
    }


def create_metadata_topic(metadata: ClusterMetadata, broker: int) -> None:
    """Create the metadata topic as TopicBasedRemoteLogMetadataManager would, on one broker alone.

    That is done before any broker runs, so that they find it: what is fetched of it between brokers
    would mix with what a scenario is about.
    """
    settings = {"cleanup.policy": "delete", "retention.ms": "-1"}
    metadata.create_topic(METADATA_TOPIC, [[broker]], settings)


def await_metadata_topic(metadata: ClusterMetadata, broker: Broker) -> None:
    """Return once the only broker of a KRaft cluster has created the metadata topic for itself.

    KRaft's controllers give no topic to a broker that is not unfenced yet, and a broker creates
    this one as it starts (TopicBasedRemoteLogMetadataManager.initializeResources, 3.6.2 and 3.9.1).

    Raises:
        AwaitTimeout: It created none.
    """
    await_until(
        lambda: metadata.topic_id(METADATA_TOPIC) is not None,
        timeout_s=_CREATED_S,
        waiting_for=f"broker {broker.id} to create {METADATA_TOPIC}",
        last_seen=metadata.topics,
        remedy=f"see {broker.server_log}",
        abort=broker.check_running,
    )


def tiering_refused(release: Release, properties: Mapping[str, str]) -> str:
    """Return why a broker of this release and these properties cannot tier its logs, or ""."""
    if release.number[:2] < FIRST_TIERED:
        return f"{release.text} has no tiered storage: it came with 3.6.0 (KIP-405)"
    protocol = properties.get("inter.broker.protocol.version", release.protocol_version)
    spoken = tuple(int(part) for part in protocol.partition("-")[0].split(".")[:2])
    if spoken < _LEAST_PROTOCOL:
        return (
            f"tiered storage needs topic ids, which came with inter.broker.protocol.version 2.8, "
            f"and the broker speaks {protocol}"
        )
    own = sorted(name for name in properties if name.startswith(_OWN))
    if own:
        return f"{own[0]} is kchaos's to set: take it out of the broker properties"
    return ""


def tiered_topic_refused(configuration: Mapping[str, str], *, is_tiered: bool) -> str:
    """Return why a topic with this configuration is not taken, or "".

    Args:
        configuration: The topic's own settings.
        is_tiered: Whether the cluster has a remote store.
    """
    if configuration.get("remote.storage.enable", "false").lower() != "true":
        return ""
    if not is_tiered:
        return "remote.storage.enable needs a cluster with tiered=True"
    if "compact" in configuration.get("cleanup.policy", ""):
        return (
            "a topic with cleanup.policy compact cannot be tiered (LogConfig."
            "validateRemoteStorageOnlyIfSystemEnabled): leave one of the two out"
        )
    return ""


def resolved(spec: ClusterSpec, host: Host, offline: bool, kafka: str) -> Distribution:
    """Return the Kafka of that name, as a cluster of this spec runs it."""
    distribution = host.resolve(kafka, offline=offline)
    return with_tiered_storage(distribution, offline=offline) if spec.tiered else distribution


def with_tiered_storage(distribution: Distribution, *, offline: bool = False) -> Distribution:
    """Return the Kafka with `LocalTieredStorage` on its class path.

    Raises ReleaseError where there is none for it, MachineError when it cannot be had.
    """
    if distribution.image:
        raise ReleaseError(
            f"the Kafka of image {distribution.image} cannot be tiered: its class path is its "
            "own; name a release instead"
        )
    jar = tiered_storage_jar(release_of(distribution.release), offline=offline)
    return Distribution(
        release=distribution.release,
        class_path=(*distribution.class_path, jar),
        source=distribution.source,
    )


def tiered_storage_jar(release: Release, *, offline: bool = False) -> Path:
    """Return the jar that has `LocalTieredStorage`, fetched on first use.

    It stands in a lock file of its own. Raises ReleaseError when the release has none,
    MachineError when it cannot be had.
    """
    return own_jar(
        f"org.apache.kafka:kafka-storage:{release.text}:test",
        file=f"kafka-storage-{release.text}-test.jar",
        name=f"Tiered storage of Kafka {release.text}",
        folder=f"tiered/{release.text}",
        offline=offline,
    )
