"""Steps, faults and entries of one's own: from a file, from a package, and carried by a run."""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.faults.api import MemoryJournal
from kchaos.harness.campaign.cases import cells
from kchaos.harness.catalogue import Entry, entry_named, scenario_of
from kchaos.harness.commands.cli import run
from kchaos.harness.errors import ScenarioError, UsageError
from kchaos.harness.play.fault_stack import FaultStack
from kchaos.harness.player.drawing import draw
from kchaos.harness.run import own_parts
from kchaos.harness.run.own_parts import carried_parts, parts_of_file
from kchaos.harness.run.runner import perform
from kchaos.harness.run.scenario import Scenario, read_scenario
from kchaos.harness.run.steps_checked import check_steps
from kchaos.harness.steps.if_possible import IfPossible
from kchaos.harness.steps.scenario_steps import Inject

PAGE = Path(__file__).parents[2] / "docs/own-parts.md"
TUTORIAL = "".join(
    re.findall(r"<!-- own -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
)
STEP = """
from dataclasses import dataclass

@dataclass(frozen=True, kw_only=True)
class WriteOdd:
    def perform(self, play):
        raise KeyError("odd")
"""


@pytest.fixture(autouse=True)
def _nothing_is_loaded_yet() -> Iterator[None]:
    """As in a process that has run no file so far."""
    before = dict(own_parts._LOADED)
    own_parts._LOADED.clear()
    yield
    own_parts._LOADED.clear()
    own_parts._LOADED.update(before)


@pytest.fixture
def tutorial(tmp_path: Path) -> Path:
    file = tmp_path / "my_bug.py"
    file.write_text(TUTORIAL)
    return file


def of_tutorial(file: Path) -> Scenario:
    return scenario_of(entry_named(str(file)), "bounced", "2.8.2")


def written(tmp_path: Path, scenario: Scenario) -> Path:
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(scenario.to_json()))
    return file


def test_the_entry_of_the_tutorial_can_be_played(tutorial: Path):
    scenario = of_tutorial(tutorial)

    check_steps(scenario)
    assert (scenario.entry, scenario.case) == ("MY-BUG", "bounced")
    assert [type(step).__name__ for step in scenario.steps][1:3] == ["WriteInTurn", "Inject"]


