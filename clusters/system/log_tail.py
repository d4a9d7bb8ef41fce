"""The end of a log file and its first error, for error messages."""

import re
from collections.abc import Iterable
from pathlib import Path

_WINDOW_BYTES = 16384
_MOST_BYTES = 1 << 20
_ERROR = re.compile(r"\b(?:ERROR|FATAL)\b")
_LINES_OF_AN_ERROR = 3


def last_lines(files: Iterable[Path], count: int = 15) -> list[str]:
    """Return up to ``count`` last lines of each file, oldest first; a missing file has none."""
    lines: list[str] = []
    for file in files:
        if not file.is_file():
            continue
        with file.open("rb") as log:
            log.seek(max(0, file.stat().st_size - _WINDOW_BYTES))
            text = log.read().decode("utf-8", "replace")
        lines += text.splitlines()[-count:]
    return lines


def why_it_ended(file: Path, others: Iterable[Path] = ()) -> list[str]:
    """Return the first error in a log and its last lines, then the last lines of other files.

    A broker that fails to start logs why, and then how it shuts down, which may be many lines.
    """
    last = last_lines([file])
    first: list[str] = []
    if file.is_file():
        with file.open("rb") as log:
            lines = log.read(_MOST_BYTES).decode("utf-8", "replace").splitlines()
        at = next((at for at, line in enumerate(lines) if _ERROR.search(line)), None)
        if at is not None and lines[at] not in last:
            first = [*lines[at : at + _LINES_OF_AN_ERROR], "..."]
    return [*first, *last, *last_lines(others)]
