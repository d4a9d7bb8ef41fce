"""Labels for the owner of a container or network, which outlive the process that made it."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from kchaos.clusters.system.cache import cache_directory, locked
from kchaos.clusters.system.leftovers import RUNNING, is_left
from kchaos.clusters.system.processes import process_start_time

RUN = "kchaos.run"
_PID = "kchaos.owner-pid"
_START = "kchaos.owner-start-time"
_USER = "kchaos.owner-user"
_BOOT = "kchaos.owner-boot"
_MACHINE = "kchaos.owner-machine"
_PROCESSES = "kchaos.owner-processes"
_CACHE = "kchaos.owner-cache"
_FOLDER = "kchaos.owner-folder"


def labels_of(run: str, folder: Path | None = None) -> dict[str, str]:
    """Return the labels of everything that this process makes for a run, in a work directory."""
    pid = os.getpid()
    by_lock = {}
    if folder is not None and folder.parent == cache_directory() / RUNNING:
        by_lock = {_CACHE: _cache(), _FOLDER: folder.name}
    return by_lock | {
        RUN: run,
        _PID: str(pid),
        _START: str(process_start_time(pid)),
        _USER: str(os.getuid()),
        _BOOT: _boot(),
        _MACHINE: _machine(),
        _PROCESSES: _process_table(),
    }


def is_dead(labels: Mapping[str, str]) -> bool:
    """Return whether the owner is known to be dead.

    Who shares the owner's cache, from whatever container or host, asks the lock of its folder.
    Else a pid must do. It means something only in the table of processes that it is from, and
    another user's process may be hidden, and another machine may use the same engine: in doubt the
    owner lives. After a boot of this machine, if /etc/machine-id names it, nobody from before does.
    """
    if RUN not in labels:
        return False
    if _FOLDER in labels and labels.get(_CACHE) == _cache():
        return is_left(labels[_FOLDER])
    if labels.get(_USER) != str(os.getuid()):
        return False
    if labels.get(_MACHINE) != _machine():
        return False
    if labels.get(_BOOT) != _boot():
        return True
    if labels.get(_PROCESSES) != _process_table():
        return False
    pid, start = labels.get(_PID, ""), labels.get(_START, "")
    return pid.isdigit() and str(process_start_time(int(pid))) != start


def owner_pid(labels: Mapping[str, str]) -> int:
    """Return the owner's pid."""
    return int(labels[_PID])


def _cache() -> str:
    """Name the cache, wherever it is mounted: by random letters that are written into it once."""
    with locked("owner") as cache:
        file = cache / "id"
        if not file.is_file() or not file.read_text(encoding="ascii").strip():
            file.write_text(f"{secrets.token_hex(8)}\n", encoding="ascii")
        return file.read_text(encoding="ascii").strip()


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _machine() -> str:
    """Name the machine, over its boots; where nothing does, the present boot."""
    file = Path("/etc/machine-id")
    return file.read_text(encoding="ascii").strip() if file.is_file() else _boot()


def _process_table() -> str:
    """Name the pid namespace: a harness inside a container sees other processes than its host."""
    return str(Path("/proc/self/ns/pid").readlink())
