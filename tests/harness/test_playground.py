"""A command that is run beside a cluster that is judged: its end, and its exit code."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.harness.commands import playground
from kchaos.harness.exits import FINDING, INTERNAL, UNKNOWN, exit_code_beside
from kchaos.harness.run import own_settings
from kchaos.harness.run.runner import RunOptions


@pytest.mark.parametrize(
    ("safe", "conforms", "status", "code"),
    [
        (True, True, 0, 0),
        (True, None, 0, 0),
        (True, None, 3, 3),
        (True, True, -9, INTERNAL),
        (True, True, None, UNKNOWN),
        (False, True, None, FINDING),
        (False, True, 0, FINDING),
        (True, False, 0, FINDING),
        (None, None, 3, UNKNOWN),
    ],
)
def test_what_was_judged_comes_before_what_the_command_says(
    safe: bool | None, conforms: bool | None, status: int | None, code: int
):
    results = cast(Any, SimpleNamespace(safe=safe, conforms=conforms))

    assert exit_code_beside(results, status) == code


def test_a_cluster_to_try_gets_the_settings_of_a_file_beneath_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(own_settings, "fetch", lambda kafka, **_: SimpleNamespace(release=kafka))
    file = tmp_path / "server.properties"
    file.write_text("process.roles=broker\nnum.io.threads=16\nmin.insync.replicas=3\n")
    spec = ClusterSpec(brokers=brokers_of("4.1.2"), properties={"min.insync.replicas": "2"})
    said: list[str] = []

    after = own_settings.with_settings_of(file, spec, options=RunOptions(), say=said.append)

    assert after.properties == {"num.io.threads": "16", "min.insync.replicas": "2"}
    assert said[1:] == [
        "Left out (kchaos sets it): process.roles.",
        "Left out (the test sets it): min.insync.replicas.",
    ]


_DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); "
_CHILD = f"{_DEAF} signal.pause()"
_PARENT = f"import subprocess; subprocess.Popen([{sys.executable!r}, '-c', {_CHILD!r}]).wait()"


def test_what_a_stopped_command_has_started_ends_too_though_it_ignores_sigterm(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(playground, "_ENDING_S", 0.1)
    command = [sys.executable, "-c", _PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"deaf\n"

        playground._stop(child)

        # The pipe ends with the last that has it.
        assert child.stdout.read() == b""
