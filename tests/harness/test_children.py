"""Playing many: side by side, in order of their ends, and clean after an error or Ctrl-C."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers.run_line import RunLine
from kchaos.harness.campaign import children
from kchaos.harness.campaign.campaign import Campaign
from kchaos.harness.campaign.children import Children
from tests.golden.stored import ENTRIES, unpacked
from tests.support.processes import MARK, marked

SCENARIOS = [k.draw(seed, kafka="2.8.2", steps=2) for seed in range(6)]
KCHAOS = [sys.executable, "-m", "kchaos"]


class Plays(AbstractContextManager[Any]):
    """Player of a test, which plays as a function says."""

    def __init__(self, played: Callable[[k.Scenario], object]) -> None:
        self.played = played
        self.stopped = threading.Event()

    def play(self, scenario: k.Scenario) -> RunLine:
        self.played(scenario)
        return RunLine(seed=scenario.seed, run="a-run")

    def stop(self) -> None:
        self.stopped.set()

    def __exit__(self, *_: object) -> None: ...


def run_all(
    player: Plays, keep: Callable[[k.Scenario, RunLine], None], side_by_side: int = 2, **more: Any
) -> list[k.Scenario]:
    campaign = Campaign(player=player, side_by_side=side_by_side)
    return campaign.run(SCENARIOS, lambda scenario: scenario, keep, **more)


def test_so_many_are_played_at_once_and_each_is_told():
    both_play = threading.Barrier(2, timeout=30)
    told: list[tuple[int, Any]] = []
    player = Plays(lambda _: both_play.wait())
    assert run_all(player, lambda scenario, line: told.append((scenario.seed, line.seed))) == []
    assert sorted(told) == [(seed, seed) for seed in range(6)]


@pytest.mark.parametrize("error", [KeyboardInterrupt, k.UsageError("no")])
def test_after_an_error_what_plays_is_stopped_and_nothing_else_starts(error: Any):
    started: list[int] = []

    def played(scenario: k.Scenario) -> None:
        started.append(scenario.seed)
        if scenario.seed:
            assert player.stopped.wait(30)

    def keep(_scenario: k.Scenario, _line: RunLine) -> None:
        raise error

    player = Plays(played)
    with pytest.raises(type(error) if isinstance(error, Exception) else error):
        run_all(player, keep)
    assert player.stopped.is_set()
    assert len(started) <= 3


def test_a_lost_play_is_an_unknown_run_and_a_defect_is_raised_when_the_others_are_over():
    kept: dict[int, RunLine] = {}

    def played(scenario: k.Scenario) -> None:
        if error := {0: k.RunUnknown, 3: RuntimeError}.get(scenario.seed):
            raise error(f"seed {scenario.seed} gave none")

    def keep(scenario: k.Scenario, line: RunLine) -> None:
        kept[scenario.seed] = line

    with pytest.raises(RuntimeError, match="1 of 6 runs failed: seed 3 gave none"):
        run_all(Plays(played), keep)
    assert sorted(kept) == [0, 1, 2, 4, 5]
    assert (kept[0].run, kept[0].unknown) == ("", "seed 0 gave none")
    kept.clear()
    run_all(
        Plays(played), keep, failed=lambda scenario, error: RunLine(unknown=f"it failed: {error}")
    )
    assert kept[3].unknown == "it failed: seed 3 gave none"


@pytest.fixture
def child_that_runs(tmp_path: Path) -> Iterator[Callable[[str], Children]]:
    """Makes what plays by running some code in place of `kchaos`."""
    with contextlib.ExitStack() as ending:

        def make(code: str) -> Children:
            player = Children(
                options=k.RunOptions(runs_directory=tmp_path),
                work=tmp_path,
                kchaos=(sys.executable, "-c", code),
            )
            return ending.enter_context(player)

        yield make


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        ("print('kchaos: no such release'); raise SystemExit(64)", k.UsageError, "no such release"),
        ("print('kchaos: no memory'); raise SystemExit(69)", k.MachineError, "no memory"),
        (
            "print('   0.1  starting'); print('kchaos: the disk is full'); raise SystemExit(69)",
            k.MachineError,
            "^the disk is full",
        ),
        ("raise SystemExit(130)", KeyboardInterrupt, None),
        ("print('Traceback'); raise SystemExit(70)", RuntimeError, "exit code 70"),
        ("print('no object')", RuntimeError, "gave no result"),
        ("print('kchaos: lost'); raise SystemExit(2)", k.RunUnknown, "^lost"),
        (
            "import os; os.kill(os.getpid(), 9)",
            k.RunUnknown,
            r"by signal 9 \(Killed\): the kernel .* memory",
        ),
        (
            "import os; os.kill(os.getpid(), 11)",
            k.RunUnknown,
            r"by signal 11 \(Segmentation fault\)",
        ),
    ],
)
def test_a_child_that_fails_says_why(
    code: str,
    error: type[BaseException],
    said: str | None,
    child_that_runs: Callable[[str], Children],
):
    with pytest.raises(error, match=said):
        child_that_runs(code).play(SCENARIOS[0])


@pytest.mark.slow
def test_a_childs_line_is_found_among_warnings(
    monkeypatch: pytest.MonkeyPatch, child_that_runs: Callable[[str], Children]
):
    monkeypatch.setattr(children, "line_at", lambda path: RunLine(run=str(path), steps=7))
    line = {"run": "runs/x", "report": "x.html"}
    code = f"print('a warning'); print('{json.dumps(line)}'); print('another'); raise SystemExit(1)"
    played = child_that_runs(code).play(SCENARIOS[0])
    assert (played.run, played.steps) == ("runs/x", 7)


@pytest.mark.slow
def test_children_that_play_are_asked_to_end(
    child_that_runs: Callable[[str], Children], tmp_path: Path
):
    code = (
        "import pathlib, signal\n"
        "def end(*_): raise SystemExit(130)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"pathlib.Path({str(tmp_path / 'ready')!r}).touch()\n"
        "signal.pause()\n"
    )
    player = child_that_runs(code)
    ended: list[BaseException] = []

    def play() -> None:
        try:
            player.play(SCENARIOS[0])
        except KeyboardInterrupt as error:
            ended.append(error)

    thread = threading.Thread(target=play)
    thread.start()
    deadline = time.monotonic() + 30
    while not (tmp_path / "ready").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    player.stop()
    thread.join(30)
    assert [type(error) for error in ended] == [KeyboardInterrupt]
    with pytest.raises(RuntimeError, match="no run is started any more"):
        player.play(SCENARIOS[1])


@pytest.mark.slow
def test_plays_are_all_asked_to_end_before_one_is_waited_for(
    child_that_runs: Callable[[str], Children], tmp_path: Path
):
    # Each ends only once both were asked.
    code = (
        "import os, pathlib, signal, time\n"
        f"folder = pathlib.Path({str(tmp_path)!r})\n"
        "def end(*_):\n"
        "    (folder / f'asked-{os.getpid()}').touch()\n"
        "    while len(list(folder.glob('asked-*'))) < 2: time.sleep(0.01)\n"
        "    raise SystemExit(130)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "(folder / f'ready-{os.getpid()}').touch()\n"
        "while True: signal.pause()\n"
    )
    player = child_that_runs(code)
    with ThreadPoolExecutor(max_workers=2) as pool:
        plays = [pool.submit(player.play, scenario) for scenario in SCENARIOS[:2]]
        k.await_until(
            lambda: len([*tmp_path.glob("ready-[0-9]*[0-9]")]) == 2,
            timeout_s=30,
            waiting_for="both to play",
            last_seen=lambda: [*tmp_path.iterdir()],
        )
        player.stop()
        assert [type(play.exception(30)) for play in plays] == [KeyboardInterrupt] * 2


@pytest.mark.slow
def test_who_interrupts_hears_of_a_play_that_was_killed(child_that_runs: Callable[[str], Children]):
    player = child_that_runs("import os; os.kill(os.getpid(), 9)")

    def interrupt_after_play() -> None:
        with player:
            with pytest.raises(k.RunUnknown, match="a run was killed by signal 9"):
                player.play(SCENARIOS[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="killed before they could say that they healed"):
        interrupt_after_play()


# -- real clusters -----------------------------------------------------------------------------


def chaos(tmp_path: Path, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    """Runs the command; returns its exit code and the lines that it printed."""
    command = [*KCHAOS, "chaos", "--runs-dir", str(tmp_path / "runs"), "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.cluster
def test_two_schedules_are_played_side_by_side_with_gates(tmp_path: Path):
    results = tmp_path / "chaos.jsonl"
    arguments = ["--kafka", "2.8.2", "--runs", "2", "--seed", "100", "--steps", "4"]
    arguments += ["--side-by-side", "2", "--results", str(results)]
    code, lines = chaos(tmp_path, *arguments)
    assert code in (0, 1), lines
    assert sorted(line["seed"] for line in lines) == [100, 101]
    for line in lines:
        assert (line["unknown"], line["safe"]) == (None, True), line
        run = k.RunDirectory.open(Path(line["run"]))
        assert run.verify() == ()
        assert run.read("run.json")["seed"] == line["seed"]
        assert "chaos" in run.read("run.json")["command"]
        scenario = k.Scenario.from_json(run.read("scenario.json"))
        assert scenario.steps == k.draw(line["seed"], kafka="2.8.2", steps=4).steps
    assert len(results.read_text().splitlines()) == 2
    assert "| 2.8.2 | mixed |" in results.with_suffix(".md").read_text()
    # What the file has is not played again.
    again, printed = chaos(tmp_path, *arguments)
    assert (again, printed) == (code, [])
    assert len(list((tmp_path / "runs").glob("chaos-*"))) == 2


@pytest.mark.cluster
def test_without_gates_a_schedule_is_played_and_judged(tmp_path: Path):
    arguments = ["--kafka", "2.8.2", "--seed", "100", "--steps", "4", "--no-gates"]
    code, (line,) = chaos(tmp_path, *arguments)
    assert code in (0, 1, 2)
    run = k.RunDirectory.open(Path(line["run"]))
    assert run.verify() == ()
    assert (run.read("outcome.json")["finished"], line["case"]) == (True, "mixed-no-gates")
    kinds = [line["kind"] for line in run.read_lines("observations.jsonl")]
    assert kinds.count("step") == len(run.read("scenario.json")["steps"])


@pytest.mark.cluster
def test_a_real_finding_is_shrunk_to_what_shows_it(tmp_path: Path):
    red = unpacked("KAFKA-7601-jira", tmp_path, runs=ENTRIES)
    steps = len(red.read("scenario.json")["steps"])
    command = [*KCHAOS, "shrink", str(red.path), "--runs", "2", "--json"]
    command += ["--runs-dir", str(tmp_path / "runs")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    told = json.loads(done.stdout)
    assert (told["of"], told["signs"]) == (steps, ["divergence"])
    assert told["steps"] < steps
    smaller = json.loads(Path(told["scenario"]).read_text())
    assert len(smaller["steps"]) == told["steps"]


@pytest.mark.cluster
def test_ctrl_c_stops_every_cluster(tmp_path: Path):
    runs = tmp_path / "runs"
    environment = {**os.environ, MARK: str(tmp_path)}
    child = subprocess.Popen(
        [
            *(*KCHAOS, "reproduce", "KAFKA-6361", "--case", "n20", "--kafka", "1.1.1"),
            *("--runs", "2", "--side-by-side", "2", "--runs-dir", str(runs)),
        ],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    k.await_until(
        lambda: len(list(runs.glob("*-*/actions.jsonl"))) == 2,
        timeout_s=300,
        waiting_for="two plays to begin",
        last_seen=lambda: [*runs.glob("*")],
    )
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=200)
    assert child.returncode == 130, said
    assert "interrupted" in said
    # One of them may have ended while the other began.
    assert not all(k.RunDirectory.open(run).is_sealed for run in runs.glob("*-*"))
    assert marked(str(tmp_path)) == []
