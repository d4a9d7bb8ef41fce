"""KAFKA-18723: a Fetch response that is half sent while its leader is replaced ends otherwise."""

from dataclasses import replace
from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import QUICK_KRAFT
from kchaos.harness.catalogue.words import at_link, held, held_from

LEADER, NEXT, BEHIND, CONTROLLER = 0, 1, 2, 100
ALL = (LEADER, NEXT, BEHIND)
_T0: dict[str, Any] = {"topic": "t", "partition": 0}
_CASE = "half-sent"
# More than a link reads of a held response and the buffers of sockets hold. So the leader sends the
# end of this batch later, which is zeros in any case, and what is behind it.
_LARGE_BYTES = 6 * 1024 * 1024


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, ALL),
        mode="kraft",
        properties={
            **QUICK_KRAFT,
            # One response has all batches, and its asker waits for it as long as it takes.
            "message.max.bytes": "10485760",
            "replica.fetch.max.bytes": "10485760",
            "replica.socket.timeout.ms": "120000",
        },
    )


def _written(operation: str, broker: int) -> tuple[k.Step, ...]:
    """Return a large batch and a small one behind it."""
    small = k.Produce(operation=f"{operation}-small", records=1, acks=1, broker=broker, **_T0)
    large = replace(small, operation=f"{operation}-large", header_bytes=_LARGE_BYTES)
    return large, small


def _steps(_case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=(ALL,)),
        k.Produce(operation="all", records=3, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=ALL, high_watermark=3, **_T0),
        k.Tell(text="broker 0 appends large batches that it alone has"),
        held_from("next", NEXT, LEADER, 3),
        held_from("behind", BEHIND, LEADER, 3),
        k.AwaitHeld(name="next"),
        k.AwaitHeld(name="behind"),
        *_written("lost", LEADER),
        k.Tell(text="its answer to broker 2 is half sent, and broker 2 hears no decision"),
        held(
            "decisions",
            "Fetch",
            source=BEHIND,
            target=CONTROLLER,
            topic="__cluster_metadata",
            partition=0,
        ),
        k.AwaitHeld(name="decisions"),
        held_from("half", BEHIND, LEADER, 3, direction="response"),
        k.Heal(name="behind"),
        k.AwaitHeld(name="half"),
        k.Tell(text="broker 1 leads, and broker 0 has its batches in place of its own"),
        k.Inject(name="fenced", fault=k.FenceBroker(broker=LEADER)),
        k.AwaitState(leader=NEXT, **_T0),
        *_written("kept", NEXT),
        k.Heal(name="fenced"),
        # Its own log ended there too: the epoch in its fetch tells that it has the others' batches.
        k.AwaitMessage(
            api="Fetch",
            source=LEADER,
            target=NEXT,
            topic="t",
            says=(("fetch_offset", 5), ("last_fetched_epoch", 1)),
        ),
        k.Tell(text="broker 2 gets the rest of its answer"),
        k.Heal(name="half"),
        k.AwaitFetches(follower=BEHIND, leader=LEADER),
        k.Heal(name="next"),
        k.Heal(name="decisions"),
        k.AwaitState(leader=NEXT, isr=ALL, **_T0),
    )


_HELD = at_link("Fetch", "response", BEHIND, LEADER, fate="released")


def _fetched_on(epoch: int) -> dict[str, Any]:
    """Return the witness of the first Fetch after the answer: broker 2 knows of no new leader."""
    return at_link(
        "Fetch",
        "request",
        BEHIND,
        LEADER,
        partition={
            "topic": "t",
            "current_leader_epoch": 0,
            "fetch_offset": 5 if epoch else 4,
            "last_fetched_epoch": epoch,
        },
    )


_SKIPPED = {
    "log": {
        "broker": BEHIND,
        "pattern": "Skipping batch .* its partition leader epoch 1 is higher than .* epoch 0",
    }
}
_RED = k.Expectation(
    safe=False, findings=(("divergence", (NEXT, BEHIND), 3, 3),), witness=(_HELD, _fetched_on(1))
)
_GREEN = k.Expectation(safe=True, witness=(_HELD, _fetched_on(0), _SKIPPED))

KAFKA_18723 = k.Entry(
    name="KAFKA-18723",
    title="A follower appends batches of a leader of whom it has not heard",
    story=(
        "Broker 2 fetches from broker 0. The answer is larger than what sockets hold, so its end "
        "is still in the leader's file when broker 1 becomes leader. Broker 0 follows, truncates, "
        "and has broker 1's batches in place of its own. Then it sends the rest of the answer, "
        "from the file as it is now: the first batch is of leader epoch 0, the second one of epoch "
        "1. Broker 2, which has not heard of epoch 1, appends both. Its last epoch is the new "
        "leader's, so nothing diverges when it fetches from broker 1, and the first batch stays: "
        "in-sync replicas differ. From 3.9.1 and 4.0.1 on a follower leaves out batches of a "
        "later epoch than its own; 4.0.0 does not, so that 3.9.1 to 4.0.0 loses the fix."
    ),
    source=(
        "KAFKA-18723 (fixed in 3.9.1 and 4.0.1); kafka.log.UnifiedLog."
        "hasHigherPartitionLeaderEpoch, 3.9.1 and 4.0.1, not in 4.0.0; org.apache.kafka.common."
        "record.FileRecords.writeTo; measured"
    ),
    cases={_CASE: "the answer is half sent when its leader is replaced"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "3.6.2"): _RED,
        (_CASE, "4.0.0"): _RED,
        (_CASE, "3.9.1"): _GREEN,
        (_CASE, "4.0.2"): _GREEN,
    },
)
