"""What the scenarios of KIP-405 have in common."""

from collections.abc import Mapping

from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.harness.catalogue.settings import QUICK
from kchaos.harness.playing.client_steps import Produce
from kchaos.harness.playing.steps import Step
from kchaos.harness.playing.tier_steps import TierRead

MESSAGE_BYTES = 84
"""What a batch of one record of 16 bytes takes in a segment (magic 2)."""
TOPIC, PARTITION = "t", 0

TIERED: Mapping[str, str] = {
    **QUICK,
    # A rebuild asks the leader three times in a row and reads from the remote store.
    "replica.socket.timeout.ms": "5000",
    "request.timeout.ms": "5000",
}


def tiered_cluster(kafka: str, brokers: tuple[int, ...], controller: int) -> ClusterSpec:
    """A cluster with a remote store; the controller never goes, and has its metadata topic."""
    return ClusterSpec(
        brokers=brokers_of(kafka, brokers),
        first_broker=controller,
        properties=TIERED,
        tiered=True,
    )


def tiered_topic(*, segment_messages: int, local_messages: int) -> tuple[tuple[str, str], ...]:
    """Settings of a topic with so many messages in a segment, of which so many stay local."""
    return (
        ("remote.storage.enable", "true"),
        ("segment.bytes", str(segment_messages * MESSAGE_BYTES)),
        ("local.retention.bytes", str(local_messages * MESSAGE_BYTES)),
    )


def message(number: int, *, acks: int = -1) -> Produce:
    """One message of exactly `MESSAGE_BYTES`, named by its number on the page."""
    return Produce(
        operation=f"message-{number:06d}", topic=TOPIC, partition=PARTITION, records=1, acks=acks
    )


def messages(*numbers: int, acks: int = -1) -> tuple[Produce, ...]:
    """Several messages, one after the other."""
    return tuple(message(number, acks=acks) for number in numbers)


def read_all(name: str, broker: int) -> tuple[Step, ...]:
    """A reader in sequence, and one that seeks to each offset, the last one first."""
    return (
        TierRead(operation=f"{name}-sequence", topic=TOPIC, partition=PARTITION, broker=broker),
        TierRead(
            operation=f"{name}-seeks",
            topic=TOPIC,
            partition=PARTITION,
            broker=broker,
            manner="descending",
        ),
    )
