"""KIP-279's proposal and its alternatives: where each is right, and where each goes wrong."""

from dataclasses import replace

import pytest

from kchaos.studies.documents import Comparison, Result, SearchBounds
from kchaos.studies.documents.kip_279 import bits_rows, compare, scene_rows
from kchaos.studies.documents.kip_279_columns import (
    FENCED,
    cell_of,
    extra_bits,
    generations,
    machine,
)
from kchaos.studies.documents.kip_279_compaction import compare as compare_compaction
from kchaos.studies.documents.kip_279_scenes import BASE, scenario_1
from kchaos.studies.documents.searching import explored
from kchaos.studies.explore.bounds import Machine

pytestmark = pytest.mark.slow

QUIET = SearchBounds(schedules=0, most_states=0)
WIDE = SearchBounds(most_states=30_000)


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare(QUIET, lambda text: None)


def rounds_of(compared: Comparison, row: str) -> dict[str, int]:
    (seen,) = [compared_row for compared_row in compared.rows if compared_row.name == row]
    return {key: int(cell.numbers["rounds"]) for key, cell in seen.cells.items()}


def wrong_in(compared: Comparison, row: str) -> list[str]:
    (seen,) = [compared_row for compared_row in compared.rows if compared_row.name == row]
    return [key for key, cell in seen.cells.items() if cell.result is Result.WRONG]


@pytest.mark.parametrize("n", [15, 20, 25])
def test_in_scenario_1_every_alternative_repairs_what_kip_101_leaves(compared: Comparison, n: int):
    assert wrong_in(compared, f"1, n={n}") == ["KIP-101"]


def test_scenario_1_goes_as_the_document_tells_it(compared: Comparison):
    proposal = compared.cell("1, n=20", "proposal").detail
    assert proposal == ("B asks for epoch 2: epoch 1, end 21", "B truncates to 11")
    assert compared.cell("1, n=20", "alt. 1").detail == (
        "B asks for epoch 2: epoch 2, end unknown",
        "B asks for epoch 1: epoch 1, end 21",
        "B truncates to 11",
    )
    alternative_2 = compared.cell("1, n=20", "alt. 2").detail
    assert alternative_2 == ("B asks for epoch 2: epoch 1, end 11", "B truncates to 11")
    assert compared.cell("1, n=15", "KIP-101").detail[-1].endswith("out of order offset")


def test_alternative_1_takes_two_rounds_where_the_others_take_one(compared: Comparison):
    rounds = rounds_of(compared, "1, n=20")
    assert rounds.pop("alt. 1") == 2
    assert set(rounds.values()) == {1}


def test_pushing_the_old_leader_out_leaves_scenario_1_without_a_leader(compared: Comparison):
    assert "nobody leads until B is back" in compared.cell("1, n=20", "clean 2").detail[0]


def test_in_scenario_2_nobody_truncates(compared: Comparison):
    assert wrong_in(compared, "2") == []
    (row,) = [compared_row for compared_row in compared.rows if compared_row.name == "2"]
    assert {cell.detail[-1].rpartition(" ")[2] for cell in row.cells.values()} == {"21"}


def test_in_scenario_3_the_proposal_is_right_only_with_the_high_watermark_that_it_names(
    compared: Comparison,
):
    assert wrong_in(compared, "3, HW=0") == ["KIP-101", "clean 2"]
    everything_but_what_was_released = list(generations())[:-1]
    assert wrong_in(compared, "3, HW=2") == everything_but_what_was_released
    assert rounds_of(compared, "3, HW=0")["proposal"] == 2
    assert rounds_of(compared, "3, HW=2")["alt. 2"] == 2


def test_a_late_high_watermark_of_another_epoch_breaks_only_who_asks_by_it(compared: Comparison):
    assert wrong_in(compared, "2, late HW") == ["clean 1"]
    assert compared.cell("2, late HW", "clean 1").numbers["lost"] == 1


def test_the_high_watermark_is_on_disk_after_each_leader_change_for_who_needs_it():
    persists = {key: each.proposed.persists_high_watermark for key, each in generations().items()}
    assert [key for key, does in persists.items() if does] == ["clean 1"]


