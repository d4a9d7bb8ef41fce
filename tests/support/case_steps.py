"""Steps that several cases share; a topic is t, with the one partition 0, unless it is named."""

from typing import Any

import kchaos as k
from kchaos.harness.catalogue.words import held, held_from

__all__ = ["held", "held_from"]


def both_have_one(leader: int, follower: int) -> tuple[k.Step, ...]:
    """A topic on two brokers, both of which have a record and its offset as high watermark."""
    return (
        k.CreateTopic(topic="t", assignment=((leader, follower),)),
        k.Produce(operation="both", topic="t", partition=0, records=1, acks=-1),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=1),
    )


def write_that_waits(operation: str, *, timeout_s: float = 60) -> k.Produce:
    """A write with acks=all to broker 0, whose answer a later step awaits."""
    return k.Produce(
        operation=operation,
        topic="t",
        partition=0,
        records=1,
        acks=-1,
        broker=0,
        await_answer=False,
        timeout_s=timeout_s,
    )


def leads_without_hearing_of_the_next() -> tuple[k.Step, ...]:
    """Broker 1 leads and takes a write, and its LeaderAndIsr, by which 0 leads, is held."""
    return (
        *both_have_one(1, 0),
        k.ReorderReplicas(topic="t", partition=0, replicas=(0, 1)),
        held("late", "LeaderAndIsr", source=2, target=1),
        k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitState(topic="t", partition=0, leader=0, isr=(0, 1)),
        k.AwaitHeld(name="late"),
        k.Produce(operation="unheard", topic="t", partition=0, records=1, acks=1, broker=1),
    )


THREE_RECORDS = (
    k.Produce(
        operation="both", topic="t", partition=0, records=3, acks=-1, one_record_batches=True
    ),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(0, 1), high_watermark=3),
)
LED_BY_THE_SHORTER = (
    k.Inject(name="link", fault=k.CutLink(source=0, target=1)),
    k.Inject(name="1-down", fault=k.KillBroker(broker=1)),
    k.Inject(name="tail", fault=k.LoseTail(broker=1, topic="t", partition=0, log_end_offset=1)),
    k.Heal(name="1-down"),
    k.AwaitState(topic="t", partition=0, leader=0, isr=(0,)),
    k.Inject(name="0-down", fault=k.KillBroker(broker=0)),
    k.AwaitState(topic="t", partition=0, leader=1, isr=(1,)),
)
"""Broker 1 loses two of three records, and is elected uncleanly."""

T: dict[str, Any] = {"topic": "t", "partition": 0}
U: dict[str, Any] = {"topic": "u", "partition": 0}
ON_TWO_FOLDERS = (
    k.CreateTopic(topic="t", assignment=((0, 1),)),
    k.CreateTopic(topic="u", assignment=((0, 1),)),
    k.Produce(operation="of-t", records=3, acks=-1, **T),
    k.Produce(operation="of-u", records=5, acks=-1, **U),
    k.AwaitHighWatermark(brokers=(0, 1), high_watermark=3, **T),
    k.AwaitHighWatermark(brokers=(0, 1), high_watermark=5, **U),
)
"""Two topics, which brokers with two log directories put into one each."""
