"""A command of a user's own beside a scenario: started, found dead, stopped, and trusted first."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

import kchaos as k
from kchaos.harness.play.workload import BOOTSTRAP, Workload, start_workload
from kchaos.harness.run.settings import require_trust
from kchaos.harness.run.steps_checked import check_steps

SERVERS = ("127.0.0.1:1", "127.0.0.1:2")


def started(folder: Path, program: str) -> Workload:
    return start_workload("mine", (sys.executable, "-c", program), SERVERS, folder)


def scenario(*, client_links: bool) -> k.Scenario:
    return k.Scenario(
        entry="mine",
        case="",
        release="3.9.1",
        cluster=k.ClusterSpec(brokers=k.brokers_of("3.9.1"), client_links=client_links),
        steps=(k.StartWorkload(command=("./my_test.sh", "a b")),),
    )


def test_a_command_finds_the_brokers_and_goes_on_until_it_is_stopped(tmp_path: Path):
    file = tmp_path / "servers"
    program = (
        f"import os, time; open({str(file)!r}, 'w').write("
        f"' '.join(os.environ[name] for name in {BOOTSTRAP!r})); time.sleep(600)"
    )
    workload = started(tmp_path, program)
    k.await_until(
        lambda: file.exists() and bool(file.read_text()),
        timeout_s=60,
        waiting_for="the command to write",
        last_seen=lambda: file.exists(),
        abort=workload.check,
    )
    assert file.read_text() == " ".join([",".join(SERVERS)] * 2)
    assert workload.started <= time.monotonic()
    told = workload.stop()
    assert [client["client"] for client in told["clients"]] == ["mine"]
    assert told["clients"][0]["exit_code"] != 0


def test_a_command_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path):
    workload = started(tmp_path, "import sys; print('no brokers'); sys.exit(3)")
    k.await_until(
        lambda: workload.child.exit_code is not None,
        timeout_s=60,
        waiting_for="the command to end",
        last_seen=lambda: workload.child.exit_code,
    )
    with pytest.raises(k.ScenarioError, match="ended by itself with exit code 3: no brokers"):
        workload.stop()


def test_a_program_that_is_not_there_is_said_to_be_missing(tmp_path: Path):
    with pytest.raises(k.ScenarioError, match="/no/such/program cannot be run"):
        start_workload("mine", ("/no/such/program",), SERVERS, tmp_path)


def test_a_file_that_runs_commands_is_played_only_after_somebody_looked(tmp_path: Path):
    with pytest.raises(k.UsageError, match=r"step 0: \./my_test\.sh 'a b'.*--trust"):
        require_trust(scenario(client_links=True), tmp_path / "mine.json")
    given = k.Scenario.from_json(scenario(client_links=True).to_json())
    assert given == scenario(client_links=True)


def test_no_step_of_a_file_hides_a_command_two_levels_deep():
    data = scenario(client_links=True).to_json()
    (hidden,) = data["steps"]
    data["steps"] = [{"step": "IfPossible", "do": {"step": "IfPossible", "do": hidden}}]
    with pytest.raises(k.ScenarioError, match=r"steps\[0\]: an IfPossible within an IfPossible"):
        k.Scenario.from_json(data)
    data["steps"] = [{"step": "IfPossible", "do": hidden}]
    with pytest.raises(k.UsageError, match=r"step 0: \./my_test\.sh 'a b'.*--trust"):
        require_trust(k.Scenario.from_json(data), Path("mine.json"))


@pytest.mark.parametrize("command", [(), ("",), (" ", "x")])
def test_a_command_without_a_program_is_refused_also_where_it_may_be_impossible(
    command: tuple[str, ...],
):
    step = k.StartWorkload(command=command)
    for steps in ((step,), (k.IfPossible(do=step),)):
        with pytest.raises(k.ScenarioError, match=r"step 0 .*the command names no program"):
            check_steps(replace(scenario(client_links=True), steps=steps))


@pytest.mark.parametrize(
    "step",
    [k.StartWorkload(command=(sys.executable,)), k.StartClients(topic="t", partitions=1)],
    ids=["command", "clients"],
)
def test_clients_that_nobody_sees_are_refused_also_where_they_may_be_impossible(step: k.Step):
    for steps in ((step,), (k.IfPossible(do=step),)):
        check_steps(replace(scenario(client_links=True), steps=steps))
        with pytest.raises(k.ScenarioError, match=r"step 0 .*client_links=True"):
            check_steps(replace(scenario(client_links=False), steps=steps))


def test_a_program_that_is_not_there_any_more_is_refused_before_a_cluster_starts():
    with pytest.raises(k.ScenarioError, match=r"step 0 .*: there is no program \./my_test\.sh"):
        check_steps(scenario(client_links=True))
