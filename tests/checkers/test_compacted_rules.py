"""Logs from which a log cleaner removed records: what it may remove, and what is lost."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kchaos.checkers.evidence.history import Operation, record_payload
from kchaos.checkers.evidence.partition import (
    OBSERVED,
    BatchEvidence,
    EarlierReplica,
    PartitionEvidence,
    ReplicaEvidence,
)
from kchaos.checkers.rules.backwards import truncated_below_high_watermark
from kchaos.checkers.rules.divergence import divergence
from kchaos.checkers.rules.hole import hole
from kchaos.checkers.rules.loss import loss
from kchaos.checkers.segments.batch import join_payload_digests
from tests.support.rule_evidence import Shown, batch, evidence, replica, shown


def written(operation: str, base_offset: int, *keys: str, acks: int = -1) -> Operation:
    """An operation whose record with key k has the value OPERATION-k."""
    return Operation(
        operation=operation,
        function="produce",
        broker=0,
        topic="t",
        partition=0,
        acks=acks,
        outcome="ok",
        promised=acks == -1,
        payloads=tuple(record_payload(f"{operation}-{key}", key) for key in keys),
        keys=keys,
        base_offset=base_offset,
        isr_when_ended=(0, 1),
        ended_at=800.0,
    )


def on_disk(operation: Operation, epoch: int, *kept: int) -> BatchEvidence:
    """The operation's batch with the records at these places; without any, with all."""
    places = kept or range(len(operation.keys))
    payload = join_payload_digests((operation.payloads[place], 1) for place in places)
    first = operation.base_offset
    return BatchEvidence(
        base_offset=first,
        last_offset=first + len(operation.keys) - 1,
        leader_epoch=epoch,
        magic=2,
        payload=payload,
        record_count=len(places),
    )


ONCE = written("once", 0, "a", "b", "c")
AGAIN = written("again", 3, "a", "b")
LAST = written("last", 5, "d")
OPERATIONS: dict[str, Any] = {"operations": (ONCE, AGAIN, LAST), "cleaned_until": 5}
THINNED = (on_disk(ONCE, 0, 2), on_disk(AGAIN, 1), on_disk(LAST, 1))
WHOLE = (on_disk(ONCE, 0), on_disk(AGAIN, 1), on_disk(LAST, 1))


def test_what_was_written_again_and_is_gone_is_not_lost():
    assert shown(loss(evidence(replica(0, *THINNED), **OPERATIONS), OBSERVED)) == []


def test_without_a_cleaner_the_same_log_has_lost_records():
    seen = evidence(replica(0, *THINNED), operations=(ONCE, AGAIN, LAST))

    assert shown(loss(seen, OBSERVED)) == [("committed-loss", (0,), 0, 2)]


def test_a_record_that_was_never_written_again_is_lost_although_a_cleaner_went_over_it():
    planted = (on_disk(ONCE, 0, 0, 1), on_disk(AGAIN, 1), on_disk(LAST, 1))

    told = shown(loss(evidence(replica(0, *planted), **OPERATIONS), OBSERVED))

    assert ("committed-loss", (0,), 2, 2) in [(*each[:2], each[3], each[3]) for each in told]


def test_a_record_that_is_gone_because_of_one_that_is_gone_too_is_lost():
    planted = (on_disk(ONCE, 0, 2), on_disk(LAST, 1))

    assert shown(loss(evidence(replica(0, *planted), **OPERATIONS), OBSERVED)) == [
        ("committed-loss", (0,), 0, 1),
        ("committed-loss", (0,), 3, 4),
    ]


def test_a_record_that_was_written_again_beyond_the_cleaned_part_is_lost():
    seen = evidence(
        replica(0, on_disk(ONCE, 0, 2), on_disk(AGAIN, 1), on_disk(LAST, 1)),
        **OPERATIONS | {"cleaned_until": 3},
    )

    assert shown(loss(seen, OBSERVED)) == [("committed-loss", (0,), 0, 2)]


