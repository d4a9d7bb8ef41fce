"""Packs on an object store beside run directories on a disk, judged by Spark in one session.

Run `.venv/bin/python -m benchmarks.packs [RUNS]`: so many copies of the golden runs, 100 unless
told, and a pack of each on a real store on loopback. Printed is the processor's time of Spark's JVM
and its workers, in turn for run directories, for packs, and for packs with the tables on the store
as well; then the ratios of the sums. All must give the same answers, or the benchmark ends.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kchaos.checkers.packs import pack
from kchaos.checkers.spark import judge_runs, spark_context
from kchaos.checkers.store import Place, StoredPlace
from kchaos.clusters.kafka.class_archive import spark_archive
from kchaos.clusters.kafka.java import spark_java_home
from tests.golden.stored import RELEASES, unpacked
from tests.support.object_store import BUCKET, object_store
from tests.support.processes import descendants

_ROUNDS = 3
_WARMING = 20


def main(count: int) -> None:
    """Print seconds of the processor and their ratios."""
    with tempfile.TemporaryDirectory(prefix="kchaos-benchmark-") as name:
        folder = Path(name)
        with object_store(folder) as store:
            os.environ.update(store.environment)
            there = StoredPlace(BUCKET, "packs")
            runs, packs = _made(count, folder, there)
            _compare(runs, packs, folder, StoredPlace(BUCKET, "judged"))


def _made(count: int, folder: Path, there: StoredPlace) -> tuple[list[Place], list[Place]]:
    golden = [unpacked(release, folder / "golden").path for release in RELEASES]
    runs: list[Place] = []
    packs: list[Place] = []
    for number in range(count):
        source = golden[number % len(golden)]
        run = folder / "runs" / f"{source.name}-{number:05d}"
        shutil.copytree(source, run)
        runs.append(run)
        packs.append(pack(run, there / f"{run.name}.tar.xz"))
    return runs, packs


def _compare(
    runs: Sequence[Place], packs: Sequence[Place], folder: Path, judged: StoredPlace
) -> None:
    java_home = spark_java_home()
    with spark_context(
        "local[2]",
        java_home=java_home,
        log_file=folder / "spark.log",
        class_archive=spark_archive(java_home),
    ) as context:
        gateway: Any = context._gateway
        jvm = gateway.proc.pid
        for number, places in enumerate((runs, packs)):
            judge_runs(places[:_WARMING], output=folder / f"warm-{number}")
        ways: list[tuple[str, Sequence[Place], Place]] = [
            ("run directories", runs, folder / "of-runs"),
            ("packs", packs, folder / "of-packs"),
            ("packs, tables on the store", packs, judged),
        ]
        sums = dict.fromkeys((name for name, _, _ in ways), 0.0)
        for number in range(_ROUNDS):
            answers = []
            for name, places, output in ways:
                before = _processor_s(jvm)
                judgement = judge_runs(places, output=output / f"{number}")
                took = _processor_s(jvm) - before
                sums[name] += took
                print(f"{name}: {took:.1f} s of the processor for {len(places)}", flush=True)
                answers.append([(each.conforms, each.safe) for each in judgement.results])
            if answers.count(answers[0]) != len(answers):
                raise SystemExit("the answers are not the same; no figures are worth printing")
    first = sums["run directories"]
    for name, took in sums.items():
        print(f"{name}: {took / first:.2f}")


def _processor_s(process: int) -> float:
    """Processor seconds of a process, those below it and those that ended below them."""
    ticks = 0
    for pid in (process, *descendants(process)):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # It ended meanwhile; its parent has its time.
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
