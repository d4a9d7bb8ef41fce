"""The driver by which tests play scenarios: that of `KCHAOS_DRIVER`, as with the commands.

CI restores JVMs where it can (`docs/restored.md`), which takes 0.6 of the processor's time. Plays
that containers repeat start new JVMs, and so do tests of the driver `local`.
"""

import os
from pathlib import Path

from kchaos.clusters.drivers import DRIVERS
from kchaos.harness.run.runner import RunOptions


def play_options(runs_directory: Path) -> RunOptions:
    """Return the options of a play with run directories in a folder."""
    driver = os.environ.get("KCHAOS_DRIVER") or DRIVERS[0]
    return RunOptions(runs_directory=runs_directory, driver=driver)
