"""Memory and cores that the machine, or a container's limit, leaves for clusters."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from kchaos.clusters.errors import MachineError

# What a JVM takes beside its heap: code, class data, thread stacks, mapped files. With heaps of
# 256 MiB, brokers from 0.10.2 to 3.9 were seen at 170 to 240 MiB resident after a hundred
# megabytes of writes, and 50 to 90 MiB of each were files that they share.
_BESIDE_HEAP_MIB = 130
_ROOT = Path("/sys/fs/cgroup")
_OF_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")


def available_mib() -> int | None:
    """Return the memory that could be used now, in MiB; None where the kernel does not say.

    That is the machine's, or less where a control group (a container's) limits it.
    """
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kibibytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    left = [kibibytes[0] // 1024] if kibibytes else []
    return min([*left, *_left_in_groups()], default=None)


def _left_in_groups() -> Iterator[int]:
    """Yield what each control group that this process is in has left below its limit, in MiB."""
    for folder, version in _groups("memory"):
        limit, used = _OF_VERSION_1 if version == 1 else ("memory.max", "memory.current")
        with contextlib.suppress(OSError, ValueError):
            # "max" is no number, and no limit. Cached files are given back when needed.
            most = int((folder / limit).read_text())
            cached = _inactive_files(folder)
            yield max(0, most - int((folder / used).read_text()) + cached) >> 20


def usable_cores() -> float:
    """Return how many cores this process may use: fewer than there are where it is limited."""
    cores = [float(len(os.sched_getaffinity(0)))]
    for folder, version in _groups("cpu"):
        with contextlib.suppress(OSError, ValueError):
            # "max" is no number, and no limit; nor is -1 one.
            if version == 1:
                quota = int((folder / "cpu.cfs_quota_us").read_text())
                period = int((folder / "cpu.cfs_period_us").read_text())
            else:
                quota, period = map(int, (folder / "cpu.max").read_text().split())
            if quota > 0 and period > 0:
                cores.append(quota / period)
    return min(cores)


def clusters_at_once(heaps_mib: Sequence[int], *, cores: int) -> int:
    """Return how many clusters of JVMs with these heaps fit side by side; 1 at least.

    There is one for every so many cores, and no more than have memory.
    """
    by_cores = int(usable_cores() // cores)
    available = available_mib()
    by_memory = by_cores if available is None else available // _needed_mib(heaps_mib)
    return max(1, min(by_cores, by_memory))


def _groups(controller: str) -> Iterator[tuple[Path, int]]:
    """Yield the control groups that limit this process, each with its version, 1 or 2."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, version = _ROOT, 2
        elif controller in controllers.split(","):
            root, version = _ROOT / controller, 1
        else:
            continue
        group = root / path.lstrip("/")
        # Inside a container the path may be its host's; then the root is its own group.
        for folder in [group, *group.parents] if group.is_dir() else [root]:
            yield folder, version
            if folder == root:
                break


def _inactive_files(group: Path) -> int:
    for line in (group / "memory.stat").read_text().splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            return int(value)
    return 0


def check_memory(heaps_mib: Sequence[int]) -> None:
    """Raise MachineError when JVMs with these heaps do not fit into the memory that is left."""
    needed = _needed_mib(heaps_mib)
    available = available_mib()
    if available is not None and available < needed:
        raise MachineError(
            f"{len(heaps_mib)} JVMs need about {needed} MiB and {available} MiB are available; "
            "stop something, or make the cluster smaller"
        )


def _needed_mib(heaps_mib: Sequence[int]) -> int:
    return sum(heap + _BESIDE_HEAP_MIB for heap in heaps_mib)
