"""Named points of Kafka's code, as data: where each is in which release.

Class names, methods and their parameters were read from the jars of the releases. A few points are
of a broker's disk in place of its code: ``clusters.disk`` serves them, the same in every release.
"""

from collections.abc import Iterable, Mapping
from itertools import pairwise

from kchaos.checkers.acts import CONTROLLER_BROKER_CHANGE
from kchaos.checkers.formats.point_hit import FETCH_BEGUN, FETCH_COUNTED, ISR_CHECK, PLANTED
from kchaos.clusters.agent.planted import PLANTED_BUGS, PlantedBug
from kchaos.clusters.agent.point import DISK_OPERATIONS, DiskOperation, Place, Point
from kchaos.clusters.agent.tier_points import TIER_POINTS, UNIFIED_LOG
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.releases import KNOWN_RELEASES, Release, release_of
from kchaos.clusters.spec import ClusterSpec

_FIRST_CACHE = "kafka.server.epoch.LeaderEpochFileCache"
_CACHE = "org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache"

EPOCH_POINTS = (
    Point(
        name="epoch-truncation",
        meaning="a log was truncated, or loaded, and its leader epoch cache is about to be",
        places=(
            Place((0, 11, 0, 0), _FIRST_CACHE, "clearAndFlushLatest", seen='"" + $1'),
            Place((2, 0, 1), _FIRST_CACHE, "truncateFromEnd", seen='"" + $1'),
            Place((3, 5, 0), _CACHE, "truncateFromEnd", seen='"" + $1'),
            Place((3, 8, 0), _CACHE, "truncateFromEndAsyncFlush", seen='"" + $1'),
        ),
    ),
    Point(
        name="epoch-flush",
        meaning="what a truncation dropped is about to leave leader-epoch-checkpoint as well",
        places=(
            # Before, the thread that truncates writes the file.
            Place((3, 8, 0), _CACHE, "writeToFileForTruncation"),
            Place((3, 9, 0), _CACHE, "writeIfDirExists"),
        ),
    ),
)

CONTROLLED_SHUTDOWN = "controlled-shutdown"
CONTROLLER_WRITE = "controller-write"
REGISTERED = "registered"
SEND_FETCH = "send-fetch"
FETCH_REQUEST = "fetch-request"
FETCH_READ = "fetch-read"
LOG_READ = "log-read"


def disk_point(operation: DiskOperation, *, is_cached: bool) -> str:
    """Return the name of the point at which a broker's disk does this."""
    return f"{'cached-' if is_cached else ''}disk-{operation}"


_FETCHER = "kafka.server.AbstractFetcherThread"
_KAFKA_APIS = "kafka.server.KafkaApis"
_REPLICA_MANAGER = "kafka.server.ReplicaManager"
_BROKER_CHANGE = "kafka.controller.KafkaController$BrokerChange"
_LOG_POSITION = '"(" + $0.name() + ",offset=" + $1 + ",length=" + $2 + ")"'
_MAX_OFFSET = '$3.isEmpty() ? "follower" : "consumer"'
_ISOLATION = '"" + $3'
_REPLICA = "kafka.cluster.Replica"
_PARTITION = "kafka.cluster.Partition"
_NOW = '"now=" + java.lang.System.currentTimeMillis() + " " + '


def _told(end: str) -> str:
    """Return an expression for Replica.toString from 2.4 on, as earlier ones omit most of it."""
    return (
        f'{_NOW}"Replica(replicaId=" + $0.brokerId()'
        ' + ", topic=" + $0.topicPartition().topic()'
        ' + ", partition=" + $0.topicPartition().partition()'
        ' + ", lastCaughtUpTimeMs=" + $0.lastCaughtUpTimeMs()'
        f' + ", logEndOffset=" + $0.{end}'
        ' + ", lastFetchLeaderLogEndOffset=" + $0.lastFetchLeaderLogEndOffset'
        ' + ", lastFetchTimeMs=" + $0.lastFetchTimeMs + ")"'
    )


