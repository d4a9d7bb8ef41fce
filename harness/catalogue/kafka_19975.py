"""KAFKA-19975: a reassignment waits for a replica that was away before it began."""

from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import QUICK_KRAFT, why_not_of_mode

LEAVES, AWAY, COMES = 0, 1, 2
ALL = (LEAVES, AWAY, COMES)
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "one-away"
_ENDS_S = 8.0


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(brokers=k.brokers_of(kafka, ALL), mode="kraft", properties=QUICK_KRAFT)


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((LEAVES, AWAY),)),
        k.Produce(operation="both", records=3, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=(LEAVES, AWAY), high_watermark=3, **_T0),
        k.Tell(text="broker 1 dies; broker 2 is to have the replica of broker 0"),
        k.Inject(name="away", fault=k.KillBroker(broker=AWAY)),
        k.AwaitState(leader=LEAVES, isr=(LEAVES,), **_T0),
        k.Reassign(replicas=(COMES, AWAY), by="api", is_awaited=False, **_T0),
        k.AwaitReplicated(brokers=(COMES,), log_end_offset=3, **_T0),
        k.IfPossible(do=k.AwaitDecision(leader=COMES, isr=(COMES,), timeout_s=_ENDS_S, **_T0)),
        k.Produce(operation="meanwhile", records=1, acks=1, **_T0),
        k.Tell(text="broker 1 is back"),
        k.Heal(name="away"),
        k.AwaitState(leader=COMES, isr=(AWAY, COMES), **_T0),
    )


def _written_to(broker: int) -> dict[str, Any]:
    return {"operation": {"operation": "meanwhile", "broker": broker}}


_WAITS = k.Expectation(
    safe=True,
    witness=({"observed": {"kind": "not-possible", "name": "AwaitDecision"}}, _written_to(LEAVES)),
)
_ENDS = k.Expectation(safe=True, witness=(_written_to(COMES),))

KAFKA_19975 = k.Entry(
    name="KAFKA-19975",
    title="A reassignment waits for a replica that was away before it began",
    story=(
        "A partition has the replicas 0 and 1, and broker 1 is dead. Broker 2 is to have the "
        "replica of broker 0, as where broker 0 is to be taken away. From 3.8.0 on a KRaft "
        "controller ends a reassignment when each replica that stays or comes is in the ISR "
        "(KAFKA-15665). So broker 2 is in sync, and broker 0 goes on to lead until broker 1 is "
        "back, maybe for ever. Ending it would leave no fewer replicas in sync than there were. "
        "From 4.3.0 on it ends when those that it adds are in sync, unless it leaves fewer "
        "replicas than there were. No record is lost on either side."
    ),
    source=(
        "KAFKA-19975 (fixed in 4.3.0; since KAFKA-15665, 3.8.0); "
        "PartitionReassignmentReplicas.maybeCompleteReassignment, 4.2.1 and 4.3.0; measured"
    ),
    cases={_CASE: "a replica that stays is dead when the reassignment begins"},
    cluster=_cluster,
    steps=_steps,
    cannot_show=lambda _case, release: why_not_of_mode("with-kraft", release),
    expectations={
        (_CASE, "3.6.2"): _ENDS,
        **{(_CASE, release): _WAITS for release in ("3.9.1", "4.1.2")},
        **{(_CASE, release): _ENDS for release in ("4.3.1", "4.4.0")},
    },
    default_releases=("4.1.2", "4.4.0"),
)
