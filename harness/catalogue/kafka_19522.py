"""KAFKA-19522: the last known leader is elected although it is fenced."""

from typing import Any

import kchaos as k
from kchaos.harness.catalogue.kip_966_last_replica import (
    ALL,
    LAST,
    B,
    C,
    acknowledged_by_all,
    cluster_with_feature,
    has_feature,
)

_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "last-one-back"


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        *acknowledged_by_all(),
        k.Tell(text="all three are killed, the leader last"),
        k.Inject(name="B-down", fault=k.KillBroker(broker=B)),
        k.Inject(name="C-down", fault=k.KillBroker(broker=C)),
        k.AwaitState(leader=LAST, isr=(LAST,), **_T0),
        k.Inject(name="last-down", fault=k.KillBroker(broker=LAST)),
        k.AwaitDecision(leader=-1, isr=(), **_T0),
        k.Heal(name="B-down"),
        k.Heal(name="C-down"),
        k.AwaitDecision(leader=-1, isr=(), **_T0),
        k.Tell(text="the last known leader registers, fenced as everybody is at first"),
        k.Heal(name="last-down"),
        k.AwaitState(leader=LAST, isr=ALL, **_T0),
    )


def _cannot_show(_case: str, release: str) -> str:
    if not has_feature(release):
        return f"{release} has no eligible leader replicas: they came with 4.0"
    return ""


_UNCLEAN = {"log": {"broker": LAST, "pattern": "t-0.*[Mm]arking the topic partition as RECOVERED"}}

KAFKA_19522 = k.Entry(
    name="KAFKA-19522",
    title="A fenced broker is elected, since it was the last known leader",
    story=(
        "Three brokers with eligible leader replicas are killed, the leader last. The two others "
        "are back first, and neither is eligible any more. When the last known leader registers, "
        "nobody is. Up to 4.0.2 the controller elects it by the event that registers it, while it "
        "is fenced: the test whether it is alive is the wrong way round. Clients are sent to a "
        "broker that does not serve before its start is over, and to nobody if it dies meanwhile. "
        "From 4.1 on it is elected by the event that unfences it. No record is lost, and the "
        "controller decides as its release does: what is found is that nobody serves the partition."
    ),
    source=(
        "KAFKA-19522 (4.0.0 to 4.0.2, fixed in 4.1.0); "
        "org.apache.kafka.controller.PartitionChangeBuilder.canElectLastKnownLeader"
    ),
    cases={_CASE: "the last known leader is the last one back"},
    cluster=cluster_with_feature,
    steps=_steps,
    cannot_show=_cannot_show,
    expectations={
        (_CASE, "4.0.2"): k.Expectation(
            safe=False, findings=(("fenced-leader", (LAST,), -1, -1),), witness=(_UNCLEAN,)
        ),
        (_CASE, "4.1.2"): k.Expectation(safe=True, witness=(_UNCLEAN,)),
    },
)
