"""KIP-279, compaction: an epoch whose records are all gone, and a lost leader epoch file."""

from collections.abc import Mapping
from typing import Any

import kchaos as k
from kchaos.harness.catalogue.settings import quick_cluster
from kchaos.harness.catalogue.words import at_link

A, B, CONTROLLER = 0, 1, 2
SETTINGS = (
    # Each of the larger batches gets a segment of its own.
    ("segment.bytes", "320"),
    ("min.cleanable.dirty.ratio", "0.01"),
)


def _policy(policy: str) -> k.ConfigureTopic:
    return k.ConfigureTopic(topic="t", configuration=(("cleanup.policy", policy),))


def _steps(case: str) -> tuple[k.Step, ...]:
    return (
        k.CreateTopic(topic="t", assignment=((B, A),), configuration=SETTINGS),
        k.Tell(text="B leads and writes 0-10, which both have, and 11-14, which A never gets"),
        k.Produce(operation="both", topic="t", partition=0, records=11, acks=-1, keys="both"),
        k.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=11),
        k.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=11),
        k.Inject(name="A-B", fault=k.CutLink(source=A, target=B)),
        k.Produce(operation="b-only", topic="t", partition=0, records=4, acks=1, keys="b-only"),
        k.Inject(name="B-down", fault=k.KillBroker(broker=B)),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        k.Heal(name="A-B"),
        k.Tell(text="A leads: in one epoch 11-20, and in the next, 21-30, the same keys again"),
        k.Produce(operation="once", topic="t", partition=0, records=10, acks=-1, keys="key"),
        k.Inject(name="next-epoch", fault=k.KillBroker(broker=A)),
        k.AwaitDecision(topic="t", partition=0, leader=-1),
        k.Heal(name="next-epoch"),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        k.Produce(operation="again", topic="t", partition=0, records=10, acks=-1, keys="key"),
        k.Produce(operation="last", topic="t", partition=0, records=1, acks=-1, keys="last"),
        k.Tell(text="the log cleaner of A removes 11-20, and nothing is left of their epoch"),
        k.Inject(name="compact", fault=_policy("compact")),
        k.AwaitCleaned(topic="t", partition=0, broker=A, cleaned_until=31),
        k.TakeSnapshot(label="cleaned"),
        k.Inject(name="compact-no-more", fault=_policy("delete")),
        *_restarted(case),
        k.Produce(operation="more", topic="t", partition=0, records=1, acks=-1, keys="more"),
        k.Tell(text="B returns with 11-14"),
        k.Heal(name="B-down"),
    )


def _restarted(case: str) -> tuple[k.Step, ...]:
    lost = k.LoseEpochs(broker=A, topic="t", partition=0, recovery_points=case == "rebuilt")
    return (
        k.Tell(text=_CASES[case]),
        k.Inject(
            name="A-down",
            fault=k.StopBroker(broker=A) if case == "not-rebuilt" else k.KillBroker(broker=A),
        ),
        k.AwaitDecision(topic="t", partition=0, leader=-1),
        *([] if case == "kept" else [k.Inject(name="epochs", fault=lost)]),
        k.Heal(name="A-down"),
        k.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
    )


_CASES = {
    "kept": "A restarts and has its leader epoch file: the epoch is still in it",
    "rebuilt": "A is killed, its disk loses the epoch file, and recovery makes it of the batches",
    "not-rebuilt": "A is stopped, its disk loses the epoch file, and nothing makes it anew",
}


def _answered(end_offset: int) -> dict[str, dict[str, int]]:
    return {"round": {"follower": B, "leader": A, "requested_epoch": 0, "end_offset": end_offset}}


def _epochs_of_a(*starts: int) -> dict[str, dict[str, object]]:
    return {
        "epochs": {"snapshot": "final", "broker": A, "partition": "t-0", "starts": list(starts)}
    }


_CLEANED = {"log": {"broker": A, "pattern": r"Log cleaner thread 0 cleaned log t-0 "}}
_TRUNCATED = {"log": {"broker": B, "pattern": r"[Tt]runcat\w+ .*to( offset)? 11\b"}}
_GOES_ON_AT_15 = at_link(
    "Fetch",
    "request",
    B,
    A,
    fate="passed",
    partition={"topic": "t", "partition": 0, "fetch_offset": 15},
)
_REBUILT, _NOT_REBUILT = _epochs_of_a(0, 21, 32), _epochs_of_a(32)


def _green(*witness: Mapping[str, Any]) -> k.Expectation:
    return k.Expectation(safe=True, witness=(_CLEANED, *witness))


def _red(*witness: Mapping[str, Any]) -> k.Expectation:
    return k.Expectation(
        safe=False, findings=(("hole", (A,), 11, 14),), witness=(_CLEANED, _GOES_ON_AT_15, *witness)
    )


KIP_279_COMPACTION = k.Entry(
    name="KIP-279-compaction",
    title="An epoch whose records are all compacted away, and a lost leader epoch file",
    story=(
        "B has 11-14, which A never got. A leads and writes 11-20 in one epoch, and the same keys "
        "again in the next, 21-30. Its log cleaner removes 11-20. Of the first of the two epochs "
        "only its line in the leader epoch file is left. While that is there, B gets the answer "
        "that its epoch ended at 11, and truncates. KIP-279 says that an epoch may be missed if "
        "the file is lost and made of the log again; it is, on every release: A answers 21, where "
        "the next epoch that it knows begins, and B keeps 11-14 between records that both have. "
        "Replicas in sync give consumers different logs then. But the file is only made anew of "
        "segments that recovery reads: after SIGKILL, those that were not flushed, after a clean "
        "stop none (kafka.log.Log.recoverLog). A that was stopped knows its present epoch alone. "
        "Up to 2.0.0 it answers that it does not know, and B truncates to its high watermark, 11; "
        "from 2.0.1 on an older epoch is answered with the start of the first that is known, 32 "
        "(KAFKA-7415), and B keeps 11-14 again. The entry compacts for a moment only, since "
        "settling's probes have no keys. Nobody promised to keep 11-14; what is wrong is that one "
        "in-sync replica has them and the other not, which is reported as a hole."
    ),
    source="KIP-279, Impact of topic compaction; measured on real brokers",
    cases=_CASES,
    cluster=quick_cluster(
        A,
        B,
        controller=CONTROLLER,
        properties={
            "log.cleaner.enable": "true",
            "log.cleaner.backoff.ms": "100",
            "log.cleaner.dedupe.buffer.size": "2000000",
        },
    ),
    steps=_steps,
    expectations={
        ("kept", "1.1.1"): _green(_answered(11), _TRUNCATED, _epochs_of_a(0, 11, 21, 32)),
        ("kept", "2.8.2"): _green(_answered(11), _TRUNCATED, _epochs_of_a(0, 11, 21, 32)),
        ("rebuilt", "1.1.1"): _red(_answered(21), _REBUILT),
        ("rebuilt", "2.0.1"): _red(_answered(21), _REBUILT),
        ("rebuilt", "2.8.2"): _red(_REBUILT),
        ("rebuilt", "3.9.1"): _red(_REBUILT),
        ("not-rebuilt", "1.1.1"): _green(_answered(-1), _TRUNCATED, _NOT_REBUILT),
        ("not-rebuilt", "2.0.1"): _red(_answered(32), _NOT_REBUILT),
        ("not-rebuilt", "2.8.2"): _red(_NOT_REBUILT),
        ("not-rebuilt", "3.9.1"): _red(_NOT_REBUILT),
    },
    default_releases=("1.1.1", "2.0.1", "2.8.2"),
)
