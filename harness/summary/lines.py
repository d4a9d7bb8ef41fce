"""Result lines of a night: one for each run, which stays when the run itself is deleted."""

import fcntl
import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from kchaos.checkers.acts import Mode
from kchaos.checkers.availability import Availability, OutageKind
from kchaos.checkers.errors import RunDirectoryError
from kchaos.checkers.evidence.faults import acted_faults
from kchaos.checkers.evidence.observed import Observed
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import KINDS, Question
from kchaos.checkers.json_form import from_json
from kchaos.checkers.packs import SUFFIX, run_at
from kchaos.checkers.run_directory import JUDGEMENTS, REPORT, RunDirectory
from kchaos.checkers.store import Place, StoredPlace
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.releases import release_of
from kchaos.clusters.spec import ClusterSpec
from kchaos.harness.errors import UsageError
from kchaos.harness.run.directories import find_runs

Line = Mapping[str, Any]
"""One run as plain JSON values; `line_of` says what is in it."""

WITHOUT_SERVICE = {
    "without_leader_s": "without leader",
    "without_acknowledged_write_s": "without acknowledged write",
    "longest_stall_s": "longest stall",
}
"""Fields of a line about availability, and their names for people; `line_of` has the meaning."""

LINES = "night.jsonl"
"""The file in a night's folder that has a line for each run that was judged."""
NEEDED = frozenset({"run", "release", "safe", "conforms", "findings"})
"""Fields of every line."""
LOCK = ".lock"
"""The file in a night's folder that is locked, and not empty, while the night is played."""
_KILLED_NIGHT = "a-night-that-was-killed"
_KILLED = "it did not end: what played it was killed"
_NOT_JUDGED = "nobody judged it: kchaos judge"
_MOST_GATES = 5
_TOLD = (
    *("entry", "case", "release", "build", "driver", "seed", "started_at", "played_by"),
    *("judged_by", "conforms", "safe", "expected", "reason", "unknown", "seconds"),
)


def line_of(path: Path) -> dict[str, Any]:
    """The line of one run, from its newest judgement.

    It has `run` (its name), `mode` (where its metadata was kept), what results.json says of it,
    `findings` (each fingerprint once, with how often it was found), `gates` (the slowest, with
    seconds), `faults` (name, and when it began and ended as parts of the run), `waited_s`,
    `report` (the page's path inside the run), and `service`: the seconds in which any partition had
    no leader, the seconds in which any had no acknowledged write, and the longest stall of a
    consumer, each None where it was not measured. A run that cannot be read, or that nobody judged,
    is unknown, with the reason.
    """
    nothing: dict[str, Any] = dict.fromkeys(_TOLD) | {"entry": "", "case": "", "release": ""}
    line = nothing | {
        "run": path.name,
        "mode": None,
        "expected": False,
        "findings": [],
        "gates": [],
        "faults": [],
        "waited_s": None,
        "report": None,
        "service": dict.fromkeys(WITHOUT_SERVICE),
    }
    try:
        run = RunDirectory.open(path)
        line |= _known(run.read("run.json"))
        line["mode"] = _mode(run, line["release"])
        judgements = run.judgements()
        if not judgements:
            return line | {"unknown": _NOT_JUDGED if run.is_sealed else _KILLED}
        judged = run.read(f"{JUDGEMENTS}/{judgements[-1]}/results.json")
        observed = list(run.read_lines("observations.jsonl"))
        outcome = run.read("outcome.json") if (path / "outcome.json").is_file() else {}
        return (
            line
            | _known(judged)
            | {
                "findings": _findings(judged.get("findings") or ()),
                "gates": _gates(observed),
                "faults": _faults(RunEvidence(run).observed),
                "waited_s": outcome.get("waited_s"),
                "report": REPORT if (path / REPORT).is_file() else None,
                "service": _service(judged.get("availability")),
            }
        )
    except (RunDirectoryError, ReleaseError, KeyError, TypeError, ValueError) as error:
        return line | {"unknown": f"it cannot be read: {error}"}


