"""Short ways to write the events of a scenario: partition t-0, and broker 9 is the controller."""

from collections.abc import Iterable, Sequence

from kchaos.checkers.acts import StartBroker, StopBroker, TopicPartition
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    Event,
    PartitionState,
    Produce,
    TopicCreated,
)

PARTITION = TopicPartition("t", 0)
CONTROLLER = 9


def started(broker: int, *, czxid: int, release: str, **configuration: object) -> list[Event]:
    """Return the start of a broker."""
    return [
        StartBroker(broker=broker, release=release, **configuration),  # type: ignore[arg-type]
        BrokerRegistered(broker=broker, czxid=czxid),
    ]


def cluster(
    release: str, replicas: Sequence[int], up: Sequence[int], **configuration: object
) -> list[Event]:
    """Return the start of a controller and of those brokers that are up, and the topic."""
    events = started(CONTROLLER, czxid=1, release=release)
    events.append(ControllerElected(broker=CONTROLLER))
    for broker in up:
        events += started(broker, czxid=2 + broker, release=release, **configuration)
    return [*events, TopicCreated(topic=PARTITION.topic, assignment=(tuple(replicas),))]


def leads(leader: int, epoch: int, isr: Iterable[int]) -> PartitionState:
    """Return a decision: who leads, in which epoch, with which ISR."""
    return PartitionState(
        topic=PARTITION.topic,
        partition=PARTITION.partition,
        leader=leader,
        leader_epoch=epoch,
        isr=tuple(isr),
        controller_epoch=1,
        version=-1,
    )


def writes(name: str, broker: int, count: int = 1, *, acks: int = 1) -> Produce:
    """Return a batch of so many records that is sent to a broker."""
    return Produce(
        operation=name,
        broker=broker,
        topic=PARTITION.topic,
        partition=PARTITION.partition,
        records=tuple(f"{name}-{index}" for index in range(count)),
        acks=acks,
    )


def stopped(broker: int, *, clean: bool, high_watermark: int | None = None) -> list[Event]:
    """Return the end of a process, what its checkpoint held if that matters, and of its session."""
    checkpointed = None if high_watermark is None else ((*PARTITION, high_watermark),)
    return [
        StopBroker(broker=broker, clean=clean, checkpointed=checkpointed),
        BrokerUnregistered(broker=broker),
    ]
