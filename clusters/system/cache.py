"""kchaos's own cache: where it is, and how two processes share it."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kchaos.checkers.folders import NoPlainPath, held, plain
from kchaos.clusters.errors import AwaitTimeout, MachineError
from kchaos.clusters.system.waiting import await_until

STAGING = ".unfinished-"
_LOCK_S = 3600.0


def cache_directory() -> Path:
    """Return the cache: KCHAOS_CACHE, else XDG_CACHE_HOME/kchaos, else ~/.cache/kchaos.

    The directory is made if it is not there. A path with characters that Java misreads is given
    as a link to it (see ``checkers.folders.plain``). Raises MachineError when that fails.
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
    try:
        return plain(path)
    except NoPlainPath as error:
        raise MachineError(f"{error}; set KCHAOS_CACHE") from error


@contextmanager
def staging(above: Path) -> Iterator[Path]:
    """Yield a folder inside ``above`` for what is not complete yet; it is removed afterwards.

    It is locked meanwhile, so that what a killed process left is recognised.
    """
    with held(above, STAGING) as folder:
        yield folder


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """Hold the cache's lock called ``name`` and yield the cache.

    The lock is the kernel's, so it ends with the process that holds it. A second process waits, and
    hears Ctrl-C meanwhile. Raises MachineError when it has waited for an hour.
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
        _await_lock(file, name)
        yield cache


def _await_lock(file: IO[str], name: str) -> None:
    def locks() -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    try:
        await_until(
            locks,
            timeout_s=_LOCK_S,
            waiting_for=f"another kchaos to be done with the cache's {name}",
            last_seen=lambda: f"it holds {file.name}",
            remedy=f"end it, `fuser {file.name}` names it; or set KCHAOS_CACHE to another folder",
        )
    except (AwaitTimeout, OSError) as error:
        # No gate of a run: the machine cannot.
        raise MachineError(str(error)) from error


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
        os.fchmod(descriptor, 0o600)
        opened.write(text)
