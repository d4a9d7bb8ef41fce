"""Folders that say by a lock that somebody works in them, and paths that a JVM can be given.

Stands alone, like `checkers.acts`: clusters use it too.

A pid says little about who lives: another container counts its own, and a number is used again. A
lock that its owner holds (flock, on the folder itself) is seen by everybody who sees the folder,
and the kernel drops it when the owner ends, however it ends.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

# What class paths, properties files, URLs and glob patterns all take as it is.
_PLAIN = re.compile(r"[A-Za-z0-9_./+@=-]+")
_TRIES = 100

WORKING = ".working-"
"""Beginning of the name of a judgement that is not complete yet."""


class NoPlainPath(OSError):
    """A path has characters that a JVM misreads, and no link to it can be made elsewhere."""


@contextlib.contextmanager
def held(above: Path, prefix: str) -> Iterator[Path]:
    """Yield a new folder in `above`, locked for the block, and remove its rest afterwards.

    Its name is `prefix` and random letters. `above` is made if it is not there.

    Raises:
        OSError: It cannot be made.
    """
    above.mkdir(parents=True, exist_ok=True)
    folder, lock = _new(above, prefix)
    try:
        yield folder
    finally:
        # What cannot be removed keeps nobody from his result; whoever cleans up later says so.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def is_abandoned(folder: Path) -> bool:
    """Return whether the folder's lock is free; False if that is unknown."""
    with _opened(folder) as lock:
        return lock is not None and _locks(lock)


def is_held(folder: Path) -> bool:
    """Return whether the folder's lock is held; False if that is unknown.

    Several may ask at once: nobody who asks is taken for the holder.
    """
    with _opened(folder) as lock:
        try:
            if lock is not None:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
    return False


class Hold:
    """A hold on folders' locks, until they are let go or this process ends."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._locks: dict[Path, int] = {}

    def take(self, folder: Path) -> None:
        """Take the folder's lock, unless it is held or the file system has no locks."""
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        if _locks(lock):
            self._locks[folder] = lock
        else:
            os.close(lock)

    def let_go(self, folder: Path) -> None:
        """Let go of the folder's lock, if it is held here, also in forked processes."""
        lock = self._locks.pop(folder, None)
        if lock is not None:
            fcntl.flock(lock, fcntl.LOCK_UN)
            os.close(lock)


def remove_abandoned(folder: Path) -> bool:
    """Remove the folder unless its lock is held; return whether it was removed.

    Raises:
        OSError: Something in it cannot be removed; the rest may be gone.
    """
    with _opened(folder) as lock:
        if lock is None or not _locks(lock):
            return False
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(folder)
        return True


def remove_abandoned_in(above: Path, prefix: str) -> None:
    """Remove each unlocked folder whose name begins with the prefix.

    What cannot be removed stays: it is in nobody's way.
    """
    for folder in above.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            remove_abandoned(folder)


def is_plain(path: Path) -> bool:
    """Return whether class paths, properties files and URLs accept the absolute path as it is."""
    return _PLAIN.fullmatch(str(path)) is not None


def plain(path: Path) -> Path:
    """Return the path, or a link to it without characters that class paths misread.

    The link lies in the folder for temporary files, is named after the path, and stays: it is the
    same one for every process of the user.

    Raises:
        NoPlainPath: A link is needed and can be made nowhere.
    """
    absolute = path.absolute()
    if is_plain(absolute):
        return absolute
    target = os.path.realpath(absolute)
    for place in _plain_places():
        link = place / f"kchaos-{os.getuid()}-{_digest(target)}"
        if _linked(link, target):
            return link
    raise NoPlainPath(
        errno.EINVAL,
        "Java misreads some character of this path, and no link to it could be made in "
        f"{', '.join(map(str, _plain_places())) or '/tmp'}: choose another folder",
        str(path),
    )


def plain_folder(path: Path) -> Path:
    """Return the user's folder at a plain path that belongs to `path`, creating it if need be.

    For what cannot live behind a link: Java looks up where it really is.

    Raises:
        NoPlainPath: There cannot be one.
    """
    for place in _plain_places():
        folder = place / f"kchaos-{os.getuid()}-{_digest(os.path.realpath(path))}-java"
        with contextlib.suppress(OSError):
            folder.mkdir(mode=0o700, exist_ok=True)
            status = folder.lstat()
            if status.st_uid == os.getuid() and not folder.is_symlink():
                return folder
    raise NoPlainPath(errno.EINVAL, "Java cannot live in this folder: choose another", str(path))


def _new(above: Path, prefix: str) -> tuple[Path, int]:
    for _ in range(_TRIES):
        folder = above / f"{prefix}{secrets.token_hex(4)}"
        folder.mkdir()
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            # Somebody cleans up here, and was quicker than we were with the lock.
            continue
        if _locks(lock) and _is_there(folder, lock):
            return folder, lock
        os.close(lock)
    raise OSError(errno.EBUSY, "another process removed every new folder at once", str(above))


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int | None]:
    """Yield the folder, opened for its lock; None if it cannot be."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        yield None
    else:
        try:
            yield lock
        finally:
            os.close(lock)


def _locks(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_there(folder: Path, opened: int) -> bool:
    try:
        return os.path.samestat(folder.stat(), os.fstat(opened))
    except FileNotFoundError:
        return False


def _plain_places() -> list[Path]:
    places = dict.fromkeys(map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp", "/dev/shm")))
    return [place for place in places if _PLAIN.fullmatch(str(place)) and os.access(place, os.W_OK)]


def _linked(link: Path, target: str) -> bool:
    """Return whether the link is ours and has this target; create a missing link."""
    unfinished = link.with_name(f"{link.name}-{secrets.token_hex(4)}")
    with contextlib.suppress(OSError):
        if not link.is_symlink():
            unfinished.symlink_to(target)
            unfinished.rename(link)
    with contextlib.suppress(OSError):
        return link.lstat().st_uid == os.getuid() and os.readlink(link) == target
    return False


def _digest(text: str) -> str:
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:12]
