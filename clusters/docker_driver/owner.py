"""Whose a container or network is: labels that outlive the process that made it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from clusters.processes import process_start_time

RUN = "kchaos.run"
_PID = "kchaos.owner-pid"
_START = "kchaos.owner-start-time"
_USER = "kchaos.owner-user"
_BOOT = "kchaos.owner-boot"
_MACHINE = "kchaos.owner-machine"
_PROCESSES = "kchaos.owner-processes"


def labels_of(run: str) -> dict[str, str]:
    """Return the labels of everything that this process makes for a run."""
    pid = os.getpid()
    return {
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

    A pid means something only in the table of processes that it is from, and another user's
    process may be hidden, and another machine may use the same engine: in doubt the owner lives.
    After a boot of this machine, if /etc/machine-id names it, nobody from before does.
    """
    if RUN not in labels or labels.get(_USER) != str(os.getuid()):
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


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _machine() -> str:
    """Name the machine, over its boots; where nothing does, the present boot."""
    file = Path("/etc/machine-id")
    return file.read_text(encoding="ascii").strip() if file.is_file() else _boot()


def _process_table() -> str:
    """Name the pid namespace: a harness inside a container sees other processes than its host."""
    return str(Path("/proc/self/ns/pid").readlink())
