"""Whether the machine has the memory for a cluster."""

from __future__ import annotations

import contextlib
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
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root, limit, used = _ROOT, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            root, limit, used = _ROOT / "memory", *_OF_VERSION_1
        else:
            continue
        group = root / path.lstrip("/")
        # Inside a container the path may be its host's; then the root is its own group.
        for folder in [group, *group.parents] if group.is_dir() else [root]:
            with contextlib.suppress(OSError, ValueError):
                # "max" is no number, and no limit. Cached files are given back when needed.
                most = int((folder / limit).read_text())
                cached = _inactive_files(folder)
                yield max(0, most - int((folder / used).read_text()) + cached) >> 20
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
    needed = sum(heap + _BESIDE_HEAP_MIB for heap in heaps_mib)
    available = available_mib()
    if available is not None and available < needed:
        raise MachineError(
            f"{len(heaps_mib)} JVMs need about {needed} MiB and {available} MiB are available; "
            "stop something, or make the cluster smaller"
        )
