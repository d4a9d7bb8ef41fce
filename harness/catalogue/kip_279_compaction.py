"""KIP-279, compaction: an epoch whose records are all gone, and a lost leader epoch file."""

from collections.abc import Mapping
from typing import Any

import kchaos
from kchaos.harness.catalogue.settings import quick_cluster

A, B, CONTROLLER = 0, 1, 2
SETTINGS = (
    # Each of the larger batches gets a segment of its own.
    ("segment.bytes", "320"),
    ("min.cleanable.dirty.ratio", "0.01"),
)


def _policy(policy: str) -> kchaos.ConfigureTopic:
    return kchaos.ConfigureTopic(topic="t", configuration=(("cleanup.policy", policy),))


def _steps(case: str) -> tuple[kchaos.Step, ...]:
    return (
        kchaos.CreateTopic(topic="t", assignment=((B, A),), configuration=SETTINGS),
        kchaos.Tell(text="B leads and writes 0-10, which both have, and 11-14, which A never gets"),
        kchaos.Produce(operation="both", topic="t", partition=0, records=11, acks=-1, keys="both"),
        kchaos.AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=11),
        kchaos.AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=11),
        kchaos.Inject(name="A-B", fault=kchaos.CutLink(source=A, target=B)),
        kchaos.Produce(
            operation="b-only", topic="t", partition=0, records=4, acks=1, keys="b-only"
        ),
        kchaos.Inject(name="B-down", fault=kchaos.KillBroker(broker=B)),
        kchaos.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        kchaos.Heal(name="A-B"),
        kchaos.Tell(
            text="A leads: in one epoch 11-20, and in the next, 21-30, the same keys again"
        ),
        kchaos.Produce(operation="once", topic="t", partition=0, records=10, acks=-1, keys="key"),
        kchaos.Inject(name="next-epoch", fault=kchaos.KillBroker(broker=A)),
        kchaos.AwaitDecision(topic="t", partition=0, leader=-1),
        kchaos.Heal(name="next-epoch"),
        kchaos.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        kchaos.Produce(operation="again", topic="t", partition=0, records=10, acks=-1, keys="key"),
        kchaos.Produce(operation="last", topic="t", partition=0, records=1, acks=-1, keys="last"),
        kchaos.Tell(text="the log cleaner of A removes 11-20, and nothing is left of their epoch"),
        kchaos.Inject(name="compact", fault=_policy("compact")),
        kchaos.AwaitCleaned(topic="t", partition=0, broker=A, cleaned_until=31),
        kchaos.TakeSnapshot(label="cleaned"),
        kchaos.Inject(name="compact-no-more", fault=_policy("delete")),
        *_restarted(case),
        kchaos.Produce(operation="more", topic="t", partition=0, records=1, acks=-1, keys="more"),
        kchaos.Tell(text="B returns with 11-14"),
        kchaos.Heal(name="B-down"),
    )


def _restarted(case: str) -> tuple[kchaos.Step, ...]:
    lost = kchaos.LoseEpochs(broker=A, topic="t", partition=0, recovery_points=case == "rebuilt")
    return (
        kchaos.Tell(text=_CASES[case]),
        kchaos.Inject(
            name="A-down",
            fault=kchaos.StopBroker(broker=A)
            if case == "not-rebuilt"
            else kchaos.KillBroker(broker=A),
        ),
        kchaos.AwaitDecision(topic="t", partition=0, leader=-1),
        *([] if case == "kept" else [kchaos.Inject(name="epochs", fault=lost)]),
        kchaos.Heal(name="A-down"),
        kchaos.AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
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
_GOES_ON_AT_15 = {
    "link": {
        "api": "Fetch",
        "direction": "request",
        "fate": "passed",
        "source": B,
        "target": A,
        "partition": {"topic": "t", "partition": 0, "fetch_offset": 15},
    }
}
_REBUILT, _NOT_REBUILT = _epochs_of_a(0, 21, 32), _epochs_of_a(32)


def _green(*witness: Mapping[str, Any]) -> kchaos.Expectation:
    return kchaos.Expectation(safe=True, witness=(_CLEANED, *witness))


def _red(*witness: Mapping[str, Any]) -> kchaos.Expectation:
    return kchaos.Expectation(
        safe=False, findings=(("hole", (A,), 11, 14),), witness=(_CLEANED, _GOES_ON_AT_15, *witness)
    )


KIP_279_COMPACTION = kchaos.Entry(
    name="KIP-279-compaction",
    title="An epoch whose records are all compacted away, and a lost leader epoch file",
    story=(
        "B has 11-14, which A never got. A leads and writes 11-20 in one epoch, and the same keys "
        "again in the next, 21-30. Its log cleaner removes 11-20. Of the first of the two epochs "
        "only its line in the leader epoch file is left. While that is there, B is told that its "
        "epoch ended at 11, and truncates. KIP-279 says that an epoch may be missed if the file is "
        "lost and made of the log again; it is, on every release: A answers 21, where the next "
        "epoch that it knows begins, and B keeps 11-14 between records that both have. Replicas in "
        "sync give consumers different logs then. But the file is only made anew of segments that "
        "recovery reads: after SIGKILL, those that were not flushed, after a clean stop none "
        "(kafka.log.Log.recoverLog). A that was stopped knows its present epoch alone. Up to 2.0.0 "
        "it answers that it does not know, and B truncates to its high watermark, 11; from 2.0.1 "
        "on an older epoch is answered with the start of the first that is known, 32 (KAFKA-7415), "
        "and B keeps 11-14 again. The entry compacts for a moment only, since settling's probes "
        "have no keys. Nobody promised to keep 11-14; what is wrong is that one in-sync replica "
        "has them and the other not, which is reported as a hole."
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
