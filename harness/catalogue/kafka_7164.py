"""KAFKA-7164: a follower that missed epochs does not truncate, since its leader is the same."""

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster

A, B, F, CONTROLLER = 0, 1, 2, 3
_FETCHES, _CUT_OFF = "fetches-on", "cut-off"


def _without_session(broker: int) -> tuple[k.Step, ...]:
    return (
        k.Inject(name=f"{broker}-zookeeper", fault=k.CutZooKeeper(broker=broker)),
        k.Inject(
            name=f"{broker}-session", fault=k.ExpireSession(broker=broker, await_return=False)
        ),
        k.AwaitQuiet(level=False),
    )


def _back(broker: int) -> tuple[k.Step, ...]:
    return (
        k.Heal(name=f"{broker}-session"),
        k.Heal(name=f"{broker}-zookeeper"),
        k.AwaitQuiet(level=False),
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    cut = (k.Inject(name="A-F", fault=k.CutLink(source=A, target=F)),) if case == _CUT_OFF else ()
    joined = (
        ()
        if case == _CUT_OFF
        else (
            k.AwaitState(topic="t", partition=0, leader=A, isr=(A, F)),
            k.AwaitHighWatermark(topic="t", partition=0, brokers=(F,), high_watermark=1),
            k.TakeSnapshot(label="before-healing"),
        )
    )
    return (
        k.CreateTopic(topic="t", assignment=((A, B, F),)),
        k.Tell(text="F hears of nothing any more, and goes on to fetch from A"),
        *_without_session(F),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A, B, F)),
        k.Tell(text="A does not hear that B is elected; it writes 0, and F has that too"),
        *_without_session(A),
        k.AwaitState(topic="t", partition=0, leader=B, isr=(B,)),
        k.Produce(operation="zombie", topic="t", partition=0, records=1, acks=1, broker=A),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, F), log_end_offset=1),
        *cut,
        k.Tell(text="A comes back, truncates, and has B's 0"),
        *_back(A),
        k.AwaitState(topic="t", partition=0, leader=B, isr=(A, B)),
        k.Produce(operation="kept", topic="t", partition=0, records=1, acks=1, broker=B),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=1),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=1),
        k.Tell(text="A is elected again: F hears of that, and of nothing between"),
        *_without_session(B),
        k.AwaitState(topic="t", partition=0, leader=A),
        *joined,
        *_back(B),
        *_back(F),
        *((k.Heal(name="A-F"),) if case == _CUT_OFF else ()),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A, B, F)),
    )


_DIVERGED = (("divergence", (A, F), 0, 0),)
# ReplicaManager.makeFollowers 2.0.0: what F did with the news that A leads again.
_SKIPPED = {
    "log": {
        "broker": F,
        "pattern": "Skipped the become-follower state change .* partition t-0 .*"
        f"since the new leader {A} is the same as the old leader",
    }
}

KAFKA_7164 = k.Entry(
    name="KAFKA-7164",
    title="A follower that missed a change of leader and back keeps what its leader has truncated",
    story=(
        "F and A lose their sessions, and B is elected. A does not know and writes record 0, which "
        "F fetches. A comes back, truncates it, and gets B's record 0; then A is elected again. F "
        "has heard of none of this: it gets a new epoch with the leader that it knows. Up to 2.0.0 "
        "a broker does nothing then, so F keeps the record that A has truncated, and is in sync. "
        "From 2.0.1 on it becomes a follower anew unless no epoch lies between, and asks where its "
        "own ended. That helps only once F hears of it. Until then it goes on fetching, and "
        "nobody refuses that (KIP-320 does, later). So it is in sync, with a high watermark, "
        "before it truncates."
    ),
    source=(
        "KAFKA-7164 (fixed in 2.0.1); the shortest schedule of faults that the search of `kchaos "
        "explore --kafka 2.0.1 --without KAFKA-7164 --replicas 3 --property agreement` finds"
    ),
    cases={
        _FETCHES: "the explorer's six acts: F fetches on, and is in sync before its LeaderAndIsr",
        _CUT_OFF: "F and A are cut off from each other until F gets its LeaderAndIsr",
    },
    cluster=quick_cluster(A, B, F, controller=CONTROLLER),
    steps=_steps,
    expectations={
        (_FETCHES, "2.0.0"): k.Expectation(safe=False, findings=_DIVERGED, witness=(_SKIPPED,)),
        (_FETCHES, "2.0.1"): k.Expectation(
            safe=False,
            findings=(("truncated-below-high-watermark", (F,), 0, 0),),
            witness=({"round": {"follower": F, "leader": A, "end_offset": 0}},),
        ),
        (_CUT_OFF, "2.0.0"): k.Expectation(safe=False, findings=_DIVERGED, witness=(_SKIPPED,)),
        (_CUT_OFF, "2.0.1"): k.Expectation(
            safe=True, witness=({"round": {"follower": F, "leader": A, "end_offset": 0}},)
        ),
    },
)