def test_a_file_is_shown_and_listed_as_an_entry_of_kchaos(
    tutorial: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(["show", str(tutorial)]) == 0
    assert "MY-BUG: A leader that is bounced" in capsys.readouterr().out

    assert run(["list", "--json", "--parts", str(tutorial)]) == 0
    listed = [json.loads(line)["entry"] for line in capsys.readouterr().out.splitlines()]
    assert listed[-1] == "MY-BUG"
    assert "KAFKA-6361" in listed


def test_an_entry_that_leaves_all_to_the_model_is_measured_on_its_default_releases(tutorial: Path):
    entry = entry_named(str(tutorial))
    assert [*cells([entry])] == [(entry, "bounced", "2.8.2")]


def test_a_run_carries_the_text_and_gives_the_same_scenario_to_whoever_trusts_it(
    tutorial: Path, tmp_path: Path
):
    scenario = of_tutorial(tutorial)
    file = written(tmp_path, scenario)
    tutorial.unlink()
    own_parts._LOADED.clear()

    read = read_scenario(file, trusted=True)

    assert json.loads(json.dumps(read.to_json())) == json.loads(file.read_text())
    assert read.to_json()["parts"][0]["source"] == TUTORIAL


def test_code_that_a_run_carries_is_not_run_without_trust(tmp_path: Path):
    ran = tmp_path / "ran"
    source = f"open({str(ran)!r}, 'w').close()\n{STEP}"
    (tmp_path / "my_bug.py").write_text(source)
    (step,) = parts_of_file(tmp_path / "my_bug.py").steps.values()
    cluster = of_tutorial_cluster(tmp_path)
    scenario = Scenario(entry="x", case="", release="2.8.2", cluster=cluster, steps=(step(),))
    file = written(tmp_path, scenario)
    own_parts._LOADED.clear()
    ran.unlink()

    with pytest.raises(ScenarioError, match=r"code of its own: my_bug.py.*WriteOdd.*--trust"):
        read_scenario(file)

    assert not ran.exists()
    read_scenario(file, trusted=True)
    assert ran.exists()


def of_tutorial_cluster(tmp_path: Path) -> Any:
    file = tmp_path / "of_cluster.py"
    file.write_text(TUTORIAL)
    return of_tutorial(file).cluster


def test_replay_and_shrink_refuse_carried_code_before_anything_starts(
    tutorial: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = written(tmp_path, of_tutorial(tutorial))
    own_parts._LOADED.clear()

    assert run(["replay", str(file), "--runs-dir", str(tmp_path / "runs")]) == 64

    assert "--trust runs it" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_carried_code_hidden_in_an_if_possible_is_refused_as_well(tutorial: Path, tmp_path: Path):
    scenario = of_tutorial(tutorial)
    data = json.loads(json.dumps(scenario.to_json()))
    data["steps"] = [{"step": "IfPossible", "do": step} for step in data["steps"]]
    own_parts._LOADED.clear()

    with pytest.raises(ScenarioError, match="--trust"):
        Scenario.from_json(data)
    tried = Scenario.from_json(data, trusted=True)
    assert [type(step) for step in tried.steps] == [IfPossible] * 5
    assert tried.to_json()["parts"] == data["parts"]


@pytest.mark.parametrize(
    "parts",
    [
        "my_bug.py",
        [7],
        [{"name": "a"}],
        [{"name": "a", "source": 7}],
        [{"name": "a", "x": ""}],
        # Nobody is told to type a command that a stranger wrote.
        [{"name": "a; reboot", "version": "1"}],
        [{"name": "a", "version": "1; reboot"}],
    ],
)
def test_parts_of_another_shape_are_refused(parts: Any):
    with pytest.raises(ScenarioError, match="parts"):
        carried_parts(parts, trusted=True)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = 1\n", "has no entry: write BUG = Entry"),
        ("x = 1\nif\n", "line 2 is no Python: invalid syntax; mend it there"),
        ("import no_such\n", "line 1 imports no_such, which is not installed: install it"),
        ("\n\n1 / 0\n", "line 3: ZeroDivisionError: division by zero; mend it there"),
        ("raise SystemExit(3)\n", "line 1: SystemExit: 3; mend it there"),
        (
            STEP.replace("WriteOdd", "Produce"),
            "line 5: Produce is the name of a step of kchaos: give yours another one",
        ),
        (
            STEP.replace("WriteOdd", "KillBroker"),
            "line 5: KillBroker is the name of a fault of kchaos: give yours another one",
        ),
        (
            STEP.replace("@dataclass(frozen=True, kw_only=True)", ""),
            "line 5: the step WriteOdd is no frozen dataclass",
        ),
        (
            STEP.replace("perform", "inject"),
            "line 5: the fault WriteOdd has no lasting, performs, available",
        ),
        (
            TUTORIAL.replace('"MY-BUG"', '"kafka-6361"'),
            "kafka-6361 is an entry of kchaos: give yours another name",
        ),
        (
            TUTORIAL.replace("def cluster(kafka: str)", "def cluster()"),
            "cluster of MY-BUG must be a function of the Kafka alone",
        ),
        (
            TUTORIAL.replace("def steps(case: str)", "def steps(case: str, more: str)"),
            "steps of MY-BUG must be a function of the case alone",
        ),
        (re.sub(r"cases=\{.*\}", "cases={}", TUTORIAL), "MY-BUG: it has no cases: name one"),
        (
            TUTORIAL.replace(
                "            yield kchaos.Injection(", "            kchaos.Injection("
            ),
            "inject of the fault BounceLeader is no context manager",
        ),
        (
            TUTORIAL.replace("    @contextmanager\n", ""),
            "inject of the fault BounceLeader is no context manager",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_line_and_the_remedy(
    source: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    file = tmp_path / "my_bug.py"
    file.write_text(source)

    assert run(["reproduce", str(file), "--runs-dir", str(tmp_path / "runs")]) == 64

    told = capsys.readouterr().err
    assert "my_bug.py" in told
    assert said in told
    assert "Traceback" not in told


def test_a_file_that_is_not_there_or_no_text_is_refused(tmp_path: Path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        entry_named(str(tmp_path / "none.py"))
    (tmp_path / "bytes.py").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="no text in UTF-8"):
        entry_named(str(tmp_path / "bytes.py"))


def test_a_file_with_several_entries_wants_one_named(tutorial: Path):
    more = 'from dataclasses import replace\nOTHER = replace(MY_BUG, name="OTHER")\n'
    tutorial.write_text(TUTORIAL + more)

    with pytest.raises(UsageError, match=r"my_bug.py::MY-BUG, .*my_bug.py::OTHER: name one"):
        entry_named(str(tutorial))
    assert entry_named(f"{tutorial}::other").name == "OTHER"


def test_an_error_in_a_function_of_a_file_is_told_with_its_line(
    tutorial: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    tutorial.write_text(TUTORIAL.replace("kchaos.brokers_of", "kchaos.nothing_of"))
    line = TUTORIAL[: TUTORIAL.index("kchaos.brokers_of")].count("\n") + 1

    arguments = ["bisect", str(tutorial), "--good", "2.8.2", "--bad", "3.9.1"]
    assert run([*arguments, "--runs-dir", str(tmp_path / "runs")]) == 64

    told = capsys.readouterr().err
    assert f"my_bug.py line {line}: AttributeError" in told
    assert "defect of kchaos" not in told


@pytest.mark.slow
def test_own_kinds_are_drawn_and_the_same_seed_gives_the_same_schedule(tutorial: Path):
    own = (parts_of_file(tutorial),)
    plain = draw(3, kafka="2.8.2", steps=40)

    drawn = draw(3, kafka="2.8.2", steps=40, own=own)

    several = [draw(seed, kafka="2.8.2", steps=40, own=own) for seed in range(5)]
    done = [step.do for each in several for step in each.steps if isinstance(step, IfPossible)]
    names = {type(step).__name__ for step in done}
    faults = {type(step.fault).__name__ for step in done if isinstance(step, Inject)}
    assert "WriteInTurn" in names
    assert "BounceLeader" in faults
    assert drawn == draw(3, kafka="2.8.2", steps=40, own=own)
    assert drawn.case == "mixed-with-my_bug"
    assert "parts" not in plain.to_json()
    assert draw(3, kafka="2.8.2", steps=40) == plain


@pytest.mark.parametrize(
    ("written_as", "said"),
    [
        ("", "nothing of it is used: write DRAWN"),
        ("DRAWN = {'mine': 3}", r"line 1: DRAWN\['mine'\] is 3: it must be a weight above 0"),
        ("DRAWN = {'mine': (0, print)}", "a weight above 0"),
        ("DRAWN = {'kill': (1, print)}", "there is a kind 'kill' already"),
    ],
)
def test_what_cannot_be_drawn_is_refused(written_as: str, said: str, tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(written_as)
    with pytest.raises(UsageError, match=said):
        draw(3, kafka="2.8.2", steps=4, own=(parts_of_file(file),))


def test_two_files_with_steps_of_one_name_are_refused(tmp_path: Path):
    drawn = "\ndef odd(view, draw):\n    yield WriteOdd()\n\nDRAWN = {'%s': (9.0, odd)}\n"
    parts = []
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(STEP + drawn % name)
        parts.append(parts_of_file(tmp_path / f"{name}.py"))

    said = r"second\.py line 5: first\.py has a WriteOdd too, and a run could not tell them apart"
    with pytest.raises(UsageError, match=said):
        draw(1, kafka="2.8.2", steps=3, own=parts)
    alone = [draw(1, kafka="2.8.2", steps=9, own=[part]) for part in parts]
    carried = alone[0].to_json() | {"parts": [each.to_json()["parts"][0] for each in alone]}
    with pytest.raises(ScenarioError, match=said):
        Scenario.from_json(carried, trusted=True)
    mixed = replace(alone[0], steps=(*alone[0].steps, *alone[1].steps))
    with pytest.raises(UsageError, match=said):
        mixed.to_json()


def test_walks_and_free_clients_take_no_parts(tutorial: Path, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(UsageError, match="walks has only acts that the model says are possible"):
        draw(3, kafka="2.8.2", steps=4, mix="walks", own=(parts_of_file(tutorial),))
    assert run(["chaos", "--kafka", "2.8.2", "--free", "--parts", str(tutorial)]) == 64
    assert "leave --parts or --free out" in capsys.readouterr().err


def test_a_field_that_whoever_judges_takes_for_something_else_is_refused(tmp_path: Path):
    file = tmp_path / "odd.py"
    file.write_text(STEP.replace("    def", "    broker: str = 'all'\n\n    def"))
    step = parts_of_file(file).steps["WriteOdd"]
    cluster = of_tutorial_cluster(tmp_path)
    with pytest.raises(ScenarioError, match=r"step 0 \(WriteOdd\): .*broker.*give yours another"):
        check_steps(Scenario(entry="x", case="", release="2.8.2", cluster=cluster, steps=(step(),)))


def test_an_error_in_a_step_of_ones_own_ends_the_run_and_names_its_line(tmp_path: Path):
    file = tmp_path / "odd.py"
    file.write_text(STEP)
    step = parts_of_file(file).steps["WriteOdd"]()
    play = SimpleNamespace(recorder=SimpleNamespace(), observed=lambda _: None)
    with pytest.raises(ScenarioError, match=r"WriteOdd failed at odd\.py line 7: KeyError: 'odd'"):
        perform(cast(Any, play), 0, step)


def test_an_error_of_kchaos_itself_is_not_told_as_one_of_the_step(tmp_path: Path):
    file = tmp_path / "calls.py"
    called = "from kchaos.harness.run.own_parts import own_place as asks\n"
    file.write_text(called + STEP.replace('raise KeyError("odd")', "asks(play)"))
    step = parts_of_file(file).steps["WriteOdd"]()
    play = SimpleNamespace(recorder=SimpleNamespace(), observed=lambda _: None)
    with pytest.raises(AttributeError, match="__traceback__"):
        perform(cast(Any, play), 0, step)


def test_a_fault_that_yields_no_injection_is_healed_and_named():
    healed = []

    class Odd:
        lasting = True

        @contextmanager
        def inject(self, _cluster: Any, _journal: Any) -> Iterator[None]:
            yield
            healed.append("odd")

    journal = MemoryJournal()
    faults = FaultStack(cluster=cast(Any, None), journal=journal)
    with pytest.raises(ScenarioError, match="Odd was healed at once: its inject yields None"):
        faults.inject("x", cast(Any, Odd()))
    assert (healed, faults.acting, journal.entries) == (["odd"], {}, [])


# -- packages ---------------------------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> str:
    """A package `my-bugs` whose module has what the tutorial's file has."""
    module = ModuleType("my_bugs_for_tests")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(TUTORIAL, "my_bugs_for_tests.py", "exec", dont_inherit=True), vars(module))
    point = EntryPoint(name="my-bugs", value=module.__name__, group=own_parts.GROUP)
    monkeypatch.setattr(own_parts, "entry_points", lambda group: [point])
    monkeypatch.setattr(own_parts, "version", lambda name: "2.0")
    return "my-bugs"


def test_entries_of_a_package_are_there_as_those_of_kchaos(
    installed: str, capsys: pytest.CaptureFixture[str]
):
    assert isinstance(entry_named("my-bug"), Entry)
    assert run(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["entry"] == "MY-BUG"


def test_a_run_with_steps_of_a_package_needs_the_package_and_no_trust(
    installed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    scenario = scenario_of(entry_named("MY-BUG"), "bounced", "2.8.2")
    file = written(tmp_path, scenario)
    assert read_scenario(file) == scenario
    assert "source" not in scenario.to_json()["parts"][0]

    monkeypatch.setattr(own_parts, "entry_points", lambda group: [])
    with pytest.raises(
        ScenarioError, match=r"my-bugs .*not installed\. If you trust it: pip install"
    ):
        read_scenario(file)


def test_a_run_with_steps_of_a_package_is_not_played_with_another_version_of_it(
    installed: str, tmp_path: Path
):
    made = scenario_of(entry_named("MY-BUG"), "bounced", "2.8.2").to_json()
    (part,) = made["parts"]
    assert part["version"] == "2.0"
    file = tmp_path / "scenario.json"
    file.write_text(json.dumps(made | {"parts": [part | {"version": "1.0"}]}))
    for trusted in (False, True):
        with pytest.raises(
            ScenarioError,
            match=r"of my-bugs 1\.0, and my-bugs 2\.0 is installed.*pip install my-bugs==1\.0",
        ):
            read_scenario(file, trusted=trusted)


def test_a_package_that_cannot_be_imported_is_named_and_the_others_are_there(
    installed: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    good = EntryPoint(name=installed, value="my_bugs_for_tests", group=own_parts.GROUP)
    point = EntryPoint(name="gone", value="no_such_module", group=own_parts.GROUP)
    monkeypatch.setattr(own_parts, "entry_points", lambda group: [point, good])

    assert run(["list", "--json"]) == 0
    told = capsys.readouterr()
    assert "warning: the package gone says" in told.err
    assert "mend or uninstall gone" in told.err
    assert json.loads(told.out.splitlines()[-1])["entry"] == "MY-BUG"
    with pytest.raises(UsageError, match=r"the package gone .* mend or uninstall gone"):
        entry_named("NO-BUG")
    with pytest.raises(UsageError, match=r"no package 'gone' .* mend or uninstall gone"):
        own_parts.parts_named("gone")
