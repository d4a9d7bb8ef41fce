"""KAFKA-7128: a follower without a committed record joins a new leader's ISR, and is elected."""

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster
from kchaos.harness.catalogue.words import at_link, held_from

A, B, C, CONTROLLER = 0, 1, 2, 3
_CASE = "lagging-high-watermark"


def _hold_answers(name: str, source: int, target: int, offset: int) -> k.Inject:
    return held_from(name, source, target, offset, direction="response")


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((A, B, C),)),
        k.ReorderReplicas(topic="t", partition=0, replicas=(B, C, A)),
        k.Tell(text="A leads; 0 is committed everywhere, then C goes away"),
        k.Produce(operation="first", topic="t", partition=0, records=1, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, B, C), log_end_offset=1),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B, C), high_watermark=1),
        k.Inject(name="C-down", fault=k.KillBroker(broker=C)),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A, B)),
        k.Tell(text="1 is committed by A and B; B has it and does not hear that it is committed"),
        _hold_answers("to-B", B, A, 2),
        k.Produce(operation="second", topic="t", partition=0, records=1, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=2),
        k.AwaitHeld(name="to-B"),
        k.Tell(
            text="B is elected and A cannot follow it; C returns, and B's answers to it are held"
        ),
        k.Inject(name="A-B", fault=k.CutLink(source=A, target=B)),
        k.Inject(name="elect-B", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitState(topic="t", partition=0, leader=B, isr=(A, B)),
        _hold_answers("to-C", C, B, 1),
        k.Heal(name="C-down"),
        k.AwaitHeld(name="to-C"),
        k.Tell(text="B dies: was C, which ends at B's high watermark, in the ISR?"),
        k.Inject(name="B-down", fault=k.KillBroker(broker=B)),
        k.AwaitLeader(),
        k.Heal(name="to-B"),
        k.Heal(name="to-C"),
        k.Heal(name="A-B"),
        k.Heal(name="B-down"),
    )


_HELD = at_link("Fetch", "response", C, B, fate="held")
_EXITS = "Exiting because log truncation is not allowed for partition t-0"

KAFKA_7128 = k.Entry(
    name="KAFKA-7128",
    title="A follower without the last committed record joins the ISR and is elected",
    story=(
        "Record 1 is on A and B and committed, and B does not know that: its high watermark is 1. "
        "B is elected by preference, and A, in the ISR, cannot reach it. C, which was away, ends "
        "at 1 and asks B for more. Up to 2.0.0 a follower joins the ISR once it ends at the "
        "leader's high watermark, so C joins before it has any answer. When B dies, C is elected "
        "cleanly, and record 1 is gone; A, whose log is longer than its leader's, gives up and "
        "exits. From 2.0.1 on a follower must also have "
        "reached the start of the leader's own epoch, 2 here, so A is elected."
    ),
    source=(
        "KAFKA-7128 (fixed in 2.0.1); the shortest way that `kchaos explore --kafka 2.5.1 "
        "--without KAFKA-7128 --replicas 3` finds, with a death at its end"
    ),
    cases={_CASE: "B's high watermark is behind when it is elected, and C ends there"},
    cluster=quick_cluster(A, B, C, controller=CONTROLLER),
    steps=_steps,
    expectations={
        (_CASE, "2.0.0"): k.Expectation(
            safe=False,
            findings=(("committed-loss", (B, C), 1, 1), ("replication-stopped", (A,), -1, -1)),
            witness=(_HELD, {"log": {"broker": A, "pattern": _EXITS}}),
        ),
        (_CASE, "2.0.1"): k.Expectation(safe=True, witness=(_HELD,)),
    },
)
