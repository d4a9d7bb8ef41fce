"""The command that draws and plays: seeds, what is played again, exit codes, what it writes."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.run_line import RunLine
from kchaos.harness.campaign import children
from kchaos.harness.campaign import schedules as command
from kchaos.harness.campaign.schedules import DrawnSchedules, Due, chaos, exit_code_of_chaos
from kchaos.harness.commands.cli_options import default_side_by_side
from kchaos.harness.player.free import FreeRun
from kchaos.harness.run.own_parts import parts_of_file

GOOD = {"conforms": True, "safe": True, "expected": True}
FOUND = {"conforms": False, "safe": True, "expected": False}
UNKNOWN = {"conforms": None, "safe": None, "expected": False}
PLAN = DrawnSchedules(kafkas=("2.8.2",), seed=5, mixes={"cuts": 1.0}, steps=4, gated=True)


class FakeChildren(AbstractContextManager[Any]):
    """Plays nothing; what comes of a seed is in `answers`, else all is well."""

    answers: dict[int, dict[str, Any]]
    killed: set[int]
    played: list[tuple[str, int]]

    def __init__(self, **_options: Any) -> None: ...

    def play(self, scenario: k.Scenario) -> RunLine:
        self.played.append((scenario.release, scenario.seed))
        if scenario.seed in self.killed:
            raise k.RunUnknown("a play was killed by SIGKILL")
        return RunLine(
            entry="chaos",
            case=scenario.case,
            release=scenario.release,
            seed=scenario.seed,
            seconds=1.0,
            waited_s=0.5,
            steps=9,
            run=f"/x/run-{scenario.seed}",
            **self.answers.get(scenario.seed, GOOD),
        )

    def stop(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> type[FakeChildren]:
    FakeChildren.answers, FakeChildren.killed, FakeChildren.played = {}, set(), []
    monkeypatch.setattr(children, "Children", FakeChildren)
    monkeypatch.setattr(command, "fetch", lambda kafka, **_: SimpleNamespace(release=kafka))
    return FakeChildren


def played(results: Path | None = None, **more: Any) -> tuple[int, list[int]]:
    """The exit code, and the seeds of the lines that were told."""
    told: list[int] = []
    fail_on, runs, mix = more.pop("fail_on", ()), more.pop("runs", 3), more.pop("mix", "cuts")
    lines = chaos(
        replace(PLAN, mixes={mix: 1.0}, **more),
        runs=runs,
        side_by_side=1,
        results=results,
        options=k.RunOptions(),
        say=lambda _: None,
        done=lambda line: told.append(line.seed or 0),
    )
    assert len(lines) >= len(told)
    return exit_code_of_chaos(lines, fail_on), told


def test_each_release_gets_the_same_seeds_from_the_first_on(fake: type[FakeChildren]):
    assert played(kafkas=("1.1.1", "2.8.2"), runs=2) == (0, [5, 5, 6, 6])
    assert fake.played == [("1.1.1", 5), ("2.8.2", 5), ("1.1.1", 6), ("2.8.2", 6)]


@pytest.mark.parametrize(
    ("answers", "code"), [({}, 0), ({6: FOUND}, 1), ({6: UNKNOWN}, 2), ({5: UNKNOWN, 6: FOUND}, 1)]
)
def test_the_exit_code_is_that_of_the_worst_run(
    answers: dict[int, dict[str, Any]], code: int, fake: type[FakeChildren]
):
    fake.answers = answers
    assert played() == (code, [5, 6, 7])


UNSAFE = {"conforms": True, "safe": False, "expected": True}


@pytest.mark.parametrize(
    ("answer", "fail_on", "code"),
    [
        (UNSAFE, (), 1),
        (UNSAFE, ("unsafe",), 1),
        (UNSAFE, ("not-conforming", "unknown"), 0),
        (FOUND, ("unsafe",), 0),
        (FOUND, ("not-conforming",), 1),
        (UNKNOWN, ("unsafe",), 0),
        (UNKNOWN, ("unsafe", "unknown"), 2),
    ],
)
def test_what_fails_is_chosen_and_an_unsafe_run_fails_although_the_model_predicts_it(
    answer: dict[str, Any], fail_on: tuple[str, ...], code: int, fake: type[FakeChildren]
):
    fake.answers = {6: answer}
    assert played(fail_on=fail_on)[0] == code


def test_a_play_without_a_result_is_unknown_in_the_table_and_is_played_again(
    fake: type[FakeChildren], tmp_path: Path
):
    results = tmp_path / "chaos.jsonl"
    fake.killed = {6}
    assert played(results) == (2, [5, 6, 7])
    page = results.with_suffix(".md").read_text()
    assert "| 2.8.2 | cuts | 2 of 3 | 2 of 3 | 1 |" in page
    assert "seed 6: a play was killed by SIGKILL" in page
    fake.killed = set()
    assert played(results) == (0, [6])


def test_what_the_results_file_has_is_not_played_again_and_still_counts(
    fake: type[FakeChildren], tmp_path: Path
):
    results = tmp_path / "chaos.jsonl"
    fake.answers = {5: FOUND}
    assert played(results, runs=2) == (1, [5, 6])
    fake.answers = {}
    assert played(results, runs=3) == (1, [7])
    assert played(results, runs=3) == (1, [])
    assert played(results, runs=1, seed=6) == (0, [])
    assert len(results.read_text().splitlines()) == 3
    page = results.with_suffix(".md").read_text()
    assert "| 2.8.2 | cuts | 2 of 3 | 3 of 3 | 0 |" in page
    assert "--mix cuts --seed 5 --runs 3 --steps 4`" in page


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"mix": "upgrades", "kafkas": ("2.8.2", "0.10.2.2")}, "for 0.10.2.2: upgrades"),
        ({"mix": "cats"}, "no mix named 'cats'"),
        ({"mix": "formats", "kafkas": ("2.8.2", "4.1.2")}, "is for 4.1.2: formats"),
        ({"mix": "disks", "free": FreeRun(for_s=60.0)}, "do not run freely with the mix disks"),
        ({"free": FreeRun(for_s=1.0), "mix": "cuts"}, "for 10 s at least"),
    ],
)
def test_what_no_seed_has_a_schedule_for_is_refused_before_the_first_play(
    more: dict[str, Any], said: str, fake: type[FakeChildren], monkeypatch: pytest.MonkeyPatch
):
    for name in ("draw", "draw_free"):
        monkeypatch.setattr(command, name, lambda *_, **__: pytest.fail("it was drawn"))
    with pytest.raises(k.UsageError, match=said):
        played(**more)
    assert fake.played == []


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"gated": False, "mode": "kraft", "kafkas": ("3.9.1",)},
        {"mix": "walks", "mode": "zookeeper"},
        {"free": FreeRun(for_s=20.0), "mode": "zookeeper"},
    ],
)
def test_a_run_is_found_again_by_the_case_that_its_schedule_has(
    more: dict[str, Any], tmp_path: Path
):
    results = tmp_path / "chaos.jsonl"
    assert played(results, runs=1, **more) == (0, [5])
    assert played(results, runs=1, **more) == (0, [])


@pytest.mark.parametrize("other", [{"steps": 5}, {"mix": "mixed"}, {"gated": False}])
def test_another_schedule_of_the_same_seed_is_another_run(other: dict[str, Any], tmp_path: Path):
    results = tmp_path / "chaos.jsonl"
    played(results, runs=1)
    assert played(results, runs=1, **other) == (0, [5])


def test_nothing_is_written_where_nobody_asked_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert played()[0] == 0
    assert list(tmp_path.iterdir()) == []


def test_at_least_one_cluster_runs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("kchaos.clusters.system.memory.available_mib", lambda: 20_000)
    for cores, clusters, measured in ((1, 1, 1), (2, 2, 1), (4, 4, 2), (9, 6, 4)):
        monkeypatch.setattr("kchaos.clusters.system.memory.usable_cores", lambda n=cores: float(n))
        assert default_side_by_side() == clusters
        assert default_side_by_side(measures_waits=True) == measured


def test_schedules_without_anything_of_ones_own_are_counted(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from kchaos import AwaitQuiet, KillBroker\n"
        "from dataclasses import dataclass\n\n\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Mine:\n"
        "    def perform(self, play):\n"
        "        AwaitQuiet().perform(play)\n\n\n"
        "def candidates(view, draw):\n"
        "    yield Mine()\n\n\n"
        "DRAWN = {'mine': (WEIGHT, candidates)}\n".replace("WEIGHT", "1e-9")
    )
    other = tmp_path / "often.py"
    other.write_text(file.read_text().replace("1e-9", "1e9").replace("Mine", "Often"))

    def said(own: Path) -> list[str]:
        told: list[str] = []
        chaos(
            replace(PLAN, steps=3, own=(parts_of_file(own),)),
            runs=2,
            side_by_side=1,
            results=None,
            options=k.RunOptions(),
            say=told.append,
            done=lambda _: None,
        )
        return [text for text in told if "your own" in text]

    (missing,) = said(file)
    assert missing.startswith("2 of 2 had no step of your own")
    assert said(other) == []


def test_brokers_get_the_settings_of_a_file(tmp_path: Path):
    file = tmp_path / "server.properties"
    file.write_text("broker.id=4\nnum.io.threads=16\nreplica.lag.time.max.ms=20000\n")
    plan = replace(PLAN, properties=file)
    due = Due(seed=5, kafka="2.8.2", release="2.8.2", mix="cuts")
    plain, own = PLAN.draw(due), plan.draw(due)

    assert own.steps == plain.steps
    changed = {"num.io.threads": "16", "replica.lag.time.max.ms": "20000"}
    assert own.cluster.properties == {**plain.cluster.properties, **changed}
    assert own.case == plan.line_of(due).case != plain.case
    assert "2.8.2: Left out (kchaos sets it): broker.id." in [*plan.begins(["2.8.2"])]
    file.write_text("process.roles=broker\n")
    with pytest.raises(k.UsageError, match="is of a broker with KRaft"):
        plan.require("2.8.2")


@pytest.mark.parametrize("mix", ["mixed", "rare"])
def test_clusters_have_as_many_brokers_as_are_wanted(mix: str):
    plan = DrawnSchedules(
        kafkas=("3.9.1",), seed=3, mixes={mix: 1.0}, steps=8, gated=True, brokers=6
    )
    due = next(plan.due({"3.9.1": "3.9.1"}))
    scenario = plan.draw(due)
    assert len(scenario.cluster.brokers) == 6
    assert scenario.case == plan.line_of(due).case
    assert scenario.case.endswith("-6-brokers")


def test_the_mix_that_disturbs_clients_needs_clients_that_run_freely():
    plan = DrawnSchedules(kafkas=("2.0.1",), seed=3, mixes={"clients": 1.0}, steps=8, gated=True)
    with pytest.raises(k.UsageError, match="add --free"):
        plan.require("2.0.1")
    replace(plan, free=FreeRun(for_s=30)).require("2.0.1")


def test_walks_have_brokers_of_their_own():
    plan = DrawnSchedules(
        kafkas=("2.0.1",), seed=3, mixes={"walks": 1.0}, steps=8, gated=True, brokers=6
    )
    with pytest.raises(k.UsageError, match="leave --brokers out"):
        plan.require("2.0.1")
