"""Duration of random runs on old releases beside the last one of the list, by equal seeds.

Run `.venv/bin/python -m benchmarks.random_runs`, on a machine that does nothing else. Each seed's
schedule is played on one release after the other, its cluster's start and its verdict included.
Printed are each release's median, and the median of its ratios to the last release with the same
seed; the aim is that none is above 1. A wait that only old releases have shows here. Beside it
stands the processor's time of a run, which a busy machine changes less, and how many runs an hour
two cores have time for. With `--driver local --driver restored` each driver plays each of them,
and ratios are to the last driver with the last release. Imports are not in it: plays of many are
forked from a process that has done them.
"""

import argparse
import itertools
import resource
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from kchaos.checkers.judge import judge
from kchaos.clusters.front.drivers import DRIVERS
from kchaos.harness.player.drawing import draw
from kchaos.harness.run.runner import RunOptions, play

RELEASES = ("0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.2.2", "2.8.2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """Costs of one run in seconds: by the clock, and of the processors by whom."""

    clock_s: float
    harness_cpu_s: float
    jvms_cpu_s: float

    @property
    def cpu_s(self) -> float:
        """The processor's time of all processes."""
        return self.harness_cpu_s + self.jvms_cpu_s


def main() -> None:
    """Plays, measures and prints."""
    parser = argparse.ArgumentParser(description="Random runs by equal seeds, release by release.")
    parser.add_argument("releases", nargs="*", default=RELEASES, metavar="RELEASE")
    parser.add_argument("--seed", type=int, default=31000, help="the first one")
    parser.add_argument("--runs", type=int, default=5, help="how many seeds")
    parser.add_argument("--driver", action="append", choices=DRIVERS, help="may be repeated")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    ways = list(itertools.product(options.releases, options.driver or DRIVERS[:1]))
    took: dict[tuple[str, str], list[Took]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="kchaos-benchmark-") as folder:
        for way in ways:
            _played(options.seed, way, Path(folder))  # fills the caches
        for seed in range(options.seed, options.seed + options.runs):
            for way in ways:
                run = _played(seed, way, Path(folder))
                took[way].append(run)
                print(
                    f"seed {seed} on {way[0]}, {way[1]}: {run.clock_s:.1f} s, of the processor's "
                    f"time {run.harness_cpu_s:.1f} s by kchaos and {run.jvms_cpu_s:.1f} s by JVMs",
                    flush=True,
                )
    beside = " ".join(ways[-1])
    print(f"median of {options.runs} random runs, and of their ratios to {beside}; the aim is 1.00")
    for way in ways:
        runs, others = took[way], took[ways[-1]]
        ratios = [run.clock_s / other.clock_s for run, other in zip(runs, others, strict=True)]
        cpu_s = sum(run.cpu_s for run in runs) / len(runs)
        print(
            f"{' '.join(way):18} {median(run.clock_s for run in runs):5.1f} s  "
            f"{median(ratios):.2f}; {cpu_s:.1f} s of the processor's time a run, "
            f"{7200 / cpu_s:.0f} an hour on two cores"
        )


def _played(seed: int, way: tuple[str, str], folder: Path) -> Took:
    """Costs of that seed's schedule by a release and a driver; it must go as the model predicts."""
    release, driver = way
    clock, harness, jvms = time.monotonic(), time.process_time(), _cpu_s_of_children()
    run = play(
        draw(seed, kafka=release, steps=25),
        options=RunOptions(runs_directory=folder, driver=driver),
        say=lambda _: None,
    )
    results = judge(run)
    assert results.conforms, results.reason or results.unknown
    return Took(
        clock_s=time.monotonic() - clock,
        harness_cpu_s=time.process_time() - harness,
        jvms_cpu_s=_cpu_s_of_children() - jvms,
    )


def _cpu_s_of_children() -> float:
    """The processor's time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
