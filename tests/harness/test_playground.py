"""A command that is run beside a cluster that is judged: its end, and its exit code."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.harness.commands import playground
from kchaos.harness.exits import FINDING, INTERNAL, UNKNOWN, exit_code_beside


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
) -> None:
    results = cast(Any, SimpleNamespace(safe=safe, conforms=conforms))

    assert exit_code_beside(results, status) == code


_DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); "
_CHILD = f"{_DEAF} signal.pause()"
_PARENT = f"import subprocess; subprocess.Popen([{sys.executable!r}, '-c', {_CHILD!r}]).wait()"


def test_what_a_stopped_command_has_started_ends_too_though_it_ignores_sigterm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(playground, "_ENDING_S", 0.1)
    command = [sys.executable, "-c", _PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"deaf\n"

        playground._stop(child)

        # The pipe ends with the last that has it.
        assert child.stdout.read() == b""
