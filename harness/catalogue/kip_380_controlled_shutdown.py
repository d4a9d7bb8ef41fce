"""KIP-380: a live broker is shut down because its earlier generation asked for it."""

from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.faults import FastBounce, PreferredElection, StaleRequest
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


def _cluster(kafka: str) -> ClusterSpec:
    return ClusterSpec(
        brokers=brokers_of(kafka, (CONTROLLER, BOUNCING, OTHER)),
        first_broker=CONTROLLER,
        properties=BOUNCED,
    )


def _steps(case: str) -> tuple[Step, ...]:
    both = (BOUNCING, OTHER)
    return (
        CreateTopic(topic="t", assignment=(both,)),
        CreateTopic(topic="u", assignment=((OTHER, BOUNCING),)),
        Produce(operation="t-m1", topic="t", partition=0, records=1, acks=-1),
        Produce(operation="u-m1", topic="u", partition=0, records=1, acks=-1),
        Tell(text="broker 1 asks the controller to shut it down, and that is late"),
        Inject(name="late", fault=StaleRequest(api="ControlledShutdown", broker=BOUNCING)),
        Tell(text="broker 1 bounces, is in sync again and leads t again"),
        Inject(name="bounce", fault=FastBounce(broker=BOUNCING)),
        AwaitState(topic="t", partition=0, leader=OTHER, isr=both),
        AwaitState(topic="u", partition=0, leader=OTHER, isr=both),
        Inject(name="prefer", fault=PreferredElection(topic="t", partition=0)),
        AwaitState(topic="t", partition=0, leader=BOUNCING, isr=both),
        AwaitFollowing(topic="t", partition=0, follower=OTHER, leader=BOUNCING),
        AwaitReplicated(topic="t", partition=0, brokers=both, log_end_offset=1),
        AwaitReplicated(topic="u", partition=0, brokers=both, log_end_offset=1),
        Tell(text="now what its earlier generation asked for arrives"),
        Heal(name="late"),
    )


_SOURCE = "KIP-380, motivation, second example; measured on real brokers"
_HARM = (
    ("stale-request-accepted", (CONTROLLER,), -1, -1, "t"),
    ("stale-request-accepted", (CONTROLLER,), -1, -1, "u"),
    ("replication-stopped", (BOUNCING,), -1, -1, "u"),
)

KIP_380_STALE_CONTROLLED_SHUTDOWN = Entry(
    name="KIP-380-stale-controlled-shutdown",
    title="A live broker loses its leaderships because its earlier generation asked for it",
    story=(
        "A ControlledShutdown of broker 1 reaches the controller when broker 1 has long bounced. "
        "Up to 2.1 the controller takes every leadership from the live broker 1, and takes it out "
        "of the ISR of every partition that it follows and tells it to stop fetching that one. It "
        "keeps broker 1 among those that are shutting down: what it led it follows now, what it "
        "followed it never fetches again, until the next bounce or the next controller. From "
        "2.2 on the request carries the czxid of the sender's registration, and one that is below "
        "what the controller has seen is refused with STALE_BROKER_EPOCH (77). The request is "
        "made by kchaos at the injection."
    ),
    source=_SOURCE,
    cases={"live-broker": "the broker is back, in sync, and leads"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        ("live-broker", "2.1.1"): Expectation(
            safe=False,
            findings=_HARM,
            witness=(
                late_answer("ControlledShutdown", 0),
                {"log": {"broker": CONTROLLER, "pattern": r"Shutting down broker 1"}},
            ),
            source=_SOURCE,
        ),
        ("live-broker", "2.2.2"): Expectation(
            safe=True,
            witness=(
                late_answer("ControlledShutdown", 77),
                {
                    "log": {
                        "broker": CONTROLLER,
                        "pattern": r"Received controlled shutdown request from an old broker epoch",
                    }
                },
            ),
            source=_SOURCE,
        ),
    },
    default_releases=("2.1.1", "2.2.2"),
)
