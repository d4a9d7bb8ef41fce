"""Damage files at random and read them: nothing may escape, hang or pass unseen.

`python -m tests.mutants.fuzz --segments 100000 --files 10000 --types 1000`: so many mutated
segments, and so many mutated files of every other kind, each read by what reads it when a run is
judged; and so many whole judgements of runs in which one JSON value of a file has another type.
"""

import argparse
import json
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kchaos.checkers.cross_checks import disagreements
from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.tier import stored_at
from kchaos.checkers.judge import about_the_run, judge
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from kchaos.checkers.segments.reader import SegmentContents, read_segment
from tests.golden.stored import RELEASES, unpacked
from tests.mutants.segment_edits import resealed, split

MOST_SECONDS = 5.0
MOST_BYTES = 2 << 30
_INTERESTING = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"[",
    b"{",
    b"-",
    b"9" * 30,
    b"NaN",
    b"..",
    b"/",
)
_KINDS = (
    "run.json",
    "scenario.json",
    "outcome.json",
    "actions.jsonl",
    "history.jsonl",
    "observations.jsonl",
    "links.jsonl",
    "manifest.json",
    "snapshots/*/snapshot.json",
    "snapshots/*/*/replication-offset-checkpoint",
    "snapshots/*/*/*/leader-epoch-checkpoint",
    "snapshots/*/*/recovery-point-offset-checkpoint",
    "snapshots/*/*/meta.properties",
    "snapshots/*/*/*/partition.metadata",
    "zookeeper/*/log.*",
)
_OF_OTHERS = {
    "hits.jsonl": "points-2.8.2",
    "tier.jsonl": "tiered-3.9.1",
    "snapshots/*/*/log-start-offset-checkpoint": "tiered-3.9.1",
    "snapshots/*/*/__remote_log_metadata-0/*.log": "tiered-3.9.1",
    "snapshots/*/remote/**/*.log": "tiered-3.9.1",
    "snapshots/*/remote/**/*.leader_epoch_checkpoint": "tiered-3.9.1",
}
"""Files of which the golden runs have none, or empty ones, and the run that has some."""


@dataclass(slots=True)
class Fuzzed:
    """What came of it: how many of each kind, and a line for each thing that may not be.

    Attributes:
        slowest_s: The longest that reading one took.
        peak_bytes: The most memory that its process ever had.
    """

    numbers: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    slowest_s: float = 0.0
    peak_bytes: int = 0

    def attempt(self, kind: str, where: str, read: Callable[[], str]) -> None:
        """Reads once; `read` says what is wrong, or ""."""
        self.numbers[kind] += 1
        begun = time.perf_counter()
        try:
            problem = read()
        except Exception as error:  # noqa: BLE001 - what escapes is what is looked for
            problem = f"escaped: {error!r}"
        seconds = time.perf_counter() - begun
        self.slowest_s = max(self.slowest_s, seconds)
        if seconds > MOST_SECONDS:
            problem = problem or f"it took {seconds:.1f} s"
        if problem:
            self.problems.append(f"{kind} ({where}): {problem}")


def mutated(content: bytes, draw: random.Random) -> bytes:
    """The content with one to four small changes; never the same."""
    body = bytearray(content)
    while bytes(body) == content:
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(body) + 1)
            match draw.randrange(6):
                case 0 if at < len(body):
                    body[at] ^= 1 << draw.randrange(8)
                case 1:
                    body[at:at] = draw.choice(_INTERESTING)
                case 2:
                    del body[at : at + draw.randint(1, 40)]
                case 3:
                    other = draw.randrange(len(body) + 1)
                    body[at:at] = body[other : other + draw.randint(1, 60)]
                case 4 if at + 8 <= len(body):
                    body[at : at + 8] = draw.randbytes(8)
                case _:
                    body[at : at + 4] = draw.choice(_INTERESTING) * 4
    return bytes(body)


def fuzz_segments(fuzzed: Fuzzed, segments: list[bytes], number: int, draw: random.Random) -> None:
    """Damaged segments, half of them with right checksums, must not be read as the sound ones."""
    sound = [_read(segment) for segment in segments]
    for count in range(number):
        index = draw.randrange(len(segments))
        content = _damaged(segments[index], draw)
        while content == segments[index]:
            content = _damaged(segments[index], draw)

        def read(content: bytes = content, index: int = index) -> str:
            seen = _read(content)
            return "it reads like the sound one" if seen == sound[index] else ""

        fuzzed.attempt("segment", str(count), read)


def _damaged(segment: bytes, draw: random.Random) -> bytes:
    if draw.random() < 0.5:
        return mutated(segment, draw)
    entries = split(segment)
    at = draw.randrange(len(entries))
    changed = mutated(entries[at], draw)
    if len(changed) > 61:
        changed = resealed(changed)
    return b"".join([*entries[:at], changed, *entries[at + 1 :]])


def _read(segment: bytes) -> SegmentContents:
    return read_segment(segment, base_offset=0, file="00000000000000000000.log")


def fuzz_files(
    fuzzed: Fuzzed, run: RunDirectory, pattern: str, number: int, draw: random.Random
) -> None:
    """Damages one file of a kind after the other and reads all evidence but segments."""
    names = _files(run, pattern)
    for count in range(number):
        file = draw.choice(names)
        content = file.read_bytes()
        damaged = mutated(content, draw)
        if file.name == MANIFEST and _said_by(damaged) == _said_by(content):
            continue  # Only white space, or a key twice: the seal is the same.
        file.write_bytes(damaged)
        fuzzed.attempt(pattern, f"{file.relative_to(run.path)}, {count}", lambda: _all(run))
        file.write_bytes(content)


