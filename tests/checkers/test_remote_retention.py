"""Segments that leave the remote tier: what retention allows, and what it does not."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.checkers.acts import StartBroker, TopicPartition
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.tier import RemoteEvent
from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.remote_log_metadata import RemoteSegmentRecord
from kchaos.checkers.model.values.events import TopicConfigured, TopicDeletion
from kchaos.checkers.rules.remote_retention import deleted_too_early
from kchaos.checkers.segments.tier import FINISHED, STARTED, RemoteSegmentMetadata
from kchaos.checkers.unknown import Judgement, remote_deletions_not_judged

T = TopicPartition("t", 0)
MESSAGE = 84
DELETING = "DELETE_SEGMENT_STARTED"
DELETED_AT_MS = 50_000


def event(number: int, state: str, *, name: str = "", time_ms: int = 10_000) -> RemoteEvent:
    """A record about the segment with messages 2 * number and the next one."""
    segment = RemoteSegmentMetadata(
        segment_id=name or f"segment-{number}",
        topic="t",
        partition=0,
        broker=0,
        state=state,
        start_offset=2 * number,
        end_offset=2 * number + 1,
        leader_epochs=((0, 2 * number),),
        size_bytes=2 * MESSAGE,
        max_timestamp_ms=9_000,
    )
    record = RemoteSegmentRecord(
        segment_id=segment.segment_id,
        topic_id="id",
        topic="t",
        partition=0,
        broker=0,
        time_ms=time_ms,
        state=state,
    )
    return RemoteEvent(record=record, segment=segment)


def copied(number: int, *, name: str = "") -> list[RemoteEvent]:
    return [event(number, STARTED, name=name), event(number, FINISHED, name=name)]


def produced(offset: int, *, at_s: float = 5.0) -> Operation:
    return Operation(
        operation=f"message-{offset}",
        function="produce",
        topic="t",
        partition=0,
        broker=0,
        acks=-1,
        outcome="ok",
        promised=True,
        payloads=(f"payload-{offset}",),
        base_offset=offset,
        invoked_at=at_s,
        ended_at=at_s + 0.1,
    )


def run(
    *events: RemoteEvent,
    messages: int = 7,
    settings: dict[str, str] | None = None,
    release: str = "3.6.2",
    **given: Any,
) -> RunEvidence:
    """A run of seven messages, of which two segments were copied, and then what is told."""
    configured = TopicConfigured(
        topic="t", configuration=tuple((settings or {"retention.bytes": str(14 * MESSAGE)}).items())
    )
    batches = [SimpleNamespace(base_offset=at, size_bytes=MESSAGE) for at in range(messages)]
    fields: dict[str, Any] = {
        "is_tiered": True,
        "partitions": (T,),
        "deletions": {},
        "remote_events": (*copied(0), *copied(1), *events),
        "events": (
            TimedEvent(event=StartBroker(broker=0, release=release), zxid=0, time=0.5),
            TimedEvent(event=configured, zxid=1, time=1.0),
        ),
        "broker_properties": {},
        "deleted_until": {},
        "operations": tuple(map(produced, range(messages))),
        "snapshots": (SimpleNamespace(label="final", brokers={0: None}),),
        "copied": SimpleNamespace(contents=lambda *_: SimpleNamespace(batches=batches)),
    }
    return cast(RunEvidence, SimpleNamespace(**{**fields, **given}))


def found(evidence: RunEvidence, kind: str = "committed-loss") -> list[Finding]:
    return [finding for finding in deleted_too_early(evidence) if finding.kind == kind]


FIRST_GOES = event(0, DELETING, time_ms=DELETED_AT_MS)
FAILED = [event(2, STARTED, name=f"failed-{number}") for number in range(6)]


def test_copies_that_failed_are_no_part_of_what_retention_keeps():
    """KAFKA-17062: 3.6.2 counted them, and let messages 0 and 1 of seven go, of 14 allowed."""
    (finding,) = found(run(*FAILED, FIRST_GOES))

    assert finding.kind == "committed-loss"
    assert (finding.first_offset, finding.last_offset) == (0, 1)
    assert finding.message == (
        "the remote tier let the acknowledged records at offsets 0 to 1 go before retention "
        "allows it: retention.bytes 1176 bytes, retention.ms 604800000 ms"
    )


@pytest.mark.parametrize(
    ("release", "failed", "is_predicted"),
    [("3.6.2", 6, True), ("3.8.0", 6, True), ("3.6.2", 1, False), ("3.9.1", 6, False)],
)
def test_a_release_that_counts_failed_copies_may_do_so_and_no_other(
    release: str, failed: int, is_predicted: bool
):
    evidence = run(*FAILED[:failed], FIRST_GOES, release=release)

    assert len(found(evidence)) == 1
    wrong = [finding.message for finding in found(evidence, "not-as-predicted")]
    assert (
        wrong
        == [
            "broker 0 deleted the remote segment with offsets 0 to 1, which its release does not "
            "allow: retention.bytes 1176 bytes, retention.ms 604800000 ms"
        ][: 0 if is_predicted else 1]
    )


@pytest.mark.parametrize(
    "allowed",
    [
        # Five messages are left, and no more are to be kept.
        run(FIRST_GOES, settings={"retention.bytes": str(5 * MESSAGE)}),
        run(FIRST_GOES, settings={"retention.ms": "40000"}),
        run(FIRST_GOES, deleted_until={T: 2}),
        run(*copied(0, name="again"), FIRST_GOES),
        run(*FAILED, event(2, DELETING, name="failed-0")),
        run(FIRST_GOES, operations=()),
        run(FIRST_GOES, is_tiered=False),
    ],
    ids=["size", "time", "DeleteRecords", "copied twice", "failed copy", "nothing sent", "local"],
)
def test_what_may_go_is_no_finding(allowed: RunEvidence):
    assert found(allowed) == []


@pytest.mark.parametrize(
    "settings", [{"retention.bytes": str(6 * MESSAGE)}, {"retention.ms": "41001"}, {}]
)
def test_one_message_or_moment_more_and_it_may_not_go(settings: dict[str, str]):
    assert len(found(run(FIRST_GOES, settings=settings))) == 1


def test_what_was_sent_later_does_not_count():
    """Two messages after the deletion do not make the log large enough at its time."""
    settings = {"retention.bytes": str(6 * MESSAGE)}
    sent = (*map(produced, range(7)), produced(7, at_s=60.0), produced(8, at_s=61.0))

    assert found(run(FIRST_GOES, messages=9, settings=settings)) == []
    assert len(found(run(FIRST_GOES, messages=9, settings=settings, operations=sent))) == 1


def test_what_a_deletion_of_the_topic_may_have_taken_is_not_judged():
    gone = TopicDeletion(topic="t", asked=2, zxid=2, time=1.0)
    evidence = run(*FAILED, FIRST_GOES, deletions={"t": [gone]})
    assert found(evidence) == []
    judgement = Judgement(evidence=evidence, prediction=None, findings=())
    assert [*remote_deletions_not_judged(judgement)] == [
        "segments of t-0 were deleted from the remote tier, and an unclean election, a disk or a "
        "deletion may have taken its records before"
    ]


def test_what_was_promised_of_a_segment_alone_is_told():
    only_one = tuple(
        replace(produced(at), promised=False) if at == 0 else produced(at) for at in range(7)
    )

    (finding,) = found(run(FIRST_GOES, operations=only_one))

    assert (finding.first_offset, finding.last_offset) == (1, 1)