def _looked(end: str, followers: str) -> str:
    return (
        f'{_NOW}"partition=" + $0.topicPartition() + " logEndOffset=" + {end}'
        f' + " " + $0.{followers}()'
    )


_NO_ZOOKEEPER = Place((4, 0, 0))
_END_IN_METADATA = "logEndOffset().messageOffset()"
_READS_BEGIN = (
    Place((0, 10, 2, 0), _REPLICA_MANAGER, "readFromLocalLog", reader='"" + $1', seen='"" + $6'),
    Place(
        (3, 3, 0),
        _REPLICA_MANAGER,
        "readFromLocalLog",
        reader='"" + $1.replicaId()',
        seen='"" + $2',
    ),
    Place(
        (3, 5, 0), _REPLICA_MANAGER, "readFromLocalLog", reader='"" + $1.replicaId', seen='"" + $2'
    ),
    Place((3, 6, 0), _REPLICA_MANAGER, "readFromLog", reader='"" + $1.replicaId', seen='"" + $2'),
)

POINTS: Mapping[str, Point] = {
    point.name: point
    for point in (
        Point(
            name=CONTROLLER_BROKER_CHANGE,
            meaning="the controller begins to handle that brokers came or went",
            places=(
                # Here the list of brokers was read before the thread comes to the point; from
                # 0.11 on (KAFKA-5502) the list is read behind it, and what happened meanwhile is
                # seen as one change.
                Place(
                    (0, 10, 2, 0),
                    "kafka.controller.ReplicaStateMachine$BrokerChangeListener",
                    "doHandleChildChange",
                    seen='"" + $2',
                ),
                Place((0, 11, 0, 0), _BROKER_CHANGE, "process"),
                Place((1, 1, 0), f"{_BROKER_CHANGE}$", "process"),
                Place((2, 3, 0), "kafka.controller.KafkaController", "processBrokerChange"),
                _NO_ZOOKEEPER,
            ),
        ),
        Point(
            name=CONTROLLER_WRITE,
            meaning="the controller is about to write leaders and ISRs to ZooKeeper",
            places=(
                # Up to 1.0 it writes each partition's where it has decided it.
                Place((1, 1, 0), "kafka.zk.KafkaZkClient", "updateLeaderAndIsr", seen='"" + $1'),
                _NO_ZOOKEEPER,
            ),
        ),
        Point(
            name=CONTROLLED_SHUTDOWN,
            meaning="a broker begins to handle a ControlledShutdown request",
            places=(
                # Its version 0 had no header, and it is parsed by a class of its own.
                Place(
                    (0, 10, 2, 0),
                    _KAFKA_APIS,
                    "handleControlledShutdownRequest",
                    seen='"" + $1.requestObj()',
                ),
                Place(
                    (1, 0, 0),
                    _KAFKA_APIS,
                    "handleControlledShutdownRequest",
                    seen='"" + $1.header()',
                ),
                _NO_ZOOKEEPER,
            ),
        ),
        Point(
            name=REGISTERED,
            meaning="a broker has registered in ZooKeeper and does not know it yet",
            at_exit=True,
            places=(
                Place(
                    (0, 10, 2, 0),
                    "kafka.utils.ZkUtils",
                    "registerBrokerInZk(int,java.lang.String,int,scala.collection.Seq,int,"
                    "scala.Option,kafka.api.ApiVersion)",
                    seen='"broker " + $1',
                ),
                Place((1, 1, 0), "kafka.zk.KafkaZkClient", "registerBrokerInZk", seen='"" + $1'),
                Place((2, 1, 0), "kafka.zk.KafkaZkClient", "registerBroker", seen='"" + $1'),
                Place(
                    (2, 2, 0),
                    "kafka.zk.KafkaZkClient",
                    "registerBroker",
                    seen='"broker epoch " + $!',
                ),
                _NO_ZOOKEEPER,
            ),
        ),
        Point(
            name=SEND_FETCH,
            meaning="a fetcher thread is about to send its next fetch; truncating comes before",
            can_skip=True,
            # Before a Fetch is made: the thread's session notes what was to be sent (KIP-227). If
            # that is left undone afterwards, the leader goes on from where the one before began.
            places=(
                Place((0, 10, 2, 0), _FETCHER, "processFetchRequest", seen='"" + $1'),
                Place(
                    (1, 1, 0),
                    _FETCHER,
                    "doWork",
                    after="maybeTruncate()",
                    seen='"" + $0.partitionStates.partitionStates()',
                ),
                Place(
                    (2, 1, 0),
                    _FETCHER,
                    "maybeFetch",
                    seen='"" + $0.partitionStates.partitionStateMap()',
                ),
            ),
        ),
        Point(
            name=FETCH_REQUEST,
            meaning="a handler thread begins with a Fetch request",
            names_reader=True,
            places=(
                Place(
                    (0, 10, 2, 0),
                    _KAFKA_APIS,
                    "handleFetchRequest",
                    reader='"" + $1.header().clientId()',
                    seen='"" + $1.header()',
                ),
            ),
        ),
        Point(
            name=FETCH_READ,
            meaning="a Fetch is about to read logs, before it takes any partition's lock",
            names_reader=True,
            names_partitions=True,
            places=_READS_BEGIN,
        ),
        Point(
            name=FETCH_BEGUN,
            meaning="a Fetch is about to read logs, and the broker says whose",
            names_reader=True,
            names_partitions=True,
            is_told=True,
            places=_READS_BEGIN,
        ),
        Point(
            name=FETCH_COUNTED,
            meaning="a leader has counted a follower's fetch",
            at_exit=True,
            is_told=True,
            places=(
                Place((0, 10, 2, 0), _REPLICA, "updateLogReadResult", seen=_told(_END_IN_METADATA)),
                Place((2, 2, 0), _REPLICA, "updateLogReadResult", seen=_told("logEndOffset()")),
                Place((2, 4, 0), _REPLICA, "updateFetchState", seen=f"{_NOW}$0"),
                Place((3, 7, 0), _REPLICA, "updateFetchStateOrThrow", seen=f"{_NOW}$0"),
                Place(
                    (4, 1, 0),
                    "org.apache.kafka.server.replica.Replica",
                    "updateFetchStateOrThrow",
                    seen=f"{_NOW}$0",
                ),
            ),
        ),
        Point(
            name=ISR_CHECK,
            meaning="a leader looks which followers of a partition are in sync, under its lock",
            is_told=True,
            places=(
                Place(
                    (0, 10, 2, 0),
                    _PARTITION,
                    "getOutOfSyncReplicas",
                    seen=_looked(f"$1.{_END_IN_METADATA}", "assignedReplicas"),
                ),
                Place(
                    (2, 2, 0),
                    _PARTITION,
                    "getOutOfSyncReplicas",
                    seen=_looked("$1.logEndOffset()", "assignedReplicas"),
                ),
                # From 2.5 on it looks twice, and it is the second look that counts.
                Place(
                    (2, 4, 0),
                    _PARTITION,
                    "getOutOfSyncReplicas",
                    seen=_looked("$0.localLogOrException().logEndOffset()", "remoteReplicas"),
                ),
            ),
        ),
        Point(
            name=LOG_READ,
            meaning="one partition's log is about to be read",
            names_reader=True,
            names_partitions=True,
            places=(
                # A follower's read has no upper bound.
                Place(
                    (0, 10, 2, 0), "kafka.log.Log", "read", reader=_MAX_OFFSET, seen=_LOG_POSITION
                ),
                Place((2, 4, 0), "kafka.log.Log", "read", reader=_ISOLATION, seen=_LOG_POSITION),
                Place(
                    (3, 1, 0), "kafka.log.UnifiedLog", "read", reader=_ISOLATION, seen=_LOG_POSITION
                ),
                Place((4, 1, 0), UNIFIED_LOG, "read", reader=_ISOLATION, seen=_LOG_POSITION),
            ),
        ),
        *TIER_POINTS,
        *EPOCH_POINTS,
        *(
            Point(
                name=disk_point(operation, is_cached=is_cached),
                meaning=f"the kernel asks a broker's disk to {operation}, "
                f"{'behind' if is_cached else 'without'} the page cache",
                places=(),
                names_partitions=True,
                of_disk=operation,
                is_cached=is_cached,
            )
            for is_cached in (False, True)
            for operation in DISK_OPERATIONS
            # Behind the page cache nobody waits for what is written.
            if not (is_cached and operation == "write")
        ),
    )
}
"""The points by name."""


