"""Ctrl-C that is taken where everything is in order: at gates and between steps.

Python raises KeyboardInterrupt between any two instructions of the main thread, also while a
client library holds a lock, and then the healing that follows may hang or fail. While a scenario is
played the signal is therefore only remembered, and raised at the next look of a gate; gates look
at least every 50 ms.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from types import FrameType
from typing import TypeVar

T = TypeVar("T")

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that ask a process to heal, stop and end: Ctrl-C, kill, and a closed terminal."""

_remembered = threading.Event()
_raised = threading.Event()
_raised_in_block = threading.Event()
_LOOK_S = 0.05


@contextlib.contextmanager
def interrupts_at_gates() -> Iterator[None]:
    """Remember `ENDING_SIGNALS` in the block; `check_interrupt` raises only the first.

    A signal that follows finds the block healing already, and a signal to a whole process group may
    come twice. A first signal after the last gate is raised at the end of the block. Outside the
    main thread, where Python handles no signals, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # What nohup has asked for stays.
    heard = [
        number for number in ENDING_SIGNALS if number != signal.SIGHUP or not _is_ignored(number)
    ]
    _remembered.clear()
    _raised_in_block.clear()
    before = {number: signal.signal(number, _remember) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    check_interrupt()


def check_interrupt() -> None:
    """Raise KeyboardInterrupt for the first signal that a block remembered.

    Raises:
        KeyboardInterrupt: One of `ENDING_SIGNALS` came.
    """
    if _remembered.is_set() and threading.current_thread() is threading.main_thread():
        _remembered.clear()
        if not _raised_in_block.is_set():
            _raised_in_block.set()
            _raised.set()
            raise KeyboardInterrupt


def interruptible(call: Callable[[], T]) -> T:
    """Make a long call that Ctrl-C can interrupt; return or raise as the call does.

    Raises:
        KeyboardInterrupt: One of `ENDING_SIGNALS` came. The call goes on in a thread of its own
            until its own deadline, and nobody hears of it any more.
    """
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            answer.set_exception(error)

    threading.Thread(target=work, name="interruptible call", daemon=True).start()
    while not wait([answer], timeout=_LOOK_S).done:
        check_interrupt()
    return answer.result()


def interrupt_once(_signal: int, _frame: FrameType | None) -> None:
    """Interrupt a command at the first signal; ignore later ones while it ends.

    Raises:
        KeyboardInterrupt: Nothing was interrupted in this process before.
    """
    if not _raised.is_set():
        _raised.set()
        raise KeyboardInterrupt


def _is_ignored(number: int) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN


def _remember(_signal: int, _frame: FrameType | None) -> None:
    _remembered.set()
