"""KAFKA-19130: a controller that starts takes brokers that ended before it for alive."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import QUICK_KRAFT, why_not_of_mode

LEADER, ENDED, CONTROLLER = 0, 1, 100
BOTH = (LEADER, ENDED)
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "controller-too"
_REFUSED = r"Unable to register.*DUPLICATE_BROKER_REGISTRATION"
_LOGGED_S = 2.0


def two_brokers(kafka: str, more: Mapping[str, str] = MappingProxyType({})) -> k.ClusterSpec:
    """Return two brokers whose sessions are longer than a start, also on a machine that is slow."""
    properties = {**QUICK_KRAFT, "broker.session.timeout.ms": "12000", **more}
    return k.ClusterSpec(brokers=k.brokers_of(kafka, BOTH), mode="kraft", properties=properties)


def ended_and_started(meanwhile: tuple[k.Step, ...]) -> tuple[k.Step, ...]:
    """Return the steps in which a broker ends in order, something happens, and it starts."""
    return (
        k.CreateTopic(topic="t", assignment=(BOTH,)),
        k.Produce(operation="both", records=3, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=BOTH, high_watermark=3, **_T0),
        k.Tell(text="broker 1 ends in order, and the controller fences it"),
        k.Inject(name="ended", fault=k.StopBroker(broker=ENDED)),
        k.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        *meanwhile,
        k.Tell(text="broker 1 starts"),
        k.Heal(name="ended"),
        k.IfPossible(do=k.AwaitLog(broker=ENDED, pattern=_REFUSED, timeout_s=_LOGGED_S)),
        k.AwaitState(leader=LEADER, isr=BOTH, **_T0),
    )


def _steps(_case: str) -> tuple[k.Step, ...]:
    return ended_and_started(
        (
            k.Inject(name="controller", fault=k.StopBroker(broker=CONTROLLER)),
            k.Heal(name="controller"),
        )
    )


WAITS = k.Expectation(safe=True, witness=({"log": {"broker": ENDED, "pattern": _REFUSED}},))
GOES_ON = k.Expectation(
    safe=True, witness=({"observed": {"kind": "not-possible", "name": "AwaitLog"}},)
)

KAFKA_19130 = k.Entry(
    name="KAFKA-19130",
    title="A controller that starts takes brokers that ended before it for alive",
    story=(
        "A broker is stopped in order and fenced; then the controller is restarted, as where a "
        "small cluster is taken down and up. Up to 3.9 a fenced broker has no session, and "
        "registers when it starts. In 4.0 the controller notes of each broker that it knows, "
        "fenced ones too, that it has just heard from it. So the broker is refused with "
        "DUPLICATE_BROKER_REGISTRATION until broker.session.timeout.ms is over, and its replicas "
        "are out of sync for that long. From 4.1 on a controller begins without fenced brokers. "
        "No record is lost on either side."
    ),
    source=(
        "KAFKA-19130 (4.0.0 to 4.0.2, fixed in 4.1.0); org.apache.kafka.controller."
        "ClusterControlManager.activate, 3.9.1, 4.0.2 and 4.1.0; measured"
    ),
    cases={_CASE: "the controller is restarted while a broker is away"},
    cluster=two_brokers,
    steps=_steps,
    cannot_show=lambda _case, release: why_not_of_mode("with-kraft", release),
    expectations={
        (_CASE, "3.9.1"): GOES_ON,
        (_CASE, "4.0.2"): WAITS,
        (_CASE, "4.1.2"): GOES_ON,
        (_CASE, "4.4.0"): GOES_ON,
    },
    default_releases=("4.0.2", "4.1.2"),
)
