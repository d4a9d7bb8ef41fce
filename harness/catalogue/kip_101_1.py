"""KIP-101, scenario 1: an acknowledged record is lost by truncation to the high watermark."""

import kchaos as k
from kchaos.harness.catalogue.words import held_from

X, B, A, CONTROLLER = 0, 1, 2, 3
# X and B die before they have checkpointed anything, so that they follow A from the start of the
# log when they return, and what was lost stays lost.
_NEVER = {"replica.high.watermark.checkpoint.interval.ms": "600000"}


def _cluster(kafka: str) -> k.ClusterSpec:
    return k.ClusterSpec(
        brokers=(
            k.BrokerSpec(id=X, kafka=kafka, properties=_NEVER),
            k.BrokerSpec(id=B, kafka=kafka, properties=_NEVER),
            k.BrokerSpec(id=A, kafka=kafka),
            k.BrokerSpec(id=CONTROLLER, kafka=kafka),
        ),
        first_broker=CONTROLLER,
        properties={**k.QUICK, "min.insync.replicas": "1"},
    )


def _hold(follower: int) -> k.Inject:
    """Hold responses to the follower's fetches, from which it would learn X's high watermark."""
    name = f"hold-{follower}"
    return held_from(name, follower, X, 2, direction="response")


_ACKED, _SEEN = "clean-elections", "read"
_READ = (
    k.Tell(text="X gives m2 to a consumer"),
    k.Read(operation="read-m2", topic="t", partition=0, offset=1, records=1, broker=X),
)


def _steps(case: str) -> tuple[k.Step, ...]:
    acks = -1 if case == _ACKED else 1
    return (
        k.CreateTopic(topic="t", assignment=((X, B, A),)),
        k.Tell(text="X leads, B and A follow; m1 is committed everywhere"),
        k.Produce(operation="m1", topic="t", partition=0, records=1, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(X, B, A), log_end_offset=1),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A,), high_watermark=1),
        k.Tell(text="m2 reaches all three, and X knows; B and A do not hear of it"),
        _hold(B),
        _hold(A),
        k.Produce(operation="m2", topic="t", partition=0, records=1, acks=acks),
        k.AwaitReplicated(topic="t", partition=0, brokers=(X, B, A), log_end_offset=2),
        k.AwaitHeld(name=f"hold-{B}"),
        k.AwaitHeld(name=f"hold-{A}"),
        *(_READ if case == _SEEN else ()),
        k.Tell(text="X dies, B is elected; A becomes its follower and cannot reach it"),
        k.Inject(name="A-B", fault=k.CutLink(source=A, target=B)),
        k.Inject(name="X-down", fault=k.KillBroker(broker=X)),
        k.AwaitState(topic="t", partition=0, leader=B, isr=(B, A)),
        k.AwaitFollowing(topic="t", partition=0, follower=A, leader=B),
        k.AwaitCutOff(source=A, target=B),
        k.Tell(text="B dies too; A is in the ISR and is elected: does it still have m2?"),
        k.Inject(name="B-down", fault=k.KillBroker(broker=B)),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        k.Produce(operation="m3", topic="t", partition=0, records=1, acks=-1),
    )


_HELD = {"link": {"api": "Fetch", "direction": "response", "fate": "held", "source": A}}

KIP_101_1 = k.Entry(
    name="KIP-101-1",
    title="An acknowledged record is lost when a follower truncates to its high watermark",
    story=(
        "m2 is on all three replicas and acknowledged with acks=all, but the followers learn the "
        "new high watermark only with their next fetch. Before that the leader X dies. B is "
        "elected, A becomes its follower and, up to 0.10.2, truncates to its own high watermark: "
        "m2 goes. Before A can fetch it again B dies as well, and A, in the ISR, is elected "
        "cleanly without m2. From 0.11 on A asks B where its leader epoch ends before it "
        "truncates anything, keeps m2 while nobody answers, and leads with it. From 2.0 on this "
        "is KIP-279's scenario 2: still no truncation. KIP-101 tells it with two replicas and a "
        "restart of A; a restarted broker is out of the ISR, so here A becomes a follower by an "
        "election instead. The loss is the same when X alone has acknowledged m2 (acks=1) and a "
        "consumer has read it: it was below X's high watermark, and no consumer will see it again."
    ),
    source="KIP-101, scenario 1; KAFKA-1211 (fixed in 0.11.0)",
    cases={
        _ACKED: "two leaders die in a row, all elections are clean",
        _SEEN: "m2 has acks=1, and a consumer has read it",
    },
    cluster=_cluster,
    steps=_steps,
    expectations={
        (case, "0.10.2.2"): k.Expectation(
            safe=False,
            findings=(("committed-loss", (X, B, A), 1, 1),),
            witness=(_HELD, {"log": {"broker": A, "pattern": r"Truncating log t-0 to offset 1\b"}}),
        )
        for case in (_ACKED, _SEEN)
    }
    | {
        (case, release): k.Expectation(
            safe=True,
            # A wants to ask B, and is cut off: it has not truncated before it asked.
            witness=(_HELD, {"link": {"api": api, "source": A, "target": B, "fate": "cut"}}),
        )
        for release, api in (
            ("0.11.0.3", "OffsetForLeaderEpoch"),
            ("2.0.1", "OffsetForLeaderEpoch"),
            ("2.8.2", "Fetch"),
        )
        for case in (_ACKED, _SEEN)
    },
)
