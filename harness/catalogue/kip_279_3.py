"""KIP-279, scenario 3: two unclean leaders in turn, each with records of its own."""

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster

A, B, CONTROLLER = 0, 1, 2


def _steps(case: str) -> tuple[k.Step, ...]:
    common: tuple[k.Step, ...] = ()
    if case == "common-epoch":
        common = (
            k.Tell(text="one record is common to A and B"),
            k.Produce(operation="common", topic="t", partition=0, records=1, acks=-1),
            k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=1),
            k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=1),
        )
    return (
        k.CreateTopic(topic="t", assignment=((A, B),)),
        *common,
        k.Tell(text="B is down, A writes A0; then A is down too"),
        k.Inject(name="B-down", fault=k.KillBroker(broker=B)),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        *_lead(A, "A0"),
        k.Tell(text="B returns as unclean leader and writes B0; then B is down"),
        k.Heal(name="B-down"),
        *_lead(B, "B0"),
        k.Tell(text="A returns as unclean leader and writes A1; then A is down"),
        k.Heal(name="A-down"),
        *_lead(A, "A1"),
        k.Tell(text="B returns as unclean leader and writes B1"),
        k.Heal(name="B-down"),
        k.AwaitState(topic="t", partition=0, leader=B, isr=(B,)),
        k.Produce(operation="B1", topic="t", partition=0, records=1, acks=1),
        k.Tell(text="A returns and follows B: how far back does it truncate?"),
        k.Heal(name="A-down"),
    )


def _lead(broker: int, operation: str) -> tuple[k.Step, ...]:
    """Return steps by which the broker leads alone, writes one record and dies."""
    name = "A-down" if broker == A else "B-down"
    return (
        k.AwaitState(topic="t", partition=0, leader=broker, isr=(broker,)),
        k.Produce(operation=operation, topic="t", partition=0, records=1, acks=1),
        k.Inject(name=name, fault=k.KillBroker(broker=broker)),
        k.AwaitState(topic="t", partition=0, leader=-1),
    )


def _red(offset: int, *, answered: int) -> k.Expectation:
    return k.Expectation(
        safe=False,
        findings=(("divergence", (A, B), offset, offset),),
        witness=({"round": {"follower": A, "leader": B, "end_offset": answered}},),
    )


def _green(*, answered: int) -> k.Expectation:
    return k.Expectation(
        safe=True, witness=({"round": {"follower": A, "leader": B, "end_offset": answered}},)
    )


KIP_279_3 = k.Entry(
    name="KIP-279-3",
    title="Logs diverge when two unclean leaders take turns",
    story=(
        "A and B lead in turn, each without the other, and each writes one record a turn. When A "
        "at last follows B, its latest epoch is one that B never had. Up to 1.1 B answers with the "
        "start of its next greater epoch, and A keeps a record that B never saw. With KIP-279 B "
        "names its largest epoch that is not greater. A truncates to its own end of what it has "
        "below that epoch, and asks again. The KIP says that A falls back to its high watermark, "
        "offset 0, once B knows no smaller epoch. The shipped 2.0.0 differs: the fall-back is the "
        "offset that the first round left, 1, so A keeps A0 and diverges. From 2.0.1 on "
        "(KAFKA-7415) B answers with the start of its first epoch instead. With one record in a "
        "common epoch 2.0.0 converges as well."
    ),
    source="KIP-279, scenario 3; KAFKA-6361 (fixed in 2.0.0) and KAFKA-7415 (fixed in 2.0.1)",
    cases={
        "no-common-epoch": "A and B have no leader epoch in common",
        "common-epoch": "both hold one record of a common leader epoch",
    },
    cluster=quick_cluster(
        A, B, controller=CONTROLLER, properties={"unclean.leader.election.enable": "true"}
    ),
    steps=_steps,
    expectations={
        ("no-common-epoch", "1.1.1"): _red(0, answered=1),
        ("no-common-epoch", "2.0.0"): _red(0, answered=-1),
        ("no-common-epoch", "2.0.1"): _green(answered=0),
        ("common-epoch", "1.1.1"): _red(1, answered=2),
        ("common-epoch", "2.0.0"): _green(answered=1),
    },
)
