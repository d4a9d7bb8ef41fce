"""KAFKA-19047: a broker that ended in order is refused until its former session is over."""

from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import QUICK_KRAFT, why_not_of_mode

LEADER, ENDED = 0, 1
BOTH = (LEADER, ENDED)
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "restarted"
_REFUSED = r"Unable to register.*DUPLICATE_BROKER_REGISTRATION"
_LOGGED_S = 2.0


def _cluster(kafka: str) -> k.ClusterSpec:
    properties = {
        **QUICK_KRAFT,
        # The controller fences a broker at once that shuts down in a controlled way.
        "controlled.shutdown.enable": "true",
        # A broker starts well within a session, also on a machine that is slow.
        "broker.session.timeout.ms": "12000",
    }
    return k.ClusterSpec(brokers=k.brokers_of(kafka, BOTH), mode="kraft", properties=properties)


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=(BOTH,)),
        k.Produce(operation="both", records=3, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=BOTH, high_watermark=3, **_T0),
        k.Tell(text="broker 1 shuts down, and the controller fences it"),
        k.Inject(name="ended", fault=k.StopBroker(broker=ENDED)),
        k.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        k.Tell(text="broker 1 starts"),
        k.Heal(name="ended"),
        k.IfPossible(do=k.AwaitLog(broker=ENDED, pattern=_REFUSED, timeout_s=_LOGGED_S)),
        k.AwaitState(leader=LEADER, isr=BOTH, **_T0),
    )


_WAITS = k.Expectation(safe=True, witness=({"log": {"broker": ENDED, "pattern": _REFUSED}},))
_GOES_ON = k.Expectation(
    safe=True, witness=({"observed": {"kind": "not-possible", "name": "AwaitLog"}},)
)

KAFKA_19047 = k.Entry(
    name="KAFKA-19047",
    title="A broker that ended in order is refused until its former session is over",
    story=(
        "A broker shuts down in a controlled way: the controller moves what it led, fences it, "
        "and lets it end. Up to 3.9 a fenced broker has no session, and its next process "
        "registers at once. From 4.0 on the controller notes when it last heard from a broker, "
        "fenced or not. So the next process is refused with DUPLICATE_BROKER_REGISTRATION until "
        "broker.session.timeout.ms is over, and its replicas are out of sync for that long. Each "
        "step of a roll takes so much longer. A pull request was merged, and no release up to "
        "4.4.0 has its change. No record is lost on either side."
    ),
    source=(
        "KAFKA-19047; org.apache.kafka.controller.ClusterControlManager.registerBroker and "
        "BrokerHeartbeatTracker, 3.9.1 and 4.0.0 to 4.3.1; measured"
    ),
    cases={_CASE: "a broker shuts down, and is started within its session"},
    cluster=_cluster,
    steps=_steps,
    cannot_show=lambda _case, release: why_not_of_mode("with-kraft", release),
    expectations={
        (_CASE, "3.9.1"): _GOES_ON,
        **{(_CASE, release): _WAITS for release in ("4.0.2", "4.1.2", "4.4.0")},
    },
    default_releases=("3.9.1", "4.4.0"),
)
