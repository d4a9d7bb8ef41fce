"""Judging: one small run in plain Python, and many runs in plain Python beside Spark.

Run `.venv/bin/python -m benchmarks.judge` for one run: the golden runs of `tests.golden`, as long
as those of the catalogue but without the brokers' logs, are judged in turn for some rounds. Printed
are milliseconds a run, the median over all, and the share that the model takes to follow a run.

With `--beside TREE` two processes, of this work tree and of another one, judge each run in turn.
Printed are the processor's milliseconds a run in both, each run's least of all rounds, and the
ratio; other load on the machine disturbs both alike.

Run `.venv/bin/python -m benchmarks.judge RUN... --copies 10,100` for many, with run directories, or
folders of them, that kchaos has made. Each number of copies is one row: as many runs as that,
copied in turn from those given, judged by a process that calls `checkers.judge.judge` in a loop; by
a process that calls `checkers.spark.judge_runs`, start and end of its JVM included ("cold"); and by
the same process once more, with a Spark that runs already ("warm"). Printed are seconds, the ratio
to plain Python in the same row, after how many seconds Spark first told of a judged run, and the
most memory that each of both processes took (the JVM and its workers are others). Both must give
the same answers, or the benchmark ends.
"""

import argparse
import itertools
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.record import predict_run
from kchaos.checkers.run_directory import JUDGEMENTS, RunDirectory
from tests.golden.stored import RELEASES, unpacked

_AIM_MS = 60
_WARMING = 8
"""So many runs have each worker of Spark judge before a warm judgement is measured."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="One run in plain Python, or many beside Spark.")
    parser.add_argument("runs", nargs="*", type=Path, help="run directories, or folders of them")
    parser.add_argument("--rounds", type=int, default=5, help="how often to judge golden runs")
    parser.add_argument("--beside", type=Path, metavar="TREE", help="another work tree of kchaos")
    parser.add_argument("--copies", default="10,100", help="how many runs to judge: 10,100")
    given = parser.parse_args()
    if given.beside is not None:
        beside(given.beside, given.rounds)
        return
    if not given.runs:
        one_by_one(given.rounds)
        return
    runs = sorted(path.parent for each in given.runs for path in _run_files(each))
    if not runs:
        parser.error("no run directory among these; make one with: kchaos reproduce KAFKA-6361")
    print(
        f"{'runs':>6} {'MB':>7} {'plain s':>8} {'Spark cold s':>16} {'Spark warm s':>16} "
        f"{'first s':>8} {'memory MB':>10}"
    )
    for count in map(int, given.copies.split(",")):
        with tempfile.TemporaryDirectory(prefix="kchaos-benchmark-") as folder:
            _row(_copied(runs, count, Path(folder) / "runs"))


def one_by_one(rounds: int) -> None:
    """Print how long it takes to judge one golden run, and how much of it following takes."""
    with tempfile.TemporaryDirectory(prefix="kchaos-benchmark-") as folder:
        runs = [unpacked(release, Path(folder)) for release in RELEASES]
        # The first round fills caches, and is not counted.
        measured = [[_judged(run) for run in runs] for _ in range(rounds + 1)][1:]
    whole_ms = [1000 * whole for whole, _ in itertools.chain(*measured)]
    following = [following / whole for whole, following in itertools.chain(*measured)]
    print(f"{len(runs)} golden runs, each judged {rounds} times in plain Python")
    print(f"median {statistics.median(whole_ms):.1f} ms a run (aim: under {_AIM_MS} ms)")
    print(f"following takes {statistics.median(following):.0%} of that, the record included")


_ON_DEMAND = """
import sys, time
from pathlib import Path
from kchaos.checkers.judge import judge
from kchaos.checkers.run_directory import RunDirectory
for path in sys.stdin:
    begin = time.process_time()
    judge(RunDirectory.open(Path(path.strip())))
    print(time.process_time() - begin, flush=True)
