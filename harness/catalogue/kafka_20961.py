"""KAFKA-20961: a replica that moves to another log directory forgets epochs without records."""

from dataclasses import replace
from typing import Any

import kchaos as k
from kchaos.harness.catalogue.words import at_link

LEADER, FOLLOWER, CONTROLLER = 0, 1, 2
BOTH = (LEADER, FOLLOWER)
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_IDLE, _WRITTEN = "idle", "written"
_OFFSET_OUT_OF_RANGE = 1


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=tuple(
            replace(broker, log_directories=2)
            for broker in k.brokers_of(kafka, (LEADER, FOLLOWER, CONTROLLER))
        ),
        first_broker=CONTROLLER,
        # The follower is to leave the ISR while its fetches are cut off.
        properties={**k.QUICK, "replica.lag.time.max.ms": "3000"},
    )


def _leads(broker: int) -> tuple[k.Step, ...]:
    """Return steps after which the other replica leads, in an epoch without a record."""
    replicas = (broker, *(other for other in BOTH if other != broker))
    return (
        k.ReorderReplicas(replicas=replicas, by="api", **_T0),
        k.Inject(name=f"prefer-{broker}", fault=k.PreferredElection(**_T0)),
        k.AwaitState(leader=broker, **_T0),
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    written = k.Produce(operation="written", records=1, acks=1, broker=LEADER, **_T0)
    return (
        k.CreateTopic(topic="t", assignment=(BOTH,)),
        k.Produce(operation="old", records=3, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=BOTH, high_watermark=3, **_T0),
        k.Tell(text="broker 1 leads, without a write, and broker 0 leads again"),
        *_leads(FOLLOWER),
        k.Inject(name="cut", fault=k.CutLink(source=FOLLOWER, target=LEADER, one_way=True)),
        *_leads(LEADER),
        *((written,) if case == _WRITTEN else ()),
        k.Tell(text="the leader's replica moves to its other log directory"),
        k.MoveReplica(broker=LEADER, directory=1, **_T0),
        k.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        k.Tell(text="the follower fetches again, and names the epoch in which it led"),
        k.Heal(name="cut"),
    )


def _answered(**entry: Any) -> dict[str, Any]:
    return at_link("Fetch", "response", FOLLOWER, partition={"topic": "t", **entry})


_RED = k.Expectation(
    safe=False,
    findings=(("fetch-loop", (FOLLOWER,), -1, -1),),
    witness=(_answered(error_code=_OFFSET_OUT_OF_RANGE),),
)
_GREEN = k.Expectation(safe=True, witness=(_answered(error_code=0),))

KAFKA_20961 = k.Entry(
    name="KAFKA-20961",
    title="A replica that moved to another log directory never lets its follower fetch again",
    story=(
        "Broker 1 leads for an epoch without a write; then broker 0 leads, and its replica moves "
        "to its other log directory. The copy has the epochs of its batches alone, and forgets "
        "those in which nothing was written. When it takes the place of the replica, the leader "
        "knows no epoch at or above the one that its follower names in its next Fetch, and answers "
        "OFFSET_OUT_OF_RANGE. The follower looks up where the log begins and ends, finds that its "
        "own offset is right, and asks the same again. That ends with the next write, whose epoch "
        "the leader knows: `written` has one before the move, and the follower is in sync again."
    ),
    source=(
        "KAFKA-20961, KAFKA-15608 (both open); kafka.cluster.Partition."
        "maybeReplaceCurrentWithFutureReplica and readRecords; measured"
    ),
    cases={
        _IDLE: "nothing is written in the leader's epoch",
        _WRITTEN: "one record is written in the leader's epoch before the move",
    },
    cluster=_cluster,
    steps=_steps,
    expectations={
        (case, release): expected
        for case, expected in ((_IDLE, _RED), (_WRITTEN, _GREEN))
        for release in ("2.8.2", "3.9.1", "4.1.2")
    },
)