def test_replicas_that_were_cleaned_at_different_times_have_no_hole_and_do_not_diverge():
    gone = written("gone", 0, "a", "b")
    more = written("more", 2, "a", "b", "c")
    seen = evidence(
        replica(0, on_disk(more, 1)),
        replica(1, on_disk(gone, 0), on_disk(more, 1)),
        operations=(gone, more),
        cleaned_until=5,
    )
    thinned = evidence(replica(0, *THINNED), replica(1, *WHOLE), **OPERATIONS)

    assert shown(hole(seen, OBSERVED)) == []
    assert shown(divergence(thinned, OBSERVED)) == []


def test_records_of_an_epoch_that_was_never_there_are_a_hole_although_a_cleaner_was():
    gone = written("gone", 0, "a", "b")
    more = written("more", 2, "a", "b", "c")
    other = written("other", 0, "x", "y", acks=1)
    seen = evidence(
        replica(0, on_disk(more, 2)),
        replica(1, on_disk(other, 0), on_disk(more, 2)),
        operations=(other, gone, more),
        cleaned_until=5,
    )

    assert shown(hole(seen, OBSERVED)) == [("hole", (0,), 0, 1)]


def test_a_batch_of_another_epoch_diverges_although_its_rest_was_cleaned():
    other = written("other", 0, "x", "y", "z", acks=1)
    seen = evidence(
        replica(0, *THINNED),
        replica(1, on_disk(other, 1), *WHOLE[1:]),
        **OPERATIONS | {"operations": (other, ONCE, AGAIN, LAST)},
    )

    ((kind, brokers, first, last),) = shown(divergence(seen, OBSERVED))

    assert (kind, brokers, last) == ("divergence", (0, 1), 2)
    assert first <= last


def test_what_a_cleaner_removed_was_not_truncated():
    before = EarlierReplica(
        side=OBSERVED,
        broker=0,
        snapshot="before",
        time=0.0,
        leader_epoch=3,
        high_watermarks=(6,),
        batches=WHOLE,
    )
    gone = (on_disk(AGAIN, 1), on_disk(LAST, 1))
    all_again = written("again", 3, "a", "b", "c")
    cleaned = evidence(
        replica(0, on_disk(all_again, 1)),
        earlier=(before,),
        operations=(ONCE, all_again),
        cleaned_until=6,
    )
    cut = evidence(replica(0, *gone), earlier=(before,), **OPERATIONS)

    assert ("truncated-below-high-watermark", (0,), 0, 2) not in shown(
        truncated_below_high_watermark(cleaned, OBSERVED)
    )
    assert shown(truncated_below_high_watermark(cut, OBSERVED)) == [
        ("truncated-below-high-watermark", (0,), 2, 2)
    ]


def test_a_keyless_record_that_is_gone_is_lost():
    keyless = Operation(
        operation="p",
        function="produce",
        broker=0,
        topic="t",
        partition=0,
        acks=-1,
        outcome="ok",
        promised=True,
        payloads=(record_payload("a"),),
        base_offset=0,
        isr_when_ended=(0,),
    )
    seen = evidence(replica(0, batch(1, 0, "b")), operations=(keyless,), cleaned_until=2, isr=(0,))

    assert shown(loss(seen, OBSERVED)) == [("committed-loss", (0,), 0, 0)]


ALL_AGAIN = written("again", 3, "a", "b", "c")
HALF = on_disk(ONCE, 0, 1, 2)
"""What is left if a cleaner went up to offset 4: the later record of a lay there, not that of b."""


def compacted(*replicas: ReplicaEvidence, operations: Sequence[Operation], **fields: Any) -> Any:
    usual: dict[str, Any] = {"operations": operations, "cleaned_until": 6}
    return evidence(*replicas, **{**usual, **fields})


def findings(seen: PartitionEvidence) -> list[Shown]:
    return shown([*loss(seen, OBSERVED), *hole(seen, OBSERVED), *divergence(seen, OBSERVED)])


def test_replicas_may_be_cleaned_up_to_different_offsets():
    again = on_disk(ALL_AGAIN, 1)
    seen = compacted(
        replica(0, HALF, again), replica(1, on_disk(ONCE, 0), again), operations=(ONCE, ALL_AGAIN)
    )

    assert findings(seen) == []


