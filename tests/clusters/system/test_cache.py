"""Locks of the cache: a second kchaos waits, hears Ctrl-C, and says what it waits for."""

import os
import signal
import threading
from pathlib import Path

import pytest

from kchaos.clusters.errors import MachineError
from kchaos.clusters.system import cache
from kchaos.clusters.system.interrupts import interrupts_at_gates


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))


def test_who_waits_for_another_hears_ctrl_c():
    reached: list[Path] = []

    def interrupted() -> None:
        with interrupts_at_gates():
            interrupt = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
            interrupt.start()
            try:
                with cache.locked("java") as taken:
                    reached.append(taken)
            finally:
                # Outside the block it would end the tests.
                interrupt.cancel()
                interrupt.join()

    with cache.locked("java"), pytest.raises(KeyboardInterrupt):
        interrupted()
    assert reached == []


def test_who_has_waited_too_long_says_for_what(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cache, "_LOCK_S", 0.01)
    said = r"another kchaos to be done with the cache's java.*java\.lock"

    with cache.locked("java"), pytest.raises(MachineError, match=said), cache.locked("java"):
        raise AssertionError("it is locked")


def test_the_next_has_the_lock_when_the_first_is_done():
    done, second = threading.Event(), threading.Event()

    def wait() -> None:
        with cache.locked("java"):
            assert done.is_set()
            second.set()

    waiting = threading.Thread(target=wait)
    with cache.locked("java"):
        waiting.start()
        assert not second.wait(0.1)
        done.set()
    waiting.join()
    assert second.is_set()
