"""Scenario parts of KIP-501's entries: their cluster, and how they begin."""

from collections.abc import Mapping
from typing import Any

from kchaos.checkers.formats.point_hit import FETCH_COUNTED, ISR_CHECK
from kchaos.clusters.spec import BrokerSpec, ClusterSpec
from kchaos.harness.catalogue.settings import SLOW_READS
from kchaos.harness.steps.clients import Produce
from kchaos.harness.steps.scenario_steps import CreateTopic, Step

CONTROLLER, LEADER, OTHER = 0, 1, 2
ALL = (LEADER, CONTROLLER, OTHER)
MEASURED = "KIP-501, motivation (under discussion, never merged); measured on real brokers"
TOLD = (FETCH_COUNTED, ISR_CHECK)
"""Points at which a leader tells what it knows of its followers."""


def cluster_of(kafka: str, ids: tuple[int, ...] = ALL, **properties: str) -> ClusterSpec:
    """Return a leader that reports its followers, and two followers, one the controller.

    `ids` are the leader, the controller and the other; `properties` have underscores for dots.
    """
    return ClusterSpec(
        brokers=tuple(
            BrokerSpec(id=broker_id, kafka=kafka, points=TOLD * (broker_id == ids[0]))
            for broker_id in sorted(ids)
        ),
        first_broker=ids[1],
        properties={
            **SLOW_READS,
            **{name.replace("_", "."): value for name, value in properties.items()},
        },
    )


def begun(ids: tuple[int, ...] = ALL) -> tuple[Step, ...]:
    """Create the topic with its preferred leader first, and write one record to each replica."""
    return (CreateTopic(topic="t", assignment=(ids,)), write("all", acks=-1))


def write(operation: str, *, acks: int, records: int = 1, **rest: Any) -> Produce:
    """Return a write to the partition."""
    return Produce(operation=operation, topic="t", partition=0, records=records, acks=acks, **rest)


def held_fetch(leader: int, follower: int, fate: str) -> Mapping[str, Any]:
    """Return the witness that the leader kept the follower's fetch unread."""
    return {"hit": {"point": "fetch-read", "broker": leader, "reader": str(follower), "fate": fate}}
