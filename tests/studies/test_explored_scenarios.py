"""A schedule becomes a scenario, which is played on real brokers and is red as explored."""

import contextlib
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.harness.campaign.campaign import judged
from kchaos.harness.commands.cli import run
from kchaos.studies.commands import explore as command
from kchaos.studies.explore import find_schedule
from tests.support.drivers import play_options

pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """A call of the command: its code, its texts, and the file that it was to write."""

    code: int
    out: str
    err: str
    file: Path


def explored(file: Path, *arguments: str) -> Explored:
    """Runs the command, which searches for seconds, for several tests."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as err,
    ):
        code = run(["explore", *arguments, "--scenario", str(file)])
    return Explored(code=code, out=out.getvalue(), err=err.getvalue(), file=file)


@pytest.fixture(scope="module")
def of_one_release(tmp_path_factory: pytest.TempPathFactory) -> Explored:
    file = tmp_path_factory.mktemp("explored") / "explored.json"
    bounds = ["--records", "2", "--epochs", "2", "--log-size", "2"]
    return explored(file, "--kafka", "1.1.1", *bounds, "--json")


@pytest.fixture(scope="module")
def scenario(of_one_release: Explored) -> k.Scenario:
    return k.read_scenario(of_one_release.file)


@pytest.fixture(scope="module")
def of_two_releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Explored, Explored]:
    """The same twice; the file has something else before. The second call finds it at once."""
    file = tmp_path_factory.mktemp("explored") / "explored.json"
    file.write_text("mine")
    mixed = ["--kafka", "2.0.1", "--kafka", "1.1.1", "--property", "agreement"]
    schedules: list[Any] = []

    def searched_once(*arguments: Any, **named: Any) -> Any:
        schedules.extend([] if schedules else [find_schedule(*arguments, **named)])
        return schedules[0]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(command, "find_schedule", searched_once)
        return explored(file, *mixed), explored(file, *mixed)


def test_it_survives_being_written_and_read(scenario: k.Scenario):
    assert k.Scenario.from_json(json.loads(json.dumps(scenario.to_json()))) == scenario


def test_every_act_is_a_fault_or_a_write_with_what_is_to_be_seen_after_it(scenario: k.Scenario):
    assert scenario.steps[1] == k.ReorderReplicas(topic="t", partition=0, replicas=(1, 0))
    faults = [type(step.fault) for step in scenario.steps if isinstance(step, k.Inject)]
    assert faults == [k.CutLink, k.PreferredElection, k.CutZooKeeper, k.ExpireSession]
    states = [(step.leader, step.isr) for step in scenario.steps if isinstance(step, k.AwaitState)]
    assert states == [(1, (0, 1)), (0, (0,)), (0, (0, 1))]
    assert k.TakeSnapshot(label="unhealed") in scenario.steps
    acts = [step for step in scenario.steps if isinstance(step, k.Tell)]
    assert scenario.steps.count(k.AwaitQuiet()) == len(acts)
    assert sorted(broker.id for broker in scenario.cluster.brokers) == [0, 1, 2]


def test_the_command_finds_it_and_writes_it(of_one_release: Explored):
    assert of_one_release.code == 1
    assert "searching a schedule" in of_one_release.err
    line = json.loads(of_one_release.out)
    assert line["holds"] is False
    assert line["broken"] == "strong-isr"
    assert len(line["steps"]) == line["depth"] - 1
    assert line["scenario"] == str(of_one_release.file)


def test_a_file_that_has_something_else_is_left_alone_and_the_same_scenario_is_written_once(
    of_two_releases: tuple[Explored, Explored],
):
    file = of_two_releases[0].file
    beside = file.with_name("explored-2.json")
    for each in of_two_releases:
        assert each.code == 1
        assert f"kchaos replay {beside}" in each.out
    assert file.read_text() == "mine"
    assert k.read_scenario(beside).steps
    assert len([*file.parent.iterdir()]) == 2


def test_what_holds_is_said_with_the_number_of_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "explored.json"
    bounds = ["--records", "1", "--epochs", "1", "--log-size", "1", "--steps", "requests"]
    assert run(["explore", "--kafka", "3.9.1", *bounds, "--scenario", str(file)]) == 0
    out = capsys.readouterr().out
    assert "strong-isr: holds in every state" in out
    assert "states/s" in out
    assert not file.exists()


def test_brokers_of_two_releases_are_named_one_by_one_and_speak_the_older_protocol(
    of_two_releases: tuple[Explored, Explored],
):
    assert "2.0.1 beside 1.1.1, 2 replicas" in of_two_releases[0].out
    written = k.read_scenario(of_two_releases[0].file.with_name("explored-2.json"))
    brokers = {broker.id: broker.kafka for broker in written.cluster.brokers}
    assert brokers == {0: "2.0.1", 1: "1.1.1", 2: "2.0.1"}


def test_what_may_happen_besides_is_named_on_the_command_line(capsys: pytest.CaptureFixture[str]):
    bounds = ["--records", "1", "--epochs", "1", "--log-size", "1"]
    faults = ["--fault", "stop", "--fault", "time-out", "--fault", "time-out"]
    assert run(["explore", "--kafka", "3.9.1", *bounds, *faults, "--no-schedule", "--json"]) == 0
    line = json.loads(capsys.readouterr().out)
    assert (line["faults"]["time_outs"], line["faults"]["stops"]) == (2, 1)
    assert line["holds"] is True


@pytest.mark.parametrize("bound", ["--most-states", "--memory"])
def test_a_bound_that_ends_it_leaves_it_unknown(bound: str, capsys: pytest.CaptureFixture[str]):
    assert run(["explore", "--kafka", "3.9.1", bound, "10"]) == 2
    out = capsys.readouterr().out
    assert f"unknown, for {bound} ended it; give more" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--kafka", "9.9.9"], "no known Kafka release"),
        (["--kafka", "4.1.2"], "4.1.2 is not explored"),
        (["--kafka", "2.8.9"], "2.8.9 is not explored"),
        (["--kafka", "4.0.2"], "from 0.10.2.0 to 3.9.2"),
        (["--kafka", "3.9.1", "--records", "0"], "--records"),
        (["--kafka", "3.9.1", "--without", "KIP-1"], "no release has a rule named 'KIP-1'"),
        (["--kafka", "3.9.1", "--replicas", "1"], "--replicas"),
        (["--kafka", "3.9.1", "--property", "no-loss"], "--property"),
        ([], "--kafka"),
        (["--kafka", "1.1.1", "--kafka", "2.0.1", "--replicas", "3"], "leave out --replicas 3"),
        (["--kafka", "3.9.1"] * 5, "4 brokers at most"),
        (["--kafka", "3.9.1", "--fault", "reassign"], "--replicas 3 or more"),
        (["--kafka", "3.9.1", "--steps", "queues", "--skip-epochs"], "leave out --skip-epochs"),
    ],
)
def test_bad_bounds_are_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    assert run(["explore", *arguments]) == 64
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("asked", "why_not"),
    [
        (["--property", "droppable"], "take --steps reads"),
        (["--property", "online", "--steps", "reads"], "without --fault kill: add it"),
        (["--with", "nonsense"], "known: .*a pending fetch keeps a follower"),
        (["--with", "follower.fetch.process.time.max.ms=500"], "set both, or neither"),
        (["--with", "follower.fetch.pending.reads.insync.enable=yes"], "it is true or false"),
    ],
)
def test_what_cannot_be_asked_of_kip_501_is_refused(
    asked: list[str], why_not: str, capsys: pytest.CaptureFixture[str]
):
    assert run(["explore", "--kafka", "2.8.2", *asked]) == 64
    assert re.search(why_not, capsys.readouterr().err)


def test_kip_501_s_first_half_keeps_what_shipped_code_takes_offline(
    capsys: pytest.CaptureFixture[str],
):
    bounds = ["--records", "1", "--log-size", "1", "--epochs", "1", "--steps", "reads"]
    asked = [*bounds, "--fault", "kill", "--property", "online-if-kept-up", "--no-schedule"]
    pending = ["--with", "KIP-501's text: a pending fetch keeps a follower"]

    assert run(["explore", "--kafka", "2.8.2", *asked]) == 1
    assert run(["explore", "--kafka", "2.8.2", *asked, *pending]) == 0
    assert "holds in every state" in capsys.readouterr().out


def test_a_scenario_that_cannot_be_written_is_the_callers_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "no-such-folder" / "explored.json"
    assert run(["explore", "--kafka", "1.1.1", "--scenario", str(file)]) == 64
    assert str(file) in capsys.readouterr().err


@pytest.mark.cluster
def test_the_counterexample_of_1_1_1_is_red_on_real_brokers(scenario: k.Scenario, tmp_path: Path):
    said: list[str] = []
    run_directory = k.play(scenario, options=play_options(tmp_path), say=said.append)
    played = judged(run_directory, said.append)
    shown = [str(played.unknown), played.reason, *map(str, played.findings)]
    assert (played.conforms, played.safe) == (True, False), shown
    assert played.expected is True, shown
