"""KAFKA-7897: after a downgrade of the format a follower truncates far below its high watermark."""

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster
from kchaos.harness.catalogue.words import at_link

A, B, CONTROLLER = 0, 1, 2
OLD = "0.10.2"
_RESTART, _ELECTION = "follower-restarts", "leader-dies"


def _hold(follower: int, leader: int) -> k.Inject:
    """Hold back the truncated records, so that the follower cannot fetch them again."""
    fault = k.HoldRequests(
        name="fetch", api="Fetch", source=follower, target=leader, topic="t", partition=0
    )
    return k.Inject(name="fetch", fault=fault)


_RESTARTED: tuple[k.Step, ...] = (
    k.Tell(text="A restarts and asks B where its last epoch ended; its Fetch is held then"),
    k.Inject(name="A-away", fault=k.StopBroker(broker=A)),
    k.AwaitState(topic="t", partition=0, leader=B, isr=(B,)),
    _hold(A, B),
    k.Heal(name="A-away"),
    k.AwaitHeld(name="fetch"),
)
_ELECTED: tuple[k.Step, ...] = (
    k.Tell(text="A is elected; B, still in the ISR, asks it where its last epoch ended"),
    _hold(B, A),
    k.Inject(name="elect", fault=k.PreferredElection(topic="t", partition=0)),
    k.AwaitState(topic="t", partition=0, leader=A),
    k.AwaitFollowing(topic="t", partition=0, follower=B, leader=A),
    k.AwaitHeld(name="fetch"),
    k.Tell(text="A dies before B has fetched anything; B, in the ISR, is elected"),
    k.Inject(name="A-down", fault=k.KillBroker(broker=A)),
    k.AwaitState(topic="t", partition=0, leader=B, isr=(B,)),
    k.Produce(operation="later", topic="t", partition=0, records=25, acks=-1),
)


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((A, B),)),
        k.Tell(text="0-4 are written in the new format"),
        k.Produce(operation="new", topic="t", partition=0, records=5, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=5),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=5),
        k.Tell(
            text="both brokers are restarted with an older format, B leads, and 5-24 are written"
        ),
        k.Inject(name="B-format", fault=k.FormatDowngrade(broker=B, message_format=OLD)),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A, B)),
        k.Inject(name="A-format", fault=k.FormatDowngrade(broker=A, message_format=OLD)),
        k.AwaitState(topic="t", partition=0, leader=B, isr=(B, A)),
        k.Produce(operation="old", topic="t", partition=0, records=20, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=25),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=25),
        k.TakeSnapshot(label="downgraded"),
        *(_RESTARTED if case == _RESTART else _ELECTED),
    )


def _round(follower: int, leader: int, end_offset: int) -> dict[str, dict[str, int]]:
    return {"round": {"follower": follower, "leader": leader, "end_offset": end_offset}}


def _cut(broker: int) -> dict[str, dict[str, object]]:
    return {"log": {"broker": broker, "pattern": r"[Tt]runcat\w+ .*to( offset)? 5\b"}}


def _no_epochs(broker: int) -> dict[str, dict[str, object]]:
    return {
        "epochs": {"snapshot": "downgraded", "broker": broker, "partition": "t-0", "starts": []}
    }


def _fetches_from_its_end(follower: int, leader: int) -> dict[str, dict[str, object]]:
    return at_link(
        "Fetch",
        "request",
        follower,
        leader,
        fate="held",
        partition={"topic": "t", "partition": 0, "fetch_offset": 25},
    )


KAFKA_7897 = k.Entry(
    name="KAFKA-7897",
    title="A follower in an old format truncates far below its high watermark",
    story=(
        "Records in an old format carry no epoch, but on 2.0.1 and 2.1.0 every election notes one. "
        "After a downgrade the caches of A and B say different things about 5-24, which both have "
        "and which are committed: whoever becomes a follower gets the answer that its last common "
        "epoch ended at 5, and cuts everything after that. When it can fetch at once, the logs are "
        "equal again and nobody notices. When the leader dies first, the follower is elected "
        "cleanly with five records, and 20 acknowledged ones are gone. From 2.1.1 on a log in an "
        "old format has no epochs: the follower truncates to its high watermark, 25, which removes "
        "nothing."
    ),
    source="KAFKA-7897 (fixed in 2.1.1); measured on real brokers",
    cases={
        _RESTART: "a follower restarts; it fetches later what it cut",
        _ELECTION: "the leader dies before its new follower has fetched again what it cut",
    },
    cluster=quick_cluster(A, B, controller=CONTROLLER),
    steps=_steps,
    expectations={
        (_RESTART, "2.0.1"): k.Expectation(
            safe=False,
            findings=(("truncated-below-high-watermark", (A,), 5, 24),),
            witness=(_round(A, B, 5), _cut(A)),
        ),
        (_RESTART, "2.1.1"): k.Expectation(
            safe=True, witness=(_no_epochs(A), _no_epochs(B), _fetches_from_its_end(A, B))
        ),
        (_ELECTION, "2.0.1"): k.Expectation(
            safe=False,
            findings=(
                ("committed-loss", (A, B), 5, 24),
                # B has cut them before A dies, and A does when it follows B.
                ("truncated-below-high-watermark", (B,), 5, 24),
                ("truncated-below-high-watermark", (A,), 5, 24),
            ),
            witness=(_round(B, A, 25), _cut(B)),
        ),
        (_ELECTION, "2.1.1"): k.Expectation(
            safe=True, witness=(_no_epochs(A), _no_epochs(B), _fetches_from_its_end(B, A))
        ),
    },
)
