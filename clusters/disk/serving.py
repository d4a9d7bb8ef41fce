"""The process that serves one broker's disk: `serving.py SETTINGS_FILE`, until it is unmounted.

It hands everything on to a folder. What is read, written or flushed asks the gate first, as a
thread of the agent does at a point, and waits until it may go on, or fails; a gate that is gone
lets everything on. Needs mfusepy, libfuse and the standard library, and nothing of kchaos.
"""

import contextlib
import errno
import json
import os
import socket
import sys
from pathlib import Path, PurePosixPath
from typing import Any

import mfusepy

_STATUS = ("st_gid", "st_mode", "st_nlink", "st_size", "st_uid", "st_blocks")
_TIMES = ("st_atime", "st_ctime", "st_mtime")
_SPACE = (
    *("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_flag"),
    *("f_frsize", "f_namemax"),
)
_ERRORS = (errno.EIO, errno.ENOSPC)
# FUSE_CAP_WRITEBACK_CACHE of libfuse's fuse_common.h.
_WRITEBACK_CACHE = 1 << 16


class _Asking:
    """Tells the gate what is about to happen, and waits for its one byte."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._address = (settings["host"], settings["port"])
        self._token, self._broker = settings["token"], settings["broker"]
        self._points = settings["points"]
        self._life = Path(settings["life"])

    def ask(self, doing: str, path: str, detail: str) -> None:
        """Wait until the operation may go on; `doing` is read, write or flush.

        Raises:
            OSError: It is to fail: the gate's byte is the error's number then.
        """
        point = self._points.get(doing)
        if point is None:
            return
        _, _, thread = mfusepy.fuse_get_context()
        at = PurePosixPath(path.lstrip("/"))
        seen = f"({','.join(at.parts)}) {detail}"
        fields = (self._token, self._broker, self._life.read_text(), point, _name_of(thread), "")
        line = "\t".join([*map(str, fields), seen]) + "\n"
        answer = b""
        with contextlib.suppress(OSError), socket.create_connection(self._address) as gate:
            gate.sendall(line.encode())
            answer = gate.recv(1)
        if answer and answer[0] in _ERRORS:
            raise OSError(answer[0], os.strerror(answer[0]))


class _Disk(mfusepy.Operations):  # type: ignore[misc]
    """The folder. Without the page cache each read of a segment comes here.

    What is written comes here at once then, and is fast unless a point of its own makes it slow.
    """

    use_ns = True

    def __init__(self, settings: dict[str, Any]) -> None:
        self._folder = Path(settings["folder"])
        self._is_cached = bool(settings["is_cached"])
        self._asking = _Asking(settings)

    def init_with_config(self, connection: Any, _config: Any) -> None:
        """Use the page cache: writes stay in memory, and are written back later."""
        if self._is_cached:
            if not connection.capable & _WRITEBACK_CACHE:
                raise OSError(
                    errno.ENOTSUP, "this libfuse or kernel caches nothing that is written"
                )
            connection.want |= _WRITEBACK_CACHE

    def _at(self, path: str) -> str:
        return str(self._folder / path.lstrip("/"))

    def _opened(self, path: str, flags: int, mode: int, file: Any) -> int:
        # The kernel says where it writes, and with a cache it reads what it has to complete.
        flags = flags & ~(os.O_APPEND | os.O_ACCMODE) | os.O_RDWR
        file.fh = os.open(self._at(path), flags, mode)
        # What is mapped, as indexes are, must be cached.
        file.direct_io = path.endswith(".log") and not self._is_cached
        # Otherwise whoever opens a file empties its cache.
        file.keep_cache = self._is_cached
        return 0

    def getattr(self, path: str, fh: Any = None) -> dict[str, Any]:
        """Return the file's attributes in the folder."""
        status = os.lstat(self._at(path))
        times = {name: getattr(status, f"{name}_ns") for name in _TIMES}
        return {name: getattr(status, name) for name in _STATUS} | times

    def statfs(self, path: str) -> dict[str, int]:
        """Return the folder's file system statistics."""
        space = os.statvfs(self._at(path))
        return {name: getattr(space, name) for name in _SPACE}

    def readdir(self, path: str, fh: Any) -> list[str]:
        """Return the names in a folder."""
        return [".", "..", *os.listdir(self._at(path))]

    def open(self, path: str, file: Any) -> int:
        """Open a file."""
        return self._opened(path, file.flags, 0, file)

    def create(self, path: str, mode: int, file: Any) -> int:
        """Create and open a file."""
        return self._opened(path, os.O_CREAT, mode, file)

    def read(self, path: str, size: int, offset: int, file: Any) -> bytes:
        """Ask, and read."""
        self._asking.ask("read", path, f"offset={offset} size={size}")
        return os.pread(file.fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, file: Any) -> int:
        """Ask, and write."""
        self._asking.ask("write", path, f"offset={offset} size={len(data)}")
        return os.pwrite(file.fh, data, offset)

    def fsync(self, path: str, only_data: int, file: Any) -> int:
        """Ask, and flush."""
        self._asking.ask("flush", path, "all")
        os.fsync(file.fh)
        return 0

    def flush(self, path: str, file: Any) -> int:
        """Ignore that a descriptor is closed, which flushes nothing."""
        return 0

    def release(self, path: str, file: Any) -> int:
        """Close a file."""
        os.close(file.fh)
        return 0

    def truncate(self, path: str, length: int, file: Any = None) -> int:
        """Shorten or extend a file."""
        os.truncate(self._at(path), length)
        return 0

    def mkdir(self, path: str, mode: int) -> int:
        """Create a folder."""
        os.mkdir(self._at(path), mode)
        return 0

    def rmdir(self, path: str) -> int:
        """Remove a folder."""
        os.rmdir(self._at(path))
        return 0

    def unlink(self, path: str) -> int:
        """Remove a file."""
        os.unlink(self._at(path))
        return 0

    def rename(self, old: str, new: str, flags: int = 0) -> int:
        """Rename a file or folder, replacing the target."""
        os.rename(self._at(old), self._at(new))
        return 0

    def utimens(self, path: str, times: Any = None) -> int:
        """Set the times of a file."""
        os.utime(self._at(path), ns=times)
        return 0

    def chmod(self, path: str, mode: int) -> int:
        """Set the mode of a file."""
        os.chmod(self._at(path), mode)
        return 0


def _name_of(thread: int) -> str:
    """Return the first 15 letters of the thread's name, as the kernel has it."""
    try:
        return Path(f"/proc/{thread}/comm").read_text().strip()
    except OSError:
        return "kernel"


if __name__ == "__main__":
    _settings = json.loads(Path(sys.argv[1]).read_text())
    mfusepy.FUSE(
        _Disk(_settings),
        _settings["mount"],
        foreground=True,
        raw_fi=True,
        fsname="kchaos",
        hard_remove=True,
        attr_timeout=0,
        entry_timeout=0,
    )
