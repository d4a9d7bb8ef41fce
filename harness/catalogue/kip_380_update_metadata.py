"""KIP-380: a broker takes a live leader for dead, as its earlier generation was told."""

from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.faults import FastBounce, KillBroker, PreferredElection, StaleRequest
from kchaos.harness.catalogue.entry import Entry, Expectation
from kchaos.harness.catalogue.settings import BOUNCED, late_answer
from kchaos.harness.playing.client_steps import Produce
from kchaos.harness.playing.steps import (
    AwaitFollowing,
    AwaitReplicated,
    AwaitState,
    CreateTopic,
    Heal,
    Inject,
    Step,
    Tell,
)

CONTROLLER, BOUNCING, OTHER = 0, 1, 2
_ALL = (OTHER, CONTROLLER, BOUNCING)


def _cluster(kafka: str) -> ClusterSpec:
    return ClusterSpec(
        brokers=brokers_of(kafka, (CONTROLLER, BOUNCING, OTHER)),
        first_broker=CONTROLLER,
        properties=BOUNCED,
    )


def _steps(case: str) -> tuple[Step, ...]:
    return (
        CreateTopic(topic="t", assignment=(_ALL,)),
        Produce(operation="m1", topic="t", partition=0, records=1, acks=-1),
        AwaitReplicated(topic="t", partition=0, brokers=_ALL, log_end_offset=1),
        Tell(text="broker 2 is down; an UpdateMetadata tells broker 1 so, and is late"),
        Inject(name="2-down", fault=KillBroker(broker=OTHER)),
        AwaitState(topic="t", partition=0, leader=CONTROLLER, isr=(CONTROLLER, BOUNCING)),
        Inject(
            name="late",
            fault=StaleRequest(api="UpdateMetadata", broker=BOUNCING, partitions=(("t", 0),)),
        ),
        Tell(text="broker 2 returns; broker 1 bounces and follows broker 0"),
        Heal(name="2-down"),
        AwaitState(topic="t", partition=0, leader=CONTROLLER, isr=_ALL),
        Inject(name="bounce", fault=FastBounce(broker=BOUNCING)),
        AwaitState(topic="t", partition=0, leader=CONTROLLER, isr=_ALL),
        AwaitFollowing(topic="t", partition=0, follower=BOUNCING, leader=CONTROLLER),
        Tell(text="now the request to its earlier generation arrives: broker 2 is dead, it says"),
        Heal(name="late"),
        Tell(text="preferred election: broker 2 leads; does broker 1 follow?"),
        Inject(name="prefer", fault=PreferredElection(topic="t", partition=0)),
        AwaitState(topic="t", partition=0, leader=OTHER),
        Produce(operation="m2", topic="t", partition=0, records=1, acks=1),
    )


_SOURCE = "KIP-380, first assumption; measured on real brokers"
_UNAVAILABLE = {
    "log": {"broker": BOUNCING, "pattern": r"cannot become follower since the new leader 2 is un"}
}

KIP_380_STALE_UPDATE_METADATA = Entry(
    name="KIP-380-stale-update-metadata",
    title="A bounced broker takes a live leader for dead, as its earlier generation was told",
    story=(
        "While broker 2 was down, an UpdateMetadata said so to broker 1. Broker 2 is long back, "
        "and broker 1 has bounced, when the request arrives. Up to 2.1 broker 1 believes it: it "
        "tells clients that broker 2 is not there, and when broker 2 is elected, broker 1 does not "
        "follow a leader that it takes for dead (ReplicaManager.makeFollowers). The UpdateMetadata "
        "that comes right after mends the cache, but nobody repeats the LeaderAndIsr. (A "
        "reassignment does not show it: there the controller sends UpdateMetadata first.) From "
        "2.2 on the late request is "
        "refused with STALE_BROKER_EPOCH (77). It is made by kchaos at the injection: the "
        "controller drops what it had still to send to a broker that it saw leave."
    ),
    source=_SOURCE,
    cases={"leader-taken-for-dead": "it leaves the leader out of the live brokers"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        ("leader-taken-for-dead", "2.1.1"): Expectation(
            safe=False,
            findings=(
                ("stale-request-accepted", (BOUNCING,), -1, -1),
                ("replication-stopped", (BOUNCING,), -1, -1),
            ),
            witness=(late_answer("UpdateMetadata", 0), _UNAVAILABLE),
            source=_SOURCE,
        ),
        ("leader-taken-for-dead", "2.2.2"): Expectation(
            safe=True, witness=(late_answer("UpdateMetadata", 77),), source=_SOURCE
        ),
    },
    default_releases=("2.1.1", "2.2.2"),
)
