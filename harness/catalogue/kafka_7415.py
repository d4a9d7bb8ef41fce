"""KAFKA-7415: a leader of which no record is left is unknown to its successor, and logs diverge."""

import kchaos
from kchaos.harness.catalogue.settings import quick_cluster

A, B, CONTROLLER = 0, 1, 2
_CASE = "no-common-epoch"


def _steps(case: str) -> tuple[kchaos.Step, ...]:
    return (
        kchaos.CreateTopic(topic="t", assignment=((A, B),)),
        kchaos.ReorderReplicas(topic="t", partition=0, replicas=(B, A)),
        kchaos.Tell(text="A leads and writes 0, which B does not get; B is elected all the same"),
        kchaos.Inject(name="A-B", fault=kchaos.CutLink(source=A, target=B)),
        kchaos.Produce(operation="a-first", topic="t", partition=0, records=1, acks=1),
        kchaos.AwaitReplicated(topic="t", partition=0, brokers=(A,), log_end_offset=1),
        kchaos.Inject(name="elect-B", fault=kchaos.PreferredElection(topic="t", partition=0)),
        kchaos.AwaitState(topic="t", partition=0, leader=B, isr=(A, B)),
        kchaos.Tell(text="B loses its session and does not know; A leads again and writes 1"),
        kchaos.Inject(name="B-zookeeper", fault=kchaos.CutZooKeeper(broker=B)),
        kchaos.Inject(name="B-session", fault=kchaos.ExpireSession(broker=B, await_return=False)),
        kchaos.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(A,), high_watermark=1),
        kchaos.Produce(operation="a-again", topic="t", partition=0, records=1, acks=-1),
        kchaos.Tell(text="B writes another 0; then everything is healed, and B follows A"),
        kchaos.Produce(operation="b", topic="t", partition=0, records=1, acks=1, broker=B),
        kchaos.AwaitReplicated(topic="t", partition=0, brokers=(B,), log_end_offset=1),
        kchaos.Heal(name="B-session"),
        kchaos.Heal(name="B-zookeeper"),
        kchaos.Heal(name="A-B"),
        kchaos.AwaitState(topic="t", partition=0, leader=A, isr=(A, B)),
    )


_ANSWERED = {"round": {"follower": B, "leader": A, "end_offset": 1}}

KAFKA_7415 = kchaos.Entry(
    name="KAFKA-7415",
    title="Two leaders without an epoch in common diverge in spite of KIP-279",
    story=(
        "A's record 0 is A's alone when B is elected by preference. B's record 0 is B's alone when "
        "A leads again and commits its own. B, as follower, asks where its epoch ends. A does not "
        "know that epoch and, as KIP-279 says, names the largest one below it and where that "
        "ended, at 1. B has never heard of that one either, and none of its own is older. 2.0.0 "
        "makes nothing of it, and truncates to 1: B's record 0 stays, in sync. 2.0.1 takes an "
        "epoch below the first that it knows to end where that one begins, so B truncates to 0; "
        "and a leader notes its epoch when it is elected, not with its first record."
    ),
    source=(
        "KAFKA-7415 (fixed in 2.0.1); the shortest schedule that `kchaos explore --kafka 2.0.1 "
        "--without KAFKA-7415 --property agreement` finds"
    ),
    cases={_CASE: "six acts: a cut, two writes, an election, a session's end, a zombie's write"},
    cluster=quick_cluster(A, B, controller=CONTROLLER),
    steps=_steps,
    expectations={
        (_CASE, "2.0.0"): kchaos.Expectation(
            safe=False, findings=(("divergence", (A, B), 0, 0),), witness=(_ANSWERED,)
        ),
        (_CASE, "2.0.1"): kchaos.Expectation(
            safe=True,
            witness=(
                _ANSWERED,
                {"log": {"broker": B, "pattern": r"[Tt]runcat\w+ .*to( offset)? 0\b"}},
            ),
        ),
    },
)
