"""kchaos as a process of its own: its output, its signals, its last moments."""

import atexit
import io
import os
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from kchaos.clusters.system.interrupts import ENDING_SIGNALS, interrupt_once
from kchaos.harness.exits import INTERRUPTED, MACHINE


class _Unread(io.TextIOWrapper):
    """A stream whose reader may go away: then what is written is thrown away.

    A command goes on to its end and its exit code, whoever reads: `kchaos reproduce … | head -1`
    plays every run.
    """

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except BrokenPipeError:
            self._lead_nowhere()
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except BrokenPipeError:
            self._lead_nowhere()

    def _lead_nowhere(self) -> None:
        _lead_nowhere(self.fileno())
        super().flush()


def main(arguments: Sequence[str]) -> NoReturn:
    """Run the command line, and exit with the code of the contract."""
    sys.stdout, sys.stderr = _stream(1, line_buffering=False), _stream(2, line_buffering=True)
    # Whoever runs a command has no use for its libraries' warnings, not even as errors.
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    for number in ENDING_SIGNALS:
        # What nohup has asked for stays.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, interrupt_once)
    from kchaos.harness.commands.cli import run

    code = _flushed(run(arguments))
    # The result stands: what interrupts the interpreter's own end would only print a traceback.
    for number in ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if code == INTERRUPTED:
        # An interrupt that came while Python executed text (a dataclass is made by that) counts as
        # unhandled, and Python would end the process by SIGINT instead.
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _flushed(code: int) -> int:
    """Flush standard output; return the code, or the machine's if the output takes no more."""
    try:
        sys.stdout.flush()
    except OSError:
        # Each write is flushed at once, so this was told. The interpreter would try once more, and
        # end with a traceback and a code of its own.
        _lead_nowhere(1)
        return code if code == INTERRUPTED else MACHINE
    return code


def _stream(number: int, *, line_buffering: bool) -> io.TextIOWrapper:
    """Return standard output or error; a closed descriptor leads nowhere."""
    try:
        os.fstat(number)
    except OSError:
        _lead_nowhere(number)
    was = sys.stdout if number == 1 else sys.stderr
    return _Unread(
        open(number, "wb", closefd=False),
        encoding=getattr(was, "encoding", None) or "utf-8",
        # A path may have bytes that are no text.
        errors="backslashreplace",
        line_buffering=line_buffering or os.isatty(number),
    )


def _lead_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
