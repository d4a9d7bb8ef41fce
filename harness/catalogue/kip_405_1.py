"""KIP-405, scenario 1: a new, empty follower builds what it lacks from the remote tier."""

import kchaos as k
from kchaos.harness.catalogue import kip_405

_CASE = "new-empty-follower"
P, A, B = 0, 1, 2
"""The first leader, the page's leader, and its new follower, which is the controller."""


def _cluster(kafka: str) -> k.ClusterSpec:
    return kip_405.tiered_cluster(kafka, (P, A, B), controller=B)


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        kip_405.created((P, A), segment_messages=3, local_messages=5),
        k.Tell(text="messages 0 to 7 in the leader epochs of the page, three to a segment"),
        *kip_405.messages(0, 1, 2),
        k.Inject(name="epoch 1", fault=k.StopBroker(broker=P)),
        kip_405.elected(A, (A,)),
        *kip_405.messages(3, 4),
        k.Heal(name="epoch 1"),
        *kip_405.settled(A, (A, P), 5),
        k.Inject(name="epoch 2", fault=kip_405.PREFERRED),
        *kip_405.messages(5, 6),
        *kip_405.settled(P, (A, P), 7),
        kip_405.shipped((0, 2, 0), (3, 5, None)),
        k.Inject(name="epoch 3", fault=k.StopBroker(broker=P)),
        kip_405.elected(A, (A,)),
        kip_405.message(7),
        k.Heal(name="epoch 3"),
        *kip_405.settled(A, (A, P), 8),
        k.Tell(text="what broker A has of offsets 0 to 2 is in the remote tier only"),
        kip_405.begins(A, 3),
        k.AwaitOffsets(
            topic=kip_405.TOPIC,
            partition=kip_405.PARTITION,
            broker=A,
            earliest=0,
            earliest_local=3,
            latest_tiered=5,
        ),
        *kip_405.read_all("before", A),
        k.TakeSnapshot(label="step-1"),
        k.Tell(text="broker B becomes a replica; it has no data and asks for offset 0"),
        k.Reassign(topic=kip_405.TOPIC, partition=kip_405.PARTITION, replicas=(B, A, P)),
        *kip_405.settled(A, (B, A, P), 8),
        kip_405.begins(B, 3),
        k.TakeSnapshot(label="step-2"),
        *kip_405.read_all("old-leader", A),
        k.Tell(text="broker B leads, and is asked for everything"),
        k.Inject(name="B leads", fault=kip_405.PREFERRED),
        kip_405.elected(B),
        k.AwaitOffsets(topic=kip_405.TOPIC, partition=kip_405.PARTITION, broker=B, earliest=0),
        *kip_405.read_all("new-leader", B),
    )


_MOVED = kip_405.sent_to_the_tier(B, A)
_REBUILT = kip_405.epochs("step-2", B, 0, 3, 5, 7)
_BUILT = {
    "log": {"broker": B, "pattern": r"Updated the epoch cache from remote tier till offset: 3 "}
}

KIP_405_1 = k.Entry(
    name="KIP-405-1",
    title="A new follower builds the epochs that it lacks from the remote tier",
    story=(
        "A broker without any data becomes a replica of a tiered log. It asks for offset 0, which "
        "its leader has no more; the leader says so (OFFSET_MOVED_TO_TIERED_STORAGE). The follower "
        "asks where the leader's local log begins. It builds its leader epochs from the segment in "
        "the remote tier that ends right before that, and fetches from there on. On 3.6 it does "
        "not set where its own local log begins. Once it leads, it answers a reader of what is in "
        "the remote tier with OFFSET_OUT_OF_RANGE (KAFKA-15695, fixed in 3.7.0)."
    ),
    source="KIP-405, follower replication, scenario 1; KAFKA-15695",
    cases={_CASE: "a broker without data becomes a replica, and leads later"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "3.6.2"): k.Expectation(
            safe=False,
            findings=(("tier-unreadable", (B,), 0, 2),),
            witness=(_MOVED, _BUILT, _REBUILT, *kip_405.as_printed(1, "3.6.2")),
        ),
        (_CASE, "3.9.1"): k.Expectation(
            safe=True, witness=(_MOVED, _BUILT, _REBUILT, *kip_405.as_printed(1, "3.9.1"))
        ),
    },
)
