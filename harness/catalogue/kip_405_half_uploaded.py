"""KIP-405: a leader dies half way through an upload; the metadata names it, the data is partial."""

import kchaos as k
from kchaos.clusters.agent.points import REMOTE_COPY_CHECKPOINT
from kchaos.harness.catalogue import kip_405

A, B, CONTROLLER = 0, 1, 2
_CASE = "leader-dies"


def _cluster(kafka: str) -> k.ClusterSpec:
    return kip_405.failing_store(kafka, A, REMOTE_COPY_CHECKPOINT)


def _steps(case: str) -> tuple[k.Step, ...]:
    assert case == _CASE
    return (
        kip_405.created((A, B), segment_messages=2, local_messages=1),
        k.Inject(
            name="store hangs",
            fault=k.HoldPoint(name="no-checkpoint", broker=A, point=REMOTE_COPY_CHECKPOINT),
        ),
        *kip_405.messages(0, 1, 2),
        kip_405.level((A, B), 3),
        k.Tell(text="the log is in the store, its checkpoint is not, and the leader dies"),
        k.AwaitHeld(name="store hangs"),
        k.TakeSnapshot(label="half"),
        k.Inject(name="A is down", fault=k.KillBroker(broker=A)),
        kip_405.elected(B, (B,)),
        k.Tell(text="B leads, and ships the same segment itself"),
        kip_405.message(3),
        kip_405.message(4),
        kip_405.shipped((0, 1, 0), (2, 3, None), finished_only=True),
        kip_405.begins(B, 4),
        *kip_405.read_all("B-leads", B),
        k.TakeSnapshot(label="shipped"),
        k.Heal(name="store hangs"),
        kip_405.NOTHING_EXPIRES,
        k.Heal(name="A is down"),
        *kip_405.settled(B, (A, B), 5),
    )


_HALF = {
    "table": {
        "snapshot": "half",
        "partition": f"{kip_405.TOPIC}-{kip_405.PARTITION}",
        "columns": {
            "remote": ["seg-0-1 (COPY_SEGMENT_STARTED)", "0: msg 0 LE-0", "1: msg 1 LE-0"],
            "metadata": ["seg-0-1 (COPY_SEGMENT_STARTED)", "LE-0, 0"],
        },
    }
}
_LEFT = {
    "table": {
        "snapshot": "shipped",
        "partition": f"{kip_405.TOPIC}-{kip_405.PARTITION}",
        "columns": {
            "remote": [
                "seg-0-1 (COPY_SEGMENT_STARTED)",
                "0: msg 0 LE-0",
                "1: msg 1 LE-0",
                "seg-0-1",
                "0: msg 0 LE-0",
                "1: msg 1 LE-0",
                "epochs: LE-0, 0",
                "seg-2-3",
                "2: msg 2 LE-0",
                "3: msg 3 LE-1",
                "epochs: LE-0, 0",
                "epochs: LE-1, 3",
            ]
        },
    }
}
_WITNESS = ({"hit": {"point": REMOTE_COPY_CHECKPOINT, "broker": A, "fate": "held"}}, _HALF, _LEFT)

KIP_405_HALF_UPLOADED = k.Entry(
    name="KIP-405-half-uploaded",
    title="A leader dies in the middle of an upload, and the next one ships the segment itself",
    story=(
        "The metadata topic says that a copy has begun and the store has a part of it when the "
        "leader dies. Its successor counts only copies that have ended. So it ships the same "
        "segment under another id, and lets its local one go only then: readers miss nothing. What "
        "the dead leader left in the store and in the metadata stays there: only its own broker "
        "would have deleted it. The old leader comes back behind all that is local and builds on "
        "the remote tier; on 3.6 nobody then gets from it what is remote (KAFKA-15695): it is "
        "never elected here, and is read from as a follower at the end."
    ),
    source=(
        "KIP-405; kafka.log.remote.RemoteLogManager (copyLogSegment), 3.6.2 and 3.9; KAFKA-15695"
    ),
    cases={_CASE: "the leader is killed between a segment's log and its checkpoint"},
    cluster=_cluster,
    steps=_steps,
    expectations={
        (_CASE, "3.6.2"): k.Expectation(
            safe=False, findings=(("tier-unreadable", (A,), 0, 3),), witness=_WITNESS
        ),
        (_CASE, "3.9.1"): k.Expectation(safe=True, witness=_WITNESS),
    },
)
