import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.system import processes
from kchaos.clusters.system.log_tail import why_it_ended
from kchaos.clusters.system.ports import is_free, reserve_port
from kchaos.clusters.system.processes import Child, kill_by_identity, process_start_time, spawn
from kchaos.clusters.system.waiting import await_until


@pytest.mark.slow
def test_a_child_outlives_the_thread_that_asked_for_it_and_is_awaited_with_patience(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KCHAOS_PATIENCE", "2")
    children: list[Child] = []
    asking = threading.Thread(
        target=lambda: children.append(spawn(["sleep", "600"], log_file=tmp_path / "log"))
    )
    asking.start()
    asking.join()

    with pytest.raises(AwaitTimeout, match=r"waited 0.4 s for .*it still runs"):
        children[0].await_exit(0.2)
    children[0].kill()
    assert (children[0].exit_code, process_start_time(children[0].pid)) == (-9, None)


def test_a_child_is_paused_once_each_of_its_threads_stands_still(tmp_path: Path):
    # A thread that has started a process cannot be stopped until that runs its program, and here
    # that waits until somebody writes to a pipe.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    script = (
        "import os, threading\n"
        f"actions = [(os.POSIX_SPAWN_OPEN, 0, {str(pipe)!r}, os.O_RDONLY, 0)]\n"
        "arguments = ('/bin/sleep', ['sleep', '0'], {})\n"
        "spawn = lambda: os.posix_spawn(*arguments, file_actions=actions)\n"
        "thread = threading.Thread(target=spawn)\n"
        "thread.start()\n"
        "thread.join()\n"
        "threading.Event().wait()"
    )
    child = spawn([sys.executable, "-c", script], log_file=tmp_path / "log")
    writer = None
    try:
        _await_states(child, lambda states: "D" in states[1:])
        child.pause()
        states = _await_states(child, lambda states: states[0] == "T")
        assert (states[1:], child.is_paused) == (["D"], False)
        # It stays open, since the thread waits before its process has opened the pipe.
        writer = os.open(pipe, os.O_RDWR)
        _await_states(child, lambda states: set(states) == {"T"})
        assert child.is_paused
        child.resume()
        await_until(
            lambda: not child.is_paused,
            timeout_s=30,
            waiting_for="the child to go on",
            last_seen=lambda: "it is paused",
        )
    finally:
        if writer is None:
            writer = os.open(pipe, os.O_RDWR)
        child.kill()
        os.close(writer)


def test_the_first_thread_that_runs_says_that_a_child_is_not_paused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    # A broker has some sixty threads, and gates ask all the time.
    script = "import threading; threading.Thread(target=threading.Event().wait).start()"
    child = spawn([sys.executable, "-c", script], log_file=tmp_path / "log")
    try:
        _await_states(child, lambda states: len(states) == 2)
        looked_at: list[str] = []

        def running(task: str) -> str:
            looked_at.append(task)
            return "S"

        monkeypatch.setattr(processes, "_state_of", running)
        assert not child.is_paused
        assert len(looked_at) == 1
    finally:
        child.kill()


def test_a_child_that_has_just_ended_and_has_no_thread_is_not_paused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    # The kernel takes the last thread away first and the process a moment later.
    child = spawn(["true"], log_file=tmp_path / "log")
    child.await_exit(30)
    monkeypatch.setattr(os, "listdir", lambda _path: [])
    assert not child.is_paused


def test_a_process_that_ends_at_the_last_moment_needs_no_kill(monkeypatch: pytest.MonkeyPatch):
    ended = subprocess.Popen(["true"])
    ended.wait()
    started = iter([7, None])
    monkeypatch.setattr(processes, "process_start_time", lambda _pid: next(started))
    assert kill_by_identity(ended.pid, 7)


def _await_states(child: Child, hold: Callable[[list[str]], bool]) -> list[str]:
    """The kernel's letter for each thread of a child, the first one's first, once they `hold`."""

    def seen() -> list[str]:
        threads = sorted(
            Path(f"/proc/{child.pid}/task").iterdir(), key=lambda first: int(first.name)
        )
        return [(thread / "stat").read_text().rpartition(")")[2].split()[0] for thread in threads]

    return await_until(
        lambda: states if hold(states := seen()) else None,
        timeout_s=30,
        waiting_for="the child's threads",
        last_seen=lambda: str(seen()),
    )


def test_a_child_writes_to_its_log_and_a_missing_program_is_an_error(tmp_path: Path):
    log = tmp_path / "log"
    child = spawn(["sh", "-c", "echo out; echo err >&2; exit 3"], log_file=log, cwd=tmp_path)
    assert child.await_exit(30) == 3
    assert log.read_text() == "out\nerr\n"
    with pytest.raises(FileNotFoundError):
        spawn(["no-such-program"], log_file=log)


@pytest.mark.slow
def test_a_reserved_port_is_not_given_to_another_process(tmp_path: Path):
    port = reserve_port()
    script = (
        "import kchaos.clusters.system.ports as p\n"
        f"p._FIRST, p._LAST = {port.number}, {port.number + 1}\n"
        "p._random.sample = lambda numbers, count: list(numbers)\n"
        "p.reserve_port()"
    )

    def other() -> str:
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False
        )
        return done.stderr.strip().rpartition("\n")[2]

    assert is_free(port.number)
    assert "MachineError: no free port" in other()
    port.release()
    assert other() == ""


def test_waiting_returns_the_first_true_value():
    values = iter([None, False, 0])
    seen = await_until(
        lambda: next(values), timeout_s=30, waiting_for="a value", last_seen=lambda: "nothing"
    )
    assert seen == 0


def test_waiting_says_what_was_awaited_and_last_seen_and_what_to_do():
    with pytest.raises(AwaitTimeout) as caught:
        await_until(
            lambda: None,
            timeout_s=0,
            waiting_for="the ISR [0, 1]",
            last_seen=lambda: "[0]",
            remedy="look at broker 1",
        )
    assert str(caught.value) == ("waited 0 s for the ISR [0, 1]; last seen: [0]; look at broker 1")


def test_waiting_ends_at_once_when_it_is_aborted():
    def abort() -> None:
        raise RuntimeError("the broker is gone")

    with pytest.raises(RuntimeError, match="the broker is gone"):
        await_until(
            lambda: None, timeout_s=3600, waiting_for="it", last_seen=lambda: "", abort=abort
        )


# -- Part of a log that error messages show --


def test_the_first_error_is_shown_though_many_lines_came_after_it(tmp_path: Path):
    log = tmp_path / "server.log"
    shutting_down = [f"[10:00:01] INFO step {number}" for number in range(40)]
    error = ["[10:00:00] ERROR Fatal error during startup", "java.lang.IllegalState: no", "\tat x"]
    log.write_text("\n".join(["[10:00:00] INFO starting", *error, *shutting_down]))

    shown = why_it_ended(log)

    assert shown == [*error, "...", *shutting_down[-15:]]


def test_an_error_among_the_last_lines_is_shown_once(tmp_path: Path):
    log, console = tmp_path / "server.log", tmp_path / "console.log"
    log.write_text("[10:00:00] INFO starting\n[10:00:01] ERROR no\n")
    console.write_text("Killed\n")

    shown = why_it_ended(log, [console, tmp_path / "none"])

    assert shown == ["[10:00:00] INFO starting", "[10:00:01] ERROR no", "Killed"]
