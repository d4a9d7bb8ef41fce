"""KAFKA-6361, which is KIP-279's scenario 1: divergence after a fast leader change."""

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster

A, B, CONTROLLER = 0, 1, 2
_LAST_OFFSET = {"n15": 15, "n20": 20, "n25": 25, "one-record": 25}


def _steps(case: str) -> tuple[k.Step, ...]:
    last = _LAST_OFFSET[case]
    return (
        k.CreateTopic(topic="t", assignment=((A, B),)),
        k.ReorderReplicas(topic="t", partition=0, replicas=(B, A)),
        k.Tell(text="A leads, B is the preferred leader; offsets 0-10 go to both"),
        k.Produce(operation="both", topic="t", partition=0, records=11, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=11),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=11),
        k.Tell(text="A and B are cut off from each other; 11-20 reach A alone"),
        k.Inject(name="A-B", fault=k.CutLink(source=A, target=B)),
        k.Produce(operation="a-only", topic="t", partition=0, records=10, acks=1),
        k.Tell(text="preferred election: B leads, and A cannot ask it where to truncate"),
        k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0)),
        k.AwaitState(topic="t", partition=0, leader=B, isr=(A, B)),
        k.AwaitFollowing(topic="t", partition=0, follower=A, leader=B),
        k.Tell(text=f"11-{last} reach B alone, in a later leader epoch"),
        k.Produce(
            operation="b-only",
            topic="t",
            partition=0,
            records=last - 10,
            acks=1,
            one_record_batches=case == "one-record",
        ),
        k.Tell(text="B's ZooKeeper session ends; A leads again, and B does not know"),
        k.Inject(name="B-ZooKeeper", fault=k.CutZooKeeper(broker=B, style="dropped")),
        k.Inject(name="B-session", fault=k.ExpireSession(broker=B, await_return=False)),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        k.Tell(text="21-30 reach A; then everything is healed, and B follows A"),
        k.Produce(operation="a-again", topic="t", partition=0, records=10, acks=1),
    )


_RED = {
    "n15": ("replication-stopped", (B,), -1, -1),
    "n20": ("divergence", (A, B), 11, 20),
    "n25": ("hole", (B,), 11, 20),
    "one-record": ("divergence", (A, B), 11, 20),
}
# The leader answers B's question for an epoch that it does not know with the end of another one.
_WRONG_ANSWER = {"round": {"follower": B, "leader": A, "end_offset": 21}}

KAFKA_6361 = k.Entry(
    name="KAFKA-6361",
    title="Logs diverge after a preferred election and a fast second leader change",
    story=(
        "A leads in one epoch, B in the next, A again in the one after. Each wrote records at "
        "offset 11 and above that the other never saw. When B becomes A's follower it asks where "
        "its own epoch ends. A never knew that epoch and answers with the start of the next one "
        "that it knows, 21. With n<20 B has less than that, truncates nothing, and its fetcher "
        "fails on the batch that comes: replication stops. With n=20 it has exactly that, and two "
        "in-sync replicas hold different records. With n>20 it truncates to 21, inside its batch "
        "11..n: the batch goes, the log end offset stays 21, and B is in sync with a hole. KIP-279 "
        "calls this case fine, because it expects the follower to fetch from 11; the shipped code "
        "fetches from 21. In one-record batches the cut falls on a batch edge, and 11-20 diverge."
    ),
    source="KIP-279, scenario 1; KAFKA-6361 (fixed in 2.0.0); offsets measured on real brokers",
    cases={
        "n15": "B wrote 11-15; before 2.0 its fetcher fails",
        "n20": "B wrote 11-20; before 2.0 a silent divergence",
        "n25": "B wrote 11-25 in one batch; before 2.0 a hole",
        "one-record": "B wrote 11-25 in one-record batches; before 2.0 a silent divergence",
    },
    cluster=quick_cluster(A, B, controller=CONTROLLER),
    steps=_steps,
    expectations={
        (case, release): k.Expectation(safe=False, findings=(finding,), witness=(_WRONG_ANSWER,))
        for case, finding in _RED.items()
        for release in ("0.11.0.3", "1.1.1")
    }
    | {
        (case, release): k.Expectation(
            safe=True,
            witness=({"log": {"broker": B, "pattern": r"[Tt]runcat\w+ .*to( offset)? 11\b"}},),
        )
        for case in _RED
        for release in ("2.0.1", "2.8.2", "3.9.1")
    },
    default_releases=("1.1.1", "2.0.1"),
)
