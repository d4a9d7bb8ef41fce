"""KAFKA-14616: a topic is deleted and made again while a broker is away, which then lacks it."""

from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import QUICK_KRAFT

LEADER, AWAY = 0, 1
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "recreated"


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, (LEADER, AWAY)), mode="kraft", properties=QUICK_KRAFT
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((LEADER, AWAY),)),
        k.Produce(operation="old", records=3, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=(LEADER, AWAY), high_watermark=3, **_T0),
        k.Tell(text="broker 1 is away while the topic is deleted and made again under its name"),
        k.Inject(name="away", fault=k.StopBroker(broker=AWAY)),
        k.AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        k.DeleteTopic(topic="t"),
        k.CreateTopic(topic="t", assignment=((LEADER, AWAY),)),
        k.Produce(operation="new", records=2, acks=-1, **_T0),
        k.Tell(text="broker 1 returns, with a folder of the topic that was deleted"),
        k.Heal(name="away"),
    )


KAFKA_14616 = k.Entry(
    name="KAFKA-14616",
    title="A broker that was away while a topic was made again never has the new one",
    story=(
        "Broker 1 is stopped, topic t is deleted, and made again on both brokers. Up to 3.7.0 "
        "broker 1 loads the folder t-0 of the deleted topic at its start, and then cannot give it "
        "the new topic's id: it fetches nothing for the new partition, and the folder goes. It is "
        "unfenced, and stays out of the ISR until it is restarted. From 3.7.1 on a folder of "
        "another topic id is renamed to end in -stray first, and the new partition is made. What "
        "was acknowledged to the deleted topic may be lost."
    ),
    source="KAFKA-14616 (fixed in 3.7.1 and 3.8.0); measured",
    cases={_CASE: "a stop, a deletion and a creation"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "3.6.2"): k.Expectation(
            safe=False,
            findings=(("replication-stopped", (AWAY,), -1, -1),),
            witness=(
                {"log": {"broker": AWAY, "pattern": "fetching t-0 .*InconsistentTopicIdException"}},
            ),
        ),
        (_CASE, "4.1.2"): k.Expectation(
            safe=True,
            witness=({"log": {"broker": AWAY, "pattern": "/t-0 marked stray and renamed"}},),
        ),
    },
)
