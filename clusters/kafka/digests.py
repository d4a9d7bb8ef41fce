"""SHA-256 of files that are large and seldom change: each is read again only after a change."""

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from kchaos.clusters.system.cache import cache_directory, staging

FILE = "digests.json"
"""A table below the cache: of each file by its path what its inode said, and its SHA-256."""

_SHA256 = re.compile("[0-9a-f]{64}")


def sha256_of(files: Iterable[Path]) -> dict[Path, str]:
    """Return the SHA-256 of each file, of those that did not change as it was once read.

    A file is unchanged if its inode has the same number, size and times. The time of its last
    change cannot be set by who writes to it. What is read is noted in the cache, for all processes;
    where nothing can be written there, each process reads for itself.
    """
    known = _noted()
    digests, read = {}, {}
    for file in files:
        identity = _identity(file)
        noted, _, digest = known.get(str(file), "").rpartition(" ")
        if noted != identity or not _SHA256.fullmatch(digest):
            digest = read_sha256_of(file)
            read[str(file)] = f"{identity} {digest}"
        digests[file] = digest
    if read:
        _note({**_noted(), **read})
    return digests


def read_sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file as it is on its disk."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def forget_all() -> None:
    """Have each file read again."""
    table = cache_directory() / FILE
    if table.is_dir():
        shutil.rmtree(table)
    table.unlink(missing_ok=True)


def _identity(file: Path) -> str:
    seen = file.stat()
    numbers = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
    return " ".join(map(str, numbers))


def _noted() -> Mapping[str, str]:
    try:
        noted = json.loads((cache_directory() / FILE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    is_whole = isinstance(noted, dict) and all(isinstance(line, str) for line in noted.values())
    return noted if is_whole else {}


def _note(lines: Mapping[str, str]) -> None:
    """Write the table anew, of files that are still there; of two processes at once one does."""
    cache = cache_directory()
    # Some may be where this process cannot look, which is no error.
    lines = {file: line for file, line in lines.items() if os.path.exists(file)}
    with contextlib.suppress(OSError), staging(cache) as folder:
        made = folder / FILE
        made.write_text(json.dumps(lines, indent=0))
        os.replace(made, cache / FILE)
