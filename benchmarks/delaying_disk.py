"""A file system that hands everything on to a folder, and waits before it reads a segment.

`python -m benchmarks.delaying_disk FOLDER MOUNT DELAY_FILE READS_FILE [cached]` serves until it is
unmounted. Needs root, /dev/fuse, libfuse (2 or 3) and mfusepy. Segments are opened without the page
cache, so that each read of a broker comes here, unless "cached" is said; everything else is cached
as usual, since indexes are mapped.
"""

import os
import sys
import time
from pathlib import Path
from typing import Any

import mfusepy  # type: ignore[import-not-found]

_STATUS = ("st_gid", "st_mode", "st_nlink", "st_size", "st_uid")
_TIMES = ("st_atime", "st_ctime", "st_mtime")
_SPACE = (
    *("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_flag"),
    *("f_frsize", "f_namemax"),
)


class _DelayingDisk(mfusepy.Operations):  # type: ignore[misc]
    """The folder; the seconds in `delay` are slept before each read of a segment."""

    use_ns = True

    def __init__(self, folder: Path, delay: Path, reads: Path, *, is_cached: bool) -> None:
        self.folder, self.delay, self.reads, self.is_cached = folder, delay, reads, is_cached

    def _at(self, path: str) -> str:
        return str(self.folder / path.lstrip("/"))

    def _opened(self, path: str, flags: int, mode: int, file: Any) -> int:
        file.fh = os.open(self._at(path), flags & ~os.O_APPEND, mode)
        file.direct_io = path.endswith(".log") and not self.is_cached
        return 0

    def getattr(self, path: str, fh: Any = None) -> dict[str, Any]:
        status = os.lstat(self._at(path))
        times = {name: getattr(status, f"{name}_ns") for name in _TIMES}
        return {name: getattr(status, name) for name in _STATUS} | times

    def statfs(self, path: str) -> dict[str, int]:
        space = os.statvfs(self._at(path))
        return {name: getattr(space, name) for name in _SPACE}

    def readdir(self, path: str, fh: Any) -> list[str]:
        return [".", "..", *os.listdir(self._at(path))]

    def open(self, path: str, file: Any) -> int:
        return self._opened(path, file.flags, 0, file)

    def create(self, path: str, mode: int, file: Any) -> int:
        return self._opened(path, os.O_RDWR | os.O_CREAT, mode, file)

    def read(self, path: str, size: int, offset: int, file: Any) -> bytes:
        delay_s = float(self.delay.read_text() or 0)
        if path.endswith(".log") and delay_s:
            with self.reads.open("a") as told:
                told.write(f"{time.time()} {path} {offset} {size}\n")
            time.sleep(delay_s)
        return os.pread(file.fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, file: Any) -> int:
        return os.pwrite(file.fh, data, offset)

    def truncate(self, path: str, length: int, file: Any = None) -> int:
        os.truncate(self._at(path), length)
        return 0

    def release(self, path: str, file: Any) -> int:
        os.close(file.fh)
        return 0

    def flush(self, path: str, file: Any) -> int:
        return 0

    def fsync(self, path: str, only_data: int, file: Any) -> int:
        os.fsync(file.fh)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self._at(path), mode)
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self._at(path))
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(self._at(path))
        return 0

    def rename(self, old: str, new: str) -> int:
        os.rename(self._at(old), self._at(new))
        return 0

    def utimens(self, path: str, times: Any = None) -> int:
        os.utime(self._at(path), ns=times)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._at(path), mode)
        return 0


if __name__ == "__main__":
    _folder, _mount, _delay, _reads = map(Path, sys.argv[1:5])
    _disk = _DelayingDisk(_folder, _delay, _reads, is_cached=sys.argv[5:] == ["cached"])
    mfusepy.FUSE(_disk, str(_mount), foreground=True, raw_fi=True, attr_timeout=0)
