"""Opens what strangers may have written: no link is followed, no device read, nothing unbounded.

A run directory may have come by mail. Whoever made it chose every name and every byte in it, and
nothing of that may make kchaos read or write elsewhere, wait for ever, or take all memory. Not
guarded against is somebody who changes the directory while it is judged.
"""

import gzip
import io
import json
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from sys import intern
from typing import Any

from kchaos.checkers.errors import RunDirectoryError

MOST_FILE_BYTES = 256 << 20
"""Largest file that is read whole, in bytes. Segments and brokers' logs are read in pieces."""
MOST_LINE_BYTES = 64 << 20
"""Longest line of a compressed file, in bytes."""
MOST_LINES_BYTES = 8 << 30
"""Most bytes of all lines of a compressed file."""
MOST_FILES = 200_000
"""Most files and folders of a run."""
MOST_NESTED_FOLDERS = 8
MOST_NESTED_JSON = 64
"""Most levels of lists and objects in JSON."""

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_BRACKETS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[^][{}"]+', re.DOTALL)
_OPENING = b"[{"
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def refuse_what_is_no_file(directory: Path) -> None:
    """Look at every entry below a run directory, without opening any.

    Raises:
        RunDirectoryError: One is a link, a pipe, a device or a socket, has a name that is no plain
            text, or there are too many; or the directory cannot be listed.
    """
    for number, entry in enumerate(entries(directory), start=1):
        if number > MOST_FILES:
            raise RunDirectoryError(f"{directory} has more than {MOST_FILES} files: it is no run")
        if entry.is_symlink():
            raise RunDirectoryError(
                f"{_place(directory, entry)} is a link, and evidence is judged only where it "
                "lies. If you trust the run, put a copy of the file in the link's place"
            )
        mode = entry.stat(follow_symlinks=False).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise RunDirectoryError(
                f"{_place(directory, entry)} is no file but a pipe, a device or a socket"
            )
        if not entry.name.isprintable():
            raise RunDirectoryError(
                f"{_place(directory, entry)} has a name that kchaos and Kafka never give"
            )


def read_bounded(file: Path | str) -> bytes:
    """Return the bytes of a file, which must be a regular one.

    Raises:
        OSError: It cannot be opened, or is a link.
        RunDirectoryError: It is no regular file, or larger than `MOST_FILE_BYTES`.
    """
    descriptor = os.open(file, _FLAGS)
    with open(descriptor, "rb", buffering=0) as opened:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise RunDirectoryError(f"{file} is no file but a folder, a pipe or a device")
        if status.st_size > MOST_FILE_BYTES:
            raise RunDirectoryError(
                f"{file} has {status.st_size} bytes; at most {MOST_FILE_BYTES} are read at once"
            )
        return opened.read()


def bounded_lines(content: bytes, file: Path, *, is_compressed: bool) -> Iterator[bytes]:
    """Yield the lines of a file, each with its newline, the last one perhaps without.

    Compressed ones are made as they are asked for, so that no file of zeros takes all memory.

    Args:
        content: Of the file.
        file: For messages.
        is_compressed: Whether it was compressed with gzip.

    Raises:
        RunDirectoryError: It is damaged, a line is longer than `MOST_LINE_BYTES`, or all are than
            `MOST_LINES_BYTES`.
    """
    if not is_compressed:
        yield from io.BytesIO(content)
        return
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
        lines, left = io.BufferedReader(packed, 1 << 20), MOST_LINES_BYTES
        while True:
            try:
                line = lines.readline(MOST_LINE_BYTES)
            except (OSError, EOFError, zlib.error) as error:
                raise RunDirectoryError(f"{file} cannot be read as gzip: {error}") from error
            if not line:
                return
            if len(line) == MOST_LINE_BYTES and not line.endswith(b"\n"):
                raise RunDirectoryError(f"{file} has a line of {MOST_LINE_BYTES} bytes or more")
            left -= len(line)
            if left < 0:
                raise RunDirectoryError(f"{file} has lines of more than {MOST_LINES_BYTES} bytes")
            yield line


def bounded_json(content: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
        ValueError: It is no JSON, is nested too deep, or has what nothing that kchaos writes has: a
            number that is not finite, a half of a surrogate pair, or an object with a name twice,
            of which readers take the one value or the other.
    """
    if sum(map(content.count, (b"[", b"{"))) > MOST_NESTED_JSON and _depth(content) > (
        MOST_NESTED_JSON
    ):
        raise ValueError(f"lists and objects are nested deeper than {MOST_NESTED_JSON}")
    value = _DECODER.decode(content.decode())
    if _SURROGATE.search(content):
        # What Python makes of a path's bytes that are no UTF-8 is written by kchaos too.
        json.dumps(value, ensure_ascii=False).encode(errors="surrogateescape")
    return value


def _place(directory: Path, entry: os.DirEntry[str]) -> str:
    return f"{directory}: {os.path.relpath(entry.path, directory)!a}"


def entries(directory: Path | str, depth: int = 0) -> Iterator[os.DirEntry[str]]:
    """Yield every entry below a directory.

    Raises:
        RunDirectoryError: It cannot be listed, or folders are nested too deep.
    """
    if depth > MOST_NESTED_FOLDERS:
        raise RunDirectoryError(f"{directory}: folders are nested deeper than a run's ever are")
    try:
        with os.scandir(directory) as scanned:
            listing = list(scanned)
    except OSError as error:
        raise RunDirectoryError(f"{directory} cannot be listed: {error}") from error
    for entry in listing:
        yield entry
        if entry.is_dir(follow_symlinks=False):
            yield from entries(entry.path, depth + 1)


def _depth(content: bytes) -> int:
    deepest = depth = 0
    for bracket in _BRACKETS.sub(b"", content):
        depth += 1 if bracket in _OPENING else -1
        deepest = max(deepest, depth)
        if deepest > MOST_NESTED_JSON:
            break
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Values of fields, such as the names of APIs, clients and topics, come again and again too.
    members = {
        intern(name): intern(value) if type(value) is str else value for name, value in pairs
    }
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has {twice!a} twice")
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_object)
