"""What a hunt for planted bugs says of its runs, its controls and other runs."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kchaos.checkers.run_line import RunLine
from kchaos.clusters.agent.planted import PLANTED_BUGS
from kchaos.harness.campaign.planted import hunts_in, page
from kchaos.harness.commands.cli import cli, run
from kchaos.harness.player.drawing import draw
from kchaos.harness.run.scenario import with_planted
from kchaos.harness.summary.lines import of_kafka
from tests.support.run_lines import found

BUG = PLANTED_BUGS["acknowledged-early"]
POINTING = found("not-as-predicted", message="produce p1 acknowledged at 4, possible: it waits")
CONTROL = RunLine(
    case="mixed", kafka="2.8.2", seed=1, run="control", conforms=True, safe=True, processor_s=9.0
)
RED = replace(
    CONTROL,
    case="mixed-planted-acknowledged-early",
    run="planted",
    conforms=False,
    findings=(POINTING,),
    seen_by_clients=False,
)


def answer(*lines: RunLine) -> str:
    (hunt,) = hunts_in(lines, [BUG])
    return hunt.answer


def test_a_bug_is_found_where_an_answer_is_no_and_its_control_is_green():
    assert answer(CONTROL, RED) == "found"
    assert answer(CONTROL, replace(RED, conforms=True, safe=False)) == "found"
    assert answer(CONTROL, replace(RED, conforms=None)) == "suspected"
    assert answer(CONTROL, replace(RED, conforms=None, findings=())) == "missed"
    assert answer(CONTROL, replace(RED, conforms=True)) == "suspected"
    assert answer(CONTROL, replace(RED, conforms=True, findings=())) == "missed"


@pytest.mark.parametrize(
    "control",
    [
        (),
        (replace(CONTROL, safe=None),),
        (replace(CONTROL, conforms=False),),
        (replace(CONTROL, seed=2),),
        (replace(CONTROL, kafka="3.9.1"),),
    ],
)
def test_without_a_green_control_a_bug_is_only_suspected(control: tuple[RunLine, ...]):
    assert answer(*control, RED) == "suspected"
    assert answer(*control, replace(RED, findings=(found("divergence"),))) == "missed"


def test_a_run_in_which_it_never_acted_or_that_was_lost_says_nothing_of_it():
    idle = replace(RED, conforms=None, findings=(), unknown="planted:x never acted: no occasion")
    assert answer(CONTROL, idle) == "never acted"
    lost = replace(RED, run="", conforms=None, findings=())
    assert answer(CONTROL, lost) == "lost"
    assert answer(CONTROL, lost, idle) == "never acted"
    assert answer(CONTROL, idle, replace(RED, seed=2), replace(CONTROL, seed=2)) == "found"


def test_the_table_counts_until_found_and_names_each_control_that_is_not_green():
    idle = replace(RED, conforms=None, findings=(), unknown="planted:x never acted: no occasion")
    second = [replace(line, seed=2) for line in (CONTROL, RED)]
    bad = replace(CONTROL, seed=3, safe=None)
    table = page([CONTROL, idle, *second, bad, replace(RED, seed=3)])
    assert "| acknowledged-early | 2.8.2 | found | 2 | 18 | yes | no |" in table
    assert "1 hunts: 1 found." in table
    assert "3 controls: 2 green; of seed 3 on 2.8.2 conforms: yes, safe: unknown." in table


def test_clients_alone_see_a_loss_that_a_last_read_would_show():
    lossy = replace(RED, safe=False, findings=(found("committed-loss"),))
    assert "| found | 1 | 9 | no | yes |" in page([CONTROL, lossy])


def test_no_run_with_a_bug_is_a_baseline_of_kafka():
    by_build = replace(CONTROL, build="planted:acknowledged-early")
    assert of_kafka([CONTROL, RED, by_build]) == [CONTROL]


def test_the_schedule_with_a_bug_is_the_one_without_it():
    plain = draw(7, kafka="2.8.2", steps=4)
    planted = with_planted(plain, "acknowledged-early")
    assert planted.steps == plain.steps
    assert planted.case == f"{plain.case}-planted-acknowledged-early"
    assert all("planted:acknowledged-early" in broker.points for broker in planted.cluster.brokers)
    assert with_planted(plain, "") == plain


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["nothing"], "no bug 'nothing' is there to plant: kchaos list --planted has them"),
        (["epoch-not-raised", "--kafka", "4.1.2"], "the bug epoch-not-raised fits 2.8.2, 3.9.1"),
        (["acknowledged-early", "--kafka", "2.3.1"], "fits 2.8.2, 3.9.1, 4.1.2 alone"),
    ],
)
def test_a_hunt_for_a_bug_that_fits_nothing_is_refused_before_a_start(
    words: list[str], why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(["measure", "--planted", *words, "--runs-dir", str(tmp_path / "runs")]) == 64
    assert why in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["chaos", "--runs", "1", "--runs-dir"],
        ["nightly", "--runs", "1", "--output"],
        ["up", "--judge", "--runs-dir"],
    ],
)
def test_a_bug_that_does_not_fit_is_refused_before_a_start(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    words = [*command, str(tmp_path / "runs"), "--kafka", "2.3.1", "--plant", "acknowledged-early"]
    assert run([*words, *(["--", "true"] * ("up" in words))]) == 64
    said = " ".join(capsys.readouterr().err.split())
    assert "the bug acknowledged-early fits no method of 2.3.1: it fits 2.8.2, 3.9.1" in said


def test_bugs_are_listed_with_their_rules():
    listed = CliRunner().invoke(cli, ["list", "--planted"]).output
    assert "acknowledged-early (leader; 2.8.2, 3.9.1, 4.1.2): acks=all is answered" in listed
