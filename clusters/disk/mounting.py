"""One broker's slow disk: what it needs, mounting it, and taking it away again."""

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from kchaos.clusters.agent.byteman import GateAddress
from kchaos.clusters.agent.gate import Gate
from kchaos.clusters.agent.points import POINTS, disk_points
from kchaos.clusters.errors import MachineError
from kchaos.clusters.spec import BrokerSpec
from kchaos.clusters.system.cache import write_private
from kchaos.clusters.system.leftovers import record_process
from kchaos.clusters.system.log_tail import last_lines
from kchaos.clusters.system.processes import Child, spawn
from kchaos.clusters.system.unmounting import mount_helper, unmount_below
from kchaos.clusters.system.waiting import await_until

_DEVICE = Path("/dev/fuse")
_WAIT_S = 30.0
# All three flags of sync_file_range(2): wait for what is being written, write the rest, wait.
_WRITE_AND_WAIT = 7
_OFFSET = ctypes.c_int64
_sync_file_range = ctypes.CDLL(None, use_errno=True).sync_file_range
# Asked in a process of its own: what libfuse does when it is loaded is none of our business.
_LOADS = "import mfusepy"


def remedy() -> str:
    """Return why no disk can be slowed on this machine, with the remedy, or ""."""
    if not _DEVICE.exists():
        return f"{_DEVICE} is not there: load the kernel's module (modprobe fuse)"
    if not os.access(_DEVICE, os.R_OK | os.W_OK):
        return f"{_DEVICE} may not be opened by this user: run as root"
    if os.geteuid() != 0 and mount_helper() is None:
        return "only root may mount here: run as root, or install fusermount3 (package fuse3)"
    if find_spec("mfusepy") is None:
        return "mfusepy is not installed: pip install 'kchaos[disk]'"
    tried = subprocess.run([sys.executable, "-c", _LOADS], capture_output=True, text=True)
    if tried.returncode != 0:
        said = (tried.stderr.strip() or "it printed nothing").splitlines()[-1]
        return f"libfuse cannot be loaded ({said}): install it (package libfuse3-3 or libfuse2)"
    return ""


@dataclass(slots=True, kw_only=True)
class Disk:
    """The disk of one broker, whose reads, writes and flushes stop at the broker's disk points.

    ``directory`` is the broker's folder; Kafka's log.dir is ``directory / "data"``, and what it
    holds is in ``directory / "disk"``.
    """

    directory: Path
    points: tuple[str, ...]
    _process: Child | None = None

    @property
    def mount(self) -> Path:
        """The folder that the broker takes for its disk."""
        return self.directory / "data"

    @property
    def is_cached(self) -> bool:
        """Whether the page cache lies before it, as before an ordinary disk."""
        return any(POINTS[point].is_cached for point in self.points)

    @property
    def files(self) -> Path:
        """Where the broker's files are read without being slow, and without its page cache.

        What was written so far is written back first.
        """
        if self.is_cached and os.path.ismount(self.mount):
            for file in self.mount.rglob("*"):
                _write_back(file)
        return self._folder

    @property
    def _folder(self) -> Path:
        return self.directory / "disk"

    def begin_life(self, number: int) -> None:
        """Attribute reads and writes from now on to this life of the broker."""
        (self.directory / "life").write_text(str(number))

    def serve(self, broker: int, gate: GateAddress, work_directory: Path) -> None:
        """Mount it; raise MachineError with the last lines of its log when that fails."""
        try:
            self._serve(broker, gate, work_directory)
        except BaseException:
            self.take_away()
            raise

    def _serve(self, broker: int, gate: GateAddress, work_directory: Path) -> None:
        for needed in (self._folder, self.mount):
            needed.mkdir(parents=True, exist_ok=True)
        self.begin_life(0)
        settings = {
            "folder": str(self._folder),
            "mount": str(self.mount),
            "is_cached": self.is_cached,
            "life": str(self.directory / "life"),
            "host": gate.host,
            "port": gate.port,
            "token": gate.token,
            "broker": broker,
            "points": {POINTS[point].of_disk: point for point in self.points},
        }
        file = self.directory / "disk.json"
        write_private(file, json.dumps(settings))
        serving = str(Path(__file__).with_name("serving.py"))
        self._process = spawn(
            [sys.executable, serving, str(file)],
            log_file=self.directory / "disk.log",
            name=f"disk of broker {broker}",
        )
        record_process(work_directory, self._process)
        await_until(
            lambda: os.path.ismount(self.mount),
            timeout_s=_WAIT_S,
            waiting_for=f"a file system at {self.mount}",
            last_seen=lambda: "no mount there",
            remedy=f"see {self.directory / 'disk.log'}",
            abort=self.check,
        )

    def check(self) -> None:
        """Raise MachineError if nobody serves it any more."""
        code = None if self._process is None else self._process.exit_code
        if code is not None:
            lines = "\n".join(last_lines([self.directory / "disk.log"]))
            raise MachineError(
                f"the file system at {self.mount} ended with code {code}; "
                f"{remedy() or 'its last lines say why'}\n{lines}"
            )

    def take_away(self) -> None:
        """Unmount it, and end who serves it. Safe to call twice; no broker may run on it."""
        unmount_below(self.mount)
        if self._process is not None:
            self._process.kill()
            unmount_below(self.mount)


def _write_back(file: Path) -> None:
    """Write what is only in the page cache, and flush nothing; a file that has gone is passed."""
    with contextlib.suppress(OSError):
        opened = os.open(file, os.O_RDONLY)
        try:
            _sync_file_range(opened, _OFFSET(0), _OFFSET(0), _WRITE_AND_WAIT)
        finally:
            os.close(opened)


def mounted(
    broker: BrokerSpec, directory: Path, gate: Gate | None, work_directory: Path
) -> Disk | None:
    """Mount the disk of a broker that has points there; None for one that has none."""
    points = disk_points(broker.points)
    if gate is None or not points:
        return None
    disk = Disk(directory=directory, points=points)
    disk.serve(broker.id, gate.address, work_directory)
    return disk
