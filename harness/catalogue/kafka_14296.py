"""KAFKA-14296: a broker that shuts down goes on as leader, though another one leads."""

from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import QUICK_KRAFT
from kchaos.harness.catalogue.words import held

ENDING, NEXT, BEHIND, CONTROLLER = 0, 1, 2, 100
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "long-shutdown"


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, (ENDING, NEXT, BEHIND)),
        mode="kraft",
        properties={**QUICK_KRAFT, "controlled.shutdown.enable": "true"},
    )


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((ENDING, NEXT),)),
        k.Produce(operation="both", records=3, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=(ENDING, NEXT), high_watermark=3, **_T0),
        k.Tell(text="broker 2, which has nothing, hears no decision: no shutdown is granted"),
        held(
            "behind",
            "Fetch",
            source=BEHIND,
            target=CONTROLLER,
            topic="__cluster_metadata",
            partition=0,
        ),
        k.AwaitHeld(name="behind"),
        k.Tell(text="broker 0 is asked to stop; 1 leads, and 0 has read that"),
        k.Inject(name="ending", fault=k.StopBroker(broker=ENDING, await_end=False)),
        k.AwaitState(leader=NEXT, isr=(NEXT,), **_T0),
        k.AwaitMetadataRead(broker=ENDING),
        k.Tell(text="a client that does not know it yet writes to broker 0"),
        k.Produce(
            operation="late",
            records=3,
            acks=1,
            broker=ENDING,
            accept_error=True,
            timeout_s=5,
            **_T0,
        ),
        k.Heal(name="behind"),
        k.Heal(name="ending"),
    )


_READ = {"observed": {"kind": "metadata-read", "broker": ENDING}}

KAFKA_14296 = k.Entry(
    name="KAFKA-14296",
    title="A broker in shutdown acknowledges writes after it has read that another one leads",
    story=(
        "Broker 0 is asked to stop, and the controller gives its partition to broker 1 at once. It "
        "grants the shutdown only when every broker has read that, and broker 2 is behind. Up to "
        "3.3.1 a broker in shutdown takes up no decision by which it would follow: it stays the "
        "leader of the old epoch, and no answer makes clients look for another one. What it "
        "acknowledges with acks=1 nobody fetches, and it is gone after the restart: "
        "permitted-loss, as acks=1 promises nothing. From 3.3.2 on it answers that it does not "
        "lead. That it acknowledged at all is the finding: a broker may not after it has read, by "
        "its own heartbeats, that another one leads."
    ),
    source=(
        "KAFKA-14296 (fixed in 3.3.2 and 3.4.0); "
        "kafka.server.ReplicaManager.applyLocalFollowersDelta, 3.3.1; measured"
    ),
    cases={_CASE: "the shutdown waits for a broker whose metadata is held"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "3.3.1"): k.Expectation(
            safe=True,
            findings=(("acknowledged-after-demotion", (ENDING,), 3, 5),),
            witness=(_READ, {"operation": {"operation": "late", "outcome": "ok"}}),
        ),
        (_CASE, "3.3.2"): k.Expectation(
            safe=True, witness=(_READ, {"operation": {"operation": "late", "error_code": 6}})
        ),
    },
)
