"""Taking away the file systems that we mounted, also those that nobody serves any more."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

from kchaos.clusters.errors import MachineError

FILE_SYSTEM = "kchaos"
"""Name of our mounts in the kernel's list."""
_MOUNTS = Path("/proc/self/mountinfo")
_MNT_DETACH = 2
_HELPERS = ("fusermount3", "fusermount")


def unmount_below(folder: Path) -> None:
    """Unmount every file system of ours at or below a folder, in use or not, served or not.

    Raises MachineError for one that stays.
    """
    for mount in _mounts_below(folder):
        _unmount(mount)
    for mount in _mounts_below(folder):
        raise MachineError(f"{mount} cannot be unmounted: umount --lazy {mount}")


def _mounts_below(folder: Path) -> list[str]:
    """Return the mount points below a folder, innermost first."""
    # Not resolved by looking at the folder itself: a mount that nobody serves cannot be looked at.
    above = str(folder.parent.resolve() / folder.name)
    lines = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    places = [line.split()[4].encode().decode("unicode_escape") for line in lines if _is_ours(line)]
    return sorted((p for p in places if p == above or p.startswith(f"{above}/")), reverse=True)


def _is_ours(line: str) -> bool:
    kind, source = line.partition(" - ")[2].split()[:2]
    return (kind, source) == ("fuse", FILE_SYSTEM)


def _unmount(mount: str) -> None:
    helper = mount_helper()
    if os.geteuid() != 0 and helper is not None:
        subprocess.run([helper, "-u", "-z", mount], check=False, capture_output=True)
        return
    ctypes.CDLL(None, use_errno=True).umount2(os.fsencode(mount), _MNT_DETACH)


def mount_helper() -> str | None:
    """Return the program by which those who are not root mount and unmount, None without it."""
    return next(filter(None, map(shutil.which, _HELPERS)), None)
