"""kchaos's own cache: where it is, and how two processes share it."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusters.errors import MachineError

STAGING = ".staging-"


def cache_directory() -> Path:
    """Return the cache: KCHAOS_CACHE, else XDG_CACHE_HOME/kchaos, else ~/.cache/kchaos.

    The directory is made if it is not there. Raises MachineError when that fails.
    """
    named = os.environ.get("KCHAOS_CACHE")
    if named:
        path = Path(named).expanduser()
    else:
        above = os.environ.get("XDG_CACHE_HOME")
        path = (Path(above) if above else Path.home() / ".cache") / "kchaos"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MachineError(
            f"cannot make the cache {path}: {error}; set KCHAOS_CACHE to a writable folder"
        ) from error
    return path.resolve()


@contextmanager
def staging(above: Path) -> Iterator[Path]:
    """Yield a folder inside ``above`` for what is not complete yet; it is removed afterwards.

    Its name carries this process's pid, so that what a killed process left is recognised.
    """
    above.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=above, prefix=f"{STAGING}{os.getpid()}-") as folder:
        yield Path(folder)


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """Hold the cache's lock called ``name`` and yield the cache.

    The lock is the kernel's, so it ends with the process that holds it. A second process waits.
    """
    cache = cache_directory()
    try:
        (cache / "locks").mkdir(exist_ok=True)
        file = (cache / "locks" / f"{name}.lock").open("w")
    except OSError as error:
        raise MachineError(
            f"cannot write to the cache {cache}: {error}; set KCHAOS_CACHE to a writable folder"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield cache
