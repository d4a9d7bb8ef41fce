"""Judging many runs: plain Python beside Spark on this machine.

Run `.venv/bin/python -m benchmarks.judge RUN... --copies 10,100`, with run directories, or folders
of them, that kchaos has made. Each number of copies is one row: as many runs as that, copied in
turn from those given, judged by a process that calls `checkers.judge.judge` in a loop; by a process
that calls `checkers.spark.judge_runs`, its JVM's start included ("cold"); and by the same process
once more ("warm"). Printed are seconds and the ratio to plain Python in the same row. Both must
give the same answers, or the benchmark ends.
"""

import argparse
import itertools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checkers.judge import judge
from checkers.run_directory import JUDGEMENTS, RunDirectory


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Plain Python beside Spark, over many runs.")
    parser.add_argument("runs", nargs="+", type=Path, help="run directories, or folders of them")
    parser.add_argument("--copies", default="10,100", help="how many runs to judge: 10,100")
    given = parser.parse_args()
    runs = sorted(path.parent for each in given.runs for path in _run_files(each))
    if not runs:
        parser.error("no run directory among these; make one with: kchaos reproduce KAFKA-6361")
    print(f"{'runs':>6} {'MB':>7} {'plain s':>8} {'Spark cold s':>16} {'Spark warm s':>16}")
    for count in map(int, given.copies.split(",")):
        with tempfile.TemporaryDirectory(prefix="kchaos-benchmark-") as folder:
            _row(_copied(runs, count, Path(folder) / "runs"))


def plainly(paths: Sequence[str]) -> None:
    """Judges the runs in a loop and prints seconds and answers as JSON."""
    begin = time.perf_counter()
    answers = []
    for path in paths:
        results = judge(RunDirectory.open(Path(path)))
        answers.append([results.run, results.conforms, results.safe, len(results.findings)])
    print(json.dumps({"seconds": [time.perf_counter() - begin], "answers": answers}))


def with_spark(paths: Sequence[str]) -> None:
    """Judges the runs with Spark, twice in one session, and prints the same."""
    from checkers.spark import judge_runs, spark_session
    from clusters.java import spark_java_home

    begin = time.perf_counter()
    log_file = Path(paths[0]).parent.parent / "spark.log"
    with spark_session("local[*]", java_home=spark_java_home(), log_file=log_file):
        judgement = judge_runs(paths)
        middle = time.perf_counter()
        judge_runs(paths)
        end = time.perf_counter()
    answers = [
        [one.run, one.conforms, one.safe, len((one.results or {}).get("findings", ()))]
        for one in judgement.results
    ]
    print(json.dumps({"seconds": [middle - begin, end - middle], "answers": answers}))


def _row(paths: list[str]) -> None:
    size_mb = sum(file.stat().st_size for path in paths for file in _files(Path(path))) / 1e6
    plain, spark = _process("plainly", paths), _process("with_spark", paths)
    if plain["answers"] != spark["answers"]:
        raise SystemExit("Spark and plain Python disagree; no figures are worth printing")
    (seconds,) = plain["seconds"]
    columns = "".join(f" {each:8.2f} ({each / seconds:4.1f}x)" for each in spark["seconds"])
    print(f"{len(paths):6} {size_mb:7.1f} {seconds:8.2f}{columns}")


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
