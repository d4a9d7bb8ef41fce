"""KAFKA-7415: a leader of which no record is left is unknown to its successor, and logs diverge."""

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster

A, B, CONTROLLER = 0, 1, 2
_CASE = "no-common-epoch"


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((A, B),)),
        k.ReorderReplicas(topic="t", partition=0, replicas=(B, A)),
        k.Tell(text="A leads and writes 0, which B does not get; B is elected all the same"),
        k.Inject(name="A-B", fault=k.CutLink(source=A, target=B)),
        k.Produce(operation="a-first", topic="t", partition=0, records=1, acks=1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A,), log_end_offset=1),
        k.Inject(name="elect-B", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitState(topic="t", partition=0, leader=B, isr=(A, B)),
        k.Tell(text="B loses its session and does not know; A leads again and writes 1"),
        k.Inject(name="B-zookeeper", fault=k.CutZooKeeper(broker=B)),
        k.Inject(name="B-session", fault=k.ExpireSession(broker=B, await_return=False)),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A,), high_watermark=1),
        k.Produce(operation="a-again", topic="t", partition=0, records=1, acks=-1),
        k.Tell(text="B writes another 0; then everything is healed, and B follows A"),
        k.Produce(operation="b", topic="t", partition=0, records=1, acks=1, broker=B),
        k.AwaitReplicated(topic="t", partition=0, brokers=(B,), log_end_offset=1),
        k.Heal(name="B-session"),
        k.Heal(name="B-zookeeper"),
        k.Heal(name="A-B"),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A, B)),
    )


_ANSWERED = {"round": {"follower": B, "leader": A, "end_offset": 1}}

KAFKA_7415 = k.Entry(
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
        (_CASE, "2.0.0"): k.Expectation(
            safe=False, findings=(("divergence", (A, B), 0, 0),), witness=(_ANSWERED,)
        ),
        (_CASE, "2.0.1"): k.Expectation(
            safe=True,
            witness=(
                _ANSWERED,
                {"log": {"broker": B, "pattern": r"[Tt]runcat\w+ .*to( offset)? 0\b"}},
            ),
        ),
    },
)
