"""The process that has imported all that a play needs, and forks for each play.

Imports take 0.7 s of the processor's time, which each of many plays would spend again. What is
forked has an interpreter, a session and output of its own, as a process has that began by itself,
and the kernel ends it with the process that it was forked from. That one ends with its parent, and
not by a signal to all of them, such as a service manager's: its play is still to heal then.
"""

import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kchaos.checkers.children import dying_with_parent
from kchaos.clusters.system.interrupts import ENDING_SIGNALS

NEEDED = (
    "kchaos.clusters.start.local",
    "kchaos.harness.commands.cli",
    "kchaos.harness.exits",
    "kchaos.harness.campaign.campaign",
    "kchaos.harness.commands.show",
    "kchaos.harness.run.settings",
)
"""Modules that `kchaos replay` imports, and by them all the rest."""


def serve(main: Callable[[Sequence[str]], Any]) -> None:
    """Fork a process for each line of standard input, a socket, until its end.

    The process id is written back, and the exit code once that process has ended. This one ignores
    `ENDING_SIGNALS`; what is forked handles them as this one did before.

    Args:
        main: What the forked process does; it ends the process, or the process ends with 0.
    """
    # What is there now outlives every play: no collection looks at it again.
    gc.freeze()
    dies_with_us = dying_with_parent()
    handlers = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING_SIGNALS}
    for line in sys.stdin:
        wanted = json.loads(line)
        # What comes before the handlers are back waits for them, where it would be ignored.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
        pid = os.fork()
        if pid == 0:
            dies_with_us()
            _take_over(Path(wanted["log"]))
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
            main(wanted["arguments"])
            sys.exit()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
        os.write(0, b"%d\n" % pid)
        _, status = os.waitpid(pid, 0)
        os.write(0, b"%d\n" % os.waitstatus_to_exitcode(status))


def _take_over(log_file: Path) -> None:
    """Give a forked process a session, an empty input and output of its own."""
    os.setsid()
    with open(os.devnull, "rb") as nothing, log_file.open("ab") as log:
        for own, descriptor in ((nothing, 0), (log, 1), (log, 2)):
            os.dup2(own.fileno(), descriptor)


if __name__ == "__main__":
    from kchaos.harness.commands.process import main as main_of_the_process
    from kchaos.harness.report.page import compile_beforehand

    for needed in NEEDED:
        importlib.import_module(needed)
    compile_beforehand()
    serve(main_of_the_process)
