"""Rules about tiered logs: a planted fault each, and a clean run."""

from dataclasses import replace

from kchaos.checkers.evidence.history import record_payload
from kchaos.checkers.evidence.partition import (
    OBSERVED,
    PREDICTED,
    BatchEvidence,
    PartitionEvidence,
    RemoteEvidence,
)
from kchaos.checkers.evidence.tier import FetchedRecord, TierFetch, TierReading
from kchaos.checkers.model.values.prediction import PredictedBatch, PredictedRead
from kchaos.checkers.rules.tiers import tier_as_predicted, tier_orphan, tier_reads
from tests.support.rule_evidence import evidence, payload, replica, shown

LINEAGE = ((0, 0, "m0"), (1, 1, "m4"), (2, 1, "m5"))
"""(offset, leader epoch, value) of the leader's log; the tier also has epoch 0's own m1 and m2."""
OTHERS = ((0, 0, "m0"), (1, 0, "m1"), (2, 0, "m2"))


def predicted(*records: tuple[int, int, str]) -> tuple[PredictedBatch, ...]:
    return tuple(
        PredictedBatch(
            base_offset=offset,
            last_offset=offset,
            leader_epoch=epoch,
            magic=2,
            payload=payload([value]),
        )
        for offset, epoch, value in records
    )


def stored(*records: tuple[int, int, str]) -> tuple[BatchEvidence, ...]:
    return tuple(
        BatchEvidence(
            base_offset=each.base_offset,
            last_offset=each.last_offset,
            leader_epoch=each.leader_epoch,
            magic=2,
            payload=each.payload,
        )
        for each in predicted(*records)
    )


def segment(
    name: str, epochs: tuple[tuple[int, int], ...], *records: tuple[int, int, str]
) -> RemoteEvidence:
    return RemoteEvidence(
        segment_id=name,
        start_offset=records[0][0],
        end_offset=records[-1][0],
        leader_epochs=epochs,
        is_finished=True,
        epochs=epochs,
        batches=stored(*records),
    )


OWN = segment("own", ((0, 0), (1, 1)), *LINEAGE[:2])
DEAD = segment("dead", ((0, 0),), *OTHERS)


def reading(*fetches: tuple[int, int, tuple[tuple[int, int, str], ...]]) -> TierReading:
    return TierReading(
        operation="r",
        broker=0,
        topic="t",
        partition=0,
        manner="in sequence",
        first_offset=0,
        end_offset=3,
        local_start_offset=2,
        fetches=tuple(
            TierFetch(
                offset=offset,
                error_code=error_code,
                records=tuple(
                    FetchedRecord(offset=at, payload=record_payload(value))
                    for at, _, value in records
                ),
            )
            for offset, error_code, records in fetches
        ),
    )


def tiered(
    read: TierReading, *segments: RemoteEvidence, got: tuple[tuple[int, int, str], ...] = LINEAGE
) -> PartitionEvidence:
    """Broker 0 leads; its log is LINEAGE, of which offset 2 is local."""
    expected = PredictedRead(
        operation="r",
        broker=0,
        topic="t",
        partition=0,
        lineage=predicted(*LINEAGE),
        got=predicted(*got),
    )
    leader = replica(0, epoch_entries=((0, 0), (1, 1)), log_start_offset=2)
    return evidence(
        leader,
        predicted=(leader,),
        readings=(read,),
        predicted_reads=(expected,),
        remote=segments,
        predicted_remote=segments,
        may_delete=True,
    )


CLEAN = tiered(reading((0, 0, LINEAGE[:2]), (2, 0, LINEAGE[2:])), DEAD, OWN)


def test_who_reads_the_leaders_lineage_from_both_places_finds_nothing_amiss():
    assert shown(tier_reads(CLEAN, OBSERVED)) == []
    assert shown(tier_reads(CLEAN, PREDICTED)) == []
    assert shown(tier_orphan(CLEAN, OBSERVED)) == []
    assert shown(tier_as_predicted(CLEAN)) == []


def test_a_record_that_no_fetch_brings_is_unreadable():
    planted = tiered(reading((0, 0, LINEAGE[:1]), (1, 1, ()), (2, 0, LINEAGE[2:])), DEAD, OWN)
    assert shown(tier_reads(planted, OBSERVED)) == [("tier-unreadable", (0,), 1, 1)]
    assert shown(tier_as_predicted(planted)) == [("not-as-predicted", (0,), 1, 1)]


def test_a_record_of_a_dead_lineage_in_place_of_the_leaders_is_of_another_lineage():
    planted = tiered(reading((0, 0, OTHERS)), DEAD, got=OTHERS)
    assert shown(tier_reads(planted, OBSERVED)) == [("tier-other-lineage", (0,), 1, 2)]
    assert shown(tier_reads(planted, PREDICTED)) == [("tier-other-lineage", (0,), 1, 2)]
    assert shown(tier_as_predicted(planted)) == []