def point_of(name: str, release: Release) -> tuple[Point, Place]:
    """Return the point of that name and where it is in a release.

    Raises ReleaseError when no point is named so, or when the release has no such place; then it
    names the nearest known release that has one.
    """
    why_not = unknown_points([name], release)
    if why_not:
        raise ReleaseError(why_not)
    point = _named(name)
    place = None if point is None else point.place(release)
    assert point is not None
    assert place is not None
    return point, place


def unknown_points(names: Iterable[str], release: Release) -> str:
    """Return why a broker of this release cannot stop at one of these points, or ""."""
    for name in names:
        point = _named(name)
        if point is None:
            return f"no point is named {name!r}; known: {', '.join(POINTS)}"
        if isinstance(point, PlantedBug) and point.place(release) is None:
            fits = ", ".join(point.releases)
            return f"the bug {point.short_name} fits no method of {release.text}: it fits {fits}"
        if point.of_disk is None and point.place(release) is None:
            near = _nearest(point, release)
            return f"Kafka {release.text} has no point {name!r}; the nearest that has is {near}"
    return ""


def disk_points(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the points that are of a broker's disk and not of its code.

    Raises ReleaseError when a disk had to have its page cache and to have none.
    """
    points = tuple(name for name in names if name in POINTS and POINTS[name].of_disk is not None)
    if len({POINTS[name].is_cached for name in points}) > 1:
        raise ReleaseError(
            f"one disk cannot be behind the page cache and without it: {', '.join(points)}; take "
            "either the cached points or the others"
        )
    return points


def code_points(names: Iterable[str]) -> tuple[str, ...]:
    """Return those of the points that are of a broker's code: its agent serves them."""
    return tuple(name for name in names if name not in POINTS or POINTS[name].of_disk is None)


def planted_refused(name: str, release: Release, *, is_kraft: bool) -> str:
    """Return why a planted bug, by short name, is not for such a cluster, or ""."""
    bug = PLANTED_BUGS.get(name)
    if bug is None:
        return f"no bug {name!r} is there to plant: kchaos list --planted has them"
    place = bug.place(release)
    of_zookeeper = place is not None and place.java_class.startswith("kafka.")
    if is_kraft and bug.side == "controller" and of_zookeeper:
        return f"the bug {name} is of controllers with ZooKeeper: take --mode zookeeper"
    return unknown_points([bug.name], release)


def controller_bugs(spec: ClusterSpec) -> tuple[str, ...]:
    """Return the bugs that are planted in the controllers of a KRaft cluster."""
    planted = dict.fromkeys(point for broker in spec.brokers for point in broker.points)
    bugs = {bug.name: bug.side for bug in PLANTED_BUGS.values()}
    return tuple(name for name in planted if bugs.get(name) == "controller")


def _named(name: str) -> Point | None:
    return POINTS.get(name) or PLANTED_BUGS.get(name.removeprefix(PLANTED))


def _nearest(point: Point, release: Release) -> str:
    """Return the known release with that point that has the fewest others in between."""
    known = sorted(map(release_of, KNOWN_RELEASES), key=lambda each: each.number)
    at = sum(each.number < release.number for each in known)
    having = [index for index, each in enumerate(known) if point.place(each) is not None]
    return known[min(having, key=lambda index: abs(index - at))].text if having else "none"


def _sorted_places() -> None:
    for point in POINTS.values():
        for earlier, later in pairwise(point.places):
            assert earlier.since < later.since, f"{point.name}: {later.since} is out of order"


_sorted_places()
