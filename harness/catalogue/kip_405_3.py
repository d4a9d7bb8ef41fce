"""KIP-405, scenario 3: both replicas fail hard, and one comes back with a part of its log."""

from dataclasses import replace

import kchaos as k
from kchaos.harness.catalogue import kip_405

A, B, CONTROLLER = 0, 1, 2
_TWO = str(2 * kip_405.MESSAGE_BYTES)


def cluster_of(kafka: str, *, tiered: bool = True) -> k.ClusterSpec:
    """Return broker A with two messages in a segment, and B with all in one, unflushed."""
    spec = kip_405.tiered_cluster(kafka, (A, B, CONTROLLER), CONTROLLER, tiered=tiered)
    brokers = tuple(
        replace(broker, properties={"log.segment.bytes": _TWO}) if broker.id == A else broker
        for broker in spec.brokers
    )
    return replace(spec, brokers=brokers)


def steps_of(case: str) -> tuple[k.Step, ...]:
    """Return the steps, of which `kip_405_control` can omit those on tiering."""
    return (
        k.CreateTopic(
            topic=kip_405.TOPIC,
            assignment=((A, B),),
            configuration=tuple(
                setting
                for setting in kip_405.tiered_topic(segment_messages=2, local_messages=100)
                if setting[0] != "segment.bytes"
            ),
        ),
        *kip_405.messages(0, 1, 2),
        kip_405.level((A, B), 3),
        kip_405.shipped((0, 1, 0)),
        k.TakeSnapshot(label="step-1"),
        k.Tell(text="both lose power, A first; messages 1 and 2 were not on B's disk"),
        k.Inject(name="A is down", fault=k.KillBroker(broker=A)),
        kip_405.elected(B, (B,)),
        k.Inject(name="B is down", fault=k.KillBroker(broker=B)),
        kip_405.elected(-1, (B,)),
        k.Inject(
            name="B's tail",
            fault=k.LoseTail(
                broker=B, topic=kip_405.TOPIC, partition=kip_405.PARTITION, log_end_offset=1
            ),
        ),
        k.Tell(text="B comes back, leads, and takes message 3 at offset 1"),
        k.Heal(name="B is down"),
        kip_405.elected(B, (B,)),
        kip_405.configured("two to a segment", "segment.bytes", 2),
        kip_405.message(3),
        kip_405.level((B,), 2),
        k.TakeSnapshot(label="step-2"),
        *_after_a_is_back(case),
    )


def _after_a_is_back(case: str) -> tuple[k.Step, ...]:
    """Return the steps from the return of A on."""
    uploads = ((0, 1, 0), (0, 1, None)) if case == kip_405.UPLOADED else ((0, 1, 0),)
    leaders = (B,) if case == kip_405.UPLOADED else ()
    return (
        k.Tell(text="A comes back, truncates, and follows"),
        k.Heal(name="A is down"),
        kip_405.elected(B, (A, B)),
        kip_405.level((A, B), 2),
        k.TakeSnapshot(label="step-3"),
        kip_405.message(4),
        kip_405.level((A, B), 3),
        kip_405.shipped(*uploads),
        *kip_405.read_all("before", B),
        k.TakeSnapshot(label="step-4"),
        k.Tell(text="beyond the page: the first local segment expires on both"),
        kip_405.message(5),
        kip_405.level((A, B), 4),
        kip_405.configured("local retention", "local.retention.bytes", 2),
        # On 3.6 a leader that has just come back does not know that anything is remote, so that it
        # deletes nothing; its follower does.
        *(kip_405.begins(leader, 2) for leader in leaders),
        kip_405.begins(A, 2),
        *kip_405.read_all("B-leads", B),
        k.TakeSnapshot(label="expired"),
        k.Inject(name="A leads", fault=kip_405.PREFERRED),
        kip_405.elected(A, (A, B)),
        # As a follower B hears what is remote, on 3.6 too.
        kip_405.begins(B, 2),
        *kip_405.read_all("A-leads", A),
    )


_EPOCHS = (
    kip_405.epochs("step-3", A, 0, 1),
    kip_405.epochs("step-4", A, 0, 1),
    kip_405.epochs("step-4", B, 0, 1),
)

KIP_405_3 = k.Entry(
    name="KIP-405-3",
    title="Unflushed tails are lost, and the remote tier keeps what no log has any more",
    story=(
        "A has shipped offsets 0 and 1 when both replicas lose power. B comes back without "
        "messages 1 and 2, leads, and writes message 3 at offset 1; A truncates and follows. "
        "Losing what no disk had is permitted. The remote tier still has message 1 at offset 1, of "
        "a lineage that is dead: from 3.7.0 on the leader ships its own segment beside it, and "
        "readers get that. On 3.6 it ships nothing (KAFKA-15241), and once the local segment is "
        "gone, a leader has lost message 3, which was acknowledged."
    ),
    source="KIP-405, follower replication, scenario 3; KIP-101, scenario 2; KAFKA-15241",
    cases=kip_405.FIXED_UPLOADS,
    cluster=cluster_of,
    steps=steps_of,
    cannot_show=kip_405.why_not_uploads,
    expectations={
        (kip_405.NEVER_UPLOADED, "3.6.2"): k.Expectation(
            safe=False,
            findings=(
                ("tier-other-lineage", (A,), 1, 1),
                ("tier-other-lineage", (B,), 1, 1),
                ("tier-unreadable", (A,), 1, 1),
                ("tier-unreadable", (B,), 1, 1),
            ),
            witness=(*_EPOCHS, *kip_405.as_printed(3, "3.6.2")),
        ),
        (kip_405.UPLOADED, "3.9.1"): k.Expectation(
            safe=True, witness=(*_EPOCHS, *kip_405.as_printed(3, "3.9.1"))
        ),
    },
)
