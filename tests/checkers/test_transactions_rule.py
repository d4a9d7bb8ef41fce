"""Transactions on disk and in what read_committed clients were told, by planted faults."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kchaos.checkers.evidence.clients import CommittedRead
from kchaos.checkers.evidence.markers import Marker
from kchaos.checkers.evidence.partition import OBSERVED, BatchEvidence, Excuse, PartitionEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.values.producers import ProducerMark
from kchaos.checkers.rules.transactions import committed_reads, transactions_ended
from tests.support.rule_evidence import acknowledged, batch, evidence, replica
from tests.support.work import calls_of


def data(base_offset: int, producer_id: int, *values: str, sequence: int = 0) -> BatchEvidence:
    mark = ProducerMark(
        producer_id=producer_id, producer_epoch=0, base_sequence=sequence, is_transactional=True
    )
    return replace(batch(base_offset, 0, *values), marks=str(mark), producer_id=producer_id)


def asked(producer_id: int, at: float, *, is_commit: bool = True, **more: Any) -> Marker:
    usual: dict[str, Any] = {
        "operation": f"marker-{producer_id}-{at}",
        "broker": 0,
        "topic": "t",
        "partition": 0,
        "producer_id": producer_id,
        "producer_epoch": 0,
        "is_commit": is_commit,
        "coordinator_epoch": 0,
        "asked_at": at,
        "answered_at": at + 1,
    }
    return Marker(**{**usual, **more})


def written(base_offset: int, marker: Marker) -> BatchEvidence:
    return replace(
        batch(base_offset, 0, "?"),
        payload=marker.payload,
        marks=str(marker.mark),
        producer_id=marker.producer_id,
    )


COMMIT = asked(7, 10.0)
ABORT = asked(8, 20.0, is_commit=False)
LOG = (
    data(0, 7, "a"),
    data(1, 8, "b"),
    written(2, COMMIT),
    data(3, 7, "c", sequence=1),
    written(4, ABORT),
    written(5, replace(COMMIT, asked_at=30.0, answered_at=31.0)),
)
MARKERS = (COMMIT, ABORT, replace(COMMIT, operation="third", asked_at=30.0, answered_at=31.0))


def produced(base_offset: int, producer_id: int, transaction: Any) -> Any:
    mark = ProducerMark(
        producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    return replace(
        acknowledged(f"p{base_offset}", base_offset, "x", client="mine"),
        producer=mark,
        transaction=transaction,
    )


def ended(at: float, **fields: Any) -> PartitionEvidence:
    """A transaction whose commit the coordinator answered, and that has no marker."""
    told = replace(produced(0, 7, "committed"), transaction_ended_at=at)
    usual = {"markers": (), "operations": (told,), "copied_from": 900.0, "undisturbed_since": 800.0}
    return evidence(replica(0, data(0, 7, "a")), **{**usual, **fields})


PRODUCED = (produced(0, 7, "committed"), produced(1, 8, "aborted"), produced(3, 7, "committed"))


def run(log: Sequence[BatchEvidence] = LOG, **fields: Any) -> PartitionEvidence:
    usual = {"markers": MARKERS, "operations": PRODUCED, "copied_from": 900.0}
    return evidence(replica(0, *log), replica(1, *log), **{**usual, **fields})


def told(findings: Any) -> list[tuple[str, int, int]]:
    listed: list[Finding] = list(findings)
    return [(finding.kind, finding.first_offset, finding.last_offset) for finding in listed]


# -- on disk --------------------------------------------------------------------------------------


def test_transactions_that_ended_as_their_clients_were_told_are_clean():
    assert told(transactions_ended(run(), OBSERVED)) == []


def test_a_committed_transaction_that_its_marker_aborts_is_found():
    planted = run((*LOG[:2], written(2, replace(COMMIT, is_commit=False)), *LOG[3:]))
    markers = (*MARKERS, replace(COMMIT, is_commit=False, answered_at=None))

    kinds = told(transactions_ended(replace(planted, markers=markers), OBSERVED))

    assert ("committed-as-aborted", 0, 0) in kinds


def test_an_aborted_transaction_that_its_marker_commits_is_found():
    commits = replace(ABORT, is_commit=True)
    planted = run((*LOG[:4], written(4, commits), LOG[5]), markers=(*MARKERS, commits))

    assert ("aborted-as-committed", 1, 1) in told(transactions_ended(planted, OBSERVED))


def test_a_marker_that_its_leader_said_to_have_written_and_that_is_not_there_is_lost():
    planted = run(LOG[:-1])

    assert told(transactions_ended(planted, OBSERVED)) == [("lost-marker", -1, -1)]


@pytest.mark.parametrize(
    "last",
    [
        replace(MARKERS[2], answered_at=None),
        replace(MARKERS[2], error_code=19),
        replace(MARKERS[2], answered_at=901.0),
    ],
)
def test_a_marker_that_nobody_said_to_be_written_in_time_may_be_missing(last: Marker):
    clean = run(LOG[:-1], markers=(*MARKERS[:2], last))

    assert told(transactions_ended(clean, OBSERVED)) == []


def test_a_marker_that_was_written_twice_ends_its_transaction_once():
    again = written(6, replace(COMMIT, asked_at=32.0))
    clean = run((*LOG, again), markers=(*MARKERS, replace(COMMIT, asked_at=32.0)))

    assert told(transactions_ended(clean, OBSERVED)) == []


def test_what_was_sent_outside_of_any_transaction_hangs():
    late = data(6, 8, "late")
    planted = run((*LOG, late), operations=(*PRODUCED, produced(6, 8, "none")))

    assert told(transactions_ended(planted, OBSERVED)) == [("hanging-transaction", 6, 6)]
    still_open = run((*LOG, late), operations=(*PRODUCED, produced(6, 8, "open")))
    assert told(transactions_ended(still_open, OBSERVED)) == []


@pytest.mark.parametrize(
    ("change", "hangs"),
    [
        ({}, True),
        ({"producer_epoch": 0}, False),
        ({"producer_id": 9}, False),
        ({"error_code": 19}, False),
        # Who was fenced while the batch was on its way may have been in time.
        ({"answered_at": 42.0}, False),
    ],
)
def test_what_a_fenced_producer_sends_hangs(change: dict[str, Any], hangs: bool):
    fencing = asked(8, 40.0, is_commit=False, producer_epoch=1)
    late = replace(produced(7, 8, "open"), invoked_at=41.5)
    planted = run(
        (*LOG, written(6, fencing), data(7, 8, "late")),
        operations=(*PRODUCED, late),
        markers=(*MARKERS, replace(fencing, **change)),
    )

    kinds = {finding[0] for finding in told(transactions_ended(planted, OBSERVED))}
    assert ("hanging-transaction" in kinds) == hangs


@pytest.mark.parametrize(
    "fields",
    [
        {"is_compacted": True},
        {"may_delete": True},
        {"markers": None},
        {"excuses": (Excuse(kind="unclean-election", broker=1, time=15.0),)},
    ],
)
def test_a_log_that_may_have_lost_something_is_not_compared(fields: dict[str, Any]):
    assert told(transactions_ended(run(LOG[:-1], **fields), OBSERVED)) == []


# -- what read_committed clients were told --------------------------------------------------------


def read(high_watermark: int, last_stable_offset: int, at: float, **more: Any) -> CommittedRead:
    usual: dict[str, Any] = {
        "client": "mine",
        "broker": 0,
        "topic": "t",
        "partition": 0,
        "asked_at": at - 0.5,
        "answered_at": at,
        "high_watermark": high_watermark,
        "last_stable_offset": last_stable_offset,
    }
    return CommittedRead(**{**usual, **more})


@pytest.mark.parametrize(
    "reads",
    [
        [read(2, 0, 5.0)],
        [read(3, 1, 15.0), read(4, 1, 16.0)],
        [read(4, 1, 16.0), read(6, 6, 40.0, given=((3, 3),), left_out=((1, 1),))],
        # The high watermark moves while the two are read.
        [read(2, 0, 5.0), read(3, 0, 15.0)],
        [read(2, 1, 15.0)],
    ],
)
def test_what_a_leader_may_tell_is_clean(reads: Sequence[CommittedRead]):
    assert told(committed_reads(run(committed_reads=tuple(reads)), OBSERVED)) == []


@pytest.mark.parametrize(
    "reads",
    [
        # Beyond a transaction of which nobody has asked for the end.
        [read(2, 1, 5.0)],
        [read(4, 4, 16.0)],
        [read(2, 2, 5.0)],
        # It stays where a transaction has ended, as an answer before the question says.
        [read(6, 6, 40.0), read(6, 3, 42.0)],
        [read(6, 5, 40.0)],
    ],
)
def test_a_last_stable_offset_that_no_log_gives_is_found(reads: Sequence[CommittedRead]):
    planted = run(committed_reads=tuple(reads))

    assert told(committed_reads(planted, OBSERVED)) == [("not-as-predicted", -1, -1)]


def test_a_record_of_an_aborted_transaction_that_is_given_is_found():
    planted = run(committed_reads=(read(6, 6, 40.0, given=((0, 0), (1, 1), (3, 3))),))

    assert told(committed_reads(planted, OBSERVED)) == [("aborted-read", 1, 1)]


def test_a_record_of_a_committed_transaction_that_is_left_out_is_found():
    planted = run(committed_reads=(read(6, 6, 40.0, given=((0, 0),), left_out=((1, 1), (3, 3))),))

    assert told(committed_reads(planted, OBSERVED)) == [("committed-as-aborted", 3, 3)]


def test_what_was_told_while_disks_were_copied_is_not_compared():
    late = run(committed_reads=(read(6, 5, 901.0, given=((1, 1),)),))

    assert told(committed_reads(late, OBSERVED)) == []


def test_reads_take_no_square_of_the_transactions():
    def judge(count: int) -> None:
        log, markers, reads = list[BatchEvidence](), list[Marker](), list[CommittedRead]()
        for number in range(count):
            marker = asked(7, 10.0 * number)
            log += [data(2 * number, 7, "a", sequence=number), written(2 * number + 1, marker)]
            markers.append(marker)
            reads.append(read(2 * number + 1, 2 * number, 10.0 * number - 1))
        judged = run(log, markers=tuple(markers), operations=(), committed_reads=tuple(reads))
        assert told(committed_reads(replace(judged, copied_from=1e9), OBSERVED)) == []

    judge(10)
    assert calls_of(lambda: judge(200)) < 2.5 * calls_of(lambda: judge(100))


def test_a_transaction_that_was_answered_gets_its_marker_within_ten_seconds():
    (finding,) = transactions_ended(ended(889.0), OBSERVED)
    assert finding.kind == "hanging-transaction"
    assert "no marker ends its records at offset 0 though nothing disturbed" in finding.message
    assert "for 11 s" in finding.message


def test_a_marker_that_its_leader_cannot_read_never_comes():
    unread = (replace(COMMIT, broker=0),)
    (finding,) = transactions_ended(ended(899.0, unread_markers=unread), OBSERVED)
    assert finding.kind == "hanging-transaction"
    assert "broker 0 hangs up on the marker for the records at offset 0" in finding.message
    others = (replace(COMMIT, broker=1), replace(COMMIT, broker=0, producer_id=8))
    assert [*transactions_ended(ended(899.0, unread_markers=others), OBSERVED)] == []


@pytest.mark.parametrize(
    ("at", "fields"),
    [
        (891.0, {}),
        (889.0, {"undisturbed_since": 891.0}),
        (889.0, {"copied_from": None}),
        (889.0, {"markers": None}),
    ],
)
def test_a_coordinator_may_still_be_about_to_send_a_marker(at: float, fields: Any):
    assert [*transactions_ended(ended(at, **fields), OBSERVED)] == []
