"""What dead owners left behind: work directories and, if ever, processes."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from clusters.cache import STAGING, cache_directory
from clusters.processes import Child, kill_by_identity, process_start_time

_OWNER = "owner.json"
_PROCESSES = "processes.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One work directory whose owner is dead, and the processes of it that still run."""

    directory: Path
    owner_pid: int
    processes: tuple[tuple[int, int], ...]


def new_work_directory(name: str) -> Path:
    """Return a new folder for one cluster below the cache, owned by this process."""
    directory = cache_directory() / "work" / f"{name}-{os.getpid()}-{secrets.token_hex(3)}"
    directory.mkdir(parents=True)
    claim(directory)
    return directory


def claim(directory: Path) -> None:
    """Write down that this process owns the folder, by pid and start time."""
    pid = os.getpid()
    owner = {"pid": pid, "start_time": process_start_time(pid)}
    (directory / _OWNER).write_text(json.dumps(owner), encoding="utf-8")


def record_process(directory: Path, child: Child) -> None:
    """Write down that the process belongs to the folder's cluster."""
    line = json.dumps({"pid": child.pid, "start_time": child.start_time, "name": child.name})
    with (directory / _PROCESSES).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def find_leftovers() -> list[Leftover]:
    """Return the work directories below the cache whose owners are dead.

    A folder without a readable owner is another program's or is being made: it is left alone.
    """
    found = []
    for directory in sorted((cache_directory() / "work").glob("*")):
        try:
            owner = json.loads((directory / _OWNER).read_text(encoding="utf-8"))
            pid, start_time = int(owner["pid"]), owner["start_time"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if process_start_time(pid) != start_time:
            alive = tuple(p for p in _processes(directory) if process_start_time(p[0]) == p[1])
            found.append(Leftover(directory=directory, owner_pid=pid, processes=alive))
    return found


def _processes(directory: Path) -> list[tuple[int, int]]:
    file = directory / _PROCESSES
    if not file.is_file():
        return []
    entries = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            # The owner was killed while it wrote its last line.
            continue
        entries.append((int(entry["pid"]), int(entry["start_time"])))
    return entries


def gc() -> list[Leftover]:
    """Remove what dead owners left and return the work directories that were removed.

    Living owners' things are not touched. Half-finished downloads of dead processes go too.
    """
    leftovers = find_leftovers()
    for leftover in leftovers:
        for pid, start_time in leftover.processes:
            kill_by_identity(pid, start_time)
        shutil.rmtree(leftover.directory)
    for folder in _staging_folders():
        owner = folder.name.removeprefix(STAGING).partition("-")[0]
        if owner.isdigit() and process_start_time(int(owner)) is None:
            shutil.rmtree(folder, ignore_errors=True)
    return leftovers


def _staging_folders() -> list[Path]:
    cache = cache_directory()
    return [*cache.glob(f"{STAGING}*"), *cache.glob(f"*/{STAGING}*")]
