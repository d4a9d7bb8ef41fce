"""KIP-405, scenario 2: a follower that is out of sync comes back when its leader has moved on."""

import kchaos as k
from kchaos.harness.catalogue import kip_405

P, B, A, CONTROLLER = 0, 1, 2, 3
"""The first leader, the page's follower and its leader."""
_CASE = "out-of-sync-follower"


def _cluster(kafka: str) -> k.ClusterSpec:
    # Who is cut off leaves the ISR by this alone.
    drops = {"replica.lag.time.max.ms": "3000"}
    return kip_405.tiered_cluster(kafka, (P, B, A, CONTROLLER), CONTROLLER, drops)


def _steps(case: str) -> tuple[k.Step, ...]:
    assert case == _CASE
    return (
        kip_405.created((P, A, B), segment_messages=3, local_messages=100),
        *kip_405.messages(0, 1, 2),
        k.Inject(name="epoch 1", fault=k.StopBroker(broker=P)),
        kip_405.elected(A, (A, B)),
        kip_405.message(3),
        *kip_405.settled(A, (A, B), 4),
        k.Tell(text="broker B falls out of sync at offset 4; the others go on to message 9"),
        k.Inject(name="B is cut off from A", fault=k.CutLink(source=A, target=B)),
        k.Inject(name="B is cut off from P", fault=k.CutLink(source=P, target=B)),
        kip_405.message(4, acks=1),
        kip_405.elected(A, (A,)),
        k.Heal(name="epoch 1"),
        *kip_405.settled(A, (A, P), 5),
        k.Inject(name="epoch 2", fault=kip_405.PREFERRED),
        *kip_405.messages(5, 6),
        *kip_405.settled(P, (A, P), 7),
        kip_405.shipped((0, 2, 0), (3, 5, None)),
        k.Inject(name="epoch 3", fault=k.StopBroker(broker=P)),
        kip_405.elected(A, (A,)),
        *kip_405.messages(7, 8, 9),
        k.Heal(name="epoch 3"),
        *kip_405.settled(A, (A, P), 10),
        kip_405.shipped((0, 2, 0), (3, 5, None), (6, 8, None)),
        k.TakeSnapshot(label="step-1"),
        *_expired(),
    )


def _expired() -> tuple[k.Step, ...]:
    """Return the steps from the end of local segments on."""
    return (
        k.Tell(text="local segments expire: A has nothing below offset 9, and B nothing below 3"),
        kip_405.configured("local retention", "local.retention.bytes", 1),
        *kip_405.messages(10, 11),
        kip_405.begins(A, 9),
        kip_405.begins(B, 3),
        *kip_405.read_all("before", A),
        k.TakeSnapshot(label="step-2"),
        k.Tell(text="broker B comes back, and asks for offset 4"),
        k.Heal(name="B is cut off from P"),
        k.Heal(name="B is cut off from A"),
        *kip_405.settled(A, (A, B, P), 12),
        kip_405.begins(B, 9),
        k.TakeSnapshot(label="step-3"),
        k.Tell(text="beyond the page: nothing expires any more, and B leads and is asked for all"),
        kip_405.NOTHING_EXPIRES,
        k.ReorderReplicas(topic=kip_405.TOPIC, partition=kip_405.PARTITION, replicas=(B, A, P)),
        k.Inject(name="B leads", fault=kip_405.PREFERRED),
        kip_405.elected(B, (A, B, P)),
        *kip_405.read_all("B-leads", B),
    )


_WITNESS = (
    kip_405.sent_to_the_tier(B, A),
    {"log": {"broker": B, "pattern": r"Updated the epoch cache from remote tier till offset: 9 "}},
    kip_405.epochs("step-3", B, 0, 3, 5, 7),
)

KIP_405_2 = k.Entry(
    name="KIP-405-2",
    title="A follower that is out of sync lets go of its log and builds on the remote tier",
    story=(
        "B has everything up to offset 3 when it falls out of sync; meanwhile its leader ships "
        "three segments and deletes them locally. B asks for offset 4 and is sent to the remote "
        "tier. It truncates all that it has, takes the epochs from the newest segment, and goes on "
        "from offset 9. On 3.6 it still believes that its local log begins at 3 (KAFKA-15695), so "
        "that nobody gets offsets 3 to 8 from it once it leads."
    ),
    source="KIP-405, follower replication, scenario 2; KAFKA-15695",
    cases={_CASE: "the leader's local segments are gone when the follower comes back"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "3.6.2"): k.Expectation(
            safe=False,
            findings=(("tier-unreadable", (B,), 3, 8),),
            witness=(*_WITNESS, *kip_405.as_printed(2, "3.6.2")),
        ),
        (_CASE, "3.9.1"): k.Expectation(
            safe=True, witness=(*_WITNESS, *kip_405.as_printed(2, "3.9.1"))
        ),
    },
)
