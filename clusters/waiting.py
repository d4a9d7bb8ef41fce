"""The one gate: wait until an observed condition holds, or say what was seen instead."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal, TypeVar

from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.interrupts import check_interrupt

T = TypeVar("T")

_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05


def await_until(
    condition: Callable[[], T | Literal[False] | None],
    *,
    timeout_s: float,
    waiting_for: str,
    last_seen: Callable[[], object],
    remedy: str = "",
    abort: Callable[[], None] | None = None,
) -> T:
    """Return the first value of ``condition`` that is neither None nor False.

    The condition is looked at once more after the time is up, so that a machine that stood
    still is not mistaken for a condition that never held. ``abort`` is called before each look
    and may raise (for instance BrokerExited). ``last_seen`` is only called for the error.

    A remembered Ctrl-C (see ``clusters.interrupts``) is raised here.

    Raises AwaitTimeout when the condition did not hold within ``timeout_s`` seconds.
    """
    deadline = time.monotonic() + timeout_s
    pause_s = _FIRST_PAUSE_S
    while True:
        check_interrupt()
        is_last_look = time.monotonic() >= deadline
        if abort is not None:
            abort()
        value = condition()
        if value is not None and value is not False:
            return value
        if is_last_look:
            raise AwaitTimeout(
                waited_for=waiting_for,
                last_seen=str(last_seen()),
                remedy=remedy,
                timeout_s=timeout_s,
            )
        time.sleep(max(0.0, min(pause_s, deadline - time.monotonic())))
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
