"""How fast the explorer is: distinct states a second, with one process beside several.

Run `.venv/bin/python -m benchmarks.explore`. The system is the published specification of KIP-279
with two replicas; one process and several take turns, so that all see the same machine. With
`--published` the specifications with three replicas are explored instead, and their states compared
with those that TLC counts; that takes some minutes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace

from checkers.explorer import Progress, System, explore
from tests.checkers.explorer.published_specifications import Bounds, kip_101, kip_279

_TWO_REPLICAS = Bounds(replicas=2, log_size=3, max_records=3, max_leader_epoch=3)
_THREE_REPLICAS = Bounds(replicas=3, log_size=2, max_records=2, max_leader_epoch=2)
_MOST_STATES = 10_000_000


def compare(processes: int, rounds: int) -> None:
    """Print states a second with one process and with several, and the ratio."""
    system = kip_279(_TWO_REPLICAS)
    rates: dict[int, list[float]] = {1: [], processes: []}
    for _ in range(rounds):
        for count, measured in rates.items():
            found = explore(system, most_states=_MOST_STATES, processes=count)
            measured.append(found.distinct / found.seconds)
    print(f"{'processes':>9}{'states/s':>12}{'best':>12}{'per process':>14}")
    for count, measured in rates.items():
        rate = statistics.median(measured)
        print(f"{count:9}{rate:12,.0f}{max(measured):12,.0f}{rate / count:14,.0f}")
    ratios = [many / one for one, many in zip(rates[1], rates[processes], strict=True)]
    print(f"{processes} processes to one: {statistics.median(ratios):.2f}, best {max(ratios):.2f}")
    print(f"one process, best round: {max(rates[1]):,.0f} states/s (aim: 100,000)")


def published(processes: int) -> bool:
    """Explore the specifications with three replicas; return whether all is as TLC counts it."""
    kip_279_whole = replace(kip_279(_THREE_REPLICAS), invariants={})
    symmetric = replace(kip_279(_THREE_REPLICAS, is_symmetric=True), invariants={})
    kip_101_whole = replace(kip_101(_THREE_REPLICAS), invariants={})
    whole = [
        is_as_counted("Kip279", kip_279_whole, (6_718_690, 1_616_461, 26), processes),
        is_as_counted("Kip279, symmetry", symmetric, (1_122_953, 270_050, 26), processes),
        is_as_counted("Kip101", kip_101_whole, (5_796_838, 1_613_089, 26), processes),
    ]
    broken = [
        is_broken_at("Kip279", kip_279(_THREE_REPLICAS), 11, processes),
        is_broken_at("Kip101", kip_101(_THREE_REPLICAS), 11, processes),
    ]
    return all(whole + broken)


def is_as_counted(
    name: str, system: System, expected: tuple[int, int, int], processes: int
) -> bool:
    """Explore a whole space; print the counts and return whether they are those."""
    found = explore(system, most_states=_MOST_STATES, processes=processes, progress=show)
    counts = (found.generated, found.distinct, found.depth)
    verdict = "as TLC" if counts == expected else f"TLC has {expected}"
    print(f"\r{name}, generated, distinct, depth: {counts}, {found.seconds:.1f} s: {verdict}")
    return counts == expected


def is_broken_at(name: str, system: System, depth: int, processes: int) -> bool:
    """Explore up to the violation; print its depth and return whether it is that one."""
    found = explore(system, most_states=_MOST_STATES, processes=processes)
    at = found.depth if found.violation else None
    print(f"{name}, StrongIsr is broken at depth {at}: {'as TLC' if at == depth else depth}")
    return at == depth


def show(progress: Progress) -> None:
    """Show how far it is, on a terminal."""
    if sys.stdout.isatty():
        rate = f"{progress.states_per_second:,.0f} states/s"
        print(f"\r{progress.distinct:,} states, depth {progress.depth}, {rate}", end="    ")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds of each")
    parser.add_argument("--published", action="store_true", help="compare with TLC instead")
    arguments = parser.parse_args()
    if not arguments.published:
        compare(arguments.processes, arguments.rounds)
    elif not published(arguments.processes):
        sys.exit(1)


if __name__ == "__main__":
    main()
