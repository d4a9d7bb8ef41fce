"""The scenario of the golden runs: much of replication in a few seconds, on every release."""

import kchaos

A, B, CONTROLLER = 0, 1, 2

_STEPS: tuple[kchaos.Step, ...] = (
    kchaos.CreateTopic(topic="t", assignment=((A, B),)),
    kchaos.Produce(operation="both", topic="t", partition=0, records=3, acks=-1),
    kchaos.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=3),
    kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=3),
    kchaos.Tell(text="B, the follower, dies and misses 3; back in the ISR it takes part in 4"),
    kchaos.Inject(name="B-down", fault=kchaos.KillBroker(broker=B)),
    kchaos.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
    kchaos.Produce(operation="without-b", topic="t", partition=0, records=1, acks=-1),
    kchaos.Heal(name="B-down"),
    kchaos.AwaitState(topic="t", partition=0, leader=A, isr=(A, B)),
    kchaos.Produce(operation="with-b", topic="t", partition=0, records=1, acks=-1),
    kchaos.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=5),
    kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=5),
    kchaos.TakeSnapshot(label="level"),
    kchaos.Tell(text="B becomes the preferred leader and is cut off from A, who alone gets 5-6"),
    kchaos.ReorderReplicas(topic="t", partition=0, replicas=(B, A)),
    kchaos.Inject(name="A-B", fault=kchaos.CutLink(source=A, target=B)),
    kchaos.Produce(operation="a-only", topic="t", partition=0, records=2, acks=1),
    kchaos.Tell(text="B leads by a preferred election and alone gets 5-7 in one-record batches"),
    kchaos.Inject(name="elect", fault=kchaos.PreferredElection(topic="t", partition=0)),
    kchaos.AwaitState(topic="t", partition=0, leader=B, isr=(A, B)),
    kchaos.AwaitFollowing(topic="t", partition=0, follower=A, leader=B),
    kchaos.Produce(
        operation="b-only", topic="t", partition=0, records=3, acks=1, one_record_batches=True
    ),
    kchaos.Tell(text="B's session ends, A leads again and gets 7; then B must truncate"),
    kchaos.Inject(name="B-ZooKeeper", fault=kchaos.CutZooKeeper(broker=B)),
    kchaos.Inject(name="B-session", fault=kchaos.ExpireSession(broker=B, await_return=False)),
    kchaos.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
    kchaos.Produce(operation="a-again", topic="t", partition=0, records=1, acks=1),
)


def scenario_of(release: str) -> kchaos.Scenario:
    """Return the scenario on one release; what is expected of it is what the model predicts."""
    return kchaos.Scenario(
        entry="golden",
        case="",
        title="A follower dies and returns; two leaders write what the other never saw",
        release=release,
        cluster=kchaos.ClusterSpec(
            brokers=kchaos.brokers_of(release, (A, B, CONTROLLER)),
            first_broker=CONTROLLER,
            properties=kchaos.QUICK,
        ),
        steps=_STEPS,
    )
