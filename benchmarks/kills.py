"""kill -9 at random moments, and what is left afterwards.

    python -m benchmarks.kills [--kills 100] [--driver docker] [--side-by-side 2] [--seed 1]

Half of the kills hit a command while it starts, and half while it is at work: playing a known bug,
judging runs with Spark. Counted are processes that still run ten seconds later and, after one
`kchaos gc`, work directories, unfinished downloads, containers, networks and mounts; and every run
that was begun must be whole and sealed, or be judged as unfinished. The last line sums it up.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kchaos.checkers.errors import CheckError
from kchaos.checkers.folders import WORKING
from kchaos.checkers.judge import judge
from kchaos.checkers.run_directory import RunDirectory
from kchaos.clusters.system.cache import cache_directory

KCHAOS = (sys.executable, "-m", "kchaos")
PLAY = ("reproduce", "KAFKA-6361", "--case", "n20", "--kafka", "1.1.1", "--no-spark")
_MARK = "KCHAOS_KILLED_HERE"
_FETCHED = ("kafka", "maven", "java")
_GONE_S = 10.0
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFolders:
    """Where the commands of one worker run: a cache of their own, and their runs."""

    folder: Path
    driver: str

    @classmethod
    def make(cls, folder: Path, *, driver: str) -> "WorkerFolders":
        """Create a cache with links to everything already fetched."""
        (folder / "cache").mkdir(parents=True)
        for name in _FETCHED:
            (folder / "cache" / name).symlink_to(cache_directory() / name)
        return cls(folder=folder, driver=driver)

    @property
    def cache(self) -> Path:
        """Its cache."""
        return self.folder / "cache"

    @property
    def runs(self) -> Path:
        """Where its runs go."""
        return self.folder / "runs"

    @property
    def environment(self) -> Mapping[str, str]:
        """That of its commands, by which their processes are found again."""
        root = str(Path(__file__).resolve().parent.parent)
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        own = {"KCHAOS_CACHE": str(self.cache), _MARK: str(self.folder), "PYTHONPATH": path}
        return {**os.environ, **own, "KCHAOS_DRIVER": self.driver}

    def start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a command of kchaos whose output nobody reads."""
        nowhere = subprocess.DEVNULL
        return subprocess.Popen(
            [*KCHAOS, *command],
            cwd=self.folder,
            env=self.environment,
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
        )

    def processes(self) -> list[int]:
        """Return its commands' running processes, except in containers."""
        pids = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                environment = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"{_MARK}={self.folder}".encode() in environment:
                pids.append(int(entry.name))
        return pids


