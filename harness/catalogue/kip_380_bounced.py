"""Scenario parts of KIP-380's entries: a broker that bounces, its controller, another replica."""

from collections.abc import Mapping
from typing import Any

import kchaos as k
from kchaos.checkers.acts import STALE_CLIENT_ID
from kchaos.harness.catalogue.words import at_link

CONTROLLER, BOUNCING, OTHER = 0, 1, 2

BOUNCED: Mapping[str, str] = {
    **k.QUICK,
    # A stopped follower leaves the ISR by this alone.
    "replica.lag.time.max.ms": "3000",
    # A session that nobody ends is over soon; a bounced broker registers only after that.
    "zookeeper.session.timeout.ms": "3000",
}
"""Where brokers bounce, and a replica may be stopped by a late request."""


def bounced_cluster(kafka: str, more: Mapping[str, str] | None = None) -> k.ClusterSpec:
    """Return the three brokers, broker 0 the controller, with properties beside `BOUNCED`."""
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, (CONTROLLER, BOUNCING, OTHER)),
        first_broker=CONTROLLER,
        properties={**BOUNCED, **(more or {})},
    )


def topic_with_a_record(replicas: tuple[int, ...]) -> tuple[k.Step, ...]:
    """Create topic t of one partition, with one record on every replica."""
    return (
        k.CreateTopic(topic="t", assignment=(replicas,)),
        k.Produce(operation="m1", topic="t", partition=0, records=1, acks=-1),
    )


def late_answer(api: str, error_code: int) -> Mapping[str, Any]:
    """Return the witness of this response to a late request, whatever the decider."""
    return at_link(api, "response", client_id=STALE_CLIENT_ID, detail={"error_code": error_code})
