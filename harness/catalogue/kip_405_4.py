"""KIP-405, scenario 4: an unclean election with a truncation, and who uploads the new lineage."""

import kchaos
from kchaos.clusters.agent.tier_points import REMOTE_OFFSET
from kchaos.harness.catalogue.kip_405 import (
    FIXED_UPLOADS,
    NEVER_UPLOADED,
    NOTHING_EXPIRES,
    PARTITION,
    TOPIC,
    UNCLEAN,
    UPLOADED,
    as_printed,
    begins,
    configured,
    created,
    elected,
    epochs,
    level,
    message,
    messages,
    read_all,
    sent_to_the_tier,
    shipped,
    tiered_cluster,
    why_not_uploads,
    with_points,
)

A, B, CONTROLLER = 0, 1, 2


def cluster_of(kafka: str, *, tiered: bool = True) -> kchaos.ClusterSpec:
    """Elections may be unclean, and who is cut off leaves the ISR soon."""
    return tiered_cluster(kafka, (A, B, CONTROLLER), CONTROLLER, UNCLEAN, tiered=tiered)


def _told_cluster(kafka: str) -> kchaos.ClusterSpec:
    """The same; B tells how far it believes its log to be in the remote tier."""
    return with_points(cluster_of(kafka), B, REMOTE_OFFSET)


def steps_of(case: str) -> tuple[kchaos.Step, ...]:
    """The steps; what is about tiering can be left out of them (`kip_405_control`)."""
    uploads = ((0, 2, 0), (0, 1, None)) if case == UPLOADED else ((0, 2, 0),)
    # As leader B would not look again, and would let nothing go of which it has not heard.
    heard = kchaos.AwaitPoint(broker=B, point=REMOTE_OFFSET, seen=f"({TOPIC}-{PARTITION},offset=2)")
    return (
        created((A, B), segment_messages=3, local_messages=100),
        message(0),
        level((A, B), 1),
        kchaos.Tell(text="broker B falls out of sync; A goes on alone and ships its first segment"),
        kchaos.Inject(name="B is cut off", fault=kchaos.CutLink(source=A, target=B)),
        *messages(1, acks=1),
        elected(A, (A,)),
        *messages(2, 3),
        shipped((0, 2, 0)),
        *((heard,) if case == NEVER_UPLOADED else ()),
        kchaos.TakeSnapshot(label="step-1"),
        kchaos.Tell(text="A dies; B, out of sync, is elected and takes messages 4 and 5"),
        kchaos.Inject(name="A is down", fault=kchaos.KillBroker(broker=A)),
        elected(B, (B,)),
        configured("two to a segment", "segment.bytes", 2),
        *messages(4, 5),
        shipped(*uploads),
        *read_all("before", B),
        kchaos.TakeSnapshot(label="step-2"),
        kchaos.Tell(text="the first local segment of broker B expires"),
        configured("local retention", "local.retention.bytes", 1),
        begins(B, 2),
        *read_all("after", B),
        kchaos.TakeSnapshot(label="step-3"),
        NOTHING_EXPIRES,
        kchaos.Tell(text="beyond the page: A comes back"),
        kchaos.Heal(name="B is cut off"),
        kchaos.Heal(name="A is down"),
    )


DIVERGED = {"round": {"follower": A, "leader": B, "end_offset": 1, "by_fetch": True}}
_MOVED = sent_to_the_tier(A, B)

KIP_405_4 = kchaos.Entry(
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
    cases=FIXED_UPLOADS,
    cluster=cluster_of,
    case_clusters={NEVER_UPLOADED: _told_cluster},
    steps=steps_of,
    cannot_show=why_not_uploads,
    expectations={
        (NEVER_UPLOADED, "3.6.2"): kchaos.Expectation(
            safe=False,
            findings=(
                ("replication-stopped", (A,), -1, -1),
                ("tier-other-lineage", (B,), 1, 2),
                ("tier-unreadable", (B,), 1, 1),
            ),
            witness=(
                *as_printed(4, "3.6.2"),
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
        (UPLOADED, "3.9.1"): kchaos.Expectation(
            safe=True,
            witness=(
                *as_printed(4, "3.9.1"),
                DIVERGED,
                _MOVED,
                epochs("step-3", B, 0, 1),
                epochs("final", A, 0, 1),
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
