import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kchaos.studies.explorer import (
    Exploration,
    Move,
    ProcessError,
    Progress,
    Read,
    RuleError,
    System,
    explore,
    exploring,
    part,
)
from kchaos.studies.explorer.part import StateSpacePart
from tests.support.published_specifications import Bounds, kip_101, kip_279
from tests.support.small_systems import counters, exchanged

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def shared_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exploring, "STATES_TO_SHARE", 4)
    monkeypatch.setattr(part, "ROUND_STATES", 7)


def counts(exploration: Exploration) -> tuple[int, int, int, bool, str]:
    return (
        exploration.generated,
        exploration.distinct,
        exploration.depth,
        exploration.is_complete,
        exploration.limit,
    )


@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize(
    "system",
    [
        counters(3, 9),
        replace(counters(3, 9), symmetry=[exchanged(0, 1)]),
        kip_279(Bounds(2, 2, 2, 1)),
        kip_279(Bounds(2, 2, 2, 1), is_symmetric=True),
    ],
    ids=["counters", "counters-symmetry", "kip-279", "kip-279-symmetry"],
)
def test_several_processes_count_what_one_counts(system: System, processes: int):
    alone = explore(system, most_states=10**6)
    shared = explore(system, most_states=10**6, processes=processes)
    assert counts(shared) == counts(alone)
    assert shared.is_complete
    assert multiprocessing.active_children() == []


def test_states_that_are_found_again_long_after_are_not_counted_again():
    system = counters(3, 9)
    back = Move("back", lambda read: {0: 0, 1: 0, 2: 0} if read(0) == 9 else None)
    system = replace(system, moves=[*system.moves, back])
    assert explore(system, most_states=10**6, processes=2).distinct == 1000


def test_several_processes_find_the_violation_that_one_finds():
    system = counters(3, 9, forbidden=(5, 6, 7))
    alone = explore(system, most_states=10**6)
    shared = explore(system, most_states=10**6, processes=2)
    assert alone.violation is not None
    assert shared.violation is not None
    assert counts(shared) == counts(alone)
    assert len(shared.violation.trace) == len(alone.violation.trace) == 18
    assert shared.violation.states[-1] == alone.violation.states[-1] == {0: 5, 1: 6, 2: 7}
    assert multiprocessing.active_children() == []


def test_several_processes_find_the_strong_isr_broken_where_one_does():
    system = kip_101(Bounds(2, 3, 2, 3))
    alone = explore(system, most_states=10**6)
    shared = explore(system, most_states=10**6, processes=2)
    assert alone.violation is not None
    assert shared.violation is not None
    assert counts(shared) == counts(alone)
    assert shared.violation.states[-1] == alone.violation.states[-1]


def test_several_processes_keep_exactly_as_many_states_as_allowed():
    explored = explore(counters(3, 9), most_states=777, processes=3)
    assert (explored.distinct, explored.limit, explored.is_complete) == (777, "most_states", False)


def test_the_memory_of_all_processes_counts():
    alone = StateSpacePart(counters(3, 9)).memory_mib()
    most = int(alone * 1.5)
    explored = explore(counters(3, 9), most_states=10**6, most_memory_mib=most, processes=2)
    assert explored.limit == "most_memory_mib"
    assert explore(counters(3, 9), most_states=10**6, most_memory_mib=most).is_complete


def test_runs_are_counted_in_all_processes():
    assert explore(counters(3, 9), most_states=10**6).runs == 30
    shared = explore(counters(3, 9), most_states=10**6, processes=2).runs
    assert 30 < shared <= 60


def with_move(body: Any) -> System:
    system = counters(3, 9)
    return replace(system, moves=[*system.moves, Move("planted", body)])


def test_a_process_that_is_killed_is_an_error():
    parent = os.getpid()

    def deadly(read: Read) -> Mapping[Any, Any] | None:
        if read(0) == 6 and os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return None

    with pytest.raises(ProcessError, match=r"explored part \d of 2, was ended by SIGKILL"):
        explore(with_move(deadly), most_states=10**6, processes=2)
    assert multiprocessing.active_children() == []


def test_a_process_without_memory_is_an_error_that_says_so(capfd: pytest.CaptureFixture[str]):
    parent = os.getpid()

    def hungry(read: Read) -> Mapping[Any, Any] | None:
        if read(0) == 6 and os.getpid() != parent:
            raise MemoryError
        return None

    with pytest.raises(ProcessError, match=r"explored part \d of 2, got no more memory.*--memory"):
        explore(with_move(hungry), most_states=10**6, processes=2)
    assert multiprocessing.active_children() == []
    assert "Traceback" not in capfd.readouterr().err


def test_a_move_that_does_not_fit_is_the_same_error_in_every_process():
    def wrong(read: Read) -> Mapping[Any, Any] | None:
        return {"nowhere": 1} if read(0) == 6 else None

    with pytest.raises(RuleError, match="move 'planted' changes component 'nowhere'"):
        explore(with_move(wrong), most_states=10**6, processes=2)
    assert multiprocessing.active_children() == []


def test_an_interruption_ends_every_process():
    def interrupted(progress: Progress) -> None:
        if multiprocessing.active_children():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore(counters(3, 9), most_states=10**6, processes=2, progress=interrupted)
    assert multiprocessing.active_children() == []


ENDLESS = """
import multiprocessing, sys
from kchaos.studies.explorer import explore
from tests.support.small_systems import counters
def told(progress):
    if multiprocessing.active_children():
        print("shared", flush=True)
explore(counters(8, 9), most_states=10**9, processes=2, progress=told)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill"])
def test_when_the_exploring_program_ends_its_processes_end(number: signal.Signals):
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "shared\n"
        if number is signal.SIGINT:
            os.killpg(program.pid, number)  # As the terminal does, to all of them.
        else:
            program.kill()
        # The end of the output: nobody holds it any more, so every process has ended.
        program.communicate(timeout=60)
    assert program.returncode == -number