def lines_in(folder: Place) -> list[dict[str, Any]]:
    """A line for each run of a folder: those of its `night.jsonl`, and its run directories.

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
    lines: dict[str, dict[str, Any]] = {}
    file = folder / LINES if folder.is_dir() else folder
    if file.is_file():
        lines = {line["run"]: line | {"place": None} for line in read_lines(file)}
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
            # What a night's folder knows beyond the run itself is kept.
            lines[path.name] = lines.get(path.name, {}) | line_of(path) | {"place": str(path)}
        killed = {name: line for name, line in lines.items() if line["unknown"] == _KILLED}
        ended = [_schedule(line) for name, line in lines.items() if name not in killed]
        for name in (name for name, line in killed.items() if _schedule(line) in ended):
            # It was played again.
            del lines[name]
        if lines and not killed and was_killed(folder):
            night = line_of(folder / _KILLED_NIGHT) | {"unknown": f"the night: {_KILLED}"}
            lines[_KILLED_NIGHT] = night | {"place": None}
    if not lines and not folder.is_file():
        if going_on := going_on_in(folder):
            raise UsageError(f"no run of {folder} is judged yet: {', '.join(going_on)} goes on")
        raise UsageError(f"{folder} is no folder with runs, and no {LINES}")
    return list(lines.values())


def going_on_in(folder: Place) -> list[str]:
    """Names of the runs of a folder that are still played or judged, by the process that plays."""
    if isinstance(folder, StoredPlace) or not folder.is_dir():
        return []
    try:
        runs = find_runs([folder])
    except UsageError:
        return []
    return [path.name for path in runs if RunDirectory(path).is_going_on]


def _schedule(line: Line) -> tuple[Any, ...]:
    return tuple(line.get(name) for name in ("entry", "case", "release", "seed"))


def was_killed(folder: Path) -> bool:
    """Tell whether the night of a folder ended without a word, as by kill -9 or a power cut."""
    file = folder / LOCK
    if not file.is_file() or not file.stat().st_size:
        return False
    with file.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _lines_on_store(place: StoredPlace) -> list[dict[str, Any]]:
    objects = [place] if place.name == LINES else place.objects()
    files = [each for each in objects if each.name == LINES]
    lines = {line["run"]: line for file in files for line in read_lines(file)}
    for pack in (each for each in objects if each.name.endswith(SUFFIX)):
        name = pack.name.removesuffix(SUFFIX)
        if name not in lines:
            lines[name] = _line_of_pack(pack, name)
    if not lines and not files:
        raise UsageError(f"{place} holds no run, and no {LINES}")
    return [line | {"place": None} for line in lines.values()]


def _line_of_pack(pack: StoredPlace, name: str) -> dict[str, Any]:
    try:
        with run_at(pack) as path:
            return line_of(path)
    except RunDirectoryError as error:
        return line_of(Path(name)) | {"unknown": f"it cannot be read: {error}"}


def read_lines(file: Place, needed: Collection[str] = NEEDED) -> Iterator[dict[str, Any]]:
    """The lines of a file; a last line that was cut off while it was written is left out.

    Args:
        needed: What each line must have.

    Raises:
        UsageError: A line is no run's; the message names it.
    """
    *whole, last = file.read_bytes().split(b"\n")
    if _is_object(last):
        whole.append(last)
    for number, text in enumerate(whole, start=1):
        try:
            line = json.loads(text)
        except ValueError as error:
            raise UsageError(
                f"{file}:{number} is no line of a run ({error!r}): remove it"
            ) from None
        missing = set(needed) - line.keys() if isinstance(line, dict) else needed
        if missing:
            raise UsageError(
                f"{file}:{number} is no line of a run: it has no {', '.join(sorted(missing))}; "
                "name another file, or remove the line"
            )
        yield line


def append_line(file: Path, line: Line) -> None:
    """Appends a line, on disk when this returns; the file is made if it is not there.

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
        output.write(json.dumps(line).encode() + b"\n")
        output.flush()
        os.fsync(output.fileno())


def _is_object(text: bytes) -> bool:
    """Whether it is a whole object of JSON, which no part of one is."""
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in _TOLD if name in values}


def _mode(run: RunDirectory, release: str) -> Mode | None:
    if not (run.path / "scenario.json").is_file():
        return None
    cluster = ClusterSpec.from_json(run.read("scenario.json")["cluster"])
    return "kraft" if cluster.is_kraft or release_of(release).modes == ("kraft",) else "zookeeper"


def _findings(findings: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    told: dict[str, dict[str, Any]] = {}
    for finding in findings:
        kind = finding["kind"]
        if KINDS[kind].question is Question.NEITHER:
            continue
        # A judgement of an earlier kchaos has no fingerprints.
        fingerprint = finding.get("fingerprint") or f"{kind} without fingerprint"
        first = told.setdefault(
            fingerprint,
            {
                "fingerprint": fingerprint,
                "kind": kind,
                "question": KINDS[kind].question.value,
                "message": finding["message"],
                "times": 0,
            },
        )
        first["times"] += 1
    return list(told.values())


def _service(measured: Mapping[str, Any] | None) -> dict[str, float | None]:
    if measured is None:
        return dict.fromkeys(WITHOUT_SERVICE)
    told = from_json(Availability, measured)
    tried = [each for each in told.partitions if each.without_acknowledged_write_s is not None]
    stalls = [consumer.longest_stall_s for consumer in told.consumers]

    def seconds(kind: OutageKind) -> float:
        return told.seconds_between(kind, 0, float("inf"))

    return {
        "without_leader_s": seconds("no-leader") if told.partitions else None,
        "without_acknowledged_write_s": seconds("no-acknowledged-write") if tried else None,
        "longest_stall_s": max((stall for stall in stalls if stall is not None), default=None),
    }


def _gates(observed: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    steps = [observation for observation in observed if observation["kind"] == "step"]
    ends = {
        observation["step"]: observation["time"]
        for observation in observed
        if "step" in observation
    }
    gates = [
        [f"step {step['step']}: {step['name']}", round(following["time"] - step["time"], 3)]
        for step, following in pairwise([*steps, *_after(steps, ends)])
        if str(step.get("name", "")).startswith("Await")
    ]
    return sorted(gates, key=lambda gate: -gate[1])[:_MOST_GATES]


def _after(
    steps: Sequence[Mapping[str, Any]], ends: Mapping[int, float]
) -> Iterator[Mapping[str, Any]]:
    """Yields what ends the last step: the last that was observed of it."""
    if steps:
        yield {"time": ends.get(steps[-1]["step"], steps[-1]["time"])}


def _faults(observed: Sequence[Observed]) -> list[list[Any]]:
    if not observed:
        return []
    first, last = observed[0].time, observed[-1].time
    long = max(last - first, 0.001)
    return [
        [
            f"{span.injected.fault} {span.injected.name}",
            round((span.began - first) / long, 6),
            round(((last if span.ended is None else span.ended) - first) / long, 6),
        ]
        for span in acted_faults(observed)
    ]
