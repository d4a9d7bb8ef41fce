"""KAFKA-14616: a topic is deleted and made again while a broker is away, which then lacks it."""

from typing import Any

from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.faults import StopBroker
from kchaos.harness.catalogue.entry import Entry, Expectation
from kchaos.harness.catalogue.settings import QUICK_KRAFT
from kchaos.harness.steps.clients import Produce
from kchaos.harness.steps.scenario_steps import (
    AwaitHighWatermark,
    AwaitState,
    CreateTopic,
    Heal,
    Inject,
    Step,
    Tell,
)
from kchaos.harness.steps.topics import DeleteTopic

LEADER, AWAY = 0, 1
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "recreated"


def _cluster(kafka: str) -> ClusterSpec:
    return ClusterSpec(
        brokers=brokers_of(kafka, (LEADER, AWAY)), mode="kraft", properties=QUICK_KRAFT
    )


def _steps(case: str) -> tuple[Step, ...]:
    return (
        CreateTopic(topic="t", assignment=((LEADER, AWAY),)),
        Produce(operation="old", records=3, acks=-1, **_T0),
        AwaitHighWatermark(brokers=(LEADER, AWAY), high_watermark=3, **_T0),
        Tell(text="broker 1 is away while the topic is deleted and made again under its name"),
        Inject(name="away", fault=StopBroker(broker=AWAY)),
        AwaitState(leader=LEADER, isr=(LEADER,), **_T0),
        DeleteTopic(topic="t"),
        CreateTopic(topic="t", assignment=((LEADER, AWAY),)),
        Produce(operation="new", records=2, acks=-1, **_T0),
        Tell(text="broker 1 returns, with a folder of the topic that was deleted"),
        Heal(name="away"),
    )


KAFKA_14616 = Entry(
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
        (_CASE, "3.6.2"): Expectation(
            safe=False,
            findings=(("replication-stopped", (AWAY,), -1, -1),),
            witness=(
                {"log": {"broker": AWAY, "pattern": "fetching t-0 .*InconsistentTopicIdException"}},
            ),
        ),
        (_CASE, "4.1.2"): Expectation(
            safe=True,
            witness=({"log": {"broker": AWAY, "pattern": "/t-0 marked stray and renamed"}},),
        ),
    },
)
