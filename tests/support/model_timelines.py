"""Timelines of the documents' scenarios, and short ways to write events of partition t-0."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tests.support.model as m
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.settle.predict import left_alone_after


def left_alone(
    events: Iterable[m.Event], generations: Mapping[int, Generation] | None = None
) -> m.State:
    """The state after these events, each with all that comes of it while nobody acts."""
    reached = m.EMPTY
    for event in events:
        reached, _ = left_alone_after(reached, event, generations or {})
    return reached


def start(broker: int, release: str, *, czxid: int = 0, **configuration: Any) -> list[m.Event]:
    return [
        m.StartBroker(broker=broker, release=release, **configuration),
        m.BrokerRegistered(broker=broker, czxid=czxid or 100 + broker),
    ]


def cluster(
    release: str, *, controller: int, replicas: Sequence[int], **configuration: Any
) -> list[m.Event]:
    events = [*start(controller, release, **configuration), m.ControllerElected(broker=controller)]
    for broker in sorted(replicas):
        events += start(broker, release, **configuration)
    return [*events, m.TopicCreated(topic="t", assignment=(tuple(replicas),))]


def state(
    leader: int,
    epoch: int,
    isr: Iterable[int],
    *,
    version: int = -1,
    topic: str = "t",
    partition: int = 0,
) -> m.PartitionState:
    return m.PartitionState(
        topic=topic,
        partition=partition,
        leader=leader,
        leader_epoch=epoch,
        isr=tuple(isr),
        controller_epoch=1,
        version=version,
    )


def kill(broker: int, *, high_watermark: int | None = None) -> list[m.Event]:
    checkpointed = None if high_watermark is None else (("t", 0, high_watermark),)
    return [
        m.StopBroker(broker=broker, clean=False, checkpointed=checkpointed),
        m.BrokerUnregistered(broker=broker),
    ]


def terminate(broker: int) -> list[m.Event]:
    return [m.StopBroker(broker=broker, clean=True), m.BrokerUnregistered(broker=broker)]


def write(operation: str, broker: int, *, count: int = 1, acks: int = 1) -> m.Produce:
    return m.Produce(
        operation=operation,
        broker=broker,
        topic="t",
        partition=0,
        records=tuple(f"{operation}-{index}" for index in range(count)),
        acks=acks,
    )


def kip_101_1(release: str) -> list[m.Event]:
    """KIP-101's first scenario: X=0 leads, A=2 follows B=1 whose high watermark is behind."""
    held = m.Hold(name="hw", api="Fetch", target=0, direction="response", fetch_offset_at_least=2)
    return [
        *cluster(release, controller=3, replicas=(0, 1, 2), min_insync_replicas=2),
        state(0, 0, (0, 1, 2)),
        write("m1", 0, acks=-1),
        held,
        write("m2", 0, acks=-1),
        *kill(0),
        m.CutLink(source=1, target=2),
        state(1, 1, (1, 2)),
        m.Snapshot(label="A follows B"),
        m.CutLink(source=1, target=3),
        m.BrokerUnregistered(broker=1),
        state(2, 2, (2,)),
        m.ReleaseHold(name="hw"),
        m.HealLink(source=1, target=3),
        m.HealLink(source=1, target=2),
        m.BrokerRegistered(broker=1, czxid=201),
        state(2, 2, (2, 1)),
        write("m3", 2, acks=-1),
        m.Snapshot(label="after"),
    ]


def kip_279_1(
    release: str, n: int, *, one_record: bool = False, **configuration: Any
) -> list[m.Event]:
    """KIP-279's first scenario: A=0, B=1; B writes 11 to n in epoch 2, A 21 to 30 in epoch 3."""
    second = (
        [write(f"b{offset}", 1) for offset in range(11, n + 1)]
        if one_record
        else [write("b", 1, count=n - 10)]
    )
    return [
        *cluster(release, controller=2, replicas=(1, 0), **configuration),
        state(0, 1, (1, 0)),
        write("a1", 0, count=11, acks=-1),
        m.CutLink(source=0, target=1),
        write("a2", 0, count=10),
        state(1, 2, (1, 0)),
        *second,
        m.CutLink(source=2, target=1),
        m.BrokerUnregistered(broker=1),
        state(0, 3, (0,)),
        write("a3", 0, count=10),
        m.Snapshot(label="before healing"),
        m.HealLink(source=2, target=1),
        m.HealLink(source=0, target=1),
        m.BrokerRegistered(broker=1, czxid=201),
        m.Snapshot(label="after"),
    ]


def replica(prediction: m.Prediction, broker: int, label: str = "after") -> m.PredictedReplica:
    (snapshot,) = [each for each in prediction.snapshots[label] if each.broker == broker]
    return snapshot


def ranges(replica: m.PredictedReplica) -> list[tuple[int, int, int]]:
    """(base offset, last offset, leader epoch) of each batch."""
    return [(batch.base_offset, batch.last_offset, batch.leader_epoch) for batch in replica.batches]


def payloads(replica: m.PredictedReplica) -> list[str]:
    return [batch.payload for batch in replica.batches]
