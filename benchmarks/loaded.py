"""Judging a run under load: the share of processor time that each phase and each rule takes.

Run `.venv/bin/python -m benchmarks.loaded RUN...` with run directories that kchaos made, such as
one of

    kchaos up --kafka 3.9.1 --judge -- python load.py

whose `load.py` writes 1,000 records a second for ten minutes. Without any a record of
`--produces` produces is drawn from `--seed` and followed; nothing is read or ruled then.

Printed are the seconds of processor time of all, the peak memory, and the states that were looked
at; then each phase or rule with its share, as samples of the running stack have it. A rule is a
module of `checkers`; what others do on its behalf counts as its own.
"""

import argparse
import resource
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from kchaos.checkers.judge import judge
from kchaos.checkers.model import follow
from kchaos.checkers.run_directory import RunDirectory
from tests.support.loaded_record import loaded_record

_EVERY_S = 0.005
_PHASES = ("checkers/rules/", "checkers/cross_checks/", "checkers/model/follow/", "checkers/")


def main() -> None:
    """Print a table for each run."""
    parser = argparse.ArgumentParser(description="Shares of judging a run under load.")
    parser.add_argument("runs", nargs="*", type=Path, help="run directories")
    parser.add_argument("--produces", type=int, default=2_000, help="default 2000")
    parser.add_argument("--seed", type=int, default=0, help="default 0")
    given = parser.parse_args()
    for run in given.runs:
        samples: Counter[str] = Counter()
        began = time.process_time()
        with _sampled(samples):
            results = judge(RunDirectory.open(run))
        states = 0 if results.prediction is None else results.prediction.states
        answer = f"conforms: {results.conforms}, safe: {results.safe}"
        _print(f"{run.name}: {answer}", states, time.process_time() - began, samples)
    if not given.runs:
        record = loaded_record(given.produces, seed=given.seed)
        samples = Counter()
        began = time.process_time()
        with _sampled(samples):
            prediction = follow(record)
        seconds = time.process_time() - began
        name = f"{given.produces} produces, {len(record.seen)} observations"
        _print(name, prediction.states, seconds, samples)


@contextmanager
def _sampled(samples: Counter[str]) -> Iterator[None]:
    """Note, at equal distances of processor time, what runs."""

    def note(_number: int, frame: FrameType | None) -> None:
        samples[_phase(frame)] += 1

    before = signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, _EVERY_S, _EVERY_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _phase(frame: FrameType | None) -> str:
    """Return the module on whose behalf the stack runs: a rule, a cross-check, or else a part."""
    files: list[str] = []
    while frame is not None:
        files.append(frame.f_code.co_filename.replace("\\", "/"))
        frame = frame.f_back
    for phase in _PHASES:
        for file in reversed(files):
            _, found, name = file.rpartition(phase)
            if found and not name.endswith(("__init__.py", "judge.py")):
                return phase + name if phase != "checkers/model/follow/" else "checkers/model"
    return "other"


def _print(name: str, states: int, seconds: float, samples: Counter[str]) -> None:
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{name}: {seconds:.1f} s of processor, {memory_mb:.0f} MB at most, {states} states")
    total = max(1, samples.total())
    for phase, count in samples.most_common(25):
        print(f"  {count / total:6.1%}  {phase}")


if __name__ == "__main__":
    main()
