"""A process that forks for plays: each is a process of its own, and ends with those above it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.clusters.system.interrupts import ENDING_SIGNALS
from kchaos.clusters.system.processes import kill_by_identity, process_start_time
from kchaos.harness.campaign import ready_process as ready_module
from kchaos.harness.campaign.children import Children
from kchaos.harness.campaign.ready_process import ReadyProcess, ready_process
from tests.support.processes import MARK, marked

pytestmark = pytest.mark.slow

RUN_CODE = (
    "import json; from kchaos.harness.commands.forking import serve; "
    "serve(lambda arguments: exec(arguments[0]))"
)
TELL = """
import os, sys
json.plays = getattr(json, "plays", 0) + 1
told = {"plays": json.plays, "pid": os.getpid(), "session": os.getsid(0), "input": sys.stdin.read()}
print(json.dumps(told))
print("an error", file=sys.stderr)
"""


@pytest.fixture
def ready(tmp_path: Path) -> Iterator[ReadyProcess]:
    """Forks processes that execute their first argument."""
    environment = {**os.environ, MARK: str(tmp_path)}
    command = (sys.executable, "-c", RUN_CODE)
    process = ready_process(command, log_file=tmp_path / "ready.log", env=environment)
    yield process
    process.end()


def told(ready: ReadyProcess, log: Path) -> tuple[dict[str, Any], str]:
    child = ready.start([TELL], log_file=log, name="a play")
    assert child.await_exit(30) == 0
    first, rest = log.read_text().split("\n", 1)
    assert json.loads(first)["pid"] == child.pid
    return json.loads(first), rest


def test_each_play_has_an_interpreter_a_session_and_output_of_its_own(
    ready: ReadyProcess, tmp_path: Path
) -> None:
    first, errors = told(ready, tmp_path / "1.log")
    second, _ = told(ready, tmp_path / "2.log")
    assert (first["plays"], second["plays"], errors) == (1, 1, "an error\n")
    assert len({first["session"], second["session"], os.getsid(0)}) == 3
    assert (first["session"], first["input"]) == (first["pid"], "")


def test_its_end_is_told_with_the_exit_code_or_the_signal(
    ready: ReadyProcess, tmp_path: Path
) -> None:
    def code_of(text: str) -> int:
        return ready.start([text], log_file=tmp_path / "log", name="a play").await_exit(30)

    assert code_of("raise SystemExit(64)") == 64
    assert code_of("raise ValueError") == 1
    assert "ValueError" in (tmp_path / "log").read_text()
    child = ready.start(["import time; time.sleep(600)"], log_file=tmp_path / "log", name="a play")
    assert child.is_running
    child.stop(30)
    assert (child.exit_code, process_start_time(child.pid)) == (-signal.SIGTERM, None)


def test_a_play_ends_with_the_process_that_it_was_forked_from(
    ready: ReadyProcess, tmp_path: Path
) -> None:
    child = ready.start(["import time; time.sleep(600)"], log_file=tmp_path / "log", name="a play")
    ready.server.kill()
    assert child.await_exit(30) == -signal.SIGKILL
    assert process_start_time(child.pid) is None
    assert not ready.server.is_running
    with pytest.raises(RuntimeError, match="no play can be started"):
        ready.start(["pass"], log_file=tmp_path / "log", name="a play")


def test_nobody_hears_of_a_plays_end_before_it_and_its_server_have_ended(tmp_path: Path) -> None:
    # This one stops to tell, as one that ends does before the kernel has killed its play.
    code = (
        "import os, subprocess, time\n"
        "play = subprocess.Popen(['sleep', '600'], stdin=subprocess.DEVNULL)\n"
        "input()\n"
        "os.write(0, b'%d\\n' % play.pid)\n"
        "os.dup2(os.open(os.devnull, os.O_RDONLY), 0)\n"
        "time.sleep(600)"
    )
    command = (sys.executable, "-c", code)
    process = ready_process(command, log_file=tmp_path / "ready.log", env=os.environ)
    child = process.start([], log_file=tmp_path / "log", name="a play")
    assert child.await_exit(30) == -signal.SIGKILL
    assert process_start_time(child.pid) is None
    assert not process.server.is_running
    process.end()


@pytest.mark.parametrize("number", ENDING_SIGNALS)
def test_a_signal_to_the_process_that_forks_leaves_the_play_alive(
    number: signal.Signals, ready: ReadyProcess, tmp_path: Path
) -> None:
    pipe, log = tmp_path / "pipe", tmp_path / "log"
    os.mkfifo(pipe)
    child = ready.start([f"print(open({str(pipe)!r}).read())"], log_file=log, name="a play")
    ready.server.send(number)
    pipe.write_text("healed")
    assert (child.await_exit(30), log.read_text()) == (0, "healed\n")
    child = ready.start(["pass"], log_file=log, name="a play")
    assert child.await_exit(30) == 0


def test_a_play_handles_signals_as_the_process_did_that_forks(tmp_path: Path) -> None:
    # SIGHUP is ignored, as nohup does.
    command = ("nohup", sys.executable, "-c", RUN_CODE)
    process = ready_process(command, log_file=tmp_path / "ready.log", env=os.environ)
    tell = (
        "from signal import *\n"
        "print(getsignal(SIGTERM).name, getsignal(SIGHUP).name)\n"
        "print(getsignal(SIGINT) is default_int_handler, pthread_sigmask(SIG_BLOCK, []))"
    )
    log = tmp_path / "log"
    assert process.start([tell], log_file=log, name="a play").await_exit(30) == 0
    assert log.read_text() == "SIG_DFL SIG_IGN\nTrue set()\n"
    process.end()


def test_who_does_not_answer_in_time_is_said_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ready_module, "_START_S", 0.1)
    command = (sys.executable, "-c", "import time; time.sleep(600)")
    process = ready_process(command, log_file=tmp_path / "ready.log", env=os.environ)
    with pytest.raises(k.AwaitTimeout, match="for play 1 to be forked"):
        process.start([], log_file=tmp_path / "log", name="play 1")
    process.end()


def test_a_play_ends_with_whoever_wanted_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    wanting = (
        "import os, signal; from pathlib import Path; "
        "from kchaos.harness.campaign.ready_process import ready_process\n"
        f"process = ready_process(({sys.executable!r}, '-c', {RUN_CODE!r}), "
        f"log_file=Path({str(log)!r}), env=os.environ)\n"
        f"process.start(['import time; time.sleep(600)'], log_file=Path({str(log)!r}), name='')\n"
        "print('started', flush=True); signal.pause()"
    )
    environment = {**os.environ, MARK: str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", wanting], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"started\n"
        assert len(marked(str(tmp_path))) == 3
        process.kill()
    k.await_until(
        lambda: marked(str(tmp_path)) == [],
        timeout_s=30,
        waiting_for="all to be gone",
        last_seen=lambda: marked(str(tmp_path)),
    )


def test_what_is_imported_beforehand_starts_no_thread_that_a_fork_would_lose() -> None:
    code = (
        "import importlib, os; from kchaos.harness.commands.forking import NEEDED\n"
        "for needed in NEEDED: importlib.import_module(needed)\n"
        "print(len(os.listdir('/proc/self/task')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "1\n"


def test_a_play_that_cannot_be_says_why_and_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(MARK, str(tmp_path))
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "cache"))
    options = k.RunOptions(runs_directory=tmp_path / "runs", offline=True)
    with Children(options=options, work=tmp_path) as children:
        for _ in range(2):
            with pytest.raises(k.MachineError, match="--offline forbids"):
                children.play(k.draw(1, kafka="2.8.2", steps=2))
        assert len(marked(str(tmp_path))) == 1
    assert marked(str(tmp_path)) == []


def test_another_process_takes_the_place_of_one_that_ended(tmp_path: Path) -> None:
    code = "import os; print(os.getppid()); raise SystemExit(64)"
    serve = f"from kchaos.harness.commands.forking import serve; serve(lambda _: exec({code!r}))"
    command = (sys.executable, "-c", serve)

    def parent_of_play(children: Children) -> int:
        with pytest.raises(k.UsageError) as refused:
            children.play(k.draw(1, kafka="2.8.2", steps=2))
        return int(str(refused.value))

    with Children(options=k.RunOptions(), work=tmp_path, serve=command) as children:
        first = parent_of_play(children)
        assert parent_of_play(children) == first
        assert kill_by_identity(first, process_start_time(first) or 0)
        assert parent_of_play(children) != first
