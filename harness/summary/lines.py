"""Lines of a night: one for each run, which stays when the run itself is deleted."""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from kchaos.checkers.errors import RunDirectoryError
from kchaos.checkers.formats.point_hit import PLANTED
from kchaos.checkers.json_form import ShapeError
from kchaos.checkers.packs import SUFFIX, run_at
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.run_line import KILLED, RunLine, line_of_run
from kchaos.checkers.store import Place, StoredPlace
from kchaos.harness.errors import UsageError
from kchaos.harness.run.directories import find_runs

LINES = "night.jsonl"
"""The file in a night's folder that has a line for each run that was judged."""
LOCK = ".lock"
"""The file in a night's folder that is locked, and not empty, while the night is played."""
_KILLED_NIGHT = "a-night-that-was-killed"
_NEEDED = frozenset(
    ("run", "entry", "case", "release", "safe", "conforms", "expected", "findings", "seconds")
)
_OF_A_CAMPAIGN = ("kafka", "acts", "drawn_s", "wall_s", "rules", "processor_s")
"""Fields that a run's folder does not tell."""


def of_kafka(lines: Iterable[RunLine]) -> list[RunLine]:
    """Return the lines of runs without a planted bug: no other run is a baseline of Kafka."""
    return [line for line in lines if PLANTED not in line.build and "-planted-" not in line.case]


def lines_in(folder: Place) -> list[RunLine]:
    """Return a line for each run of a folder: its `night.jsonl`'s, and its run directories'.

    Where both know a run the directory counts, which may have been judged again. `place` says where
    the directory is, or is None where it was deleted. A file of lines may be empty. On an object
    store packs take the place of directories, and folders below count too; a pack that a line knows
    is not fetched, for nothing is judged again there. A run that goes on has no line yet: see
    `going_on_in`. A run that was killed is unknown until its schedule is played again. A night that
    was killed between runs has a line of its own.

    Raises:
        UsageError: There is no run, or a line is none.
        StoreError: The store does not give what is there.
    """
    if isinstance(folder, StoredPlace):
        return _lines_on_store(folder)
    lines: dict[str, RunLine] = {}
    file = folder / LINES if folder.is_dir() else folder
    if file.is_file():
        lines = {line.run: line for line in read_lines(file)}
    if folder.is_dir():
        try:
            runs = find_runs([folder])
        except UsageError:
            if not lines:
                raise
            runs = []
        for path in runs:
            run = RunDirectory(path)
            if run.is_going_on:
                continue
            known = lines.get(path.name, RunLine())
            kept = {name: getattr(known, name) for name in _OF_A_CAMPAIGN}
            lines[path.name] = replace(line_of_run(path), place=str(path), **kept)
        killed = {name: line for name, line in lines.items() if line.unknown == KILLED}
        ended = [_schedule(line) for name, line in lines.items() if name not in killed]
        for name in (name for name, line in killed.items() if _schedule(line) in ended):
            # It was played again.
            del lines[name]
        if lines and not killed and was_killed(folder):
            lines[_KILLED_NIGHT] = RunLine(run=_KILLED_NIGHT, unknown=f"the night: {KILLED}")
    if not lines and not folder.is_file():
        if going_on := going_on_in(folder):
            raise UsageError(f"no run of {folder} is judged yet: {', '.join(going_on)} goes on")
        raise UsageError(f"{folder} is no folder with runs, and no {LINES}")
    return list(lines.values())


def going_on_in(folder: Place) -> list[str]:
    """Return the names of a folder's runs that their process still plays or judges."""
    if isinstance(folder, StoredPlace) or not folder.is_dir():
        return []
    try:
        runs = find_runs([folder])
    except UsageError:
        return []
    return [path.name for path in runs if RunDirectory(path).is_going_on]


def _schedule(line: RunLine) -> tuple[Any, ...]:
    return line.entry, line.case, line.release, line.seed


def was_killed(folder: Path) -> bool:
    """Return whether the night of a folder ended without a word, as by kill -9 or a power cut."""
    file = folder / LOCK
    if not file.is_file() or not file.stat().st_size:
        return False
    with file.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _lines_on_store(place: StoredPlace) -> list[RunLine]:
    objects = [place] if place.name == LINES else place.objects()
    files = [each for each in objects if each.name == LINES]
    lines = {line.run: line for file in files for line in read_lines(file)}
    for pack in (each for each in objects if each.name.endswith(SUFFIX)):
        name = pack.name.removesuffix(SUFFIX)
        if name not in lines:
            lines[name] = _line_of_pack(pack, name)
    if not lines and not files:
        raise UsageError(f"{place} holds no run, and no {LINES}")
    return list(lines.values())


def _line_of_pack(pack: StoredPlace, name: str) -> RunLine:
    try:
        with run_at(pack) as path:
            return line_of_run(path)
    except RunDirectoryError as error:
        return RunLine(run=name, unknown=f"it cannot be read: {error}")


def read_lines(file: Place) -> Iterator[RunLine]:
    """Yield the lines of a file; a last line that was cut off while it was written is left out.

    Raises:
        UsageError: A line is no run's; the message names it.
    """
    *whole, last = file.read_bytes().split(b"\n")
    if _is_object(last):
        whole.append(last)
    for number, text in enumerate(whole, start=1):
        try:
            line = json.loads(text)
            missing = _NEEDED - line.keys() if isinstance(line, dict) else _NEEDED
            if missing:
                raise ShapeError(f"it has no {', '.join(sorted(missing))}")
            yield RunLine.from_json(line)
        except ValueError as error:
            raise UsageError(
                f"{file}:{number} is no line of a run ({error}): name another file, or remove the "
                "line"
            ) from None


def append_line(file: Path, line: RunLine) -> None:
    """Append a line and flush it to disk, creating the file if need be.

    What a full disk or a killed process left of a last line goes: it would spoil the next one. A
    last line that lacks only its end is kept, and gets it.

    Raises:
        OSError: The disk refuses.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+b") as output:
        size = output.seek(0, os.SEEK_END)
        if size:
            output.seek(size - 1)
            if output.read(1) != b"\n":
                output.seek(0)
                begins_at = output.read().rfind(b"\n") + 1
                output.seek(begins_at)
                if _is_object(output.read()):
                    output.write(b"\n")
                else:
                    output.truncate(begins_at)
        output.write(json.dumps(line.to_json()).encode() + b"\n")
        output.flush()
        os.fsync(output.fileno())


def _is_object(text: bytes) -> bool:
    """Return whether the text is a whole JSON object, which no part of one is."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
