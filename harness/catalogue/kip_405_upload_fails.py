"""KIP-405: the remote store fails half way through an upload, again and again."""

import kchaos as k
from kchaos.clusters.agent.points import REMOTE_COPY_CHECKPOINT
from kchaos.harness.catalogue import kip_405

A, B, CONTROLLER = 0, 1, 2
_CASE = "fails-and-heals"
_TRIES = 3


def _cluster(kafka: str) -> k.ClusterSpec:
    return kip_405.failing_store(kafka, A, REMOTE_COPY_CHECKPOINT)


def _steps(case: str) -> tuple[k.Step, ...]:
    assert case == _CASE
    return (
        kip_405.created((A, B), segment_messages=2, local_messages=1),
        k.Tell(text="each upload fails when the log is in the store and the checkpoint is not"),
        k.Inject(
            name="store fails",
            fault=k.HoldPoint(
                name="no-checkpoint", broker=A, point=REMOTE_COPY_CHECKPOINT, manner="fail"
            ),
        ),
        *kip_405.messages(0, 1, 2),
        k.AwaitPoint(broker=A, point=REMOTE_COPY_CHECKPOINT, times=_TRIES),
        *kip_405.messages(3, 4),
        *kip_405.settled(A, (A, B), 5),
        *kip_405.read_all("failing", A),
        k.Tell(text="the store is whole again"),
        k.Heal(name="store fails"),
        kip_405.shipped((0, 1, 0), (2, 3, 0), finished_only=True),
        kip_405.begins(A, 4),
        kip_405.begins(B, 4),
        *kip_405.read_all("shipped", A),
        k.TakeSnapshot(label="shipped"),
        k.ReorderReplicas(topic=kip_405.TOPIC, partition=kip_405.PARTITION, replicas=(B, A)),
        k.Inject(name="B leads", fault=kip_405.PREFERRED),
        kip_405.elected(B, (A, B)),
        *kip_405.read_all("B-leads", B),
    )


_WITNESS = (
    {"hit": {"point": REMOTE_COPY_CHECKPOINT, "broker": A, "fate": "failed"}},
    {"log": {"broker": A, "pattern": "Error occurred while copying log segments of partition"}},
)
_CLEANED = {
    "log": {"broker": A, "pattern": "Successfully cleaned segment .* after failing to copy"}
}

KIP_405_UPLOAD_FAILS = k.Entry(
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
        (_CASE, "3.6.2"): k.Expectation(safe=True, witness=_WITNESS),
        (_CASE, "3.9.1"): k.Expectation(safe=True, witness=(*_WITNESS, _CLEANED)),
    },
)
