"""Scenario parts that the entries of KIP-405 share."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import kchaos as k
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.harness.catalogue.kip_405_page import of_scenario, wanted
from kchaos.harness.catalogue.words import at_link

MESSAGE_BYTES = 84
"""Bytes of a batch of one record of 16 bytes in a segment (magic 2)."""
TOPIC, PARTITION = "t", 0

TIERED: Mapping[str, str] = {
    **k.QUICK,
    # A rebuild asks the leader three times in a row and reads from the remote store.
    "replica.socket.timeout.ms": "5000",
    "request.timeout.ms": "5000",
}


UNCLEAN: Mapping[str, str] = {
    "unclean.leader.election.enable": "true",
    # Who is cut off leaves the ISR by this alone.
    "replica.lag.time.max.ms": "3000",
}


UPLOADED, NEVER_UPLOADED = "uploaded", "never-uploaded"
FIXED_UPLOADS: Mapping[str, str] = {
    UPLOADED: "the new leader ships its own segment",
    NEVER_UPLOADED: "the new leader takes the old leader's segment for its own (KAFKA-15241)",
}


def why_not_uploads(case: str, release: str) -> str:
    """Return why a release cannot show one of `FIXED_UPLOADS`, or ""."""
    is_old = release.startswith("3.6.")
    if is_old and case == UPLOADED:
        return "3.6 ships nothing there (KAFKA-15241, fixed in 3.7.0); use --kafka 3.9.1"
    if not is_old and case == NEVER_UPLOADED:
        return "KAFKA-15241 is fixed from 3.7.0 on; use --kafka 3.6.2"
    return ""


def tiered_cluster(
    kafka: str,
    brokers: tuple[int, ...],
    controller: int,
    properties: Mapping[str, str] = MappingProxyType({}),
    *,
    tiered: bool = True,
) -> k.ClusterSpec:
    """Return a cluster with a remote store, whose metadata topic is on the lasting controller."""
    return k.ClusterSpec(
        brokers=k.brokers_of(kafka, brokers),
        first_broker=controller,
        properties={**TIERED, **properties},
        tiered=tiered,
    )


def failing_store(kafka: str, broker: int, point: str) -> k.ClusterSpec:
    """Return three brokers, the last the controller, one of which can be held at the store."""
    spec = tiered_cluster(kafka, (0, 1, 2), 2, {"group.initial.rebalance.delay.ms": "0"})
    return with_points(spec, broker, point)


def with_points(spec: k.ClusterSpec, broker: int, *points: str) -> k.ClusterSpec:
    """Return the cluster with the agent of one broker at these points."""
    brokers = tuple(
        replace(broker_spec, points=points) if broker_spec.id == broker else broker_spec
        for broker_spec in spec.brokers
    )
    return replace(spec, brokers=brokers)


PREFERRED = k.PreferredElection(topic=TOPIC, partition=PARTITION)


def created(replicas: tuple[int, ...], *, segment_messages: int, local_messages: int) -> k.Step:
    """Create the topic with `tiered_topic`'s settings and these replicas, preferred one first."""
    return k.CreateTopic(
        topic=TOPIC,
        assignment=(replicas,),
        configuration=tiered_topic(
            segment_messages=segment_messages, local_messages=local_messages
        ),
    )


def elected(leader: int, isr: tuple[int, ...] | None = None) -> k.Step:
    """Wait for this leader, to its own knowledge, and this ISR."""
    return k.AwaitState(topic=TOPIC, partition=PARTITION, leader=leader, isr=isr)


def level(brokers: tuple[int, ...], high_watermark: int) -> k.Step:
    """Wait for this high watermark on each of these brokers."""
    return k.AwaitHighWatermark(
        topic=TOPIC, partition=PARTITION, brokers=brokers, high_watermark=high_watermark
    )


def settled(leader: int, isr: tuple[int, ...], end: int) -> tuple[k.Step, ...]:
    """Wait for this leader and ISR, and for the high watermark on each of its brokers."""
    return elected(leader, isr), level(isr, end)


def begins(broker: int, offset: int) -> k.Step:
    """Wait until a broker's local log begins there."""
    return k.AwaitLocalStart(topic=TOPIC, partition=PARTITION, broker=broker, offset=offset)


def shipped(*segments: tuple[int, int, int | None], finished_only: bool = False) -> k.Step:
    """Wait until the remote store has these segments; see `AwaitTiered`."""
    return k.AwaitTiered(
        topic=TOPIC, partition=PARTITION, segments=segments, finished_only=finished_only
    )


def tiered_topic(*, segment_messages: int, local_messages: int) -> tuple[tuple[str, str], ...]:
    """Return the settings of a topic, with the messages per segment and the local ones."""
    return (
        ("remote.storage.enable", "true"),
        ("segment.bytes", str(segment_messages * MESSAGE_BYTES)),
        ("local.retention.bytes", str(local_messages * MESSAGE_BYTES)),
    )


def configured(name: str, setting: str, messages: int) -> k.Step:
    """Change a setting of the topic to the bytes of this many messages."""
    settings = ((setting, str(messages * MESSAGE_BYTES)),)
    return k.Inject(name=name, fault=k.ConfigureTopic(topic=TOPIC, configuration=settings))


NOTHING_EXPIRES = configured("no local retention", "local.retention.bytes", 100)
"""No local segment goes any more. A write may roll one; if it went, what a broker believes of the
start of its local log would be set anew."""


def message(number: int, *, acks: int = -1) -> k.Produce:
    """Return a write of exactly `MESSAGE_BYTES`, named by its number on the page."""
    return k.Produce(
        operation=f"message-{number:06d}", topic=TOPIC, partition=PARTITION, records=1, acks=acks
    )


def messages(*numbers: int, acks: int = -1) -> tuple[k.Produce, ...]:
    """Return several writes of one message each."""
    return tuple(message(number, acks=acks) for number in numbers)


def as_printed(
    scenario: int, release: str, *, local_until: int | None = None
) -> tuple[Mapping[str, Any], ...]:
    """Return the witnesses that each step left the page's table, or its corrected slip.

    `local_until` restricts it to the brokers' local logs up to this step; None for all.
    """
    return tuple(
        {
            "table": {
                "snapshot": table.snapshot,
                "partition": f"{TOPIC}-{PARTITION}",
                "columns": {
                    column: list(lines)
                    for column, lines in wanted(table, release).items()
                    if local_until is None or column.startswith("broker ")
                },
            }
        }
        for table in of_scenario(scenario)
        if local_until is None or table.step <= local_until
    )


def sent_to_the_tier(follower: int, leader: int) -> Mapping[str, Any]:
    """Return the witness that a leader refers a follower's fetch to the remote tier."""
    return at_link(
        "Fetch",
        "response",
        follower,
        leader,
        partition={"topic": TOPIC, "error_code": ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE.value},
    )


def epochs(snapshot: str, broker: int, *starts: int) -> Mapping[str, Any]:
    """Return the witness that a broker's leader epochs begin at these offsets."""
    return {
        "epochs": {
            "snapshot": snapshot,
            "broker": broker,
            "partition": f"{TOPIC}-{PARTITION}",
            "starts": list(starts),
        }
    }


def read_all(name: str, broker: int) -> tuple[k.Step, ...]:
    """Read in sequence, and by a seek to each offset, the last one first."""
    return (
        k.TierRead(operation=f"{name}-sequence", topic=TOPIC, partition=PARTITION, broker=broker),
        k.TierRead(
            operation=f"{name}-seeks",
            topic=TOPIC,
            partition=PARTITION,
            broker=broker,
            manner="descending",
        ),
    )
