"""KAFKA-19996: a follower joins a small ISR from far behind, and leaves it again."""

from typing import Any

import kchaos as k
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.harness.catalogue.settings import QUICK_KRAFT, SLOW_READS, why_not_of_mode

LEADER, FOLLOWER = 0, 1
BOTH = (LEADER, FOLLOWER)
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_KRAFT, _ZOOKEEPER = "with-kraft", "with-zookeeper"
_ONE_AT_A_TIME = {
    # The follower gets one batch with each fetch.
    "replica.fetch.max.bytes": "1",
    "replica.fetch.response.max.bytes": "1",
    "replica.lag.time.max.ms": "3000",
}
_JOINS_S, _WRITE_S = 5.0, 8.0
# A leader's log names an ISR in any order.
_BOTH = "(0,1|1,0)"


def _with_kraft(kafka: str) -> k.ClusterSpec:
    properties = {**QUICK_KRAFT, **_ONE_AT_A_TIME}
    return k.ClusterSpec(brokers=k.brokers_of(kafka, BOTH), mode="kraft", properties=properties)


def _with_zookeeper(kafka: str) -> k.ClusterSpec:
    properties = {**SLOW_READS, **_ONE_AT_A_TIME}
    return k.ClusterSpec(brokers=k.brokers_of(kafka, BOTH), mode="zookeeper", properties=properties)


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=(BOTH,), configuration=(("min.insync.replicas", "2"),)),
        k.Produce(operation="both", records=5, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=BOTH, high_watermark=5, **_T0),
        k.Tell(text="1 dies, and 0 appends six records alone"),
        k.Inject(name="follower-down", fault=k.KillBroker(broker=FOLLOWER)),
        k.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        k.Produce(operation="alone", records=6, acks=1, one_record_batches=True, **_T0),
        k.Tell(text="1 is back six records behind, gets one of them, and is slow to ask again"),
        _slow_from("at-first", 5),
        k.Heal(name="follower-down"),
        k.AwaitHeld(name="at-first"),
        # A leader takes in nobody whom its own metadata log calls fenced.
        *((k.AwaitMetadataRead(broker=LEADER),) if case == _KRAFT else ()),
        _slow_from("once", 6),
        k.Heal(name="at-first"),
        *_written_meanwhile("once", 1),
        k.Tell(text="it asks again, gets one more, and is as slow as before"),
        _slow_from("twice", 7),
        k.Heal(name="once"),
        *_written_meanwhile("twice", 2),
        k.Heal(name="twice"),
        k.AwaitState(leader=LEADER, isr=BOTH, **_T0),
    )


def _slow_from(name: str, offset: int) -> k.Step:
    fault = k.HoldRequests(
        name=name, api="Fetch", source=FOLLOWER, target=LEADER, fetch_offset_at_least=offset, **_T0
    )
    return k.Inject(name=name, fault=fault)


def _written_meanwhile(hold: str, times: int) -> tuple[k.Step, ...]:
    """Write with acks=all while the follower lags, until it is out of the ISR."""
    joined = k.AwaitLog(
        broker=LEADER, pattern=rf"ISR updated to {_BOTH}\b", count=times, timeout_s=_JOINS_S
    )
    return (
        k.AwaitHeld(name=hold),
        k.IfPossible(do=joined),
        k.Produce(
            operation=f"slow-{hold}",
            records=1,
            acks=-1,
            accept_error=True,
            timeout_s=_WRITE_S,
            **_T0,
        ),
        k.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
    )


def _left_behind(high_watermark: int) -> dict[str, Any]:
    """Return the witness that the ISR lost a follower that never reached the leader's end."""
    left = rf"Shrinking ISR from {_BOTH} to 0\. Leader: "
    return {
        "log": {
            "broker": LEADER,
            "pattern": rf"{left}\(highWatermark: {high_watermark}, endOffset: 1\d\)",
        }
    }


def _refused(hold: str) -> dict[str, Any]:
    error = ErrorCode.NOT_ENOUGH_REPLICAS.value
    return {"operation": {"operation": f"slow-{hold}", "error_code": error}}


_FLAPS = k.Expectation(safe=True, witness=(_left_behind(5), _left_behind(6)))
_WAITS = k.Expectation(
    safe=True,
    witness=(
        {"observed": {"kind": "not-possible", "name": "AwaitLog"}},
        _refused("once"),
        _refused("twice"),
    ),
)

KAFKA_19996 = k.Entry(
    name="KAFKA-19996",
    title="Below min.insync.replicas a follower joins the ISR far behind, and leaves it again",
    story=(
        "min.insync.replicas is 2, and the leader is alone in the ISR. From 3.7 on its high "
        "watermark stands still then (KAFKA-15583), while it takes writes with acks=1. A follower "
        "may join the ISR once it has what is below the high watermark. So one that comes back "
        "joins with its first fetch, however far behind it is. The leader takes it out when it "
        "next looks who has not caught up for replica.lag.time.max.ms, and in again with its next "
        "fetch. A write with acks=all that comes while it is in is appended, waits, and times out, "
        "and nobody can say whether it will stay. Up to 3.6 the high watermark of a leader alone "
        "is its end. The follower joins when it has all of it, and such a write is refused at "
        "once. Nothing that was promised is lost; it is open, and every release since 3.7 has it, "
        "with ZooKeeper too."
    ),
    source=(
        "KAFKA-19996, open; Partition.isFollowerInSync and maybeIncrementLeaderHW, 3.9.1 and "
        "4.2.0; KAFKA-15583 (3.7.0)"
    ),
    cases={_KRAFT: "a slow follower, KRaft", _ZOOKEEPER: "a slow follower, ZooKeeper"},
    cluster=_with_kraft,
    case_clusters={_ZOOKEEPER: _with_zookeeper},
    steps=_steps,
    cannot_show=why_not_of_mode,
    expectations={
        (_KRAFT, "3.6.2"): _WAITS,
        **{(_KRAFT, release): _FLAPS for release in ("3.9.1", "4.1.2", "4.4.0")},
        (_ZOOKEEPER, "3.6.2"): _WAITS,
        (_ZOOKEEPER, "3.9.1"): _FLAPS,
    },
    default_releases=("3.6.2", "3.9.1", "4.4.0"),
)
