"""The scenario of the golden runs: much of replication in a few seconds, on every release."""

import kchaos as k

A, B, CONTROLLER = 0, 1, 2

_STEPS: tuple[k.Step, ...] = (
    k.CreateTopic(topic="t", assignment=((A, B),)),
    k.Produce(operation="both", topic="t", partition=0, records=3, acks=-1),
    k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=3),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=3),
    k.Tell(text="B, the follower, dies and misses 3; back in the ISR it takes part in 4"),
    k.Inject(name="B-down", fault=k.KillBroker(broker=B)),
    k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
    k.Produce(operation="without-b", topic="t", partition=0, records=1, acks=-1),
    k.Heal(name="B-down"),
    k.AwaitState(topic="t", partition=0, leader=A, isr=(A, B)),
    k.Produce(operation="with-b", topic="t", partition=0, records=1, acks=-1),
    k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=5),
    k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=5),
    k.TakeSnapshot(label="level"),
    k.Tell(text="B becomes the preferred leader and is cut off from A, who alone gets 5-6"),
    k.ReorderReplicas(topic="t", partition=0, replicas=(B, A)),
    k.Inject(name="A-B", fault=k.CutLink(source=A, target=B)),
    k.Produce(operation="a-only", topic="t", partition=0, records=2, acks=1),
    k.Tell(text="B leads by a preferred election and alone gets 5-7 in one-record batches"),
    k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0)),
    k.AwaitState(topic="t", partition=0, leader=B, isr=(A, B)),
    k.AwaitFollowing(topic="t", partition=0, follower=A, leader=B),
    k.Produce(
        operation="b-only", topic="t", partition=0, records=3, acks=1, one_record_batches=True
    ),
    k.Tell(text="B's session ends, A leads again and gets 7; then B must truncate"),
    k.Inject(name="B-ZooKeeper", fault=k.CutZooKeeper(broker=B)),
    k.Inject(name="B-session", fault=k.ExpireSession(broker=B, await_return=False)),
    k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
    k.Produce(operation="a-again", topic="t", partition=0, records=1, acks=1),
)


def scenario_of(release: str) -> k.Scenario:
    """Return the scenario on one release; what is expected of it is what the model predicts."""
    return k.Scenario(
        entry="golden",
        case="",
        title="A follower dies and returns; two leaders write what the other never saw",
        release=release,
        cluster=k.ClusterSpec(
            brokers=k.brokers_of(release, (A, B, CONTROLLER)),
            first_broker=CONTROLLER,
            properties=k.QUICK,
        ),
        steps=_STEPS,
    )