"""


def beside(other: Path, rounds: int) -> None:
    """Print what judging a golden run costs here and in another work tree, in turn."""
    trees = (other, Path.cwd())
    with tempfile.TemporaryDirectory(prefix="kchaos-benchmark-") as folder, ExitStack() as ending:
        runs = [unpacked(release, Path(folder)).path for release in RELEASES]
        children = [
            ending.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", _ON_DEMAND],
                    cwd=tree,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for tree in trees
        ]
        # The first round fills caches, and is not counted.
        measured = [
            [[_asked(child, run) for child in children] for run in runs] for _ in range(rounds + 1)
        ][1:]
    least = [
        [min(seconds) for seconds in zip(*run, strict=True)] for run in zip(*measured, strict=True)
    ]
    before, after = (1000 * statistics.mean(column) for column in zip(*least, strict=True))
    print(f"{len(runs)} golden runs, each judged {rounds} times in both trees, in turn")
    print(f"there {before:.1f} ms of the processor a run, here {after:.1f}: {after / before:.2f}")


def _asked(child: "subprocess.Popen[str]", run: Path) -> float:
    assert child.stdin is not None
    assert child.stdout is not None
    print(run, file=child.stdin, flush=True)
    return float(child.stdout.readline())


def _judged(run: RunDirectory) -> tuple[float, float]:
    """Judge a run; return the seconds of all of it and of following."""
    following = 0.0

    def predict(evidence: RunEvidence) -> Prediction:
        nonlocal following
        begin = time.perf_counter()
        prediction = predict_run(evidence)
        following = time.perf_counter() - begin
        return prediction

    begin = time.perf_counter()
    results = judge(run, predict=predict)
    if not results.expected:
        raise SystemExit(f"{run.name} is not as expected; no figures are worth printing")
    return time.perf_counter() - begin, following


def plainly(paths: Sequence[str]) -> None:
    """Judge the runs in a loop; print seconds and answers as JSON."""
    begin = time.perf_counter()
    answers = []
    for path in paths:
        results = judge(RunDirectory.open(Path(path)))
        answers.append([results.run, results.conforms, results.safe, len(results.findings)])
    _tell({"seconds": [time.perf_counter() - begin], "answers": answers})


def with_spark(paths: Sequence[str]) -> None:
    """Judge the runs with Spark, and again with the running Spark; print the same."""
    from kchaos.checkers.spark import judge_runs, spark_context
    from kchaos.clusters.kafka.java import spark_java_home

    java_home = spark_java_home()
    told: list[float] = []
    begin = time.perf_counter()
    judgement = judge_runs(
        paths,
        java_home=java_home,
        progress=lambda _ended, _runs: told.append(time.perf_counter() - begin),
    )
    answers = [
        [result.run, result.conforms, result.safe, len(result.findings)]
        for result in judgement.results
    ]
    cold = time.perf_counter() - begin
    log_file = Path(paths[0]).parent.parent / "spark.log"
    with spark_context(log_file=log_file, java_home=java_home):
        judge_runs(paths[:_WARMING])
        begin = time.perf_counter()
        judge_runs(paths)
        warm = time.perf_counter() - begin
    _tell({"seconds": [cold, warm], "answers": answers, "first": told[0] if told else cold})


def _tell(measured: dict[str, Any]) -> None:
    """Print the measurements, and this process's peak memory, as JSON."""
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(measured | {"memory_mb": memory_mb}))


def _row(paths: list[str]) -> None:
    size_mb = sum(file.stat().st_size for path in paths for file in _files(Path(path))) / 1e6
    plain, spark = _process("plainly", paths), _process("with_spark", paths)
    if plain["answers"] != spark["answers"]:
        raise SystemExit("Spark and plain Python disagree; no figures are worth printing")
    (seconds,) = plain["seconds"]
    columns = "".join(f" {each:8.2f} ({each / seconds:4.1f}x)" for each in spark["seconds"])
    memory = "/".join(f"{each['memory_mb']:.0f}" for each in (plain, spark))
    print(
        f"{len(paths):6} {size_mb:7.1f} {seconds:8.2f}{columns} {spark['first']:8.2f} {memory:>10}"
    )


def _process(function: str, paths: list[str]) -> Any:
    program = f"import json, sys, benchmarks.judge as b; b.{function}(json.load(sys.stdin))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(paths),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def _copied(runs: Sequence[Path], count: int, folder: Path) -> list[str]:
    copies = []
    for number, run in enumerate(itertools.islice(itertools.cycle(runs), count)):
        copy = folder / f"{number:05d}-{run.name}"
        shutil.copytree(run, copy, ignore=shutil.ignore_patterns(JUDGEMENTS))
        copies.append(str(copy))
    return copies


def _run_files(path: Path) -> list[Path]:
    return [file for file in (path / "run.json", *path.glob("*/run.json")) if file.is_file()]


def _files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


if __name__ == "__main__":
    main()
