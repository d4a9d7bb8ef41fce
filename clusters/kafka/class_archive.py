"""Class-data archives: a third of a broker's start is loading classes, and an archive saves it.

On Java 11 an archive is made in three moves, none of which anyone waits for: the first cluster
of a distribution lists the classes that it loads, the second one finds the list and has the
archive written in the background, and from then on JVMs map the archive. A JVM that finds the
archive unusable (another Java, another jar) ignores it.
"""

import contextlib
import fcntl
import glob
import hashlib
import os
import re
import signal
import threading
import time
from pathlib import Path

from kchaos.clusters.errors import ClusterError
from kchaos.clusters.kafka.distribution import Distribution
from kchaos.clusters.system.cache import cache_directory
from kchaos.clusters.system.processes import spawn

# An archive holds for JVMs with the same verification; the collector must be one that can map it.
_DUMP_FLAGS = ("-Xshare:dump", "-XX:+UseSerialGC", "-XX:-BytecodeVerificationRemote")
_LIST = "classes.lst"
_WRITE_S = 300.0
_MOST = 3
"""So many archives of a release are kept, each some 50 MiB; jars at another place need another."""
_KEPT_S = 3600.0
"""Seconds for which a used file stays: others may be at it."""


class ClassSharing:
    """Class archives that the JVMs of one cluster share; safe to make, and to drop, at any time.

    The classes of all its roles are in one archive. ``roles`` tells clusters apart that have other
    roles: controllers and brokers of KRaft load other classes than ZooKeeper and its brokers.
    """

    def __init__(self, roles: str = "") -> None:
        self._roles = roles
        self._training: dict[str, list[Path]] = {}
        self._missing: dict[str, tuple[Distribution, Path]] = {}

    def flags(self, distribution: Distribution, java_home: Path, directory: Path) -> list[str]:
        """Return the JVM flags for one process that runs in ``directory``."""
        archives = _archives()
        if archives is None:
            return []
        key = _key(distribution, java_home, self._roles)
        if (archives / f"{key}.jsa").is_file():
            with contextlib.suppress(OSError):
                os.utime(archives / f"{key}.jsa")
            return [f"-XX:SharedArchiveFile={archives / key}.jsa"]
        if (archives / f"{key}.lst").is_file():
            self._missing[key] = (distribution, java_home)
            return []
        trained = [file.parent.name for file in self._training.get(key, ())]
        if (directory / _LIST).exists() or _role(directory.name) in map(_role, trained):
            return []
        self._training.setdefault(key, []).append(directory / _LIST)
        return [f"-XX:DumpLoadedClassList={directory / _LIST}"]

    def write_archives(self) -> None:
        """Write the archives that were missed, in the background; call it after the start."""
        for key, (distribution, java_home) in self._missing.items():
            _write_in_background(key, distribution, java_home)
        self._missing.clear()

    def collect(self) -> None:
        """Keep the lists of classes; call it when the processes have ended.

        A cache that takes no files costs the next cluster some time, and this one nothing.
        """
        with contextlib.suppress(OSError):
            self._collect()
        self._training.clear()

    def _collect(self) -> None:
        archives = _archives()
        if archives is None:
            return
        for key, files in self._training.items():
            names: dict[str, None] = {}
            for file in files:
                if file.is_file():
                    # A killed JVM may have left half a name at the end.
                    names.update(dict.fromkeys(file.read_text().split("\n")[:-1]))
                    file.unlink()
            if len(names) > 1000:
                unfinished = archives / f".{key}-{os.getpid()}.lst"
                unfinished.write_text("\n".join(names) + "\n")
                unfinished.replace(archives / f"{key}.lst")


def _role(folder: str) -> str:
    return folder.rpartition("-")[0]


def _archives() -> Path | None:
    """Return the archives' folder, or None where there cannot be one."""
    archives = cache_directory() / "archives"
    with contextlib.suppress(OSError):
        archives.mkdir(exist_ok=True)
        return archives
    return None


def _key(distribution: Distribution, java_home: Path, roles: str) -> str:
    """Name everything that makes an archive another one."""
    parts = [str(java_home), *_DUMP_FLAGS, *filter(None, [roles])]
    for jar in distribution.class_path:
        stat = jar.stat()
        parts.append(f"{jar} {stat.st_size} {stat.st_mtime_ns}")
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return f"{distribution.release}-{digest}"


_under_way: dict[str, threading.Thread] = {}


def _write_in_background(key: str, distribution: Distribution, java_home: Path) -> None:
    if key not in _under_way or not _under_way[key].is_alive():
        arguments = (key, distribution, java_home)
        thread = threading.Thread(target=_write, args=arguments, name="archive", daemon=True)
        _under_way[key] = thread
        thread.start()


def _write(key: str, distribution: Distribution, java_home: Path) -> None:
    """Write one archive at a low priority; at most one process writes the same one.

    An archive that cannot be written is one that the next cluster does without.
    """
    archives = _archives()
    if archives is not None:
        with contextlib.suppress(OSError, ClusterError):
            _write_to(archives, key, distribution, java_home)


def _write_to(archives: Path, key: str, distribution: Distribution, java_home: Path) -> None:
    with (archives / f"{key}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        unfinished = archives / f"{key}.unfinished"
        command = [
            "nice",
            "-n",
            "10",
            str(java_home / "bin" / "java"),
            "-XX:+UnlockDiagnosticVMOptions",
            *_DUMP_FLAGS,
            f"-XX:SharedClassListFile={archives / key}.lst",
            f"-XX:SharedArchiveFile={unfinished}",
            "-cp",
            ":".join(str(jar) for jar in distribution.class_path),
        ]
        child = spawn(command, log_file=archives / f"{key}.log", name="class archive")
        try:
            code = child.await_exit(timeout_s=_WRITE_S)
        finally:
            child.send(signal.SIGKILL)
        if code == 0:
            unfinished.replace(archives / f"{key}.jsa")
            forget_oldest(archives, distribution.release)


def forget_oldest(archives: Path, release: str) -> None:
    """Remove what belongs to all but the archives of a release that were used last."""
    files: dict[str, list[Path]] = {}
    for file in archives.glob(f"{glob.escape(release)}-*"):
        files.setdefault(file.stem, []).append(file)
    used = {
        key: max(file.stat().st_mtime for file in files_of_key)
        for key, files_of_key in files.items()
        if re.fullmatch("[0-9a-f]{12}", key.removeprefix(f"{release}-"))
    }
    for key in sorted(used, key=used.__getitem__, reverse=True)[_MOST:]:
        if used[key] < time.time() - _KEPT_S:
            for file in files[key]:
                file.unlink(missing_ok=True)
