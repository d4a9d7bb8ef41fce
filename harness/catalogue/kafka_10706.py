"""KAFKA-10706: a follower never gets rid of an epoch that begins at its log's end."""

from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster

A, B, C, CONTROLLER = 0, 1, 2, 3
_T0: dict[str, Any] = {"topic": "t", "partition": 0}


def _elected(leader: int, replicas: tuple[int, ...]) -> tuple[k.Step, ...]:
    return (
        k.ReorderReplicas(replicas=replicas, **_T0),
        k.Inject(name=f"elect-{leader}", fault=k.PreferredElection(**_T0)),
        k.AwaitState(leader=leader, **_T0),
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((C, A, B),)),
        k.Produce(operation="all", records=1, acks=-1, **_T0),
        k.AwaitHighWatermark(brokers=(A, B, C), high_watermark=1, **_T0),
        k.Tell(text="B leads in the next epoch; A is cut off, and B and C alone get record 1"),
        *_elected(B, (B, A, C)),
        k.AwaitFollowing(follower=A, leader=B, **_T0),
        k.AwaitFollowing(follower=C, leader=B, **_T0),
        k.Inject(name="A-B", fault=k.CutLink(source=A, target=B)),
        k.Inject(name="A-C", fault=k.CutLink(source=A, target=C)),
        k.Produce(operation="b-and-c", records=1, acks=1, **_T0),
        k.AwaitReplicated(brokers=(B, C), log_end_offset=2, **_T0),
        k.Tell(text="A leads, notes its epoch at 1, and gets nothing; then C leads"),
        *_elected(A, (A, B, C)),
        k.AwaitFollowing(follower=C, leader=A, **_T0),
        *_elected(C, (C, A, B)),
        k.AwaitFollowing(follower=A, leader=C, **_T0),
        k.Heal(name="A-B"),
        k.Heal(name="A-C"),
    )


_CASE = "preferred"
_ASKED = {"round": {"follower": A, "leader": C, "end_offset": 2}}

KAFKA_10706 = k.Entry(
    name="KAFKA-10706",
    title="A follower asks for ever where an epoch ends in which it led and wrote nothing",
    story=(
        "A is cut off from B and C and misses record 1, the first of B's epoch. It is elected, "
        "notes its own epoch at its log's end, and gets nothing; then C is elected, who has never "
        "fetched from A. A asks where its epoch ends, and C answers with B's, which A does not "
        "have. A goes back to its epoch before, which ends at A's log end: nothing is to be cut, "
        "and up to 2.6.0 the noted epoch stays then. A asks again, for ever, and never fetches. "
        "2.6.1 drops what begins at the log's end."
    ),
    source=(
        "KAFKA-10706 (fixed in 2.6.1 and 2.7.0); by `kchaos explore --kafka 2.6.0 --property "
        "truncation-ends`"
    ),
    cases={_CASE: "two preferred elections"},
    cluster=quick_cluster(A, B, C, controller=CONTROLLER),
    steps=_steps,
    expectations={
        (_CASE, "2.6.0"): k.Expectation(
            safe=False, findings=(("replication-stopped", (C,), -1, -1),), witness=(_ASKED,)
        ),
        (_CASE, "2.6.1"): k.Expectation(safe=True, witness=(_ASKED,)),
    },
)
