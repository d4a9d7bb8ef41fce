"""Writes of others: what shows them, and what is said then of a run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.evidence.partition import OBSERVED, PREDICTED, BatchEvidence, ReplicaEvidence
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.observations import AddressesGiven
from kchaos.checkers.results import Results
from kchaos.checkers.rules.as_sent import as_sent
from kchaos.checkers.rules.divergence import divergence
from kchaos.checkers.rules.foreign import foreign_at_links, foreign_batches
from kchaos.checkers.rules.hole import hole
from kchaos.checkers.rules.loss import loss
from tests.support.clean_runs import clean_run, clean_snapshot
from tests.support.kafka_6361_runs import BOTH
from tests.support.rule_evidence import acknowledged, batch, evidence, replica
from tests.support.run_builder import RunBuilder

OURS = batch(0, 0, "a", "b")
THEIRS = batch(2, 0, "mine")
MARKER = replace(batch(3, 0, "commit"), producer_id=7, marks="transactional, control")
WRITTEN = (acknowledged("ours", 0, "a", "b"),)


def foreign(*batches: BatchEvidence, **fields: Any) -> list[tuple[int, int]]:
    """The offsets that are called somebody else's in a log of these batches."""
    held = evidence(replica(0, *batches), **{"operations": WRITTEN} | fields)
    return [
        (first, last)
        for finding in foreign_batches(held, OBSERVED)
        for first, last in finding.evidence["offsets"]
    ]


def test_what_kchaos_wrote_is_nobody_elses():
    assert foreign(OURS) == []
    assert foreign(batch(0, -1, "a", magic=1), batch(1, -1, "b", magic=1)) == []
    assert foreign(replace(OURS, payload=None)) == []


def test_batches_that_no_produce_explains_are_one_finding_with_their_producers():
    held = evidence(replica(0, OURS, THEIRS, MARKER), replica(1, OURS, THEIRS), operations=WRITTEN)

    (finding,) = foreign_batches(held, OBSERVED)

    assert (finding.kind, finding.topic, finding.partition) == ("foreign-write", "t", 0)
    assert (finding.first_offset, finding.last_offset) == (2, 3)
    assert finding.evidence["producers"] == [7]
    assert list(foreign_batches(held, PREDICTED)) == []


def test_a_partition_to_which_kchaos_never_wrote_is_somebody_elses():
    assert foreign(THEIRS, operations=()) == [(2, 2)]


def test_records_of_a_produce_whose_offset_nobody_knows_are_kchaos_own():
    lost = acknowledged("late", -1, "mine", outcome="info", promised=False)

    assert foreign(OURS, THEIRS, operations=(*WRITTEN, lost)) == []


def test_what_a_log_cleaner_left_of_a_produce_is_kchaos_own():
    left = replace(batch(1, 0, "b", crc=5), base_offset=0, payload="00")

    assert foreign(left) == [(0, 1)]
    assert foreign(left, cleaned_until=2) == []


def test_what_others_keys_let_a_cleaner_remove_is_in_doubt():
    """Nobody knows the keys of others."""
    keyed = acknowledged("keyed", 2, "old", keys=("k",))
    full = (OURS, batch(2, 0, "old"), batch(3, 0, "mine"), batch(4, 0, "other"))
    replicas = (replica(0, *full), replica(1, full[0], *full[2:]))
    lost = (replica(0, full[0], *full[2:]), replica(1, full[0], *full[2:]))

    def said(*held: ReplicaEvidence, cleaned_until: int) -> set[str]:
        run = evidence(*held, operations=(*WRITTEN, keyed), cleaned_until=cleaned_until)
        findings = [*hole(run, OBSERVED), *divergence(run, OBSERVED), *loss(run, OBSERVED)]
        return {each.kind for each in findings}

    assert said(*replicas, cleaned_until=0) == {"hole"}
    assert said(*replicas, cleaned_until=4) == {"in-doubt"}
    assert said(*lost, cleaned_until=0) == {"committed-loss"}
    assert said(*lost, cleaned_until=4) == {"in-doubt"}


def test_what_differs_in_the_epoch_in_which_kchaos_got_that_offset_is_no_foreign_write():
    changed = batch(0, 0, "x", "y")
    two = evidence(replica(0, OURS), replica(1, changed), operations=WRITTEN)
    later = evidence(replica(0, OURS), replica(1, batch(0, 1, "x", "y")), operations=WRITTEN)

    assert list(foreign_batches(two, OBSERVED)) == []
    assert [finding.evidence["offsets"] for finding in foreign_batches(later, OBSERVED)] == [
        [[0, 1]]
    ]


def test_a_client_that_imitates_kchaos_is_somebody_else_where_addresses_were_given():
    again = batch(2, 0, "a", "b")
    waiting = acknowledged("late", -1, "mine", outcome="info", promised=False)
    with_id = replace(THEIRS, producer_id=3, marks="producer 3, 0, 0")

    assert foreign(OURS, again) == []
    assert foreign(OURS, again, is_open_to_others=True) == [(2, 3)]
    assert foreign(OURS, with_id, operations=(*WRITTEN, waiting)) == []
    assert foreign(OURS, with_id, operations=(*WRITTEN, waiting), is_open_to_others=True) == [
        (2, 2)
    ]


def test_marks_are_nobodys_only_in_a_batch_of_kchaos_own():
    marked = evidence(
        replica(0, replace(OURS, marks="headers"), MARKER), operations=WRITTEN, isr=(0,)
    )

    assert [(finding.kind, finding.first_offset) for finding in as_sent(marked, OBSERVED)] == [
        ("not-as-sent", 0)
    ]


