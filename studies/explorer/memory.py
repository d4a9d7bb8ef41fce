"""Memory that this process holds, in MiB."""

import os
import resource
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")


def resident_mib() -> float:
    """Return the resident memory of this process in MiB; the most so far where no /proc tells."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)
