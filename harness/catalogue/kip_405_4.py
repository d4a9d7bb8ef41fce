"""KIP-405, scenario 4: an unclean election with a truncation, and who uploads the new lineage."""

import kchaos as k
from kchaos.clusters.agent.points import REMOTE_OFFSET
from kchaos.harness.catalogue import kip_405

A, B, CONTROLLER = 0, 1, 2


def cluster_of(kafka: str, *, tiered: bool = True) -> k.ClusterSpec:
    """Return a cluster with unclean elections, in which cut-off followers leave the ISR soon."""
    return kip_405.tiered_cluster(
        kafka, (A, B, CONTROLLER), CONTROLLER, kip_405.UNCLEAN, tiered=tiered
    )


def _told_cluster(kafka: str) -> k.ClusterSpec:
    """Return the cluster; B logs how far its log is in the remote tier."""
    return kip_405.with_points(cluster_of(kafka), B, REMOTE_OFFSET)


def steps_of(case: str) -> tuple[k.Step, ...]:
    """Return the steps, of which `kip_405_control` can omit those on tiering."""
    uploads = ((0, 2, 0), (0, 1, None)) if case == kip_405.UPLOADED else ((0, 2, 0),)
    # As leader B would not look again, and would let nothing go of which it has not heard.
    heard = k.AwaitPoint(
        broker=B, point=REMOTE_OFFSET, seen=f"({kip_405.TOPIC}-{kip_405.PARTITION},offset=2)"
    )
    return (
        kip_405.created((A, B), segment_messages=3, local_messages=100),
        kip_405.message(0),
        kip_405.level((A, B), 1),
        k.Tell(text="broker B falls out of sync; A goes on alone and ships its first segment"),
        k.Inject(name="B is cut off", fault=k.CutLink(source=A, target=B)),
        *kip_405.messages(1, acks=1),
        kip_405.elected(A, (A,)),
        *kip_405.messages(2, 3),
        kip_405.shipped((0, 2, 0)),
        *((heard,) if case == kip_405.NEVER_UPLOADED else ()),
        k.TakeSnapshot(label="step-1"),
        k.Tell(text="A dies; B, out of sync, is elected and takes messages 4 and 5"),
        k.Inject(name="A is down", fault=k.KillBroker(broker=A)),
        kip_405.elected(B, (B,)),
        kip_405.configured("two to a segment", "segment.bytes", 2),
        *kip_405.messages(4, 5),
        kip_405.shipped(*uploads),
        *kip_405.read_all("before", B),
        k.TakeSnapshot(label="step-2"),
        k.Tell(text="the first local segment of broker B expires"),
        kip_405.configured("local retention", "local.retention.bytes", 1),
        kip_405.begins(B, 2),
        *kip_405.read_all("after", B),
        k.TakeSnapshot(label="step-3"),
        kip_405.NOTHING_EXPIRES,
        k.Tell(text="beyond the page: A comes back"),
        k.Heal(name="B is cut off"),
        k.Heal(name="A is down"),
    )


DIVERGED = {"round": {"follower": A, "leader": B, "end_offset": 1, "by_fetch": True}}
_MOVED = kip_405.sent_to_the_tier(A, B)

KIP_405_4 = k.Entry(
    name="KIP-405-4",
    title="After an unclean election the new leader's lineage must get to the remote tier",
    story=(
        "B is out of sync and is elected uncleanly; it cuts nothing and writes its own records at "
        "offsets that the remote tier has of A's lineage. What is lost so is permitted. B must "
        "ship its own segment: on 3.7 and later it does. On 3.6 it takes the end of A's segment "
        "for what it has shipped itself (KAFKA-15241), ships nothing, and lets its local segment "
        "go: the only copy of an acknowledged record is lost, readers get A's records, and A "
        "cannot come back."
    ),
    source="KIP-405, follower replication, scenario 4; KAFKA-15241",
    cases=kip_405.FIXED_UPLOADS,
    cluster=cluster_of,
    case_clusters={kip_405.NEVER_UPLOADED: _told_cluster},
    steps=steps_of,
    cannot_show=kip_405.why_not_uploads,
    expectations={
        (kip_405.NEVER_UPLOADED, "3.6.2"): k.Expectation(
            safe=False,
            findings=(
                ("replication-stopped", (A,), -1, -1),
                ("tier-other-lineage", (B,), 1, 2),
                ("tier-unreadable", (B,), 1, 1),
            ),
            witness=(
                *kip_405.as_printed(4, "3.6.2"),
                DIVERGED,
                _MOVED,
                {
                    "log": {
                        "broker": A,
                        "pattern": "previous remote log segment metadata was not found",
                    }
                },
            ),
        ),
        (kip_405.UPLOADED, "3.9.1"): k.Expectation(
            safe=True,
            witness=(
                *kip_405.as_printed(4, "3.9.1"),
                DIVERGED,
                _MOVED,
                kip_405.epochs("step-3", B, 0, 1),
                kip_405.epochs("final", A, 0, 1),
                {
                    "log": {
                        "broker": B,
                        "pattern": "is less than or equal to the highest-remote-offset: 2 ",
                    }
                },
            ),
        ),
    },
)
