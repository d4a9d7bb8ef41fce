from dataclasses import replace
from typing import Any

import pytest

from kchaos.checkers.evidence.partition import OBSERVED, PREDICTED
from kchaos.checkers.findings import Finding
from kchaos.checkers.rules.compare import differing_ranges
from kchaos.checkers.rules.divergence import divergence
from kchaos.checkers.rules.hole import hole
from kchaos.checkers.rules.missing_tail import missing_tail
from kchaos.checkers.rules.on_disk import as_read, epoch_cache_mismatch
from tests.support.rule_evidence import Shown, acknowledged, batch, evidence, replica, shown

BOTH = batch(0, 0, "a", "b", "c")
TAIL = batch(6, 3, "x", "y")
MINE = batch(3, 1, "d", "e", "f")
THEIRS = batch(3, 2, "D", "E", "F")


def test_replicas_with_the_same_batches_do_not_diverge():
    clean = evidence(replica(0, BOTH, MINE, TAIL), replica(1, BOTH, MINE, TAIL))

    assert shown(divergence(clean, OBSERVED)) == []


def test_other_records_in_another_epoch_are_a_divergence_with_both_headers():
    planted = evidence(replica(0, BOTH, MINE, TAIL), replica(1, BOTH, THEIRS, TAIL))

    (finding,) = divergence(planted, OBSERVED)

    assert shown([finding]) == [("divergence", (0, 1), 3, 5)]
    assert finding.evidence["0"][0]["leader_epoch"] == 1
    assert finding.evidence["1"][0]["leader_epoch"] == 2
    assert finding.evidence["1"][0]["position"] == 300
    assert finding.evidence["1"][0]["file"] == "00000000000000000000.log"


def test_the_same_records_in_another_epoch_are_a_divergence_that_no_checksum_shows():
    other = replace(MINE, leader_epoch=2)

    assert shown(divergence(evidence(replica(0, MINE), replica(1, other)), OBSERVED)) == [
        ("divergence", (0, 1), 3, 5)
    ]


def test_other_bytes_of_the_same_records_are_a_divergence():
    other = replace(MINE, crc=1)

    assert shown(divergence(evidence(replica(0, MINE), replica(1, other)), OBSERVED)) == [
        ("divergence", (0, 1), 3, 5)
    ]


def test_one_batch_against_many_diverges_where_both_have_offsets():
    many = [batch(3 + i, 2, value) for i, value in enumerate(("D", "E", "F", "G"))]
    planted = evidence(replica(0, BOTH, MINE), replica(1, BOTH, *many))

    assert shown(divergence(planted, OBSERVED)) == [("divergence", (0, 1), 3, 5)]


def test_the_same_records_in_other_batches_of_one_format_are_a_divergence():
    many = [batch(3 + i, 1, value) for i, value in enumerate(("d", "e", "f"))]
    planted = evidence(replica(0, BOTH, MINE), replica(1, BOTH, *many))

    assert shown(divergence(planted, OBSERVED)) == [("divergence", (0, 1), 3, 5)]


def test_neighbouring_differences_are_one_divergence_and_others_are_two():
    first = [batch(i, 1, f"mine{i}") for i in (0, 1, 2, 4)]
    same = batch(3, 1, "same")
    other = [batch(i, 2, f"theirs{i}") for i in (0, 1, 2, 4)]
    planted = evidence(
        replica(0, *sorted([*first, same], key=lambda b: b.base_offset)),
        replica(1, *sorted([*other, same], key=lambda b: b.base_offset)),
    )

    assert shown(divergence(planted, OBSERVED)) == [
        ("divergence", (0, 1), 0, 2),
        ("divergence", (0, 1), 4, 4),
    ]


def test_every_replica_is_compared_with_the_leader():
    planted = evidence(replica(0, BOTH), replica(1, BOTH), replica(2, batch(0, 0, "a", "b", "?")))

    assert shown(divergence(replace(planted, leader=2), OBSERVED)) == [
        ("divergence", (0, 2), 0, 2),
        ("divergence", (1, 2), 0, 2),
    ]


def test_a_converted_message_format_is_no_divergence():
    old = [batch(3 + i, -1, value, magic=1) for i, value in enumerate(("d", "e", "f"))]

    assert shown(divergence(evidence(replica(0, MINE), replica(1, *old)), OBSERVED)) == []


def test_other_records_in_another_message_format_are_a_divergence():
    old = [batch(3 + i, -1, value, magic=1) for i, value in enumerate(("d", "E", "f"))]

    assert shown(divergence(evidence(replica(0, MINE), replica(1, *old)), OBSERVED)) == [
        ("divergence", (0, 1), 3, 5)
    ]


def test_a_replica_outside_the_isr_may_differ():
    out = evidence(replica(0, BOTH, MINE), replica(1, BOTH, THEIRS), isr=(0,))

    assert shown(divergence(out, OBSERVED)) == []
    assert shown(hole(out, OBSERVED)) == []
    assert shown(missing_tail(out, OBSERVED)) == []


def test_an_earlier_snapshot_may_differ():
    early = evidence(replica(0, BOTH, MINE), replica(1, BOTH, THEIRS), is_final=False)

    assert shown(divergence(early, OBSERVED)) == []


def test_the_predicted_side_is_judged_by_the_same_rule():
    planted = evidence(
        replica(0, BOTH), replica(1, BOTH), predicted=(replica(0, MINE), replica(1, THEIRS))
    )

    assert shown(divergence(planted, PREDICTED)) == [("divergence", (0, 1), 3, 5)]
    assert shown(divergence(planted, OBSERVED)) == []


