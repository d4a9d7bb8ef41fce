"""The files and flags that ZooKeeper members and brokers are started with."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from kchaos.clusters.releases import Release

# A short-lived JVM never earns back what the second compiler costs, the serial collector needs
# no threads, and verifying the byte code of jars that were checked when they were fetched
# costs a fifth of a start.
FAST_JVM_FLAGS: tuple[str, ...] = (
    # From Java 13 on the flag about verification is only known behind this one.
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-XX:-UsePerfData",
    "-XX:-BytecodeVerificationRemote",
    # Java 11's own modules join strings by method handles, which take longer to make than to use.
    "-Djava.lang.invoke.stringConcat=BC_SB",
    "-Djava.net.preferIPv4Stack=true",
    "-Djava.awt.headless=true",
)

CONTROLLER_LISTENER, INTERNAL = "CONTROLLER", "INTERNAL"
MIGRATION = "zookeeper.metadata.migration.enable"

# What keeps chaos deterministic and a start short. Every one can be overridden by the spec.
BROKER_DEFAULTS: Mapping[str, str] = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.enable": "false",
    "default.replication.factor": "1",
    "delete.topic.enable": "true",
    # Log cleaners run, as they do by default; Kafka's own 128 MiB are half of a broker's heap here.
    "log.cleaner.dedupe.buffer.size": "8388608",
    "min.insync.replicas": "1",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.num.partitions": "1",
    "replica.high.watermark.checkpoint.interval.ms": "5000",
    "replica.lag.time.max.ms": "10000",
    "unclean.leader.election.enable": "false",
    "zookeeper.connection.timeout.ms": "60000",
    "zookeeper.session.timeout.ms": "6000",
}

# Configurations that came with a release.
BROKER_DEFAULTS_SINCE_0_11: Mapping[str, str] = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
}
BROKER_DEFAULTS_SINCE_4_0: Mapping[str, str] = {"share.coordinator.state.topic.min.isr": "1"}
_INTERNAL_TOPICS: Mapping[str, tuple[int, ...]] = {
    "offsets.topic": (),
    "transaction.state.log": (0, 11),
    "share.coordinator.state.topic": (4, 0),
}
"""The first release with each internal topic, by the beginning of its settings' names."""
_MOST_REPLICAS = 3

# A KRaft cluster's, of brokers and controllers, in place of what names ZooKeeper. Controllers that
# are killed are replaced soon; brokers have Kafka's own time to tell that they live.
KRAFT_DEFAULTS: Mapping[str, str] = {
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "9000",
    "controller.quorum.election.timeout.ms": "1000",
    "controller.quorum.fetch.timeout.ms": "2000",
    # The log is evidence: no snapshot takes the place of its beginning after an hour.
    "metadata.log.max.snapshot.interval.ms": "0",
}

# What a properties file reads as something else than the character.
_IN_KEYS, _IN_VALUES = "\\=:#! ", "\\"

_LOG4J = """\
log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={file}
log4j.appender.file.Append=true
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d{{yyyy-MM-dd HH:mm:ss,SSS}}] %p %m (%c)%n
log4j.logger.kafka.controller=TRACE
log4j.logger.state.change.logger=TRACE
log4j.logger.kafka.server.ReplicaFetcherThread=DEBUG
log4j.logger.kafka.server.epoch=DEBUG
log4j.logger.kafka.server.TierStateMachine=DEBUG
log4j.logger.kafka.server.ReplicaFetcherTierStateMachine=DEBUG
log4j.logger.org.apache.zookeeper=INFO
"""


def broker_defaults(release: Release, *, is_kraft: bool, brokers: int) -> dict[str, str]:
    """Return the configuration of a broker of this release before the spec's properties.

    Internal topics have three replicas as in production, or as many as there are brokers.
    """
    defaults = dict(BROKER_DEFAULTS)
    if is_kraft:
        of_zookeeper = [name for name in defaults if name.startswith("zookeeper.")]
        defaults = {name: defaults[name] for name in defaults.keys() - of_zookeeper}
        defaults.update(KRAFT_DEFAULTS)
    if release.number >= (0, 11):
        defaults.update(BROKER_DEFAULTS_SINCE_0_11)
    if release.number >= (4, 0):
        defaults.update(BROKER_DEFAULTS_SINCE_4_0)
    replicas = str(min(brokers, _MOST_REPLICAS))
    for topic, since in _INTERNAL_TOPICS.items():
        if release.number >= since:
            defaults[f"{topic}.replication.factor"] = replicas
    return defaults


def listener_properties(listeners: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return a broker's settings for listeners: (where it listens, what it tells), by name."""
    return {
        "listeners": ",".join(f"{name}://{here}" for name, (here, _) in listeners.items()),
        "advertised.listeners": ",".join(
            f"{name}://{told}" for name, (_, told) in listeners.items()
        ),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
        "inter.broker.listener.name": INTERNAL,
    }


def kraft_properties(
    role: str,
    node_id: int,
    controllers: Mapping[int, str],
    listeners: Mapping[str, tuple[str, str]],
    *,
    is_dynamic: bool = False,
) -> dict[str, str]:
    """Return what makes a node a broker, a controller or both of a KRaft cluster.

    ``controllers`` are their addresses as this node is to dial them, by node id: they are the
    voters, or where a node of a dynamic quorum looks for them. ``listeners`` are its own, as for
    ``listener_properties``: a controller has CONTROLLER alone. `advertised` has the rest.
    """
    own = listener_properties(listeners)
    del own["advertised.listeners"]
    if role == "controller":
        # None of a controller's listeners is for what brokers send each other.
        del own["inter.broker.listener.name"]
    protocols = dict.fromkeys([*listeners, CONTROLLER_LISTENER])
    return {
        **own,
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in protocols),
        "process.roles": role,
        "node.id": str(node_id),
        "controller.listener.names": CONTROLLER_LISTENER,
        **_quorum(controllers, is_dynamic=is_dynamic),
    }