def test_what_the_model_says_that_nobody_gets_is_a_predicted_finding():
    planted = tiered(reading(), DEAD, got=LINEAGE[2:])
    assert shown(tier_reads(planted, PREDICTED)) == [("tier-unreadable", (0,), 0, 1)]


def test_a_segment_that_holds_the_leaders_records_and_is_found_by_no_epoch_is_an_orphan():
    hidden = replace(OWN, leader_epochs=((0, 0),))
    planted = tiered(reading(), DEAD, hidden)
    assert shown(tier_orphan(planted, OBSERVED)) == [("tier-orphan", (0,), 1, 1)]


def test_a_copy_that_never_ended_leaves_what_only_it_holds_an_orphan():
    planted = tiered(reading(), replace(OWN, is_finished=False))
    assert shown(tier_orphan(planted, OBSERVED)) == [("tier-orphan", (0,), 0, 1)]


def test_a_finished_copy_that_is_not_in_the_store_is_not_as_predicted():
    lost = replace(OWN, is_stored=False, epochs=None, batches=())
    planted = replace(tiered(reading(), OWN), remote=(lost,), predicted_reads=())
    assert shown(tier_as_predicted(planted)) == [("not-as-predicted", (), 0, 1)]


def with_follower(*epochs: tuple[int, int], got: tuple[tuple[int, int, str], ...]):
    """CLEAN, and broker 1 follows in sync with these epochs; its readers get `got`."""
    follower = replica(1, epoch_entries=epochs, log_start_offset=2)
    read = replace(reading((0, 0, got[:2]), (2, 0, got[2:])), operation="f", broker=1)
    expected = replace(CLEAN.predicted_reads[0], operation="f", broker=1, got=predicted(*LINEAGE))
    return replace(
        CLEAN,
        isr=(0, 1),
        replicas=(*CLEAN.replicas, follower),
        predicted=(*(CLEAN.predicted or ()), follower),
        readings=(*CLEAN.readings, replace(read, source="follower")),
        predicted_reads=(*CLEAN.predicted_reads, expected),
    )


def test_a_follower_that_serves_the_same_as_its_leader_is_accepted():
    clean = with_follower((0, 0), (1, 1), got=LINEAGE)
    assert shown(tier_reads(clean, OBSERVED)) == []
    assert shown(tier_orphan(clean, OBSERVED)) == []
    assert shown(tier_as_predicted(clean)) == []


def test_what_only_a_follower_in_sync_does_not_serve_is_unreadable_from_it():
    planted = with_follower((0, 0), (1, 1), got=LINEAGE[1:])
    assert shown(tier_reads(planted, OBSERVED)) == [("tier-unreadable", (1,), 0, 0)]
    assert shown(tier_as_predicted(planted)) == [("not-as-predicted", (1,), 0, 0)]


def test_what_only_a_follower_in_sync_serves_of_a_dead_lineage_is_found():
    planted = with_follower((0, 0), (1, 1), got=(*OTHERS[:2], LINEAGE[2]))
    assert shown(tier_reads(planted, OBSERVED)) == [("tier-other-lineage", (1,), 1, 1)]


def test_what_only_a_follower_in_sync_cannot_find_by_its_epochs_is_an_orphan():
    planted = with_follower((0, 0), got=LINEAGE)
    assert shown(tier_orphan(planted, OBSERVED)) == [("tier-orphan", (1,), 1, 1)]


def test_a_segment_that_the_model_does_not_know_is_not_as_predicted():
    planted = replace(tiered(reading(), OWN), remote=(OWN, DEAD), predicted_reads=())
    assert shown(tier_as_predicted(planted)) == [("not-as-predicted", (), 0, 2)]


def test_before_the_end_readers_are_not_judged():
    assert shown(tier_reads(replace(CLEAN, is_final=False), OBSERVED)) == []


def test_empty_answers_are_counted_and_what_else_they_may_mean_is_said():
    read = reading((0, 0, LINEAGE[:1]), (1, 0, ()), (2, 0, LINEAGE[2:]))
    first, empty, last = read.fetches
    fetches = (first, replace(empty, empty_answers=3), last)
    (said,) = tier_reads(tiered(replace(read, fetches=fetches), DEAD, OWN), OBSERVED)
    (silent,) = tier_reads(tiered(read, DEAD, OWN), OBSERVED)

    assert (said.kind, said.first_offset) == ("tier-unreadable", 1)
    assert "3 empty answers in a row" in said.message
    assert "run it again" in said.message
    assert [each["empty_answers"] for each in said.evidence["got"]] == [3]
    assert "empty" not in silent.message + str(silent.evidence)
