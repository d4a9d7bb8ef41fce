"""Result lines of played schedules, and the tables that are made of many."""

from dataclasses import replace

import pytest

from kchaos.checkers.run_line import RunLine
from kchaos.harness.campaign.campaign import lost_line
from kchaos.harness.commands.cli_options import MIX_NAMES
from kchaos.harness.player.candidates import MIXES
from kchaos.harness.player.drawing import draw
from kchaos.harness.player.rates import commands_of, page_of, table_text
from kchaos.harness.player.studied_mixes import WALKS, WIDE_WALKS
from kchaos.harness.summary.rates import rates_of

GOOD = RunLine(
    entry="chaos",
    case="mixed",
    release="2.8.2",
    kafka="2.8.2",
    seed=7,
    acts=25,
    conforms=True,
    safe=True,
    expected=True,
    seconds=30.0,
    steps=50,
    reason="",
    waited_s=10.0,
    not_possible=1,
    run="/somewhere/kchaos-runs/one",
)
OTHER = replace(
    GOOD,
    seed=8,
    conforms=False,
    expected=False,
    reason="the run is not as predicted",
    signs=("not-as-predicted/round",),
    seconds=40.0,
    waited_s=20.0,
    run="/somewhere/kchaos-runs/two",
)
UNKNOWN = replace(
    GOOD,
    seed=9,
    conforms=None,
    safe=None,
    expected=False,
    unknown="step 3: a broker\nended",
    signs=("unknown: step N",),
    seconds=None,
    not_possible=0,
)
OLD = replace(GOOD, release="0.10.2.2", kafka="0.10.2.2", case="cuts-no-gates", seed=4)


def test_rates_count_each_answer_and_hide_nothing():
    (old, new) = rates_of([GOOD, OTHER, UNKNOWN, OLD])
    assert (old.release, old.mix, old.runs) == ("0.10.2.2", "cuts-no-gates", 1)
    assert (new.runs, new.conforming, new.safe, new.unknown) == (3, 1, 2, 1)


@pytest.mark.parametrize(
    ("lines", "command"),
    [
        ([GOOD], "`kchaos chaos --kafka 2.8.2 --mix mixed --seed 7 --runs 1 --steps 25`"),
        (
            [UNKNOWN, GOOD, OTHER],
            "`kchaos chaos --kafka 2.8.2 --mix mixed --seed 7 --runs 3 --steps 25`",
        ),
        (
            [GOOD, UNKNOWN],
            "`kchaos chaos --kafka 2.8.2 --mix mixed --seed 7 --runs 1 --steps 25`<br>"
            "`kchaos chaos --kafka 2.8.2 --mix mixed --seed 9 --runs 1 --steps 25`",
        ),
        (
            [OLD],
            "`kchaos chaos --kafka 0.10.2.2 --mix cuts --seed 4 --runs 1 --steps 25 --no-gates`",
        ),
        (
            [replace(GOOD, case="slow-disks-kraft-no-gates")],
            "`kchaos chaos --kafka 2.8.2 --mode kraft --mix slow-disks --seed 7 --runs 1 "
            "--steps 25 --no-gates`",
        ),
    ],
)
def test_a_rate_has_the_commands_that_play_its_schedules_again(lines: list[RunLine], command: str):
    assert [commands_of(rate) for rate in rates_of(lines)] == [command]


def test_the_table_ends_with_every_run_that_is_not_as_predicted():
    assert table_text([GOOD, OTHER, UNKNOWN]).splitlines() == [
        "release mix   runs conform safe unknown    s waiting  skipped",
        "2.8.2   mixed    3       1    2       1 35.0    10.0 2 of 150",
        "2.8.2: median 35.0 s a run, 10.0 s of it at gates",
        "1 of 3 as expected",
        "2.8.2 mixed seed 8: the run is not as predicted (shows not-as-predicted/round; two)",
        "2.8.2 mixed seed 9: step 3: a broker ended (shows unknown: step N; one)",
    ]


def test_a_play_without_a_result_is_counted_and_changes_no_measured_value():
    lost = lost_line(draw(8, kafka="2.8.2", steps=3), "it was killed")
    assert table_text([GOOD, lost, lost]).splitlines() == [
        "release mix   runs conform safe unknown    s waiting skipped",
        "2.8.2   mixed    3       1    1       2 30.0    10.0 1 of 50",
        "2.8.2: median 30.0 s a run, 10.0 s of it at gates",
        "1 of 3 as expected",
        *["2.8.2 mixed seed 8: it was killed"] * 2,
    ]


def test_the_page_has_the_rates_and_names_its_file():
    page = page_of([GOOD, OTHER], "chaos.jsonl")
    assert "| 2.8.2 | mixed | 1 of 2 | 2 of 2 | 0 | 35.0 | 15.0 | 2 of 100 | `kchaos chaos" in page
    assert "chaos.jsonl" in page
    assert "- 2.8.2 mixed seed 8: the run is not as predicted" in page
    assert "None." in page_of([GOOD], "x.jsonl")


def test_the_command_line_knows_every_mix():
    assert set(MIX_NAMES) == {*MIXES, WALKS, WIDE_WALKS}