def kill_at(
    place: WorkerFolders, command: Sequence[str], moment_s: float, *, since_run: bool
) -> Counter[str]:
    """Kill a command at a moment; return the kinds of its leftovers.

    `moment_s` counts from the command's start, or with `since_run` from its first write into
    `runs`.
    """
    child = place.start(command)
    while since_run and child.poll() is None and not any(place.runs.glob("*")):
        time.sleep(_LOOK_S / 10)
    try:
        child.wait(moment_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    deadline = time.monotonic() + _GONE_S
    while (alive := place.processes()) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    collected = place.start(["gc"])
    code = collected.wait(120)
    left = Counter({"processes": len(alive), "gc fails": int(code != 0)})
    left += Counter(kind for kind, _ in _left(place))
    return left + _runs(place)


def _left(place: WorkerFolders) -> Iterator[tuple[str, str]]:
    for kind, pattern in (("folders", "running/*"), ("downloads", "**/.unfinished-*")):
        yield from ((kind, str(jar)) for jar in place.cache.glob(pattern))
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    yield from (("mounts", line) for line in mounts if str(place.folder) in line)
    if place.driver == "docker":
        file = place.cache / "id"
        label = f"label=kchaos.owner-cache={file.read_text().strip() if file.is_file() else '-'}"
        for kind, words in (("containers", ["ps", "--all"]), ("networks", ["network", "ls"])):
            listing = ["docker", *words, "--quiet", "--filter", label]
            done = subprocess.run(listing, capture_output=True, text=True, check=True)
            yield from ((kind, line) for line in done.stdout.split())


def _runs(place: WorkerFolders) -> Counter[str]:
    """Return the outcomes of a place's runs, and remove them."""
    states: Counter[str] = Counter()
    for path in place.runs.glob("*"):
        # What a killed Spark job had begun is named so, and goes with the next one.
        is_run = not path.name.startswith((WORKING, "judged"))
        if is_run and not path.is_symlink() and path.is_dir():
            states[_state(path)] += 1
    shutil.rmtree(place.runs, ignore_errors=True)
    return states


def _state(path: Path) -> str:
    try:
        run = RunDirectory.open(path)
        results = judge(run)
    except CheckError:
        # Killed between making the folder and writing its first file.
        return "unfinished" if not (path / "manifest.json").exists() else "wrong"
    if run.is_sealed:
        return "sealed" if not run.verify() and results.expected else "wrong"
    return "unfinished" if (results.conforms, results.safe) == (None, None) else "wrong"


def usual_length_s(place: WorkerFolders, command: Sequence[str]) -> float:
    """Return the median seconds of the command when nobody kills it.

    Raises:
        RuntimeError: It does not end well.
    """
    began = time.monotonic()
    code = place.start(command).wait(600)
    if code != 0:
        raise RuntimeError(f"kchaos {' '.join(command)} ended with code {code}")
    return time.monotonic() - began


_FIRST_AT_WORK = 2


def kills(
    command: Sequence[str],
    *,
    count: int,
    driver: str,
    side_by_side: int,
    seed: int,
    work: Path,
    length_s: float | None = None,
) -> Counter[str]:
    """Kill a command `count` times; return the leftovers and the runs' outcomes.

    `length_s` is the command's undisturbed duration in seconds; None measures it.
    """
    places = [
        WorkerFolders.make(work / f"{command[0]}-{number}", driver=driver)
        for number in range(side_by_side)
    ]
    usual_s = length_s or usual_length_s(places[0], command)
    _runs(places[0])

    def worker(number: int) -> Counter[str]:
        counts: Counter[str] = Counter()
        for which in range(number, count, side_by_side):
            # Half of them while the command starts what it needs, and half while it is at work,
            # however long the start takes on a busy machine. The first of those at work comes when
            # the run has just begun: of the others all may come after its end.
            moment_s = random.Random(f"{seed} {which}").uniform(0, usual_s / 3)
            moment_s = 0 if which == _FIRST_AT_WORK else moment_s
            counts += kill_at(places[number], command, moment_s, since_run=which % 4 > 1)
        return counts

    with ThreadPoolExecutor(side_by_side) as pool:
        return sum(pool.map(worker, range(side_by_side)), Counter())


COLUMNS = (
    *("processes", "folders", "downloads", "containers", "networks", "mounts", "gc fails"),
    *("wrong", "sealed", "unfinished"),
)
BAD = COLUMNS[:-2]


def main() -> int:
    """Print the table; return 0 if nothing was left and no run was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--driver", choices=["local", "docker"], default="local")
    parser.add_argument("--side-by-side", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", nargs="*", help="run directories to judge with Spark as well")
    wanted = parser.parse_args()
    commands = {f"reproduce, {wanted.driver}": [*PLAY, "--runs-dir", "runs"]}
    if wanted.runs:
        runs = [str(Path(run).resolve()) for run in wanted.runs]
        commands["judge with Spark"] = ["judge", "--spark", "--output", "runs/judged", *runs]
    total: Counter[str] = Counter()
    print(f"{'killed at random moments':26}{'kills':>6}" + "".join(f"{c:>11}" for c in COLUMNS))
    with tempfile.TemporaryDirectory(prefix="kchaos-kills-") as work:
        for name, command in commands.items():
            count = wanted.kills // len(commands)
            counts = kills(
                command,
                count=count,
                driver=wanted.driver,
                side_by_side=wanted.side_by_side,
                seed=wanted.seed,
                work=Path(work),
            )
            cells = "".join(f"{counts[column]:>11}" for column in COLUMNS)
            print(f"{name:26}{count:>6}{cells}", flush=True)
            total += counts
    bad = {column: total[column] for column in BAD if total[column]}
    print(f"left behind: {bad}" if bad else "nothing was left behind, no run was wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
