"""Bugs planted in Kafka on purpose, as data: what the agent changes in which release.

Each is a few lines of Byteman's rule language on one method of a released jar: an argument or an
answer is changed, or the method returns at once. They measure kchaos: `kchaos measure --planted`
hunts them. A rule reports at the gate before it acts, so hits.jsonl says whether it ever did. The
methods and their parameters were read from the jars of exactly the releases named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kchaos.checkers.formats.point_hit import PLANTED
from kchaos.clusters.agent.point import Place, Point
from kchaos.clusters.releases import Release

Side = Literal["leader", "follower", "broker", "controller"]

_2_8, _3_9, _4_1 = (2, 8, 2), (3, 9, 1), (4, 1, 2)
_PARTITION = "kafka.cluster.Partition"
_STORAGE = "org.apache.kafka.storage.internals.log"
_LOGS = ((_2_8, "kafka.log.Log"), (_3_9, "kafka.log.UnifiedLog"), (_4_1, f"{_STORAGE}.UnifiedLog"))
_SEGMENTS = (
    (_2_8, "kafka.log.LogSegment"),
    (_3_9, f"{_STORAGE}.LogSegment"),
    (_4_1, f"{_STORAGE}.LogSegment"),
)
_REPLICAS = (
    (_2_8, "kafka.cluster.Replica"),
    (_3_9, "kafka.cluster.Replica"),
    (_4_1, "org.apache.kafka.server.replica.Replica"),
)
_ALL = (_2_8, _3_9, _4_1)
_WITH_ZOOKEEPER = (_2_8, _3_9)
_CACHE = "org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache"
_COMMON = "org.apache.kafka.server.common"
_RECORDS = "org.apache.kafka.common.record.MemoryRecords"
_KRAFT = "org.apache.kafka.controller"
# KRaft's metadata and Kafka's own topics are logs as well.
_OF_TOPICS = '!$0.topicPartition().topic().startsWith("__")'


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug(Point):
    """A planted bug; ``places`` are exactly the releases that it fits.

    ``side`` is who misbehaves. ``breaks`` is what Kafka promises and the bug breaks. A finding
    points at the bug if it is of one of the ``kinds`` and its message has one of the ``words``.
    """

    side: Side
    breaks: str
    kinds: tuple[str, ...]
    words: tuple[str, ...]

    def place(self, release: Release) -> Place | None:
        """Return where the bug is in exactly this release, None where it has no such place."""
        return next((place for place in self.places if place.since == release.number), None)

    @property
    def short_name(self) -> str:
        """The name for people, as `--plant` takes it."""
        return self.name.removeprefix(PLANTED)

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that it fits."""
        return tuple(".".join(map(str, place.since)) for place in self.places)


_NOT_EXPLAINED = ("not-explained", "not-as-predicted")
_LOST = ("committed-loss", "divergence", "hole", "missing-tail")


def _offset(of: str, release: tuple[int, ...]) -> str:
    """Return Byteman's expression for the offset of a LogOffsetMetadata."""
    return f"{of}.messageOffset()" if release == _2_8 else f"{of}.messageOffset"


def _one_more(of: str, release: tuple[int, ...]) -> str:
    """Return an assignment that makes a LogOffsetMetadata one of the next offset."""
    call = "()" if release == _2_8 else ""
    package = "kafka.server" if release == _2_8 else _STORAGE
    return (
        f"{of} = new {package}.LogOffsetMetadata({of}.messageOffset{call} + 1L, "
        f"{of}.segmentBaseOffset{call}, {of}.relativePositionInSegment{call})"
    )


def _at(
    classes: Sequence[tuple[tuple[int, ...], str]], method: str, does: str, when: str = "TRUE"
) -> tuple[Place, ...]:
    """Return places in a class of each release, the same but for its name."""
    return tuple(Place(since, name, method, when=when, does=does) for since, name in classes)


def _of(
    releases: Sequence[tuple[int, ...]], java_class: str, method: str, does: str, when: str = "TRUE"
) -> tuple[Place, ...]:
    """Return places in one class, the same in each of these releases."""
    return _at([(since, java_class) for since in releases], method, does, when)


