"""KIP-405's tables beside runs: what the page prints, what a run has, and what differs."""

from pathlib import Path

import pytest

from kchaos.checkers.errors import ComparisonError
from kchaos.harness.catalogue import entry_named
from kchaos.harness.catalogue.kip_405_page import BROKERS, TABLES, of_scenario, wanted
from kchaos.studies.documents import Result, SearchBounds, document_named
from kchaos.studies.documents.kip_405 import compare_run
from tests.support.tiered_run import tiered_run


def quiet(text: str) -> None:
    pass


def test_every_table_belongs_to_a_snapshot_that_its_entry_takes():
    for scenario in BROKERS:
        entry = entry_named(f"KIP-405-{scenario}")
        for case in entry.cases:
            taken = {getattr(step, "label", None) for step in entry.steps(case)}
            assert {table.snapshot for table in of_scenario(scenario)} <= taken


def test_a_slip_of_the_page_has_a_reason():
    slips = [cell for table in TABLES for cell in table.cells if cell.seen or cell.before]
    assert [cell for cell in slips if not cell.why] == []
    assert [cell for cell in slips if cell.page in (cell.seen, cell.before)] == []


def test_3_6_ships_nothing_of_a_lineage_after_an_unclean_election():
    (_, second, _) = of_scenario(4)
    assert wanted(second, "3.6.2")["metadata"] == ("seg-0-2", "LE-0, 0")
    assert wanted(second, "3.9.1")["metadata"][2:] == ("seg-0-1", "LE-0, 0", "LE-1, 1")


def test_without_runs_it_says_how_to_make_some(tmp_path: Path):
    document = document_named("kip-405")
    with pytest.raises(ComparisonError, match="reproduce KIP-405-1"):
        document.compare(SearchBounds(), quiet)
    with pytest.raises(ComparisonError, match="no run of KIP-405-1"):
        compare_run(tmp_path, quiet)


def test_a_log_that_is_not_what_the_page_has_is_wrong_and_says_what_it_should_be(tmp_path: Path):
    tiered_run(tmp_path / "one")
    differences = compare_run(tmp_path, quiet)
    cells = {row.question: row.cells for row in differences.rows if row.name == "1, step 1"}
    metadata = cells["metadata"]["3.9.1"]
    assert cells["metadata"]["page"].text == "seg-0-2; LE-0, 0; seg-3-5; LE-1, 3; LE-2, 5"
    assert (metadata.result, metadata.text) == (Result.WRONG, "seg-3-5; LE-1, 3; LE-2, 5")
    assert metadata.detail == ("it should be: seg-0-2; LE-0, 0; seg-3-5; LE-1, 3; LE-2, 5",)
    assert "3.9.1" not in next(row for row in differences.rows if row.name == "2, step 1").cells
