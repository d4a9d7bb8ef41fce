"""Duration of random runs on old releases beside the last one of the list, by equal seeds.

Run `.venv/bin/python -m benchmarks.random_runs`, on a machine that does nothing else. Each seed's
schedule is played on one release after the other, its cluster's start and its verdict included.
Printed are each release's median, and the median of its ratios to the last release with the same
seed; the aim is that none is above 1. A wait that only old releases have shows here.
"""

import argparse
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

from kchaos.checkers.judge import judge
from kchaos.harness.player.drawing import draw
from kchaos.harness.run.runner import RunOptions, play

RELEASES = ("0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1", "2.2.2", "2.8.2")


def main() -> None:
    """Plays, measures and prints."""
    parser = argparse.ArgumentParser(description="Random runs by equal seeds, release by release.")
    parser.add_argument("releases", nargs="*", default=RELEASES, metavar="RELEASE")
    parser.add_argument("--seed", type=int, default=31000, help="the first one")
    parser.add_argument("--runs", type=int, default=5, help="how many seeds")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    took: dict[str, list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="kchaos-benchmark-") as folder:
        for release in options.releases:
            _seconds(options.seed, release, Path(folder))  # fills the caches
        for seed in range(options.seed, options.seed + options.runs):
            for release in options.releases:
                took[release].append(_seconds(seed, release, Path(folder)))
                print(f"seed {seed} on {release}: {took[release][-1]:.1f} s", flush=True)
    beside = options.releases[-1]
    print(f"median of {options.runs} random runs, and of their ratios to {beside}; the aim is 1.00")
    for release in options.releases:
        ratios = [judged / other for judged, other in zip(took[release], took[beside], strict=True)]
        print(f"{release:9} {median(took[release]):5.1f} s  {median(ratios):.2f}")


def _seconds(seed: int, release: str, folder: Path) -> float:
    """Duration of that seed's schedule; it must go as the model predicts."""
    started = time.monotonic()
    run = play(
        draw(seed, kafka=release, steps=25),
        options=RunOptions(runs_directory=folder),
        say=lambda _: None,
    )
    results = judge(run)
    assert results.conforms, results.reason or results.unknown
    return time.monotonic() - started


if __name__ == "__main__":
    main()