def test_no_cleaner_removes_a_record_and_leaves_one_that_was_written_again_before():
    """The later record of b lies behind that of a: whoever saw it saw that of a too."""
    wrong = compacted(
        replica(0, on_disk(ONCE, 0, 0, 2), on_disk(ALL_AGAIN, 1)),
        replica(1, on_disk(ONCE, 0), on_disk(ALL_AGAIN, 1)),
        operations=(ONCE, ALL_AGAIN),
    )

    assert findings(wrong) == [("divergence", (0, 1), 0, 2)]


GONE = replace(written("gone", 0, "a"), tombstones=(0,), invoked_at=700.0)


@pytest.mark.parametrize(("retention_s", "lost"), [(200.0, []), (400.0, [("committed-loss", 0)])])
def test_a_record_without_a_value_stays_for_as_long_as_the_topic_says(
    retention_s: float, lost: list[tuple[str, int]]
):
    """It was written 300 s before the snapshot."""
    seen = compacted(
        replica(0, on_disk(LAST, 1)),
        operations=(GONE, LAST),
        delete_retention_s=retention_s,
        snapshot_time=1000.0,
    )

    assert [each[::2] for each in findings(seen)] == lost


def test_a_marker_and_an_empty_batch_that_only_one_replica_still_has_are_no_hole():
    marker = replace(on_disk(written("m", 3, "x"), 1), marks="control, transactional")
    empty = replace(on_disk(written("e", 4, "y"), 1), record_count=0, payload="0" * 16)
    once = on_disk(ONCE, 0)
    seen = compacted(
        replica(0, once, marker, empty, on_disk(LAST, 1)),
        replica(1, once, on_disk(LAST, 1)),
        operations=(ONCE, LAST),
    )

    assert findings(seen) == []
    assert findings(replace(seen, cleaned_until=4)) == [("hole", (1,), 4, 4)]


@pytest.mark.parametrize(
    ("outcome", "kinds"), [("info", {"in-doubt"}), ("fail", {"committed-loss"})]
)
def test_a_key_that_a_write_without_an_answer_may_have_had_is_in_doubt(
    outcome: str, kinds: set[str]
):
    late = replace(written("late", 6, "c"), base_offset=-1, outcome=outcome, promised=False)
    seen = compacted(replica(0, on_disk(ALL_AGAIN, 1)), operations=(ONCE, AB_AGAIN, late))

    assert {each[0] for each in findings(seen)} == kinds


AB_AGAIN = replace(ALL_AGAIN, keys=("a", "b", "z"))


def test_a_write_without_an_answer_that_lies_on_a_disk_counts_as_written():
    late = replace(written("late", 3, "a", "b", "c"), base_offset=-1, outcome="info")
    there = on_disk(replace(late, base_offset=3), 1)
    seen = compacted(replica(0, there), operations=(ONCE, late))

    assert findings(seen) == []


def test_what_an_aborted_transaction_wrote_again_is_no_reason_to_remove_a_record():
    aborted = replace(ALL_AGAIN, transaction="aborted")
    there = on_disk(aborted, 1)
    lost = compacted(replica(0, there), operations=(ONCE, aborted))
    own = compacted(replica(0, on_disk(ONCE, 0)), operations=(ONCE, aborted))

    assert findings(lost) == [("committed-loss", (0,), 0, 2)]
    assert findings(own) == []


def test_a_key_of_which_the_last_record_is_gone_on_one_replica_alone_is_a_hole():
    more = written("more", 5, "d", "e")
    whole = (on_disk(ONCE, 0, 2), on_disk(AGAIN, 1), on_disk(more, 1))
    seen = compacted(replica(0, *whole), replica(1, *whole[1:]), operations=(ONCE, AGAIN, more))

    assert findings(seen) == [("hole", (1,), 2, 2)]


def test_what_a_consumer_read_may_be_removed_as_what_was_written():
    read = replace(ONCE, operation="read", function="read", keys=(), acks=1)
    seen = compacted(replica(0, on_disk(ALL_AGAIN, 1)), operations=(ONCE, read, ALL_AGAIN))
    lost = compacted(replica(0, on_disk(AGAIN, 1)), operations=(ONCE, read, AGAIN))

    assert findings(seen) == []
    assert findings(lost) == [("committed-loss", (0,), 2, 2)]
