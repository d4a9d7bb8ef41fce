"""KIP-405: the remote store fails half way through an upload, again and again."""

from kchaos.clusters.agent.tier_points import REMOTE_COPY_CHECKPOINT
from kchaos.clusters.spec import ClusterSpec
from kchaos.faults import HoldPoint
from kchaos.harness.catalogue.entry import Entry, Expectation
from kchaos.harness.catalogue.kip_405 import (
    PARTITION,
    PREFERRED,
    TOPIC,
    begins,
    created,
    elected,
    failing_store,
    messages,
    read_all,
    settled,
    shipped,
)
from kchaos.harness.steps.observing import AwaitPoint
from kchaos.harness.steps.scenario_steps import (
    Heal,
    Inject,
    ReorderReplicas,
    Step,
    TakeSnapshot,
    Tell,
)

A, B, CONTROLLER = 0, 1, 2
_CASE = "fails-and-heals"
_TRIES = 3


def _cluster(kafka: str) -> ClusterSpec:
    return failing_store(kafka, A, REMOTE_COPY_CHECKPOINT)


def _steps(case: str) -> tuple[Step, ...]:
    assert case == _CASE
    return (
        created((A, B), segment_messages=2, local_messages=1),
        Tell(text="each upload fails when the log is in the store and the checkpoint is not"),
        Inject(
            name="store fails",
            fault=HoldPoint(
                name="no-checkpoint", broker=A, point=REMOTE_COPY_CHECKPOINT, manner="fail"
            ),
        ),
        *messages(0, 1, 2),
        AwaitPoint(broker=A, point=REMOTE_COPY_CHECKPOINT, times=_TRIES),
        *messages(3, 4),
        *settled(A, (A, B), 5),
        *read_all("failing", A),
        Tell(text="the store is whole again"),
        Heal(name="store fails"),
        shipped((0, 1, 0), (2, 3, 0), finished_only=True),
        begins(A, 4),
        begins(B, 4),
        *read_all("shipped", A),
        TakeSnapshot(label="shipped"),
        ReorderReplicas(topic=TOPIC, partition=PARTITION, replicas=(B, A)),
        Inject(name="B leads", fault=PREFERRED),
        elected(B, (A, B)),
        *read_all("B-leads", B),
    )


_WITNESS = (
    {"hit": {"point": REMOTE_COPY_CHECKPOINT, "broker": A, "fate": "failed"}},
    {"log": {"broker": A, "pattern": "Error occurred while copying log segments of partition"}},
)
_CLEANED = {
    "log": {"broker": A, "pattern": "Successfully cleaned segment .* after failing to copy"}
}

KIP_405_UPLOAD_FAILS = Entry(
    name="KIP-405-upload-fails",
    title="An upload that fails half way is done anew, and nothing is deleted before it is whole",
    story=(
        "The remote store takes a segment's log and indexes and fails at its leader epoch "
        "checkpoint. The leader logs the error and begins anew at its next look, with another "
        "segment id; the metadata topic keeps COPY_SEGMENT_STARTED of each attempt for ever, since "
        "nothing deletes what was never finished. From 3.9 on it also asks the store to delete "
        "what it has; on 3.6 only the store itself tidies up. Local segments stay until their copy "
        "has ended, so that readers miss nothing."
    ),
    source="KIP-405; kafka.log.remote.RemoteLogManager (copyLogSegment), 3.6.2 and 3.9",
    cases={_CASE: "three uploads or more fail, then the store is whole again"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "3.6.2"): Expectation(safe=True, witness=_WITNESS),
        (_CASE, "3.9.1"): Expectation(safe=True, witness=(*_WITNESS, _CLEANED)),
    },
)
