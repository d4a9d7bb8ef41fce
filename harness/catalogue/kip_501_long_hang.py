"""KIP-501's other side: one long hang inside a log read keeps the ISR and stops the producers."""

import kchaos as k
from kchaos.checkers.formats.point_hit import ISR_CHECK
from kchaos.harness.catalogue.kip_501 import ALL, LEADER, begun, cluster_of, write

_HANG = "inside-the-log-read"


def _cluster(kafka: str) -> k.ClusterSpec:
    """Return the cluster; on 2.0.1 one of two waiting fetches must outlast the write."""
    return cluster_of(kafka, replica_fetch_wait_max_ms="2000")


def _unanswered(operation: str, acks: int) -> k.Produce:
    """Return a write with twice the time that a follower may lag."""
    return write(operation, acks=acks, accept_error=True, timeout_s=6)


def _steps(case: str) -> tuple[k.Step, ...]:
    assert case == _HANG
    return (
        *begun(),
        k.Tell(text="a read for a follower hangs inside the log"),
        k.Inject(
            name="hang", fault=k.SlowFetchReads(broker=LEADER, where="log", topic="t", partition=0)
        ),
        k.AwaitHeld(name="hang"),
        k.Tell(text="a write with acks=all waits for the followers until its time is up"),
        _unanswered("waits", -1),
        k.Tell(text="now a write that waits for no follower is not answered either"),
        _unanswered("blocked", 1),
        k.AwaitDecision(topic="t", partition=0, leader=LEADER, isr=ALL),
        k.AwaitHeld(name="hang"),
        k.Heal(name="hang"),
        # The leader was about to shrink all the time: now it may, and the followers are back soon.
        k.AwaitPoint(broker=LEADER, point=ISR_CHECK, times=3),
        k.AwaitInSync(),
    )


KIP_501_LONG_HANG = k.Entry(
    name="KIP-501-long-hang",
    title="A read that hangs inside the log keeps the ISR whole and stops the producers",
    story=(
        "A follower's read hangs inside the leader's log. From 2.1 on it holds the partition's "
        "leaderIsrUpdateLock for reading meanwhile (Partition.readRecords). After "
        "replica.lag.time.max.ms the leader wants to shrink the ISR and waits for that lock to "
        "write; behind it waits every append, which takes it to read. So the ISR stays whole, and "
        "producers get no answer, those with acks=1 neither. On 2.0.1 the outcome is the same for "
        "another reason: the read is not under the lock by itself. But the thread of a write "
        "finishes the fetches that wait for it while it holds the lock, and hangs in their reads. "
        "When the read goes on the leader looks at last, and the ISR may shrink for some hundred "
        "milliseconds. KIP-501 speaks of slow reads as one thing: one long hang hurts producers "
        "before it hurts the ISR."
    ),
    source="measured on real brokers; kafka.cluster.Partition.readRecords, maybeShrinkIsr",
    cases={_HANG: "one read of a follower hangs for four times what a follower may lag"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_HANG, release): k.Expectation(
            safe=True,
            witness=(
                {"hit": {"point": "log-read", "broker": LEADER, "fate": "held"}},
                {"operation": {"operation": "blocked", "acks": 1, "outcome": "info"}},
            ),
        )
        for release in ("2.0.1", "2.8.2", "3.9.1", "4.1.2")
    },
)
