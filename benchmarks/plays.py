"""Runs an hour of one entry, so many plays at once: `python -m benchmarks.plays [ENTRY]`.

Plays each case of the entry on each of its releases, first in turn and then side by side as
`kchaos reproduce --side-by-side` does. Rounds alternate, so that a machine that does something else
beside it slows all of them. Printed are seconds by the clock and of the processor, and the runs an
hour that both allow on two cores. With `--driver local --driver restored` each driver plays them.
"""

import argparse
import itertools
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kchaos.clusters.front.drivers import DRIVERS
from kchaos.harness.catalogue import entry_named, scenario_of
from kchaos.harness.commands.measure import cells
from kchaos.harness.commands.reproduce import DueCase, PlayedCase, play_cases
from kchaos.harness.run.runner import RunOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundTook:
    """Costs of some plays in seconds, by the clock and of the processor."""

    clock_s: float
    cpu_s: float


def main() -> None:
    """Plays, measures and prints."""
    parser = argparse.ArgumentParser(description="Runs an hour, so many plays at once.")
    parser.add_argument("entry", nargs="?", default="KAFKA-6361")
    parser.add_argument("--at-once", default="1,2", help="how many, such as 1,2,3")
    parser.add_argument("--runs", type=int, default=8, help="plays of a round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--driver", action="append", choices=DRIVERS, help="may be repeated")
    options = parser.parse_args()
    due = [
        DueCase(scenario=scenario_of(entry, case, release), told=f"{case} on {release}")
        for entry, case, release in cells([entry_named(options.entry)])
    ]
    due = (due * options.runs)[: options.runs]
    at_once = [int(number) for number in options.at_once.split(",")]
    ways = list(itertools.product(options.driver or DRIVERS[:1], at_once))
    took: dict[tuple[str, int], list[RoundTook]] = {way: [] for way in ways}
    first_of_each_release = {case.scenario.release: case for case in reversed(due)}
    for driver in options.driver or DRIVERS[:1]:
        _played([*first_of_each_release.values()], driver, 1)  # fills the caches
    for _ in range(options.rounds):
        for driver, number in ways:
            took[driver, number].append(_played(due, driver, number))
    for (driver, number), rounds in took.items():
        clock_s = sum(each.clock_s for each in rounds) / len(rounds) / len(due)
        cpu_s = sum(each.cpu_s for each in rounds) / len(rounds) / len(due)
        print(
            f"{driver}, {number} at once: a run takes {clock_s:.1f} s by the clock and "
            f"{cpu_s:.1f} s of the processor: {3600 / clock_s:.0f} an hour, and "
            f"{7200 / cpu_s:.0f} if no core waits"
        )


def _played(due: Sequence[DueCase], driver: str, at_once: int) -> RoundTook:
    """Costs of the plays; each must go as expected."""
    clock, cpu = time.monotonic(), _cpu_s()

    def done(_number: int, case: PlayedCase) -> None:
        assert case.results.expected, case.results.reason or case.results.unknown

    with tempfile.TemporaryDirectory(prefix="kchaos-benchmark-") as folder:
        options = RunOptions(runs_directory=Path(folder), driver=driver)
        play_cases(due, side_by_side=at_once, options=options, say=lambda _: None, done=done)
    return RoundTook(clock_s=time.monotonic() - clock, cpu_s=_cpu_s() - cpu)


def _cpu_s() -> float:
    """The processor's time of this process and all children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
