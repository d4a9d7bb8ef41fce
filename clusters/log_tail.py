"""The end of a log file, for error messages."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_WINDOW_BYTES = 16384


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
