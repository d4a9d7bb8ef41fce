"""KIP-101, scenario 2: replicas diverge after both have lost power."""

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster

A, B, CONTROLLER = 0, 1, 2


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((A, B),)),
        k.Tell(text="m1 and m2 are committed on A and B"),
        k.Produce(operation="m1", topic="t", partition=0, records=1, acks=-1),
        k.Produce(operation="m2", topic="t", partition=0, records=1, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=2),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=2),
        k.Tell(text="both lose power; B's disk has m2, A's has not"),
        k.Inject(name="B-down", fault=k.KillBroker(broker=B)),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        k.Inject(name="A-down", fault=k.KillBroker(broker=A)),
        k.AwaitState(topic="t", partition=0, leader=-1, isr=(A,)),
        k.Inject(
            name="A-tail", fault=k.LoseTail(broker=A, topic="t", partition=0, log_end_offset=1)
        ),
        k.Tell(text="A returns first and leads; m3 takes the offset that m2 had"),
        k.Heal(name="A-down"),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        k.Produce(operation="m3", topic="t", partition=0, records=1, acks=-1),
        k.Tell(text="B returns with m2 below its high watermark: does it let go of it?"),
        k.Heal(name="B-down"),
    )


KIP_101_2 = k.Entry(
    name="KIP-101-2",
    title="Replicas diverge after both lost power",
    story=(
        "Kafka flushes asynchronously, so after a power loss replicas come back with ends of "
        "different length. A, the last in the ISR, comes back without m2 and leads; losing m2 is "
        "permitted, since every replica lost power. m3 takes its offset. B comes back with m2, and "
        "its checkpointed high watermark says that m2 is committed. Up to 0.10.2 B truncates to "
        "that high watermark, which removes nothing, and both are in sync with different records "
        "at offset 1. From 0.11 on B asks where its leader epoch ended on A and truncates there."
    ),
    source="KIP-101, scenario 2; KAFKA-3919 (fixed in 0.11.0)",
    cases={"power-loss": "A loses the last record, B does not"},
    cluster=quick_cluster(A, B, controller=CONTROLLER),
    steps=_steps,
    expectations={
        ("power-loss", "0.10.2.2"): k.Expectation(
            safe=False,
            findings=(("divergence", (A, B), 1, 1),),
            witness=({"log": {"broker": B, "pattern": r"Truncating log t-0 to offset 2\b"}},),
        ),
        ("power-loss", "0.11.0.3"): k.Expectation(
            safe=True, witness=({"round": {"follower": B, "leader": A, "end_offset": 1}},)
        ),
    },
)
