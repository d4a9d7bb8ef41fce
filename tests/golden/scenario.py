"""The scenario of the golden runs: much of replication in a few seconds, on every release."""

from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.faults import CutLink, CutZooKeeper, ExpireSession, KillBroker, PreferredElection
from kchaos.harness.catalogue.settings import QUICK
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.steps.clients import Produce
from kchaos.harness.steps.scenario_steps import (
    AwaitFollowing,
    AwaitHighWatermark,
    AwaitReplicated,
    AwaitState,
    CreateTopic,
    Heal,
    Inject,
    ReorderReplicas,
    Step,
    TakeSnapshot,
    Tell,
)

A, B, CONTROLLER = 0, 1, 2

_STEPS: tuple[Step, ...] = (
    CreateTopic(topic="t", assignment=((A, B),)),
    Produce(operation="both", topic="t", partition=0, records=3, acks=-1),
    AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=3),
    AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=3),
    Tell(text="B, the follower, dies and misses 3; back in the ISR it takes part in 4"),
    Inject(name="B-down", fault=KillBroker(broker=B)),
    AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
    Produce(operation="without-b", topic="t", partition=0, records=1, acks=-1),
    Heal(name="B-down"),
    AwaitState(topic="t", partition=0, leader=A, isr=(A, B)),
    Produce(operation="with-b", topic="t", partition=0, records=1, acks=-1),
    AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=5),
    AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=5),
    TakeSnapshot(label="level"),
    Tell(text="B becomes the preferred leader and is cut off from A, who alone gets 5-6"),
    ReorderReplicas(topic="t", partition=0, replicas=(B, A)),
    Inject(name="A-B", fault=CutLink(source=A, target=B)),
    Produce(operation="a-only", topic="t", partition=0, records=2, acks=1),
    Tell(text="B leads by a preferred election and alone gets 5-7 in one-record batches"),
    Inject(name="elect", fault=PreferredElection(topic="t", partition=0)),
    AwaitState(topic="t", partition=0, leader=B, isr=(A, B)),
    AwaitFollowing(topic="t", partition=0, follower=A, leader=B),
    Produce(operation="b-only", topic="t", partition=0, records=3, acks=1, one_record_batches=True),
    Tell(text="B's session ends, A leads again and gets 7; then B must truncate"),
    Inject(name="B-ZooKeeper", fault=CutZooKeeper(broker=B)),
    Inject(name="B-session", fault=ExpireSession(broker=B, await_return=False)),
    AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
    Produce(operation="a-again", topic="t", partition=0, records=1, acks=1),
)


def scenario_of(release: str) -> Scenario:
    """Return the scenario on one release; what is expected of it is what the model predicts."""
    return Scenario(
        entry="golden",
        case="",
        title="A follower dies and returns; two leaders write what the other never saw",
        release=release,
        cluster=ClusterSpec(
            brokers=brokers_of(release, (A, B, CONTROLLER)),
            first_broker=CONTROLLER,
            properties=QUICK,
        ),
        steps=_STEPS,
    )
