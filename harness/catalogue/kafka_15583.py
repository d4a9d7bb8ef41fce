"""KAFKA-15583: below min.insync.replicas consumers are given what one disk alone has."""

from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import QUICK_KRAFT, why_not_of_mode

LEADER, FOLLOWER, CONTROLLER = 0, 1, 2
BOTH = (LEADER, FOLLOWER)
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_KRAFT, _ZOOKEEPER = "with-kraft", "with-zookeeper"
_READ_S = 5.0


def _with_kraft(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(brokers=k.brokers_of(kafka, BOTH), mode="kraft", properties=QUICK_KRAFT)


def _with_zookeeper(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, (*BOTH, CONTROLLER)),
        mode="zookeeper",
        first_broker=CONTROLLER,
        properties=k.QUICK,
    )


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=(BOTH,), configuration=(("min.insync.replicas", "2"),)),
        k.Produce(operation="both", records=5, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=BOTH, high_watermark=5, **_T0),
        k.Tell(text="1 stops, and 0 takes three records alone: acks=1, one in-sync replica of two"),
        k.Inject(name="follower-down", fault=k.StopBroker(broker=FOLLOWER)),
        k.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        k.Produce(operation="alone", records=3, acks=1, **_T0),
        k.Tell(text="does a consumer get them?"),
        k.IfPossible(
            do=k.Read(
                operation="seen", broker=LEADER, offset=5, records=3, timeout_s=_READ_S, **_T0
            )
        ),
        k.Tell(text="0 loses power, and the three records, which it had not flushed"),
        k.Inject(name="leader-down", fault=k.KillBroker(broker=LEADER)),
        k.Inject(name="power", fault=k.LoseTail(broker=LEADER, log_end_offset=5, **_T0)),
        k.AwaitState(leader=-1, isr=(LEADER,), **_T0),
        k.Heal(name="leader-down"),
        k.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        k.Heal(name="follower-down"),
        k.AwaitState(leader=LEADER, isr=BOTH, **_T0),
        k.AwaitReplicated(brokers=BOTH, log_end_offset=5, **_T0),
    )


_SEEN = k.Expectation(
    safe=True, witness=({"operation": {"operation": "seen", "outcome": "ok", "base_offset": 5}},)
)
_NOT_SEEN = k.Expectation(
    safe=True, witness=({"operation": {"operation": "seen", "outcome": "fail"}},)
)

KAFKA_15583 = k.Entry(
    name="KAFKA-15583",
    title="Below min.insync.replicas consumers are given what one disk alone has",
    story=(
        "min.insync.replicas is 2, one of two brokers is stopped, and the other one takes three "
        "records with acks=1. Up to 3.6 the high watermark of a leader that is alone in the ISR is "
        "the end of its log, whatever min.insync.replicas says: a consumer reads the three "
        "records. Then the leader loses power and what it had not flushed, and what somebody has "
        "read is gone. From 3.7 on the high watermark stands still below min.insync.replicas, and "
        "the consumer gets nothing that less than two disks had. Kafka promises no more than one "
        "in-sync disk keeps, so the loss is permitted on both sides; readers see otherwise. "
        "What stands still has a cost of its own: KAFKA-19996."
    ),
    source="KAFKA-15583 (fixed in 3.7.0); Partition.maybeIncrementLeaderHW, 3.6.2 and 3.7.2",
    cases={
        _KRAFT: "the leader is alone in the ISR, KRaft",
        _ZOOKEEPER: "the leader is alone in the ISR, ZooKeeper",
    },
    cluster=_with_kraft,
    case_clusters={_ZOOKEEPER: _with_zookeeper},
    steps=_steps,
    cannot_show=why_not_of_mode,
    expectations={
        (_KRAFT, "3.6.2"): _SEEN,
        **{(_KRAFT, release): _NOT_SEEN for release in ("3.9.1", "4.0.2")},
        (_ZOOKEEPER, "3.6.2"): _SEEN,
        (_ZOOKEEPER, "3.9.1"): _NOT_SEEN,
    },
    default_releases=("3.6.2", "3.9.1"),
)
