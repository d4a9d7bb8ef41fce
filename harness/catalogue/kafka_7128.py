"""KAFKA-7128: a follower without a committed record joins a new leader's ISR, and is elected."""

import kchaos
from kchaos.harness.catalogue.settings import quick_cluster

A, B, C, CONTROLLER = 0, 1, 2, 3
_CASE = "lagging-high-watermark"


def _hold_answers(name: str, source: int, target: int, offset: int) -> kchaos.Inject:
    return kchaos.Inject(
        name=name,
        fault=kchaos.HoldRequests(
            name=name,
            api="Fetch",
            source=source,
            target=target,
            direction="response",
            topic="t",
            partition=0,
            fetch_offset_at_least=offset,
        ),
    )


def _steps(case: str) -> tuple[kchaos.Step, ...]:
    return (
        kchaos.CreateTopic(topic="t", assignment=((A, B, C),)),
        kchaos.ReorderReplicas(topic="t", partition=0, replicas=(B, C, A)),
        kchaos.Tell(text="A leads; 0 is committed everywhere, then C goes away"),
        kchaos.Produce(operation="first", topic="t", partition=0, records=1, acks=-1),
        kchaos.AwaitReplicated(topic="t", partition=0, brokers=(A, B, C), log_end_offset=1),
        kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B, C), high_watermark=1),
        kchaos.Inject(name="C-down", fault=kchaos.KillBroker(broker=C)),
        kchaos.AwaitState(topic="t", partition=0, leader=A, isr=(A, B)),
        kchaos.Tell(
            text="1 is committed by A and B; B has it and does not hear that it is committed"
        ),
        _hold_answers("to-B", B, A, 2),
        kchaos.Produce(operation="second", topic="t", partition=0, records=1, acks=-1),
        kchaos.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=2),
        kchaos.AwaitHeld(name="to-B"),
        kchaos.Tell(
            text="B is elected and A cannot follow it; C returns, and B's answers to it are held"
        ),
        kchaos.Inject(name="A-B", fault=kchaos.CutLink(source=A, target=B)),
        kchaos.Inject(name="elect-B", fault=kchaos.PreferredElection(topic="t", partition=0)),
        kchaos.AwaitState(topic="t", partition=0, leader=B, isr=(A, B)),
        _hold_answers("to-C", C, B, 1),
        kchaos.Heal(name="C-down"),
        kchaos.AwaitHeld(name="to-C"),
        kchaos.Tell(text="B dies: was C, which ends at B's high watermark, in the ISR?"),
        kchaos.Inject(name="B-down", fault=kchaos.KillBroker(broker=B)),
        kchaos.AwaitLeader(),
        kchaos.Heal(name="to-B"),
        kchaos.Heal(name="to-C"),
        kchaos.Heal(name="A-B"),
        kchaos.Heal(name="B-down"),
    )


_HELD = {
    "link": {"api": "Fetch", "direction": "response", "source": C, "target": B, "fate": "held"}
}
_EXITS = "Exiting because log truncation is not allowed for partition t-0"

KAFKA_7128 = kchaos.Entry(
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
        (_CASE, "2.0.0"): kchaos.Expectation(
            safe=False,
            findings=(("committed-loss", (B, C), 1, 1), ("replication-stopped", (A,), -1, -1)),
            witness=(_HELD, {"log": {"broker": A, "pattern": _EXITS}}),
        ),
        (_CASE, "2.0.1"): kchaos.Expectation(safe=True, witness=(_HELD,)),
    },
)
