"""Images of JVMs in the cache: they are made on first use, and hold until the next boot."""

import hashlib
import json
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from kchaos.checkers.folders import is_plain
from kchaos.clusters.errors import AwaitTimeout, MachineError
from kchaos.clusters.restored import criu, main_class
from kchaos.clusters.restored.image import TEMPLATE, ImageKey, WantedJvm
from kchaos.clusters.restored.training import train
from kchaos.clusters.system.cache import cache_directory, locked
from kchaos.clusters.system.processes import boot_id, process_table

_WHOLE = "whole"
# Images hold for what made them.
_TRAINING = Path(__file__).with_name("training.py")
_LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_AS)
_MOST = 8
"""So many folders of images are kept, each some 200 MiB: a release with a mode and a heap."""
_TRIES = 5
"""Servers are started so many times at most until their images can be written."""
_KEPT_S = 3600.0
"""Seconds for which a used folder stays: others may be at it."""


def why_not() -> str:
    """Return why no JVM can be made of an image here, and what to do; "" if it can."""
    cache = Path(os.path.realpath(cache_directory()))
    if criu.why_not() or is_plain(cache):
        return criu.why_not()
    return (
        f"Java misreads some character of the cache's path, {cache}: set KCHAOS_CACHE to another "
        "folder"
    )


def image_of(
    key: ImageKey, wanted: WantedJvm, *, offline: bool, say: Callable[[str], None]
) -> Path | None:
    """Return the folder with the image of a JVM; the key's images are made on first use.

    None if no image was written of a JVM with its flags.
    Raises ClusterError, or MachineError, when the images cannot be made.
    """
    with locked("images"):
        folder = _folder_of(key)
        if not (folder / _WHOLE).is_file():
            say(f"writing images of the JVMs of Kafka {key.distribution.release}, once each boot")
            _forget_old_ones()
            _make(folder, key, offline=offline)
        os.utime(folder)
    for node in folder.glob(f"{wanted.role}-*"):
        if tuple(json.loads((node / TEMPLATE).read_text(encoding="utf-8"))) == wanted.template:
            return node
    return None


def _make(folder: Path, key: ImageKey, *, offline: bool) -> None:
    """Write the images of a key; of those that cannot be written only logs stay.

    A server that ends may leave a socket open for good, as 0.10.2.2 does on a busy machine. Then
    another one is started.
    """
    for tries_left in reversed(range(_TRIES)):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            train(folder, key, offline=offline)
            break
        except BaseException as error:
            for pages in folder.glob("*/*/pages-*.img"):
                pages.unlink(missing_ok=True)
            if isinstance(error, AwaitTimeout):
                # No gate of the run that asked for the images.
                raise MachineError(str(error)) from error
            if not (tries_left and isinstance(error, criu.SocketLeftOpen)):
                raise
    (folder / _WHOLE).touch()


def _folder_of(key: ImageKey) -> Path:
    """Return the folder in the cache for the images of a key, on this boot in this container."""
    parts = [
        # A restored process has the niceness and the limits of the process in the image.
        str(os.getpriority(os.PRIO_PROCESS, 0)),
        *map(str, map(resource.getrlimit, _LIMITS)),
        *(process_table(), criu.version(), main_class.source(), _TRAINING.read_text("utf-8")),
        *(key.java, str(key.is_kraft), str(key.broker_heap_mib)),
        *(f"{jar} {jar.stat().st_mtime_ns}" for jar in key.distribution.class_path),
    ]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]
    return _folders() / f"{boot_id()[:8]}-{key.distribution.release}-{digest}"


def _forget_old_ones() -> None:
    """Remove images that nobody used for long: of boots before, and all but the newest ones."""
    used = {folder: folder.stat().st_mtime for folder in _folders().iterdir()}
    newest = sorted(used, key=used.__getitem__, reverse=True)
    for place, folder in enumerate(newest):
        is_of_this_boot = folder.name.startswith(boot_id()[:8])
        is_unused = used[folder] < time.time() - _KEPT_S
        # Another machine may share the cache: to it, its boot is not before.
        if is_unused and (place >= _MOST or not is_of_this_boot):
            shutil.rmtree(folder, ignore_errors=True)


def _folders() -> Path:
    folders = cache_directory() / "images"
    folders.mkdir(exist_ok=True)
    return folders
