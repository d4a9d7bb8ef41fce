"""KAFKA-17062: uploads that failed count towards retention by size."""

import kchaos as k
from kchaos.clusters.agent.points import REMOTE_COPY_CHECKPOINT
from kchaos.harness.catalogue import kip_405

A, B = 0, 1
_CASE = "store-failed"
_TRIES = 4
"""As many attempts as there are segments, of which each counts for one."""
_LET_GO_S = 15.0


def _cluster(kafka: str) -> k.ClusterSpec:
    return kip_405.failing_store(kafka, A, REMOTE_COPY_CHECKPOINT)


def _steps(_case: str) -> tuple[k.Step, ...]:
    let_go = k.AwaitOffsets(
        topic=kip_405.TOPIC, partition=kip_405.PARTITION, broker=A, earliest=6, timeout_s=_LET_GO_S
    )
    return (
        kip_405.created((A, B), segment_messages=2, local_messages=1),
        *kip_405.messages(0, 1, 2, 3, 4),
        kip_405.shipped((0, 1, 0), (2, 3, 0)),
        k.Tell(text="uploads of the third segment fail, and then the store is whole again"),
        k.Inject(
            name="store fails",
            fault=k.HoldPoint(
                name="no-checkpoint", broker=A, point=REMOTE_COPY_CHECKPOINT, manner="fail"
            ),
        ),
        *kip_405.messages(5, 6),
        k.AwaitPoint(broker=A, point=REMOTE_COPY_CHECKPOINT, times=_TRIES),
        k.Heal(name="store fails"),
        kip_405.shipped((0, 1, 0), (2, 3, 0), (4, 5, 0), finished_only=True),
        kip_405.begins(A, 6),
        k.Tell(text="seven messages are there, and eight are to be kept; two more follow"),
        kip_405.configured("retention", "retention.bytes", 8),
        k.IfPossible(do=let_go),
        *kip_405.messages(7, 8),
        kip_405.begins(A, 8),
        *kip_405.settled(A, (A, B), 9),
    )


_FAILED = {"hit": {"point": REMOTE_COPY_CHECKPOINT, "broker": A, "fate": "failed"}}
_BREACHED = {
    "log": {
        "broker": A,
        "pattern": r"delete remote log segment .* due to retention size \d+ breach",
    }
}
_KEPT = {"observed": {"kind": "not-possible", "name": "AwaitOffsets"}}

KAFKA_17062 = k.Entry(
    name="KAFKA-17062",
    title="Uploads that failed count, and acknowledged records go before retention.bytes",
    story=(
        "The remote store fails for a while, and each attempt to upload a segment leaves its "
        "record in the metadata topic (COPY_SEGMENT_STARTED). Then the store is whole again, and "
        "all segments are uploaded. Up to 3.8.0 a leader adds the size of every attempt to that "
        "of the log. So it deletes segments from the remote tier that retention.bytes asks to "
        "keep, here all of them, and moves its log start behind them; followers do likewise. From "
        "3.8.1 on only copies that have ended count."
    ),
    source=(
        "KAFKA-17062 (fixed in 3.8.1 and 3.9.0); kafka.log.remote.RemoteLogManager."
        "buildRetentionSizeData, 3.6.2 and 3.9.1; measured"
    ),
    cases={_CASE: "the store failed four times or more, and is whole again"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "3.6.2"): k.Expectation(
            safe=False, findings=(("committed-loss", (), 0, 5),), witness=(_FAILED, _BREACHED)
        ),
        (_CASE, "3.9.1"): k.Expectation(safe=True, witness=(_FAILED, _KEPT)),
    },
)
