"""KAFKA-19047: a broker that ended in order is refused until its former session is over."""

import kchaos as k
from kchaos.harness.catalogue.kafka_19130 import GOES_ON, WAITS, ended_and_started, two_brokers
from kchaos.harness.catalogue.settings import why_not_of_mode

_CASE = "restarted"


def _cluster(kafka: str) -> k.ClusterSpec:
    # The controller fences a broker at once that shuts down in a controlled way.
    return two_brokers(kafka, {"controlled.shutdown.enable": "true"})


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
    steps=lambda _case: ended_and_started(()),
    cannot_show=lambda _case, release: why_not_of_mode("with-kraft", release),
    expectations={
        (_CASE, "3.9.1"): GOES_ON,
        **{(_CASE, release): WAITS for release in ("4.0.2", "4.1.2", "4.4.0")},
    },
    default_releases=("3.9.1", "4.4.0"),
)
