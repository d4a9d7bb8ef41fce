"""Settings of brokers and topics: which the model follows, and which cannot change replication.

Whatever else a run's brokers or topics were given leaves its conformance unknown, by name. What is
in a list here only tells a broker how long, how much or how many: it loads no class, and names no
file, address or secret. So a stranger's scenario may have it.

Read from kafka.server.KafkaConfig and kafka.log.LogConfig, 0.10.2.2 to 3.8, and
org.apache.kafka.common.config.TopicConfig.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The values of a setting with which a cluster does what the model follows.

    Attributes:
        why: What any other value changes.
        values: These.
        least: These whole numbers from this one on, and -1, which means no limit.
    """

    why: str
    values: tuple[str, ...] = ()
    least: int | None = None

    def has(self, value: str) -> bool:
        """Return whether the value is one of these."""
        if value.strip().lower() in self.values:
            return True
        try:
            number = int(value)
        except ValueError:
            return False
        return self.least is not None and (number == -1 or number >= self.least)


WAITS_MS: Mapping[str, int] = {
    "controller.socket.timeout.ms": 30_000,
    "replica.socket.timeout.ms": 30_000,
    "request.timeout.ms": 30_000,
    "zookeeper.session.timeout.ms": 18_000,
}
"""Waits of a healthy broker in silence, in milliseconds, with Kafka's defaults: an answer to its
AlterPartition from a controller that is gone, an answer to its Fetch, the controller for one to a
LeaderAndIsr, ZooKeeper for the end of a session (6 s before 2.5)."""
OUTLASTS = 1.5
"""Times the longest of these, something that should have happened by itself has not."""


def _names(text: str) -> frozenset[str]:
    """Return the names in a text whose lines with # say what the names after them are about."""
    lines = text.splitlines()
    return frozenset(name for line in lines if "#" not in line for name in line.split())


FOLLOWED = _names("""
    # When something happens: the model lets it happen at any time.
    controller.socket.timeout.ms request.timeout.ms replica.socket.timeout.ms
    socket.connection.setup.timeout.ms socket.connection.setup.timeout.max.ms
    replica.lag.time.max.ms replica.fetch.wait.max.ms replica.fetch.backoff.ms
    replica.fetch.min.bytes replica.high.watermark.checkpoint.interval.ms
    zookeeper.session.timeout.ms zookeeper.connection.timeout.ms controlled.shutdown.max.retries
    controlled.shutdown.retry.backoff.ms
    # The same with KRaft.
    broker.session.timeout.ms broker.heartbeat.interval.ms controller.quorum.election.timeout.ms
    controller.quorum.election.backoff.max.ms controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
    metadata.log.max.snapshot.interval.ms
    # What the model reads.
    inter.broker.protocol.version log.message.format.version message.format.version
    min.insync.replicas unclean.leader.election.enable controlled.shutdown.enable
    num.replica.fetchers
    # What shows in the links, in ZooKeeper and on disk.
    replica.fetch.max.bytes replica.fetch.response.max.bytes fetch.max.bytes compression.type
    broker.rack
    # What a controller elects on its own account is in the log of decisions.
    auto.leader.rebalance.enable leader.imbalance.check.interval.seconds
    leader.imbalance.per.broker.percentage
    # A fetch that is throttled carries nothing.
    leader.replication.throttled.replicas follower.replication.throttled.replicas
    leader.replication.throttled.rate follower.replication.throttled.rate
    default.replication.factor num.partitions auto.create.topics.enable log.segment.bytes
    log.roll.ms log.roll.hours log.roll.jitter.ms log.roll.jitter.hours segment.bytes segment.ms
    internal.segment.bytes
    segment.jitter.ms
    # Log cleaners: what they did is looked at.
    log.cleaner.enable log.cleaner.threads log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size
    log.cleaner.io.buffer.size log.cleaner.io.buffer.load.factor
    log.cleaner.io.max.bytes.per.second log.cleaner.delete.retention.ms delete.retention.ms
    log.cleaner.min.cleanable.ratio min.cleanable.dirty.ratio log.cleaner.min.compaction.lag.ms
    min.compaction.lag.ms log.cleaner.max.compaction.lag.ms max.compaction.lag.ms
    # What brokers delete is seen where logs begin.
    log.retention.ms retention.ms log.retention.minutes log.retention.hours log.retention.bytes
    retention.bytes
    # Tiered logs.
    remote.storage.enable remote.log.copy.disable remote.log.delete.on.disable
""")
"""Whatever their value is, the model follows what comes of it."""

