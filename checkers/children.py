"""Children that the kernel ends with their parent. Stands alone, like `checkers.acts`."""

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
# Looked up here and not in the child: between fork and exec a child of a process with threads
# must not take the loader's lock.
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def dying_with_parent() -> Callable[[], None]:
    """Return a function for `preexec_fn`, which a child process calls between fork and exec.

    It is killed when the *thread* that started it ends, and with it when this process does, however
    that happens. What it becomes by exec inherits that; what it forks does not.
    """
    parent = os.getpid()

    def call() -> None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The parent may have ended before prctl; then no signal will ever come.
        if os.getppid() != parent:
            os._exit(127)

    return call
