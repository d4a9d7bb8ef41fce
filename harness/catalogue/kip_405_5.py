"""KIP-405, scenario 5: two lineages in the remote tier, and a replica that comes back empty."""

from collections.abc import Mapping
from typing import Any

import kchaos as k
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.harness.catalogue import kip_405

A, B, CONTROLLER = 0, 1, 2


_EPOCH_OF_B = 1
"""B's epoch, which the page calls LE-1: the controller elects it at once when A is gone."""


def _cluster(kafka: str) -> k.ClusterSpec:
    properties = {**kip_405.UNCLEAN, "group.initial.rebalance.delay.ms": "0"}
    return kip_405.tiered_cluster(kafka, (A, B, CONTROLLER), CONTROLLER, properties)


def _reader(when: str, *, broker: int) -> tuple[k.Step, ...]:
    """Read as the page at (3, LE-1): by raw requests to a broker, and by Kafka's own consumer."""
    return (
        k.AskAs(
            operation=f"asked-{when}",
            topic=kip_405.TOPIC,
            partition=kip_405.PARTITION,
            broker=broker,
            offset=3,
            leader_epoch=_EPOCH_OF_B,
        ),
        k.ConsumeFrom(
            operation=f"consumer-{when}",
            topic=kip_405.TOPIC,
            partition=kip_405.PARTITION,
            coordinator=CONTROLLER,
            offset=3,
            leader_epoch=_EPOCH_OF_B,
            records=4,
        ),
    )


def _steps(case: str) -> tuple[k.Step, ...]:
    second = ((0, 3, None),) if case == kip_405.UPLOADED else ()
    return (
        kip_405.created((A, B), segment_messages=4, local_messages=100),
        *kip_405.messages(0, 1),
        kip_405.level((A, B), 2),
        k.Tell(text="broker B falls out of sync; A goes on alone and ships a segment"),
        k.Inject(name="B is cut off", fault=k.CutLink(source=A, target=B)),
        kip_405.message(2, acks=1),
        kip_405.elected(A, (A,)),
        *kip_405.messages(3, 4),
        kip_405.shipped((0, 3, 0)),
        k.TakeSnapshot(label="step-1"),
        k.Tell(text="A dies; B, out of sync, is elected, writes its own and ships a segment"),
        k.Inject(name="A is down", fault=k.KillBroker(broker=A)),
        kip_405.elected(B, (B,)),
        # Numbers on the page are those of the lineage: its messages 4, 5 and 6 are other ones.
        *kip_405.messages(14, 15, 16),
        kip_405.shipped((0, 3, 0), *second),
        *kip_405.read_all("B-leads", B),
        k.TakeSnapshot(label="step-2"),
        *_second_election(second),
    )


def _second_election(second: tuple[tuple[int, int, int | None], ...]) -> tuple[k.Step, ...]:
    """Return the steps from the second unclean election on."""
    return (
        k.Tell(text="B dies; A, which never heard of B's epoch, is elected and ships on"),
        k.Inject(name="B is down", fault=k.KillBroker(broker=B)),
        kip_405.elected(-1, (B,)),
        k.Heal(name="B is cut off"),
        k.Heal(name="A is down"),
        kip_405.elected(A, (A,)),
        kip_405.configured("two to a segment", "segment.bytes", 2),
        *kip_405.messages(7, 8),
        kip_405.shipped((0, 3, 0), *second, (4, 5, None)),
        k.TakeSnapshot(label="step-3"),
        kip_405.configured("local retention", "local.retention.bytes", 1),
        kip_405.begins(A, 6),
        *kip_405.read_all("A-leads", A),
        k.Tell(text="B comes back without any data"),
        k.Inject(name="B is reimaged", fault=k.WipeLogDirectory(broker=B)),
        k.Heal(name="B is down"),
        kip_405.elected(A, (A, B)),
        kip_405.level((A, B), 7),
        kip_405.begins(B, 6),
        k.TakeSnapshot(label="step-4"),
        *_reader("B-follows", broker=B),
        kip_405.NOTHING_EXPIRES,
        k.Tell(text="beyond the page: B leads, and is asked for everything"),
        k.ReorderReplicas(topic=kip_405.TOPIC, partition=kip_405.PARTITION, replicas=(B, A)),
        k.Inject(name="B leads", fault=kip_405.PREFERRED),
        kip_405.elected(B, (A, B)),
        *kip_405.read_all("B-leads-again", B),
        *_reader("B-leads", broker=B),
    )


_FENCED = ErrorCode.FENCED_LEADER_EPOCH.value
_NOT_LEADER = ErrorCode.NOT_LEADER_FOR_PARTITION.value
_OUT_OF_RANGE = ErrorCode.OFFSET_OUT_OF_RANGE.value


