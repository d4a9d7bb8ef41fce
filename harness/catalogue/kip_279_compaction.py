"""KIP-279, compaction: an epoch whose records are all gone, and a leader epoch file that is lost."""

from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.faults import ConfigureTopic, CutLink, KillBroker, LoseEpochs, StopBroker
from kchaos.harness.catalogue.entry import Entry, Expectation
from kchaos.harness.catalogue.settings import QUICK
from kchaos.harness.playing.cleaning_steps import AwaitCleaned
from kchaos.harness.playing.client_steps import Produce
from kchaos.harness.playing.observing_steps import AwaitDecision
from kchaos.harness.playing.steps import (
    AwaitHighWatermark,
    AwaitReplicated,
    AwaitState,
    CreateTopic,
    Heal,
    Inject,
    Step,
    TakeSnapshot,
    Tell,
)

A, B, CONTROLLER = 0, 1, 2
SETTINGS = (
    # Each of the larger batches gets a segment of its own.
    ("segment.bytes", "320"),
    ("min.cleanable.dirty.ratio", "0.01"),
)


def _cluster(kafka: str) -> ClusterSpec:
    cleaner = {
        "log.cleaner.enable": "true",
        "log.cleaner.backoff.ms": "100",
        "log.cleaner.dedupe.buffer.size": "2000000",
    }
    return ClusterSpec(
        brokers=brokers_of(kafka, (A, B, CONTROLLER)),
        first_broker=CONTROLLER,
        properties={**QUICK, **cleaner},
    )


def _policy(policy: str) -> ConfigureTopic:
    return ConfigureTopic(topic="t", configuration=(("cleanup.policy", policy),))


def _steps(case: str) -> tuple[Step, ...]:
    return (
        CreateTopic(topic="t", assignment=((B, A),), configuration=SETTINGS),
        Tell(text="B leads and writes 0-10, which both have, and 11-14, which A never gets"),
        Produce(operation="both", topic="t", partition=0, records=11, acks=-1, keys="both"),
        AwaitReplicated(topic="t", partition=0, brokers=(A, B), log_end_offset=11),
        AwaitHighWatermark(topic="t", partition=0, brokers=(A, B), high_watermark=11),
        Inject(name="A-B", fault=CutLink(source=A, target=B)),
        Produce(operation="b-only", topic="t", partition=0, records=4, acks=1, keys="b-only"),
        Inject(name="B-down", fault=KillBroker(broker=B)),
        AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        Heal(name="A-B"),
        Tell(text="A leads: in one epoch 11-20, and in the next, 21-30, the same keys again"),
        Produce(operation="once", topic="t", partition=0, records=10, acks=-1, keys="key"),
        Inject(name="next-epoch", fault=KillBroker(broker=A)),
        AwaitDecision(topic="t", partition=0, leader=-1),
        Heal(name="next-epoch"),
        AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
        Produce(operation="again", topic="t", partition=0, records=10, acks=-1, keys="key"),
        Produce(operation="last", topic="t", partition=0, records=1, acks=-1, keys="last"),
        Tell(text="the log cleaner of A removes 11-20, and nothing is left of their epoch"),
        Inject(name="compact", fault=_policy("compact")),
        AwaitCleaned(topic="t", partition=0, broker=A, cleaned_until=31),
        TakeSnapshot(label="cleaned"),
        Inject(name="compact-no-more", fault=_policy("delete")),
        *_restarted(case),
        Produce(operation="more", topic="t", partition=0, records=1, acks=-1, keys="more"),
        Tell(text="B returns with 11-14"),
        Heal(name="B-down"),
    )


def _restarted(case: str) -> tuple[Step, ...]:
    lost = LoseEpochs(broker=A, topic="t", partition=0, recovery_points=case == "rebuilt")
    return (
        Tell(text=_CASES[case]),
        Inject(
            name="A-down",
            fault=StopBroker(broker=A) if case == "not-rebuilt" else KillBroker(broker=A),
        ),
        AwaitDecision(topic="t", partition=0, leader=-1),
        *([] if case == "kept" else [Inject(name="epochs", fault=lost)]),
        Heal(name="A-down"),
        AwaitState(topic="t", partition=0, leader=A, isr=(A,)),
    )


_CASES = {
    "kept": "A restarts and has its leader epoch file: the epoch is still in it",
    "rebuilt": "A is killed, its disk loses the epoch file, and recovery makes it of the batches",
    "not-rebuilt": "A is stopped, its disk loses the epoch file, and nothing makes it anew",
}
_SOURCE = "KIP-279, Impact of topic compaction; measured on real brokers"

KIP_279_COMPACTION = Entry(
    name="KIP-279-compaction",
    title="An epoch whose records are all compacted away, and a lost leader epoch file",
    story="",
    source=_SOURCE,
    cases=_CASES,
    cluster=_cluster,
    steps=_steps,
    expectations={},
    default_releases=("1.1.1", "2.0.1"),
)