def test_the_bits_are_the_document_s(compared: Comparison):
    usual = compared.cell("bits, 2", "alt. 2").numbers
    edge = compared.cell("bits, 1, n=20", "alt. 2").numbers
    assert (usual["epochs named"], usual["extra bits"]) == (1, 64)
    assert (edge["epochs named"], edge["extra bits"]) == (2, 160)
    assert compared.cell("bits, 1, n=20", "proposal").text == "+32"
    # A second round repeats request (64) and response (112).
    assert compared.cell("bits, 1, n=20", "alt. 1").text == f"+{64 + 112}"
    assert extra_bits("KIP-101", 1) == 0


def test_the_document_s_figures_hold_but_for_two(compared: Comparison):
    assert [claim.holds for claim in compared.claims] == [True] * 5 + [False, False]
    counted = compared.claims[2].seen
    assert counted.startswith("+160 bits, and +192 with the length")


def test_each_failover_more_costs_the_proposal_a_round_and_alternative_2_none(compared: Comparison):
    known = [rounds_of(compared, f"3, {changes} failovers") for changes in (3, 4, 5)]
    assert [each["proposal"] for each in known] == [2, 2, 3]
    assert [each["alt. 2"] for each in known] == [1, 1, 1]


def test_a_rebuilt_epoch_file_needs_the_first_offset_of_each_epoch():
    comparison = compare_compaction()
    right = {
        row.name: [key for key, cell in row.cells.items() if cell.result is Result.RIGHT]
        for row in comparison.rows
    }
    assert right == {
        "return, HW=31": ["fix 1, first"],
        "return, HW=21": ["fix 1, first", "fix 2"],
        "loss, HW=21": ["fix 1, last", "fix 1, first", "fix 2"],
    }
    assert comparison.cell("loss, HW=21", "no fix").numbers["lost"] == 10


@pytest.mark.parametrize("key", ["proposal", "alt. 1", "alt. 2", "clean 1"])
def test_over_1_1_an_alternative_alone_does_not_make_logs_agree(key: str):
    exploration = explored(machine(generations()[key]), "agreement", WIDE)
    assert (exploration.result, exploration.numbers["steps"]) == (Result.WRONG, 15)


@pytest.mark.parametrize("key", ["KIP-101", "proposal", "clean 2"])
def test_over_a_fenced_release_every_alternative_does_and_kip_101_does_not(key: str):
    exploration = explored(machine(generations(FENCED)[key]), "agreement", WIDE)
    assert exploration.result is (Result.WRONG if key == "KIP-101" else Result.RIGHT)


def test_the_proposal_may_take_two_rounds_with_clean_elections_of_one_preferred_replica():
    small = replace(machine(generations()["proposal"], 3), log_size=2)
    exploration = explored(small, "one-round", WIDE, preferred=1)
    assert (exploration.result, exploration.numbers["steps"]) == (Result.WRONG, 17)
    assert {each for each in exploration.detail if "elects" in each} == {
        "the controller elects broker 1"
    }


def test_one_round_is_enough_while_there_is_one_leader_change():
    small = Machine(
        generations=dict.fromkeys((0, 1), generations()["proposal"]),
        records=2,
        leader_epoch=1,
        log_size=2,
    )
    assert explored(small, "one-round", WIDE).result is Result.RIGHT


def test_a_bound_that_is_too_small_leaves_a_search_open():
    exploration = explored(
        machine(generations()["2.0.1"]), "agreement", SearchBounds(most_states=100)
    )
    assert exploration.result is Result.UNKNOWN
    assert exploration.detail[0].startswith("most_states")


def test_what_a_row_measures_is_what_its_bits_row_counts():
    rows = scene_rows()
    known = {row.name: row for row in rows}
    for row in bits_rows(rows):
        measured = known[row.name.removeprefix("bits, ")]
        assert {key: cell.numbers for key, cell in row.cells.items()} == {
            key: cell.numbers for key, cell in measured.cells.items()
        }


def test_a_scene_says_what_the_release_does_and_not_what_is_hoped():
    plain = generations()["KIP-101"]
    assert plain.name.startswith(BASE)
    assert cell_of("KIP-101", scenario_1(plain, 20), plain).detail == (
        "B asks for epoch 2: end 21",
        "B and its leader A differ from offset 11 on",
    )
