"""Whether the machine has the memory for a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from clusters.errors import MachineError

# What a JVM takes beside its heap: code, class data, thread stacks, mapped files. With heaps of
# 256 MiB, brokers from 0.10.2 to 3.9 were seen at 170 to 240 MiB resident after a hundred
# megabytes of writes, and 50 to 90 MiB of each were files that they share.
_BESIDE_HEAP_MIB = 130


def available_mib() -> int | None:
    """Return the memory that could be used now, in MiB; None where the kernel does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    kibibytes = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return kibibytes[0] // 1024 if kibibytes else None


def check_memory(heaps_mib: Sequence[int]) -> None:
    """Raise MachineError when JVMs with these heaps do not fit into the memory that is left."""
    needed = sum(heap + _BESIDE_HEAP_MIB for heap in heaps_mib)
    available = available_mib()
    if available is not None and available < needed:
        raise MachineError(
            f"{len(heaps_mib)} JVMs need about {needed} MiB and {available} MiB are available; "
            "stop something, or make the cluster smaller"
        )