_OF_OTHER_TYPES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 7, 1.5, "", "x", "1"),
    *([], ["x"], [1], {}, {"x": 1}, [[]]),
)


def retyped(content: bytes, draw: random.Random) -> bytes:
    """The JSON object in a file, or in one of its lines, with one value of another type."""
    lines = content.split(b"\n")
    at = draw.choice([number for number, line in enumerate(lines) if line.startswith(b"{")])
    is_lines = all(line.startswith(b"{") for line in lines if line)
    value = json.loads(lines[at] if is_lines else content)
    holder, key = draw.choice([*_places(value)])
    others = [each for each in _OF_OTHER_TYPES if type(each) is not type(holder[key])]
    holder[key] = draw.choice(others)
    if not is_lines:
        return json.dumps(value).encode()
    return b"\n".join([*lines[:at], json.dumps(value).encode(), *lines[at + 1 :]])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields each place in a JSON value where another one is."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def fuzz_types(
    fuzzed: Fuzzed, run: RunDirectory, pattern: str, number: int, draw: random.Random
) -> None:
    """Gives one value of a file after the other another JSON type, and judges the whole run."""
    names = _files(run, pattern)
    for count in range(number):
        file = draw.choice(names)
        content = file.read_bytes()
        file.write_bytes(retyped(content, draw))
        fuzzed.attempt(
            f"types {pattern}", f"{file.relative_to(run.path)}, {count}", lambda: _crash(run)
        )
        file.write_bytes(content)


def _crash(run: RunDirectory) -> str:
    """The last lines of a checker's crash, or ""; a run that cannot be opened is none."""
    try:
        crashes = judge(RunDirectory.open(run.path)).crashes
    except CheckError:
        return ""
    return " | ".join(crash.strip()[-300:] for crash in crashes)


def _said_by(manifest: bytes) -> object:
    try:
        return json.loads(manifest)
    except ValueError:
        return None


def _files(run: RunDirectory, pattern: str) -> list[Path]:
    return [file for file in sorted(run.path.glob(pattern)) if file.stat().st_size]


def _all(run: RunDirectory) -> str:
    """Reads and compares; damage may only be told as a `CheckError` or a finding."""
    try:
        evidence = RunEvidence(RunDirectory.open(run.path)).read()
        list(disagreements(evidence))
        for _ in about_the_run(evidence, None):
            pass
        for snapshot in evidence.snapshots:
            for broker, partition in evidence.copied.replicas(snapshot.label, snapshot.brokers):
                evidence.copied.epoch_entries(snapshot.label, broker, partition)
            list(stored_at(evidence.files, snapshot))
        is_whole = not evidence.files.broken_seal()
    except CheckError:
        return ""
    return "the seal holds" if is_whole else ""


def main() -> int:
    """Do what the command line asks for; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.mutants.fuzz")
    parser.add_argument("--segments", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--types", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", default="", help="a part of the names of kinds")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    jobs = [("segment", given.segments, given.seed)]
    jobs += [(pattern, given.files, given.seed) for pattern in (*_KINDS, *_OF_OTHERS)]
    typed = [each for each in (*_KINDS, *_OF_OTHERS) if each.endswith((".json", ".jsonl"))]
    jobs += [(f"types {pattern}", given.types, given.seed) for pattern in typed]
    jobs = [job for job in jobs if given.kind in job[0]]
    problems: list[str] = []
    slowest_s, peak = 0.0, 0
    with ProcessPoolExecutor(given.processes) as pool:
        for (kind, _, _), fuzzed in zip(jobs, pool.map(_of_kind, jobs), strict=True):
            told = f", {len(fuzzed.problems)} problems" if fuzzed.problems else ""
            print(f"{fuzzed.numbers[kind]:8} {kind}{told}", flush=True)
            problems += fuzzed.problems
            slowest_s, peak = max(slowest_s, fuzzed.slowest_s), max(peak, fuzzed.peak_bytes)
    if peak > MOST_BYTES:
        problems.append(f"{peak} bytes of memory were taken")
    print(f"slowest: {slowest_s:.2f} s; memory: {peak >> 20} MiB")
    print("\n".join(problems[:50]) or "nothing escaped, hung or passed unseen")
    return 1 if problems else 0


def _of_kind(job: tuple[str, int, int]) -> Fuzzed:
    """Damages so many files of one kind, of every golden run among these that has any."""
    kind, number, seed = job
    fuzzed, draw = Fuzzed(), random.Random(f"{seed} {kind}")
    with tempfile.TemporaryDirectory() as folder:
        pattern = kind.removeprefix("types ")
        names = (_OF_OTHERS[pattern],) if pattern in _OF_OTHERS else (RELEASES[0], RELEASES[-3])
        runs = [unpacked(name, Path(folder)) for name in names]
        if kind == "segment":
            fuzz_segments(fuzzed, list(_segments(runs)), number, draw)
        having = [run for run in runs if kind != "segment" and _files(run, pattern)]
        damage = fuzz_files if pattern == kind else fuzz_types
        for position, run in enumerate(having):
            writable = RunDirectory(Path(folder) / f"{run.name}-copy")
            shutil.copytree(run.path, writable.path)
            share = number // len(having) + (position < number % len(having))
            damage(fuzzed, writable, pattern, share, draw)
    fuzzed.peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return fuzzed


def _segments(runs: list[RunDirectory]) -> Iterator[bytes]:
    for run in runs:
        for file in sorted(run.path.glob("snapshots/final/broker-*/t-0/*.log")):
            if file.stat().st_size:
                yield file.read_bytes()


if __name__ == "__main__":
    sys.exit(main())