HARMLESS = _names("""
    background.threads num.io.threads num.network.threads num.recovery.threads.per.data.dir
    num.replica.alter.log.dirs.threads alter.log.dirs.replication.quota.window.num
    alter.log.dirs.replication.quota.window.size.seconds log.dir.failure.timeout.ms
    queued.max.requests socket.listen.backlog.size socket.send.buffer.bytes
    socket.receive.buffer.bytes replica.socket.receive.buffer.bytes
    connection.failed.authentication.delay.ms max.request.partition.size.limit
    delete.topic.enable broker.id.generation.enable reserved.broker.max.id
    zookeeper.max.in.flight.requests zookeeper.sync.time.ms
    # Index files, when logs are flushed and looked through, when files go.
    log.index.interval.bytes log.index.size.max.bytes index.interval.bytes segment.index.bytes
    log.segment.delete.delay.ms file.delete.delay.ms log.flush.interval.messages
    log.flush.interval.ms flush.messages flush.ms log.flush.offset.checkpoint.interval.ms
    log.flush.scheduler.interval.ms log.flush.start.offset.checkpoint.interval.ms
    log.retention.check.interval.ms log.initial.task.delay.ms compression.gzip.level
    compression.lz4.level compression.zstd.level
    # Clients: their quotas, requests that wait, groups, transactions.
    controller.quota.window.num controller.quota.window.size.seconds quota.consumer.default
    quota.producer.default quota.window.num quota.window.size.seconds
    replication.quota.window.num replication.quota.window.size.seconds
    delete.records.purgatory.purge.interval.requests fetch.purgatory.purge.interval.requests
    producer.purgatory.purge.interval.requests group.initial.rebalance.delay.ms
    group.max.session.timeout.ms group.max.size group.min.session.timeout.ms
    offset.metadata.max.bytes offsets.commit.required.acks offsets.commit.timeout.ms
    offsets.load.buffer.size offsets.retention.check.interval.ms offsets.retention.minutes
    offsets.topic.compression.codec offsets.topic.num.partitions
    offsets.topic.replication.factor offsets.topic.segment.bytes producer.id.expiration.ms
    producer.id.expiration.check.interval.ms transaction.max.timeout.ms
    transaction.partition.verification.enable
    transaction.abort.timed.out.transaction.cleanup.interval.ms
    transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.state.log.load.buffer.size transaction.state.log.min.isr
    transaction.state.log.num.partitions transaction.state.log.replication.factor
    transaction.state.log.segment.bytes transactional.id.expiration.ms
    share.coordinator.state.topic.min.isr share.coordinator.state.topic.replication.factor
    # What brokers tell of themselves.
    auto.include.jmx.reporter metrics.num.samples metrics.recording.level
    metrics.sample.window.ms telemetry.max.bytes
    # How the work on a tier is shared out.
    remote.fetch.max.wait.ms remote.log.index.file.cache.total.size.bytes
    remote.log.manager.copier.thread.pool.size remote.log.manager.copy.max.bytes.per.second
    remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
    remote.log.manager.expiration.thread.pool.size remote.log.manager.fetch.max.bytes.per.second
    remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
    remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.ms
    remote.log.manager.task.retry.backoff.max.ms remote.log.manager.task.retry.jitter
    remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
    remote.log.reader.max.pending.tasks remote.log.reader.threads
""")
"""None of their values changes what is replicated."""

