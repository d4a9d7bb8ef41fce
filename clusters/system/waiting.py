"""The one gate: wait until an observed condition holds, or say what was seen instead."""

import math
import os
import time
from collections.abc import Callable
from typing import Literal, TypeVar

from kchaos.clusters.errors import AwaitTimeout, MachineError
from kchaos.clusters.system.interrupts import check_interrupt
from kchaos.clusters.system.standstill import awake_s

T = TypeVar("T")

_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05


def patience() -> float:
    """Return by how much every wait is longer than it says: KCHAOS_PATIENCE, 1 unless it is set.

    Raises:
        MachineError: It is no number of at least 1.
    """
    text = os.environ.get("KCHAOS_PATIENCE", "1")
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1 <= factor < math.inf:
        raise MachineError(f"KCHAOS_PATIENCE is {text!r}; it takes a number, 1 or more")
    return factor


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

    A wait is as much longer as the machine let nothing run meanwhile
    (``clusters.system.standstill``), and as KCHAOS_PATIENCE says. The condition is looked at once
    more after the time is up. ``abort`` is called before each look and may raise (for instance
    BrokerExited). ``last_seen`` is only called
    for the error.

    A remembered Ctrl-C (see ``clusters.system.interrupts``) is raised here.

    Raises AwaitTimeout when the condition did not hold within ``timeout_s`` seconds.
    """
    timeout_s *= patience()
    deadline = awake_s() + timeout_s
    pause_s = _FIRST_PAUSE_S
    while True:
        check_interrupt()
        is_last_look = awake_s() >= deadline
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
        time.sleep(max(0.0, min(pause_s, deadline - awake_s())))
        pause_s = min(pause_s * 1.5, _LONGEST_PAUSE_S)
