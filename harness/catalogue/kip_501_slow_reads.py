"""KIP-501: followers ask in time, their leader reads slowly, and the partition goes offline."""

from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.faults import KillBroker, SlowFetchReads
from kchaos.harness.catalogue.entry import Entry, Expectation
from kchaos.harness.catalogue.settings import SLOW_READS
from kchaos.harness.playing.client_steps import Produce
from kchaos.harness.playing.observing_steps import AwaitDecision
from kchaos.harness.playing.steps import (
    AwaitHeld,
    AwaitState,
    CreateTopic,
    Inject,
    Step,
    Tell,
)

CONTROLLER, LEADER, OTHER = 0, 1, 2
_HELD = "held-before-the-lock"


def _cluster(kafka: str) -> ClusterSpec:
    return ClusterSpec(
        brokers=brokers_of(kafka, (CONTROLLER, LEADER, OTHER)),
        first_broker=CONTROLLER,
        properties=SLOW_READS,
    )


def _steps(case: str) -> tuple[Step, ...]:
    assert case == _HELD
    return (
        CreateTopic(topic="t", assignment=((LEADER, CONTROLLER, OTHER),)),
        Produce(operation="all", topic="t", partition=0, records=1, acks=-1),
        Tell(text="both followers ask, and the leader is slow to read for them"),
        Inject(name="slow", fault=SlowFetchReads(broker=LEADER, topic="t", partition=0)),
        AwaitHeld(name="slow"),
        Tell(text="a client writes to the leader; then the leader finds both followers slow"),
        Produce(operation="alone", topic="t", partition=0, records=2, acks=1),
        # Fetches that wait for records are read by one thread, or by that of a write.
        AwaitHeld(name="slow", count=2),
        AwaitState(topic="t", partition=0, leader=LEADER, isr=(LEADER,)),
        Tell(text="the leader dies; both followers run, and neither may lead"),
        Inject(name="down", fault=KillBroker(broker=LEADER)),
        AwaitDecision(topic="t", partition=0, leader=-1),
    )


_SOURCE = "KIP-501, motivation (under discussion, never merged); measured on real brokers"
_WITNESS = tuple(
    {"hit": {"point": "fetch-read", "broker": LEADER, "reader": str(follower), "fate": "held"}}
    for follower in (CONTROLLER, OTHER)
)

KIP_501_SLOW_READS = Entry(
    name="KIP-501-slow-reads",
    title="A partition is offline although its followers fetched in time",
    story=(
        "Both followers ask their leader in time. It has read their requests from the network and "
        "is slow to read its log for them; the delay lies before it takes the partition's lock, so "
        "it takes writes with acks=1 and checks its ISR as usual. After replica.lag.time.max.ms it "
        "finds that both have not caught up, although they can do nothing but wait for its answer, "
        "and shrinks the ISR to itself. When it dies in that time no follower may lead: the "
        "partition is offline until the leader is back. The KIP was never merged, and no release "
        "behaves otherwise. Not every slow read does this: KIP-501-long-hang."
    ),
    source=_SOURCE,
    cases={_HELD: "reads are held before they take the partition's lock; lag 3 s"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_HELD, release): Expectation(
            safe=False,
            findings=(("offline-partition", (CONTROLLER, OTHER), -1, -1),),
            witness=_WITNESS,
            source=_SOURCE,
        )
        for release in ("2.8.2", "3.9.1")
    },
    default_releases=("2.8.2", "3.9.1"),
)
