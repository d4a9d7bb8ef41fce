"""Work directories, and processes if any, that dead owners left behind."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kchaos.checkers.folders import held, is_abandoned, remove_abandoned
from kchaos.clusters.errors import ClusterError, MachineError
from kchaos.clusters.system.cache import STAGING, cache_directory
from kchaos.clusters.system.processes import (
    Child,
    kill_by_identity,
    process_start_time,
    process_table,
)
from kchaos.clusters.system.unmounting import unmount_below

RUNNING = "running"
_PROCESSES = "processes.jsonl"
_NAME_LENGTH = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """One work directory whose owner is dead, and the processes of it that still run."""

    directory: Path
    processes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """Result of `gc`: the work directories that are gone, and in words those that are not."""

    removed: tuple[Leftover, ...]
    problems: tuple[str, ...]


@contextmanager
def work_directory(name: str) -> Iterator[Path]:
    """Yield a new folder below the cache for one cluster; it is removed afterwards.

    It is locked as long as this process lives, by which ``gc`` sees that it is in use, also from
    another container or host that shares the cache. Raises MachineError when it cannot be made.
    """
    readable = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:_NAME_LENGTH]
    folder = held(running_directory(), f"{readable}-")
    try:
        directory = folder.__enter__()
    except OSError as error:
        raise MachineError(
            f"cannot write to the cache {cache_directory()}: {error}; set KCHAOS_CACHE to a "
            "writable folder"
        ) from error
    # What brokers and the gate's token are told is for nobody else on this machine.
    directory.chmod(0o700)
    try:
        yield directory
    finally:
        folder.__exit__(None, None, None)


def record_process(directory: Path, child: Child) -> None:
    """Write down that the process belongs to the folder's cluster."""
    line = {"pid": child.pid, "start_time": child.start_time, "table": process_table()}
    with (directory / _PROCESSES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line | {"name": child.name}) + "\n")


def find_leftovers() -> list[Leftover]:
    """Return the work directories below the cache whose owners are dead."""
    leftovers = []
    for directory in sorted(running_directory().glob("*")):
        if is_abandoned(directory):
            listed = [*_processes(directory), *_jvms_at(directory)]
            alive = tuple(p for p in dict.fromkeys(listed) if process_start_time(p[0]) == p[1])
            leftovers.append(Leftover(directory=directory, processes=alive))
    return leftovers


def is_left(name: str) -> bool:
    """Return whether the owner of the work directory of that name is dead, or it is gone."""
    directory = running_directory() / name
    return not directory.exists() or is_abandoned(directory)


def gc() -> Collected:
    """Remove what dead owners left, half-finished downloads too; nothing of the living.

    What cannot be removed is named, and the rest is removed all the same.
    """
    removed, problems = [], []
    for leftover in find_leftovers():
        try:
            for pid, start_time in leftover.processes:
                kill_by_identity(pid, start_time)
            unmount_below(leftover.directory)
            if remove_abandoned(leftover.directory):
                removed.append(leftover)
        except (OSError, ClusterError) as error:
            problems.append(f"{leftover.directory} cannot be removed: {error}")
    for folder in _staging_folders():
        try:
            remove_abandoned(folder)
        except OSError as error:
            problems.append(f"{folder} cannot be removed: {error}")
    return Collected(removed=tuple(removed), problems=tuple(problems))


def running_directory() -> Path:
    """Return the folder below the cache in which each running cluster has one."""
    return cache_directory() / RUNNING


def _processes(directory: Path) -> list[tuple[int, int]]:
    """Return what was written down of processes that this one can see, by pid and start time."""
    try:
        lines = (directory / _PROCESSES).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    entries = []
    for line in lines:
        try:
            entry = json.loads(line)
            if entry["table"] == process_table():
                entries.append((int(entry["pid"]), int(entry["start_time"])))
        except (ValueError, KeyError, TypeError):
            # The owner was killed while it wrote its last line, or somebody else wrote it.
            continue
    return entries


def _jvms_at(directory: Path) -> Iterator[tuple[int, int]]:
    """Yield each JVM that has a file of the folder open, by pid and start time.

    kchaos may be killed before it has written down which JVM it starts.
    """
    folder = directory.resolve()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "exe").readlink().name != "java":
                continue
            opened = [descriptor.readlink() for descriptor in (process / "fd").iterdir()]
        except OSError:
            # It has ended, or is another user's.
            continue
        if any(file.is_relative_to(folder) for file in opened):
            started = process_start_time(int(process.name))
            if started is not None:
                yield int(process.name), started


def _staging_folders() -> list[Path]:
    cache = cache_directory()
    return [*cache.glob(f"{STAGING}*"), *cache.glob(f"*/{STAGING}*")]