def test_offsets_that_only_another_replica_holds_are_a_hole():
    planted = evidence(replica(0, BOTH, MINE, TAIL), replica(1, BOTH, TAIL))

    (finding,) = hole(planted, OBSERVED)

    assert shown([finding]) == [("hole", (1,), 3, 5)]
    assert [each["base_offset"] for each in finding.evidence["around"]] == [0, 6]
    assert [each["base_offset"] for each in finding.evidence["held"]["0"]] == [3]
    assert shown(divergence(planted, OBSERVED)) == []


def test_a_log_that_begins_too_late_has_a_hole_at_its_start():
    planted = evidence(replica(0, BOTH, MINE), replica(1, MINE))

    assert shown(hole(planted, OBSERVED)) == [("hole", (1,), 0, 2)]


def test_a_log_whose_start_was_deleted_has_no_hole():
    deleted = (replica(0, BOTH, MINE), replica(1, MINE, log_start_offset=3))

    assert shown(hole(evidence(*deleted, may_delete=True), OBSERVED)) == []
    assert shown(hole(evidence(*deleted), OBSERVED)) == [("hole", (1,), 0, 2)]


def test_offsets_that_nobody_holds_are_no_hole():
    clean = evidence(replica(0, BOTH, TAIL), replica(1, BOTH, TAIL))

    assert shown(hole(clean, OBSERVED)) == []


def test_an_in_sync_replica_that_ends_before_the_high_watermark_misses_its_tail():
    planted = evidence(
        replica(0, BOTH, MINE, high_watermarks=(6,)),
        replica(1, BOTH),
        replica(2),
        operations=(acknowledged("1", 0, "a", "b", "c"), acknowledged("2", 3, "d", "e", "f")),
    )

    assert shown(missing_tail(planted, OBSERVED)) == [
        ("missing-tail", (1,), 3, 5),
        ("missing-tail", (2,), 0, 5),
    ]


@pytest.mark.parametrize(
    ("changed", "missing"),
    [
        ({}, [("missing-tail", (1,), 3, 5)]),
        ({"acks": 1}, []),
        ({"isr_when_ended": (0,)}, []),
        ({"client": "another", "ended_at": 901.0}, []),
    ],
)
def test_an_in_sync_replica_has_what_it_acknowledged_whatever_the_checkpoint_says(
    changed: dict[str, Any], missing: list[Shown]
):
    written = (acknowledged("1", 0, "a", "b", "c"), acknowledged("2", 3, "d", "e", "f", **changed))
    late = evidence(
        replica(0, BOTH, MINE, high_watermarks=(3,)),
        replica(1, BOTH),
        operations=written,
        copied_from=900.0,
    )
    level = replace(late, replicas=(late.replicas[0], replica(1, BOTH, MINE)))

    assert shown(missing_tail(late, OBSERVED)) == missing
    assert shown(missing_tail(level, OBSERVED)) == []


def test_what_no_in_sync_replica_holds_is_no_missing_tail():
    lost = evidence(
        replica(0, BOTH, high_watermarks=(3,)),
        replica(1, BOTH),
        operations=(acknowledged("2", 3, "d", "e", "f"),),
    )

    assert shown(missing_tail(lost, OBSERVED)) == []


def test_what_others_write_while_disks_are_copied_is_no_missing_tail():
    written = (acknowledged("1", 0, "a", "b", "c"),)
    growing = evidence(
        replica(0, BOTH, MINE, high_watermarks=(6,)), replica(1, BOTH), operations=written
    )
    short = evidence(replica(0, BOTH, MINE, high_watermarks=(6,)), replica(1), operations=written)

    assert shown(missing_tail(growing, OBSERVED)) == []
    assert shown(missing_tail(short, OBSERVED)) == [("missing-tail", (1,), 0, 2)]


def test_an_in_sync_replica_may_lack_what_lies_above_the_high_watermark():
    clean = evidence(replica(0, BOTH, MINE, high_watermarks=(3,)), replica(1, BOTH))

    assert shown(missing_tail(clean, OBSERVED)) == []


def test_without_a_checkpointed_high_watermark_no_tail_is_missing():
    assert shown(missing_tail(evidence(replica(0, BOTH), replica(1)), OBSERVED)) == []


def test_a_cache_that_contradicts_its_batches_is_found_at_every_snapshot():
    wrong = evidence(
        replica(0, BOTH, MINE, epoch_entries=((0, 0), (2, 3))),
        replica(1, BOTH, MINE, epoch_entries=((0, 0), (1, 3))),
        is_final=False,
    )

    assert shown(epoch_cache_mismatch(wrong, OBSERVED)) == [("epoch-cache-mismatch", (0,), 3, 5)]


def test_a_replica_without_a_cache_contradicts_nothing():
    assert shown(epoch_cache_mismatch(evidence(replica(0, BOTH, MINE)), OBSERVED)) == []


def test_what_the_reader_found_passes_through():
    bad = Finding(kind="corrupt-batch", brokers=(1,), message="position 100: a wrong checksum")

    assert list(as_read(evidence(replica(0), replica(1, findings=(bad,))), OBSERVED)) == [bad]


def test_equal_logs_differ_nowhere_and_neither_do_disjoint_ones():
    assert differing_ranges([BOTH, MINE], [BOTH, MINE]) == []
    assert differing_ranges([BOTH], [MINE]) == []
    assert differing_ranges([], [MINE]) == []


def test_batches_that_cross_each_other_differ_in_all_that_they_share():
    log = [batch(0, 0, "a", "b"), batch(2, 0, "c", "d")]
    other = [batch(1, 0, "b", "c"), batch(3, 0, "d")]

    assert differing_ranges(log, other) == [(1, 3)]
