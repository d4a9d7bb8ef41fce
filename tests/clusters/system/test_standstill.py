"""Time in which the machine let nothing run, and the clock of waits that leaves it out."""

import os
import threading
import time

import pytest

from kchaos.clusters.errors import AwaitTimeout, MachineError
from kchaos.clusters.system import waiting
from kchaos.clusters.system.standstill import Share, StandstillWatch, awake_s, shares
from kchaos.clusters.system.waiting import await_until


def watch() -> StandstillWatch:
    return StandstillWatch(pids=tuple)


def test_a_look_that_comes_late_is_a_standstill_and_the_clock_stands():
    late = watch()
    stood_before = time.monotonic() - awake_s()

    late.take(6.0, [])

    (seen,) = late.seen
    assert (seen.seconds, round(seen.ended - seen.began, 3)) == (5.0, 6.0)
    assert time.monotonic() - awake_s() - stood_before == pytest.approx(5, abs=0.5)


def test_threads_that_wait_most_of_the_time_are_one_and_those_that_touch_are_joined():
    starved = watch()

    starved.take(1.0, [Share(ran_s=0.2, waited_s=0.9)])
    starved.take(1.0, [Share(ran_s=0.0, waited_s=7.0)])  # No longer than between the looks.

    (seen,) = starved.seen
    assert seen.seconds == 1.9


def test_a_busy_thread_that_shares_its_processor_makes_waits_longer_and_is_no_standstill():
    shared = watch()
    stood_before = time.monotonic() - awake_s()

    shared.take(1.02, [Share(ran_s=0.0, waited_s=0.01)])
    shared.take(1.0, [Share(ran_s=0.3, waited_s=0.7), Share(ran_s=0.01, waited_s=0.4)])

    assert shared.seen == []
    assert time.monotonic() - awake_s() - stood_before == pytest.approx(0.7, abs=0.1)


def test_own_threads_are_seen_and_what_is_gone_is_not():
    no_process = 2**22 + 1

    seen = shares([no_process])

    assert {pid for pid, _ in seen} == {os.getpid()}
    assert (os.getpid(), str(threading.get_native_id())) in seen


def test_a_watch_ends_when_it_is_told_to():
    watched = watch()
    watched.start()
    watched.stop()
    watched.stop()

    assert "standstill" not in {thread.name for thread in threading.enumerate()}


def test_a_wait_goes_on_while_the_machine_stands_still(monkeypatch: pytest.MonkeyPatch):
    clock = iter([0.0, 0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 5.0])
    monkeypatch.setattr(waiting, "awake_s", lambda: next(clock))
    looks = []

    with pytest.raises(AwaitTimeout, match="waited 1 s"):
        await_until(
            lambda: looks.append(1),
            timeout_s=1,
            waiting_for="a time that does not come",
            last_seen=str,
        )

    assert len(looks) == 4


def test_patience_makes_every_wait_longer(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KCHAOS_PATIENCE", "3")
    clock = iter([0.0, 2.9, 2.9, 3.0])
    monkeypatch.setattr(waiting, "awake_s", lambda: next(clock))

    with pytest.raises(AwaitTimeout, match="waited 3 s"):
        await_until(lambda: False, timeout_s=1, waiting_for="it", last_seen=str)


@pytest.mark.parametrize("text", ["0.5", "much", "inf", "nan"])
def test_a_patience_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KCHAOS_PATIENCE", text)

    with pytest.raises(MachineError, match="KCHAOS_PATIENCE is"):
        await_until(lambda: True, timeout_s=1, waiting_for="it", last_seen=str)
