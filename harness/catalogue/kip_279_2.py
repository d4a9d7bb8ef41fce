"""KIP-279, scenario 2 word for word: a follower restarts, asks, and truncates nothing."""

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster
from kchaos.harness.catalogue.words import at_link, held, held_from

A, B, CONTROLLER = 0, 1, 2


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((B, A),)),
        k.Tell(text="B leads; 0-10 are committed, and A knows it"),
        k.Produce(operation="first", topic="t", partition=0, records=11, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=11),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=11),
        k.Tell(text="11-20 are committed too: B's high watermark is 21, A's is still 11"),
        held_from("answer", A, B, 21, direction="response"),
        k.Produce(operation="second", topic="t", partition=0, records=10, acks=-1),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=21),
        k.AwaitHeld(name="answer"),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(B,), high_watermark=21),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A,), high_watermark=11),
        k.TakeSnapshot(label="before-restart"),
        k.Tell(text="A restarts: does it truncate to its high watermark?"),
        k.Inject(name="A-down", fault=k.KillBroker(broker=A)),
        k.AwaitState(topic="t", partition=0, leader=B, isr=(B,)),
        k.Heal(name="answer"),
        held("fetch", "Fetch", source=A, target=B, topic="t", partition=0),
        k.Heal(name="A-down"),
        k.AwaitHeld(name="fetch"),
    )


def _fetches_from(offset: int) -> dict[str, dict[str, object]]:
    return at_link(
        "Fetch",
        "request",
        A,
        B,
        fate="held",
        partition={"topic": "t", "partition": 0, "fetch_offset": offset},
    )


def _answered(**more: int) -> dict[str, dict[str, int]]:
    return {"round": {"follower": A, "leader": B, "end_offset": 21, **more}}


KIP_279_2 = k.Entry(
    name="KIP-279-2",
    title="A follower that restarts keeps what is committed",
    story=(
        "0-20 are on A and B and committed, but A has only heard that 0-10 are. A restarts. Up to "
        "0.10.2 it truncates to its own high watermark, 11: ten committed records are on one disk "
        "only until it has fetched them again (the entry holds that Fetch, to look at the disks "
        "meanwhile). From 0.11 on it asks B where its epoch ended, gets 21, and truncates "
        "nothing. KIP-279 tells it to show that its answer, now with an epoch, changes nothing "
        "here; with its protocol 2.7 and later A does not even ask first: the question is part of "
        "its Fetch."
    ),
    source="KIP-279, scenario 2; KIP-101, scenario 1 (fixed in 0.11.0)",
    cases={"restart": "A is killed and starts again; its Fetch is held"},
    cluster=quick_cluster(A, B, controller=CONTROLLER),
    steps=_steps,
    expectations={
        ("restart", "0.10.2.2"): k.Expectation(
            safe=False,
            findings=(("truncated-below-high-watermark", (A,), 11, 20),),
            witness=(
                {"log": {"broker": A, "pattern": r"Truncating log t-0 to offset 11\b"}},
                _fetches_from(11),
            ),
        ),
        ("restart", "0.11.0.3"): k.Expectation(safe=True, witness=(_answered(), _fetches_from(21))),
        ("restart", "2.0.1"): k.Expectation(
            safe=True, witness=(_answered(answered_epoch=0), _fetches_from(21))
        ),
        ("restart", "2.8.2"): k.Expectation(safe=True, witness=(_fetches_from(21),)),
    },
)