def test_headers_are_expected_where_the_history_has_them():
    headed = [replace(operation, has_headers=True) for operation in WRITTEN]
    for marks, expected in (("headers", []), ("headers, transaction", ["not-as-sent"])):
        marked = evidence(
            replica(0, replace(OURS, marks=marks), MARKER), operations=headed, isr=(0,)
        )
        assert [finding.kind for finding in as_sent(marked, OBSERVED)] == expected


# -- at the links -------------------------------------------------------------------------------


def fetched(build: RunBuilder, *, asked: int, to: int = -1, high_watermark: int = 0) -> None:
    """Broker 1 asks broker 0 from an offset on, and is given all up to another (inclusive)."""
    fields: dict[str, Any] = {"topic": "t", "partition": 0}
    number = int(build.clock)
    names = {"api_key": 1, "api": "Fetch", "api_version": 4, "correlation_id": number}
    build.link(**names, detail={"partitions": [fields | {"fetch_offset": asked}]})
    given = {"base_offset": asked, "last_offset": to} if to >= asked else {}
    answer = fields | {"error_code": 0, "high_watermark": high_watermark, **given}
    build.link(**names, direction="response", detail={"partitions": [answer]})


def shown_at_links(build: RunBuilder) -> list[tuple[str, list[list[int]]]]:
    run = RunEvidence(clean_snapshot(build).seal())
    return [
        (finding.evidence["seen"], finding.evidence["offsets"]) for finding in foreign_at_links(run)
    ]


def test_fetches_of_what_kchaos_wrote_show_nobody_else(tmp_path: Path):
    build = clean_run(tmp_path / "run")
    fetched(build, asked=0, to=10, high_watermark=0)
    fetched(build, asked=11, high_watermark=11)

    assert shown_at_links(build) == []


def test_a_record_that_only_a_link_saw_is_somebody_elses_though_kchaos_wrote_there_later(
    tmp_path: Path,
):
    build = clean_run(tmp_path / "run")
    fetched(build, asked=0, to=11)
    build.produce("later", 0, ["later"], acks=-1, base_offset=11)
    fetched(build, asked=11, to=11)

    assert shown_at_links(build) == [("at the links", [[11, 11]])]


def test_a_record_that_nobody_knows_of_may_be_kchaos_own_that_got_no_answer(tmp_path: Path):
    build = clean_run(tmp_path / "run")
    build.produce("refused", 0, ["one"], acks=-1, error="REQUEST_TIMED_OUT", error_code=7)
    fetched(build, asked=0, to=11)

    assert shown_at_links(build) == []


@pytest.mark.parametrize("seen", [{"asked": 13}, {"asked": 0, "high_watermark": 13}])
def test_an_offset_beyond_all_that_kchaos_sent_shows_somebody_else(
    seen: dict[str, int], tmp_path: Path
):
    build = clean_run(tmp_path / "run")
    fetched(build, **seen)

    assert shown_at_links(build) == [("at the links", [[11, 12]])]


def test_an_acknowledgement_beyond_all_that_kchaos_sent_shows_somebody_else(tmp_path: Path):
    build = clean_run(tmp_path / "run")
    build.produce("later", 0, ["later"], acks=-1, base_offset=14)

    assert shown_at_links(build) == [("in base offsets", [[11, 13]])]


# -- the verdict --------------------------------------------------------------------------------


def with_others(path: Path, *, on_follower: str = "mine", lacks_ours: bool = False) -> Results:
    """A run in which somebody else wrote offset 11, and settling 12."""
    build = clean_run(path)
    build.observe(AddressesGiven(to="tests"), -1)
    probe = "settle-t-0"
    build.produce(probe, 0, [probe], acks=-1, base_offset=12)
    last = (12, 1, ["other" if lacks_ours else probe])
    logs = {0: [BOTH, (11, 1, ["mine"]), last], 1: [BOTH, (11, 1, [on_follower]), last]}
    build.snapshot("final", logs, epochs={0: [(1, 0)], 1: [(1, 0)]}, high_watermarks={0: 13})
    return judge(build.seal())


def test_a_healthy_run_with_a_foreign_write_is_unknown_with_one_note(tmp_path: Path):
    results = with_others(tmp_path / "run")

    assert (results.conforms, results.safe, results.expected) == (None, None, False)
    (finding,) = results.findings
    assert finding.kind == "foreign-write"
    assert finding.message == "somebody else than kchaos wrote to t-0: offset 11"
    assert finding.evidence["left_out"] > 0
    assert results.unknown is not None
    assert finding.message in results.unknown


def test_replicas_that_differ_are_unsafe_whoever_wrote(tmp_path: Path):
    results = with_others(tmp_path / "run", on_follower="else")

    assert (results.conforms, results.safe) == (None, False)
    assert {finding.kind for finding in results.findings} == {"divergence", "foreign-write"}


def test_a_lost_record_of_kchaos_own_is_unsafe_whoever_else_wrote(tmp_path: Path):
    results = with_others(tmp_path / "run", lacks_ours=True)

    assert (results.conforms, results.safe) == (None, False)
    (lost,) = [finding for finding in results.findings if finding.kind == "committed-loss"]
    assert (lost.first_offset, lost.last_offset) == (12, 12)


def given(build: RunBuilder) -> RunBuilder:
    build.observe(AddressesGiven(to="tests"), -1)
    return build


def test_without_links_nobody_knows_what_a_client_with_the_addresses_lost(tmp_path: Path):
    closed = judge(clean_snapshot(clean_run(tmp_path / "closed")).seal())
    opened = judge(clean_snapshot(given(clean_run(tmp_path / "open"))).seal())

    assert (closed.conforms, closed.safe) == (True, True)
    assert (opened.conforms, opened.safe) == (True, None)
    assert opened.unknown is not None
    assert "was given the cluster's addresses" in opened.unknown