def _asked(when: str, request: str, error_code: int, **answer: Any) -> Mapping[str, Any]:
    """Return the witness of this response to a raw request."""
    fields = {"operation": f"asked-{when}", "request": request, "error_code": error_code}
    return {"observed": {"kind": "asked", **fields, **answer}}


def _reader_of(when: str, of_leader: int, of_epoch: int, **of_consumer: Any) -> tuple[Any, ...]:
    """Return the page's readings, which are equal on all releases except for its consumer's.

    `of_leader` is the error of a Fetch that only leaders answer, `of_epoch` that of
    OffsetForLeaderEpoch, and `of_consumer` the result of Kafka's own consumer.
    """
    answered = [-1, -1] if of_epoch else [0, 5]
    return (
        _asked(when, "Fetch v10", of_leader, records=[]),
        _asked(when, "Fetch v11", _OUT_OF_RANGE, records=[]),
        _asked(when, "Fetch v11, current_leader_epoch", _FENCED, records=[]),
        _asked(when, "Fetch v12, last_fetched_epoch", 0, records=[], diverging=[0, 5]),
        _asked(when, "OffsetForLeaderEpoch", of_epoch, answered=answered),
        {"observed": {"kind": "consumed", "operation": f"consumer-{when}", **of_consumer}},
    )


_REFUSED: Mapping[str, Any] = {"records": [], "error": "OffsetOutOfRangeException"}
_READ_ON: Mapping[str, Any] = {
    "records": [[at, f"message-{number:06d}-0"] for at, number in ((3, 3), (4, 4), (5, 7), (6, 8))],
    "error": "",
}
_LEADS = _reader_of("B-leads", _OUT_OF_RANGE, 0, **_REFUSED)
_RESTART = kip_405.epochs("step-4", B, 0, 5)
_MOVED = kip_405.sent_to_the_tier(B, A)

KIP_405_5 = k.Entry(
    name="KIP-405-5",
    title="Two lineages diverge in the remote tier, and readers get the leader's",
    story=(
        "A ships a segment; B, out of sync, is elected uncleanly and ships another one with the "
        "same offsets; then A is elected uncleanly in turn, knowing nothing of B's epoch, and "
        "ships on. B comes back without data and builds upon A's newest segment. Readers must get "
        "A's lineage from both, though the remote tier holds B's at the same offsets too. They do "
        "not: the metadata cache has one segment for each epoch and first offset, and here it is "
        "B's (RemoteLogLeaderEpochState). So nobody finds A's records at offsets 2 and 3, although "
        "they are acknowledged and in the log of the leader. A reader who goes on from offset 0 "
        "gets B's. On 3.6 B ships nothing (KAFKA-15241), so that A's are found while A leads; when "
        "B leads it refuses readers of all that is remote (KAFKA-15695). A reader at offset 3 of "
        "B's epoch is fenced only if its Fetch says that epoch, as the page expects. Kafka's own "
        "consumer says the newest one. Its position passes the question for B's epoch, since that "
        "is answered with the end of epoch 0. So the consumer gets OFFSET_OUT_OF_RANGE. On 3.6, "
        "while A leads, it reads A's records on without a word."
    ),
    source="KIP-405, follower replication, scenario 5; KAFKA-15241; KAFKA-15695",
    cases=kip_405.FIXED_UPLOADS,
    cluster=_cluster,
    steps=_steps,
    cannot_show=kip_405.why_not_uploads,
    expectations={
        (kip_405.NEVER_UPLOADED, "3.6.2"): k.Expectation(
            safe=False,
            findings=(("tier-unreadable", (B,), 0, 5),),
            witness=(
                *(_MOVED, _RESTART, *kip_405.as_printed(5, "3.6.2")),
                *_reader_of("B-follows", _NOT_LEADER, _NOT_LEADER, **_READ_ON),
                *_LEADS,
            ),
        ),
        (kip_405.UPLOADED, "3.9.1"): k.Expectation(
            safe=False,
            findings=(
                ("tier-orphan", (A,), 2, 3),
                ("tier-orphan", (B,), 2, 3),
                ("tier-other-lineage", (A,), 2, 3),
                ("tier-other-lineage", (B,), 2, 3),
                ("tier-unreadable", (A,), 2, 3),
                ("tier-unreadable", (B,), 2, 3),
            ),
            witness=(
                *(_MOVED, _RESTART, *kip_405.as_printed(5, "3.9.1")),
                *_reader_of("B-follows", _NOT_LEADER, _NOT_LEADER, **_REFUSED),
                *_LEADS,
            ),
        ),
    },
)