_HOUR_MS, _GIB = 3_600_000, 1 << 30
_DELETES = "brokers delete records, each replica at a time of its own"
_REFUSED = "batches may be refused"
_STAMPED = "brokers change the timestamps of what they get"
_CONNECTIONS = "brokers may be refused or lose connections to each other"

LIMITED: Mapping[str, Limit] = {
    "max.incremental.fetch.session.cache.slots": Limit(
        least=1000, why="a leader may refuse its followers fetch sessions"
    ),
    **dict.fromkeys(
        ("log.local.retention.ms", "local.retention.ms"), Limit(least=_HOUR_MS, why=_DELETES)
    ),
    **dict.fromkeys(
        ("log.local.retention.bytes", "local.retention.bytes"), Limit(least=_GIB, why=_DELETES)
    ),
    **dict.fromkeys(
        ("log.cleanup.policy", "cleanup.policy"),
        Limit(values=("delete", "compact", "compact,delete", "delete,compact", ""), why=_DELETES),
    ),
    "replica.alter.log.dirs.io.max.bytes.per.second": Limit(
        values=("",), why="what a broker moves between its log directories is throttled"
    ),
    **dict.fromkeys(
        ("message.max.bytes", "max.message.bytes"), Limit(least=1_000_012, why=_REFUSED)
    ),
    **dict.fromkeys(
        (
            *("log.message.timestamp.difference.max.ms", "message.timestamp.difference.max.ms"),
            *("log.message.timestamp.after.max.ms", "message.timestamp.after.max.ms"),
            *("log.message.timestamp.before.max.ms", "message.timestamp.before.max.ms"),
        ),
        Limit(least=_HOUR_MS, why=_REFUSED),
    ),
    **dict.fromkeys(
        ("log.message.timestamp.type", "message.timestamp.type"),
        Limit(values=("createtime",), why=_STAMPED),
    ),
    **dict.fromkeys(
        ("log.message.downconversion.enable", "message.downconversion.enable"),
        Limit(values=("true",), why="followers of an older protocol may be refused"),
    ),
    **dict.fromkeys(
        ("log.preallocate", "preallocate"),
        Limit(values=("false",), why="segments end in zeros that nobody wrote"),
    ),
    "socket.request.max.bytes": Limit(least=100 << 20, why=_CONNECTIONS),
    "queued.max.request.bytes": Limit(least=100 << 20, why="brokers may read no requests for long"),
    "connections.max.idle.ms": Limit(least=600_000, why=_CONNECTIONS),
    **dict.fromkeys(
        ("max.connections", "max.connections.per.ip", "max.connection.creation.rate"),
        Limit(least=1000, why=_CONNECTIONS),
    ),
    "max.connections.per.ip.overrides": Limit(values=("",), why=_CONNECTIONS),
}
"""With some values the model follows what comes of them, and with others not."""

_OF_A_TIER = ("local.retention.ms", "local.retention.bytes")


_TAKEN_AT_START = frozenset({"min.insync.replicas", "num.replica.fetchers"})
"""Followed settings that a running broker may be given too (KIP-226), which is not followed."""


def not_followed(
    name: str, value: str, *, is_tiered: bool = False, while_it_ran: bool = False
) -> str:
    """Return the effect of a setting that the model does not follow, or "".

    `is_tiered` is for a tiered log's topic, whose retention is followed; `while_it_ran` for a
    setting changed on a running broker.
    """
    if while_it_ran and name in _TAKEN_AT_START:
        return "it takes that setting from a broker's start"
    if name in FOLLOWED or name in HARMLESS or (is_tiered and name in _OF_A_TIER):
        return ""
    limit = LIMITED.get(name)
    if limit is None:
        return "its effect has not been examined"
    return "" if limit.has(value) else limit.why


def is_listed(name: str) -> bool:
    """Return whether a setting is safe for the machine: no class, no file, no address."""
    return name in FOLLOWED or name in HARMLESS or name in LIMITED