_BUGS = (
    PlantedBug(
        name="high-watermark-ahead",
        meaning="a leader's high watermark is one record too high, up to its log's end",
        side="leader",
        breaks="a record is committed once every replica in sync has it",
        kinds=(*_NOT_EXPLAINED, *_LOST, "truncated-below-high-watermark"),
        words=("high watermark", "acknowledged"),
        places=tuple(
            Place(
                since,
                log,
                "maybeIncrementHighWatermark",
                when=f"{_offset('$1', since)} < $0.logEndOffset()",
                does=_one_more("$1", since),
            )
            for since, log in _LOGS
        ),
    ),
    PlantedBug(
        name="follower-high-watermark-ahead",
        meaning="a follower's high watermark is one record higher than its leader says",
        side="follower",
        breaks="a follower knows as committed only what its leader says is",
        kinds=(*_NOT_EXPLAINED, "truncated-below-high-watermark"),
        words=("high watermark",),
        places=tuple(
            Place(
                since,
                log,
                "updateHighWatermark(long)" if since == _2_8 else "maybeUpdateHighWatermark(long)",
                when=f"$1 < $0.logEndOffset() && {_OF_TOPICS}",
                does="$1 = $1 + 1L",
            )
            for since, log in _LOGS
        ),
    ),
    PlantedBug(
        name="acknowledged-early",
        meaning="acks=all is answered when the replicas in sync have all but the last record",
        side="leader",
        breaks="acks=all waits until every replica in sync has the record",
        kinds=(*_NOT_EXPLAINED, "committed-loss"),
        words=("acknowledged",),
        places=_of(_ALL, _PARTITION, "checkEnoughReplicasReachOffset", "$1 = $1 - 1L", "$1 > 0L"),
    ),
    PlantedBug(
        name="acks-all-as-one",
        meaning="acks=all is answered as acks=1 is",
        side="leader",
        breaks="acks=all waits until every replica in sync has the record",
        kinds=(*_NOT_EXPLAINED, "committed-loss"),
        words=("acknowledged",),
        places=_of(
            _ALL, "kafka.server.ReplicaManager", "appendRecords", when="$2 < 0", does="$2=1"
        ),
    ),
    PlantedBug(
        name="follower-counted-ahead",
        meaning="a leader counts a follower as one record further than it has fetched",
        side="leader",
        breaks="a follower has what it fetches beyond, and no more",
        kinds=(*_NOT_EXPLAINED, *_LOST),
        words=("high watermark", "acknowledged", "ISR"),
        places=tuple(
            Place(
                since,
                replica,
                "updateFetchState" if since == _2_8 else "updateFetchStateOrThrow",
                when=f"{_offset('$1', since)} < $4",
                does=_one_more("$1", since),
            )
            for since, replica in _REPLICAS
        ),
    ),
    PlantedBug(
        name="isr-takes-who-lags",
        meaning="a leader takes followers into the ISR that lack committed records",
        side="leader",
        breaks="every replica in sync has every committed record",
        kinds=(*_NOT_EXPLAINED, *_LOST),
        words=("ISR", "high watermark", "in-sync", "in sync"),
        at_exit=True,
        places=tuple(
            Place(since, _PARTITION, method, when="!$!", does="RETURN true")
            for since, method in zip(
                _ALL,
                ("isFollowerAtHighwatermark", "isFollowerInSync", "isFollowerInSync"),
                strict=True,
            )
        ),
    ),
    PlantedBug(
        name="isr-never-grows",
        meaning="a leader never takes a follower back into the ISR",
        side="leader",
        breaks="a follower that has caught up is in sync again",
        kinds=("out-of-sync", "replication-stopped", *_NOT_EXPLAINED),
        words=("ISR", "in sync", "out of sync"),
        at_exit=True,
        places=_of(_ALL, _PARTITION, "canAddReplicaToIsr", "RETURN false", "$!"),
    ),
    PlantedBug(
        name="recovery-drops-batch",
        meaning="after a kill, recovery cuts the last valid batch of a segment",
        side="broker",
        breaks="recovery keeps every valid batch",
        kinds=(*_NOT_EXPLAINED, *_LOST),
        words=("fetched from", "missing", "lost", "log", "promised"),
        at_exit=True,
        places=_at(
            _SEGMENTS,
            "recover",
            when='$0.size() > 0 && $0.log().file().getPath().indexOf("/__") < 0',
            does="$0.truncateTo($0.readNextOffset() - 1L)",
        ),
    ),
    PlantedBug(
        name="epoch-end-of-next",
        meaning="asked for the end of a leader epoch, a leader answers the next one's",
        side="leader",
        breaks="followers cut what their leader does not have",
        kinds=(*_NOT_EXPLAINED, *_LOST),
        words=("epoch", "asked", "answered"),
        places=tuple(
            Place(
                since,
                log,
                "endOffsetForEpoch",
                when=f"$0.latestEpoch().{'isPresent' if since == _4_1 else 'isDefined'}() && "
                f'$1 < java.lang.Integer.parseInt("" + $0.latestEpoch().get()) && {_OF_TOPICS}',
                does="$1 = $1 + 1",
            )
            for since, log in _LOGS
        ),
    ),
    PlantedBug(
        name="epoch-not-fenced",
        meaning="requests of another leader epoch are served",
        side="leader",
        breaks="a leader serves requests of its own leader epoch alone (KIP-320)",
        kinds=(*_NOT_EXPLAINED, *_LOST, "stale-request-accepted"),
        words=("epoch", "EPOCH", "fetched from"),
        at_exit=True,
        places=_of(
            _ALL,
            _PARTITION,
            "checkCurrentLeaderEpoch",
            "RETURN org.apache.kafka.common.protocol.Errors.NONE",
            "$! != org.apache.kafka.common.protocol.Errors.NONE",
        ),
    ),
    PlantedBug(
        name="diverging-epoch-ignored",
        meaning="a follower does not truncate where a Fetch answer says that its log diverges",
        side="follower",
        breaks="a follower's log is its leader's (KIP-595)",
        kinds=(*_NOT_EXPLAINED, *_LOST, "fetch-loop", "replication-stopped"),
        words=("truncat", "diverg", "fetch", "epoch"),
        places=_of(
            _ALL, "kafka.server.AbstractFetcherThread", "truncateOnFetchResponse", does="RETURN"
        ),
    ),
    PlantedBug(
        name="truncation-too-little",
        meaning="a truncation keeps one record too many",
        side="follower",
        breaks="a truncation ends where the leader says that the logs part",
        kinds=(*_NOT_EXPLAINED, *_LOST),
        words=("truncat", "fetched from", "log", "offset"),
        places=_at(
            _LOGS,
            "truncateTo",
            when=f"$1 + 1L < $0.logEndOffset() && {_OF_TOPICS}",
            does="$1 = $1 + 1L",
        ),
    ),
    PlantedBug(
        name="truncation-too-much",
        meaning="a truncation cuts one record too many",
        side="follower",
        breaks="a truncation ends where the leader says that the logs part",
        kinds=(*_NOT_EXPLAINED, *_LOST, "truncated-below-high-watermark"),
        words=("truncat", "fetched from", "log", "offset"),
        places=_at(
            _LOGS,
            "truncateTo",
            when=f"$1 > $0.logStartOffset() && $1 < $0.logEndOffset() && {_OF_TOPICS}",
            does="$1 = $1 - 1L",
        ),
    ),
    PlantedBug(
        name="epoch-not-cached",
        meaning="a new leader does not note where its leader epoch begins",
        side="leader",
        breaks="a leader knows the start of its own epoch, also before its first record",
        kinds=(*_NOT_EXPLAINED, "epoch-cache-mismatch"),
        # A leader without its epoch takes a follower's offset for one out of its range.
        words=("epoch", "error 1"),
        places=tuple(
            Place(
                since,
                log,
                "assignEpochStartOffset" if since == _4_1 else "maybeAssignEpochStartOffset",
                when=_OF_TOPICS,
                does="RETURN",
            )
            for since, log in _LOGS
        ),
    ),
    PlantedBug(
        name="min-isr-ignored",
        meaning="acks=all is accepted with fewer replicas in sync than min.insync.replicas",
        side="leader",
        breaks="acks=all needs min.insync.replicas replicas in sync",
        kinds=(*_NOT_EXPLAINED, "under-min-isr"),
        words=("NOT_ENOUGH_REPLICAS", "min.insync.replicas", "acknowledged"),
        at_exit=True,
        places=(
            Place(
                _2_8,
                "kafka.log.LogConfig",
                "minInSyncReplicas",
                when="$!.intValue() > 1",
                does="RETURN java.lang.Integer.valueOf(1)",
            ),
            *(
                Place(since, _PARTITION, "effectiveMinIsr", when="$! > 1", does="RETURN 1")
                for since in (_3_9, _4_1)
            ),
        ),
    ),
    PlantedBug(
        name="any-live-replica-elected",
        meaning="the controller elects a live replica out of sync without being allowed to",
        side="controller",
        breaks="without unclean.leader.election.enable only a replica in sync becomes leader",
        kinds=("decision-not-allowed", "committed-loss", *_NOT_EXPLAINED),
        words=("elect", "leader", "promised"),
        places=_of(
            _WITH_ZOOKEEPER,
            "kafka.controller.PartitionLeaderElectionAlgorithms$",
            "offlinePartitionLeaderElection",
            "$4 = true",
            "!$4",
        ),
    ),
    PlantedBug(
        name="epoch-not-raised",
        meaning="the controller names another leader in the leader epoch of the one before",
        side="controller",
        breaks="each leader has a leader epoch of its own",
        kinds=("decision-not-allowed", "divergence", *_NOT_EXPLAINED),
        words=("epoch", "leader"),
        places=tuple(
            Place(
                since,
                "kafka.api.LeaderAndIsr",
                "newLeaderAndIsr",
                when="$1 >= 0 && $1 != $0.leader()",
                does=f"RETURN new kafka.api.LeaderAndIsr($1, $0.leaderEpoch(), {recovery}$2, "
                f"$0.{version}())",
            )
            for since, recovery, version in (
                (_2_8, "", "zkVersion"),
                (_3_9, "$0.leaderRecoveryState(), ", "partitionEpoch"),
            )
        ),
    ),
    PlantedBug(
        name="stop-replica-left-out",
        meaning="the controller sends no StopReplica",
        side="controller",
        breaks="a broker that loses a replica, or shuts down, is told so",
        kinds=("decision-not-allowed", "deletion-does-not-end", *_NOT_EXPLAINED),
        words=("StopReplica", "STOP_REPLICA", "delet", "fetch"),
        places=_of(
            _WITH_ZOOKEEPER,
            "kafka.controller.AbstractControllerBrokerRequestBatch",
            "addStopReplicaRequestForBrokers",
            "RETURN",
        ),
    ),
    PlantedBug(
        name="follower-high-watermark-stays",
        meaning="a follower does not take the high watermark that its leader says",
        side="follower",
        breaks="a follower learns what is committed",
        kinds=(*_NOT_EXPLAINED, *_LOST),
        words=("high watermark",),
        places=tuple(
            Place(
                since,
                log,
                "updateHighWatermark(long)" if since == _2_8 else "maybeUpdateHighWatermark(long)",
                when=f"$1 > $0.highWatermark() && {_OF_TOPICS}",
                does=f"RETURN {nothing}",
            )
            for (since, log), nothing in zip(
                _LOGS,
                ("$0.highWatermark()", "scala.Option.empty()", "java.util.Optional.empty()"),
                strict=True,
            )
        ),
    ),
    PlantedBug(
        name="records-of-epoch-before",
        meaning="a leader writes records with the leader epoch before its own",
        side="leader",
        breaks="each batch has the epoch of the leader that took it",
        kinds=(*_NOT_EXPLAINED, *_LOST, "epoch-cache-mismatch"),
        words=("epoch", "produce that the leader"),
        places=tuple(
            Place(
                since,
                log,
                f"appendAsLeader({parameters})",
                when=f"$2 > 0 && {_OF_TOPICS}",
                does="$2 = $2 - 1",
            )
            for (since, log), parameters in zip(
                _LOGS,
                (
                    f"{_RECORDS},int,kafka.log.AppendOrigin,kafka.api.ApiVersion",
                    f"{_RECORDS},int,{_STORAGE}.AppendOrigin,{_COMMON}.MetadataVersion,"
                    f"kafka.server.RequestLocal,{_STORAGE}.VerificationGuard",
                    f"{_RECORDS},int,{_STORAGE}.AppendOrigin,{_COMMON}.RequestLocal,"
                    f"{_STORAGE}.VerificationGuard",
                ),
                strict=True,
            )
        ),
    ),
    PlantedBug(
        name="isr-shrinks-at-once",
        meaning="a leader takes 50 ms for replica.lag.time.max.ms",
        side="leader",
        breaks="a follower is in sync until it has lagged for replica.lag.time.max.ms",
        kinds=(*_NOT_EXPLAINED, "out-of-sync", "replication-stopped"),
        words=("ISR", "in sync"),
        places=_of(_ALL, _PARTITION, "getOutOfSyncReplicas", "$1 = 50L", "$1 > 50L"),
    ),
    PlantedBug(
        name="follower-still-leads",
        meaning="a leader that is told to follow goes on to lead",
        side="broker",
        breaks="a broker does what the newest leader epoch says",
        kinds=(*_NOT_EXPLAINED, *_LOST, "replication-stopped"),
        words=("lead", "epoch", "follow", "fetch"),
        places=_of(
            _ALL, _PARTITION, "makeFollower", "RETURN false", f"$0.isLeader() && {_OF_TOPICS}"
        ),
    ),
    PlantedBug(
        name="consumers-read-uncommitted",
        meaning="a consumer is given what is beyond the high watermark",
        side="leader",
        breaks="consumers read committed records alone",
        kinds=(*_NOT_EXPLAINED, "aborted-read", "lost-write", "inconsistent-offsets"),
        words=("read", "poll", "high watermark"),
        places=tuple(
            Place(since, log, "read", when=f"$3 != {end} && {_OF_TOPICS}", does=f"$3 = {end}")
            for (since, log), end in zip(
                _LOGS,
                (
                    "kafka.server.FetchLogEnd$.MODULE$",
                    f"{_STORAGE}.FetchIsolation.LOG_END",
                    "org.apache.kafka.server.storage.log.FetchIsolation.LOG_END",
                ),
                strict=True,
            )
        ),
    ),
    PlantedBug(
        name="duplicates-not-recognised",
        meaning="a batch that an idempotent producer sends again is not recognised",
        side="leader",
        breaks="an idempotent producer's batch is appended once, however often it is sent",
        kinds=(*_NOT_EXPLAINED, "duplicate", "broker-error"),
        words=("sequence", "duplicate", "produce"),
        at_exit=True,
        places=tuple(
            Place(
                since,
                f"{package}.ProducerStateEntry",
                "findDuplicateBatch",
                when=f"$!.{present}()",
                does=f"RETURN {empty}",
            )
            for since, package, present, empty in (
                (_2_8, "kafka.log", "isDefined", "scala.Option.empty()"),
                (_3_9, _STORAGE, "isPresent", "java.util.Optional.empty()"),
                (_4_1, _STORAGE, "isPresent", "java.util.Optional.empty()"),
            )
        ),
    ),
    PlantedBug(
        name="epochs-outlive-truncation",
        meaning="a truncation leaves the leader epochs of what it cut",
        side="follower",
        breaks="the leader epoch cache says what the log holds",
        kinds=(*_NOT_EXPLAINED, *_LOST, "epoch-cache-mismatch"),
        words=("epoch",),
        places=tuple(
            Place(
                since,
                _CACHE,
                "truncateFromEndAsyncFlush",
                when=f"$0.latestEpoch().isPresent() && $0.epochForOffset($1 - 1L).isPresent() && "
                f"$0.epochForOffset($1 - 1L).getAsInt() != {latest}",
                does="RETURN",
            )
            for since, latest in (
                (_3_9, "$0.latestEpoch().getAsInt()"),
                (_4_1, 'java.lang.Integer.parseInt("" + $0.latestEpoch().get())'),
            )
        ),
    ),
    PlantedBug(
        name="log-start-ahead",
        meaning="records are deleted up to one offset further than was asked",
        side="leader",
        breaks="DeleteRecords keeps what it was not asked to delete",
        kinds=(*_NOT_EXPLAINED, *_LOST),
        words=("log start", "deleted"),
        places=_at(
            _LOGS,
            "maybeIncrementLogStartOffset",
            when=f"$1 > $0.logStartOffset() && $1 < $0.highWatermark() && {_OF_TOPICS}",
            does="$1 = $1 + 1L",
        ),
    ),
    PlantedBug(
        name="isr-asks-for-who-may-not",
        meaning="a leader asks for an ISR with replicas that are fenced or shutting down",
        side="leader",
        breaks="only a replica whose broker is alive and stays may join the ISR (KIP-841)",
        kinds=(*_NOT_EXPLAINED, "decision-not-allowed"),
        words=("ISR",),
        at_exit=True,
        places=(Place(_4_1, _PARTITION, "isReplicaIsrEligible", when="!$!", does="RETURN true"),),
    ),
    PlantedBug(
        name="stale-broker-epoch-taken",
        meaning="control requests for a broker's earlier registration are taken",
        side="broker",
        breaks="a broker refuses requests for its earlier registrations (KIP-380)",
        kinds=(*_NOT_EXPLAINED, *_LOST, "stale-request-accepted"),
        words=("epoch", "STALE", "stale"),
        at_exit=True,
        places=(
            Place(
                _2_8, "kafka.server.KafkaApis", "isBrokerEpochStale", when="$!", does="RETURN false"
            ),
        ),
    ),
    PlantedBug(
        name="preferred-leader-out-of-isr",
        meaning="the controller elects a preferred leader that is not in the ISR",
        side="controller",
        breaks="a preferred leader is elected if it is in the ISR",
        kinds=("decision-not-allowed", *_LOST, *_NOT_EXPLAINED),
        words=("elect", "leader", "promised"),
        places=_of(
            _WITH_ZOOKEEPER,
            "kafka.controller.PartitionLeaderElectionAlgorithms$",
            "preferredReplicaPartitionLeaderElection",
            "$2 = $1",
            "$2.size() < $1.size()",
        ),
    ),
    PlantedBug(
        name="leader-shuts-down",
        meaning="a controlled shutdown leaves the broker that shuts down the leader",
        side="controller",
        breaks="a broker that shuts down leads nothing any more",
        kinds=("decision-not-allowed", "offline-partition", *_NOT_EXPLAINED),
        words=("elect", "leader", "shut"),
        places=_of(
            _WITH_ZOOKEEPER,
            "kafka.controller.PartitionLeaderElectionAlgorithms$",
            "controlledShutdownPartitionLeaderElection",
            "$4 = scala.collection.immutable.Set$.MODULE$.empty()",
            "$4.size() > 0",
        ),
    ),
    PlantedBug(
        name="leader-and-isr-left-out",
        meaning="the controller tells brokers nothing of new leaders of old partitions",
        side="controller",
        breaks="each replica of a partition is told of its new leader",
        kinds=("replication-stopped", "offline-partition", *_LOST, *_NOT_EXPLAINED),
        words=("LeaderAndIsr", "leader", "fetch"),
        places=_of(
            _WITH_ZOOKEEPER,
            "kafka.controller.AbstractControllerBrokerRequestBatch",
            "addLeaderAndIsrRequestForBrokers",
            "RETURN",
            "!$5",
        ),
    ),
    PlantedBug(
        name="any-live-replica-elected-kraft",
        meaning="a KRaft controller elects a live replica that is not in sync",
        side="controller",
        breaks="without unclean.leader.election.enable only a replica in sync becomes leader",
        kinds=("decision-not-allowed", *_LOST, *_NOT_EXPLAINED),
        words=("elect", "leader", "promised"),
        at_exit=True,
        places=(
            Place(
                _4_1,
                f"{_KRAFT}.PartitionChangeBuilder",
                "isValidNewLeader",
                when="!$! && $0.isAcceptableLeader.test($1)",
                does="RETURN true",
            ),
        ),
    ),
    PlantedBug(
        name="fenced-stays-in-isr",
        meaning="a KRaft controller leaves a broker that it fences in its ISRs",
        side="controller",
        breaks="a fenced broker is in no ISR, unless it is the last",
        kinds=("decision-not-allowed", *_LOST, *_NOT_EXPLAINED),
        words=("ISR", "leader", "fenc"),
        places=(
            Place(
                _4_1,
                f"{_KRAFT}.ReplicationControlManager",
                "generateLeaderAndIsrUpdates",
                when="$2 >= 0",
                does="$2 = -1",
            ),
        ),
    ),
    PlantedBug(
        name="alter-partition-not-checked",
        meaning="a KRaft controller grants each ISR that a leader asks for",
        side="controller",
        breaks="an AlterPartition of an earlier leader or partition epoch is refused",
        kinds=("decision-not-allowed", *_LOST, *_NOT_EXPLAINED),
        words=("ISR", "AlterPartition", "epoch"),
        at_exit=True,
        places=(
            Place(
                _4_1,
                f"{_KRAFT}.ReplicationControlManager",
                "validateAlterPartitionData",
                when="$! != org.apache.kafka.common.protocol.Errors.NONE",
                does="RETURN org.apache.kafka.common.protocol.Errors.NONE",
            ),
        ),
    ),
    PlantedBug(
        name="isr-granted-to-who-may-not",
        meaning="a KRaft controller grants an ISR with brokers that are fenced or shutting down",
        side="controller",
        breaks="only a replica whose broker is alive and stays may join the ISR (KIP-841)",
        kinds=("decision-not-allowed", *_LOST, *_NOT_EXPLAINED),
        words=("ISR",),
        at_exit=True,
        places=(
            Place(
                _4_1,
                f"{_KRAFT}.ReplicationControlManager",
                "ineligibleReplicasForIsr",
                when="!$!.isEmpty()",
                does="RETURN new java.util.ArrayList()",
            ),
        ),
    ),
    PlantedBug(
        name="leads-while-shutting-down",
        meaning="a KRaft controller moves no leaders from a broker that shuts down",
        side="controller",
        breaks="a broker that shuts down leads nothing any more",
        kinds=("decision-not-allowed", "offline-partition", *_NOT_EXPLAINED),
        words=("leader", "shut"),
        places=(
            Place(
                _4_1,
                f"{_KRAFT}.ReplicationControlManager",
                "handleBrokerInControlledShutdown",
                does="RETURN",
            ),
        ),
    ),
    PlantedBug(
        name="unfenced-too-soon",
        meaning="a KRaft controller unfences a broker that has not read its own registration",
        side="controller",
        breaks="a broker is unfenced once it has read the metadata log up to its registration",
        kinds=("decision-not-allowed", *_NOT_EXPLAINED),
        words=("fence", "heartbeat", "regist"),
        places=(
            Place(
                _4_1,
                f"{_KRAFT}.BrokerHeartbeatManager",
                "calculateNextBrokerState",
                when="$2.currentMetadataOffset() < $3",
                does="$3 = -1L",
            ),
        ),
    ),
)


PLANTED_BUGS: Mapping[str, PlantedBug] = {
    bug.name: replace(bug, name=PLANTED + bug.name) for bug in _BUGS
}
"""The planted bugs by short name."""
