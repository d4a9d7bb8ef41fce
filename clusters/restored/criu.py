"""CRIU: it writes a process into an image, and makes processes of the image."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from ipaddress import ip_address
from pathlib import Path

from kchaos.clusters.errors import AwaitTimeout, ClusterError
from kchaos.clusters.system.waiting import await_until

LOG = "criu.log"
PID_FILE = "criu.pid"
_TIMEOUT_S = 60.0
_CLOSING_S = 10.0
_OLDEST = 4
_INSTALL = "install criu 4.0 or later, as Debian 13 has it"
# CRIU becomes this program, the restored process's parent. It ends by the same code or signal.
_PARENT = """
import os, signal
os.closerange(3, 1024)
_, status = os.wait()
code = os.waitstatus_to_exitcode(status)
if code < 0:
    if code != -signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""

# CRIU leaves folders where descriptors 0 to 2 were.
_QUIETLY = 'exec "$@" </dev/null >/dev/null 2>&1'


@cache
def why_not() -> str:
    """Return why no process can be restored on this machine, and what to do; "" if it can."""
    try:
        return _why_not()
    except ClusterError as error:
        return f"{error}: {_INSTALL}"


def _why_not() -> str:
    if os.geteuid() != 0:
        return "CRIU restores processes for root only: run as root"
    if shutil.which("criu") is None:
        return f"there is no criu: {_INSTALL}"
    for program in ("unshare", "setsid"):
        if shutil.which(program) is None:
            return f"there is no {program}: install util-linux"
    if int(version().partition(".")[0] or 0) < _OLDEST:
        return f"criu {version() or '?'} was never tried: {_INSTALL}"
    checked = _criu(["check"])
    if checked.returncode != 0:
        lines = [line for line in checked.stderr.splitlines() if "Error" in line] or ["no reason"]
        return f"criu {version()} cannot work on this kernel ({lines[0]}): {_INSTALL}"
    return ""


@cache
def version() -> str:
    """Return CRIU's version, such as ``4.1.1``; "" where there is no criu, or it names none."""
    if shutil.which("criu") is None:
        return ""
    told = re.search(r"Version: (\S+)", _criu(["--version"]).stdout)
    return told[1] if told else ""


class SocketLeftOpen(ClusterError):
    """A process keeps a socket of the network open, so that CRIU cannot write it down."""


def dump(pid: int, images: Path) -> None:
    """Write a process into new files of a folder, and end it.

    ``pid`` is of a process that is alone in a pid namespace of its own, and that closes its
    sockets, if it has any: CRIU writes none down. Raises ClusterError; SocketLeftOpen if the
    process does not close them.
    """
    try:
        await_until(
            lambda: not sockets(pid),
            timeout_s=_CLOSING_S,
            waiting_for=f"process {pid} to close its sockets, so that it can be written down",
            last_seen=lambda: ", ".join(sockets(pid)),
            remedy=f"see {images.parent / 'console.log'}",
        )
    except AwaitTimeout as error:
        raise SocketLeftOpen(str(error)) from error
    images.mkdir()
    done = _criu(["dump", "--tree", str(pid), "--images-dir", str(images), "--log-file", LOG])
    if done.returncode != 0:
        raise ClusterError(f"criu cannot write process {pid} down: {complaint(images / LOG)}")


def sockets(pid: int) -> list[str]:
    """Return the sockets of a process that CRIU may not write down, in words.

    Those are of the network; a JVM keeps a Unix socket for its own use. None if it has ended.
    """
    process = Path(f"/proc/{pid}")
    named, opened, unix = {}, [], set()
    # A file that is closed meanwhile is none of its sockets any more.
    with suppress(FileNotFoundError, ProcessLookupError):
        for file in (process / "fd").iterdir():
            with suppress(FileNotFoundError):
                opened.append(os.readlink(file))
        for table in ("tcp", "tcp6"):
            for line in (process / "net" / table).read_text().splitlines()[1:]:
                _, local, remote, _, *_, inode = line.split()[:10]
                named[f"socket:[{inode}]"] = f"{_address(local)} to {_address(remote)}"
        for line in (process / "net" / "unix").read_text().splitlines()[1:]:
            unix.add(f"socket:[{line.split()[6]}]")
    own = [file for file in opened if file.startswith("socket:") and file not in unix]
    return [named.get(file, "a socket without an address") for file in own]


def _address(told: str) -> str:
    """Return an address and port as people write them, of the kernel's words in hexadecimal."""
    host, port = told.split(":")
    words = [bytes.fromhex(host)[at : at + 4] for at in range(0, len(host) // 2, 4)]
    in_order = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return f"{ip_address(in_order)} port {int(port, 16)}"


def restore_command(images: Path, work: Path, files: Mapping[Path, int]) -> list[str]:
    """Return the command line that becomes the parent of a process made of an image.

    Args:
        images: Folder of `dump`.
        work: Folder for CRIU's log and for a file with the process's id.
        files: Files that the process had open, each with the descriptor in place of it. CRIU knows
            them by their real paths.
    """
    inherited = [
        word
        for file, descriptor in files.items()
        for word in ("--inherit-fd", f"fd[{descriptor}]:{os.path.realpath(file).removeprefix('/')}")
    ]
    return [
        "criu",
        "restore",
        *("--images-dir", str(images), "--work-dir", str(work)),
        *("--log-file", LOG, "--pidfile", PID_FILE),
        *inherited,
        *("--exec-cmd", "--", "sh", "-c", _QUIETLY, "sh"),
        *(sys.executable, "-I", "-S", "-c", _PARENT),
    ]


def complaint(log: Path) -> str:
    """Return CRIU's last line about a cause, or say where its log is."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"it has written no {log}"
    errors = [line.strip() for line in lines if "Error" in line and "FAILED" not in line]
    return f"{errors[-1] if errors else 'it says no reason'}; see {log}"


def _criu(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["criu", *arguments],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            # Ctrl-C is for kchaos, which ends what it has begun.
            start_new_session=True,
        )
    except subprocess.TimeoutExpired as expired:
        raise ClusterError(
            f"criu {arguments[0]} has not ended after {_TIMEOUT_S:.0f} s"
        ) from expired
    except OSError as error:
        raise ClusterError(f"criu cannot be started ({error})") from error
