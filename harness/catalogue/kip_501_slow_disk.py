"""KIP-501 by a real slow disk: does shipped code behave as with the agent?"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import kchaos as k
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.formats.point_hit import FETCH_BEGUN, ISR_CHECK
from kchaos.clusters.agent.point import DiskOperation
from kchaos.harness.catalogue.kip_501 import ALL, LEADER, begun, cluster_of, write

_READS, _CACHED = "slow-reads", "behind-the-page-cache"
_WRITES, _FLUSHES = "slow-writes", "slow-flushes"
_LAG_MS = 3000


def _cluster(kafka: str, **properties: str) -> k.ClusterSpec:
    """Return the cluster whose leader also reports the begin of each read for a fetch."""
    # A page of an index that is not in memory stops the whole JVM for as long as the disk takes.
    spec = cluster_of(kafka, ALL, zookeeper_session_timeout_ms="10000", **properties)
    brokers = (
        replace(broker, points=(*broker.points, FETCH_BEGUN)) if broker.id == LEADER else broker
        for broker in spec.brokers
    )
    return replace(spec, brokers=tuple(brokers))


def _flushing_cluster(kafka: str) -> k.ClusterSpec:
    """Return a cluster that flushes every append, as no broker does by default."""
    return _cluster(kafka, log_flush_interval_messages="1")


def _steps(case: str) -> tuple[k.Step, ...]:
    if case == _READS:
        return _slow_reads()
    if case == _CACHED:
        return _behind_the_cache()
    return _slow_appends("write" if case == _WRITES else "flush")


def _slow(operation: DiskOperation, *, delay_ms: int) -> k.Inject:
    """Slow an operation for the partition, without the page cache."""
    fault = k.SlowDisk(
        broker=LEADER,
        operation=operation,
        delay_ms=delay_ms,
        page_cache=False,
        topic="t",
        partition=0,
    )
    return k.Inject(name=operation, fault=fault)


def _slow_reads() -> tuple[k.Step, ...]:
    """Slow reads so that each takes less than the lag, and a fetch of several takes more."""
    return (
        *begun(),
        k.Tell(text="each read of the leader's disk takes 2 s, and a client writes all the time"),
        _slow("read", delay_ms=2000),
        k.WriteUntil(operation="alone", topic="t", partition=0, isr=(LEADER,), broker=LEADER),
        k.Tell(text="the leader dies; both followers run, and neither may lead"),
        k.Inject(name="down", fault=k.KillBroker(broker=LEADER)),
        k.AwaitDecision(topic="t", partition=0, leader=-1),
        write("nobody", acks=-1, broker=ALL[1], accept_error=True, timeout_s=2),
        k.Heal(name="read"),
    )


def _behind_the_cache() -> tuple[k.Step, ...]:
    """Return steps for a usual disk: new records are in the page cache, flushes are slow.

    No read comes to it, and a fault to which nothing came would be an error.
    """
    return (
        *begun(),
        k.Tell(text="each flush of the leader's disk takes longer than the lag"),
        k.Inject(
            name="flush",
            fault=k.SlowDisk(broker=LEADER, operation="flush", delay_ms=_LAG_MS + 1000),
        ),
        *(write(f"all-{count}", acks=-1) for count in range(20)),
        k.AwaitHeld(name="flush", count=2),
        *(write(f"later-{count}", acks=-1) for count in range(20)),
        k.AwaitPoint(broker=LEADER, point=ISR_CHECK, times=3),
        k.AwaitDecision(topic="t", partition=0, leader=LEADER, isr=ALL),
        k.Heal(name="flush"),
    )


def _slow_appends(operation: DiskOperation) -> tuple[k.Step, ...]:
    """Slow one append for longer than a follower may lag."""
    return (
        *begun(),
        k.Tell(text=f"each {operation} of the leader's disk takes longer than the lag"),
        _slow(operation, delay_ms=_LAG_MS + 1000),
        write("slow", acks=1, records=2),
        write("slow-too", acks=-1),
        k.AwaitHeld(name=operation, count=2),
        k.Heal(name=operation),
        k.AwaitPoint(broker=LEADER, point=ISR_CHECK, times=3),
        k.AwaitInSync(),
    )


_NOT_LEADER = ErrorCode.NOT_LEADER_FOR_PARTITION.value
_NO_LEADER = {"operation": {"operation": "nobody", "error_code": _NOT_LEADER}}


def _disk(point: str) -> Mapping[str, Any]:
    return {"hit": {"point": point, "broker": LEADER, "fate": "delayed"}}


def _safe(point: str, last_write: str) -> k.Expectation:
    answered = {"operation": {"operation": last_write, "acks": -1, "outcome": "ok"}}
    return k.Expectation(safe=True, witness=(_disk(point), answered))


_EXPECTED: Mapping[str, k.Expectation] = {
    _READS: k.Expectation(
        safe=False,
        findings=(("offline-partition", tuple(sorted(ALL[1:])), -1, -1),),
        witness=(
            _disk("disk-read"),
            _NO_LEADER,
            {"hit": {"point": ISR_CHECK, "broker": LEADER, "fate": "told"}},
            {"hit": {"point": FETCH_BEGUN, "broker": LEADER, "fate": "told"}},
        ),
    ),
    _CACHED: _safe("cached-disk-flush", "later-19"),
    _WRITES: _safe("disk-write", "slow-too"),
    _FLUSHES: _safe("disk-flush", "slow-too"),
}

KIP_501_SLOW_DISK = k.Entry(
    name="KIP-501-slow-disk",
    title="A disk that is really slow takes the partition offline, unless memory hides it",
    story=(
        "The steps of KIP-501-slow-reads with a slow disk in place of an agent: the leader's "
        "log.dir lies on a file system that waits before it reads, writes or flushes. Without the "
        "page cache each read of 2 s costs a fetch several: Log.read finds its position by batch "
        "headers, two reads each, under the partition's lock, and the answer's bytes are read "
        "again when they are sent. So followers that asked in time get nothing for longer than "
        "replica.lag.time.max.ms; in a moment between two reads the leader takes the lock, shrinks "
        "the ISR to itself, and the partition is offline when it dies. So it does what the agent "
        "does inside the log. One thing the agent does not show: a page of an index which is not "
        "in memory stops the whole JVM. So a broker may lose its session as well; here sessions "
        "last longer. Behind the page cache, the usual case, no read of what was just written "
        "comes to the disk, and nothing happens. Slow writes and flushes keep producers waiting, "
        "not followers: the log's end moves only when a write is over, and a follower that is at "
        "the end is in sync. Needs root or fusermount3, /dev/fuse, libfuse, and kchaos[disk]."
    ),
    source="measured on real brokers; KIP-501, motivation",
    cases={
        _READS: "each read of the partition's files takes 2 s, without the page cache; lag 3 s",
        _CACHED: "each flush of the disk takes 4 s, reads come from the page cache; lag 3 s",
        _WRITES: "each write to the partition's files takes 4 s; lag 3 s",
        _FLUSHES: "each flush of the partition's files takes 4 s, after each append; lag 3 s",
    },
    cluster=_cluster,
    case_clusters={_FLUSHES: _flushing_cluster},
    steps=_steps,
    expectations={
        (case, release): expected
        for case, expected in _EXPECTED.items()
        for release in ("2.8.2", "3.9.1")
    },
    measured_only=(_READS, _CACHED, _WRITES, _FLUSHES),
)