def _quorum(controllers: Mapping[int, str], *, is_dynamic: bool) -> dict[str, str]:
    if is_dynamic:
        return {"controller.quorum.bootstrap.servers": ",".join(sorted(controllers.values()))}
    voters = (f"{voter}@{address}" for voter, address in sorted(controllers.items()))
    return {"controller.quorum.voters": ",".join(voters)}


def advertised(release: Release, listeners: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return where a node says that it listens; as a controller from 3.9 on (KIP-853)."""
    told = {
        name: addresses
        for name, addresses in listeners.items()
        if name != CONTROLLER_LISTENER or release.number >= (3, 9)
    }
    told_of = listener_properties(told)["advertised.listeners"]
    return {"advertised.listeners": told_of} if told else {}


def migrating_broker(properties: Mapping[str, str], to_kraft: Mapping[str, str]) -> dict[str, str]:
    """Return what a broker in migration mode has: ZooKeeper's, and its way to the controllers."""
    names = [name for name in to_kraft if name.startswith(("controller.", "listener.security."))]
    own = {name: to_kraft[name] for name in names}
    heartbeat = "broker.heartbeat.interval.ms"
    return {heartbeat: KRAFT_DEFAULTS[heartbeat], **properties, **own, MIGRATION: "true"}


def migrating_controller(
    properties: Mapping[str, str], zookeepers: Sequence[tuple[str, int]]
) -> dict[str, str]:
    """Return what a controller has that migrates a cluster of these ZooKeeper members.

    Without the brokers' listener it could not send them requests, and would register none.
    """
    return {
        **properties,
        MIGRATION: "true",
        "zookeeper.connect": ",".join(f"{host}:{port}" for host, port in zookeepers),
        "inter.broker.listener.name": INTERNAL,
        "listener.security.protocol.map": (
            f"{properties['listener.security.protocol.map']},{INTERNAL}:PLAINTEXT"
        ),
    }


def without_zookeeper(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without those that a node with KRaft must not have."""
    return {name: properties[name] for name in properties if not name.startswith("zookeeper.")}


def mixed_protocol(releases: Sequence[Release]) -> dict[str, str]:
    """Return the protocol settings of a cluster of these releases.

    Brokers of one release need none; otherwise all speak what the oldest of them speaks, and
    write its message format, as Kafka's upgrade notes ask during a rolling upgrade.
    """
    if len({release.protocol_version for release in releases}) < 2:
        return {}
    oldest = min(releases).protocol_version
    return {"inter.broker.protocol.version": oldest, "log.message.format.version": oldest}


def properties_text(properties: Mapping[str, str]) -> str:
    """Return a Java properties file in ASCII that gives every key and value as it is."""
    lines = [
        f"{_escaped(key, special=_IN_KEYS)}={_escaped(value, special=_IN_VALUES)}"
        for key, value in sorted(properties.items())
    ]
    return "\n".join(lines) + "\n"


def _escaped(text: str, *, special: str) -> str:
    """Return the text as `java.util.Properties` reads it: one line, UTF-16 units beyond ASCII."""
    shown: list[str] = []
    for unit in struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be")):
        character = chr(unit)
        is_leading_space = character == " " and not shown
        if not " " <= character <= "~" or is_leading_space:
            shown.append(f"\\u{unit:04x}")
        else:
            shown.append(f"\\{character}" if character in special else character)
    return "".join(shown)


def log4j_text(log: Path) -> str:
    """Return a log4j configuration that appends everything of interest to one file."""
    return _LOG4J.format(file=log)


def zookeeper_text(
    *,
    data: Path,
    listen_host: str,
    client_port: int,
    tick_time_ms: int,
    peers: Sequence[tuple[str, int, int]],
) -> str:
    """Return zoo.cfg of one member.

    ``peers`` are the (host, peer port, election port) of all members of an ensemble in order,
    empty for a single member. Sessions may last from two ticks up to ten minutes.
    """
    lines = [
        f"tickTime={tick_time_ms}",
        f"dataDir={data}",
        f"clientPort={client_port}",
        f"clientPortAddress={listen_host}",
        "maxClientCnxns=0",
        "maxSessionTimeout=600000",
        "admin.enableServer=false",
        "4lw.commands.whitelist=*",
    ]
    if peers:
        lines += ["initLimit=40", "syncLimit=10"]
        lines += [
            f"server.{index}={host}:{peer}:{election}"
            for index, (host, peer, election) in enumerate(peers, start=1)
        ]
    return "\n".join(lines) + "\n"


def java_command(
    home: Path,
    *,
    flags: Sequence[str],
    heap_mib: int,
    class_path: Sequence[Path],
    log4j: Path,
    temporary: Path,
    arguments: Sequence[str],
) -> list[str]:
    """Return the command line of one JVM; ``arguments`` start with the main class."""
    return [
        str(home / "bin" / "java"),
        f"-Xmx{heap_mib}m",
        *flags,
        f"-Dlog4j.configuration=file:{log4j}",
        # Native libraries of the codecs are unpacked here and not left in a shared place.
        f"-Djava.io.tmpdir={temporary}",
        # ZooKeeper 3.4 fails while registering log4j's own beans under some log4j builds.
        "-Dzookeeper.jmx.log4j.disable=true",
        "-cp",
        ":".join(str(jar) for jar in class_path),
        *arguments,
    ]
