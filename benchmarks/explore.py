"""Speed of the explorer: distinct states a second, with one process beside several.

Run `.venv/bin/python -m benchmarks.explore`. The system is the published specification of KIP-279
with two replicas; one process and several take turns, so that all see the same machine. With
`--published` the specifications with three replicas are explored instead, and their states compared
with those that TLC counts; that takes some minutes. With `--model` it is the model itself, by the
rules of releases, within the same bounds: what holds, what breaks after how many steps, and how
fast that is beside the specification; minutes too.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace

from kchaos.checkers.model import generation_for
from kchaos.studies.explore import system_of
from kchaos.studies.explore.bounds import Machine
from kchaos.studies.explorer import Progress, System, explore
from tests.support.published_specifications import Bounds, kip_101, kip_279

_TWO_REPLICAS = Bounds(replicas=2, log_size=3, max_records=3, max_leader_epoch=3)
_THREE_REPLICAS = Bounds(replicas=3, log_size=2, max_records=2, max_leader_epoch=2)
_MOST_STATES = 10_000_000
# Release, replicas, property, whether epochs may be skipped, and after how many steps it breaks.
_MODEL: tuple[tuple[str, int, str, bool, int | None], ...] = (
    ("0.10.2.2", 2, "strong-isr", False, 8),
    ("1.1.1", 2, "strong-isr", False, 12),
    ("2.0.1", 2, "strong-isr", False, 12),
    ("2.4.1", 2, "strong-isr", False, 15),
    ("2.5.1", 2, "strong-isr", False, None),
    ("3.9.1", 2, "strong-isr", False, None),
    ("0.10.2.2", 2, "agreement", False, 10),
    ("1.1.1", 2, "agreement", False, 13),
    ("2.0.1", 2, "agreement", False, None),
    ("2.0.1", 3, "agreement", False, 15),
    ("2.5.1", 3, "strong-isr", False, None),
    ("3.9.1", 3, "strong-isr", False, None),
    ("3.9.1", 3, "strong-isr", True, 12),
)


def compare(processes: int, rounds: int) -> None:
    """Print states a second with one process and with several, and the ratio."""
    system = kip_279(_TWO_REPLICAS)
    rates: dict[int, list[float]] = {1: [], processes: []}
    for _ in range(rounds):
        for count, measured in rates.items():
            outcome = explore(system, most_states=_MOST_STATES, processes=count)
            measured.append(outcome.distinct / outcome.seconds)
    print(f"{'processes':>9}{'states/s':>12}{'best':>12}{'per process':>14}")
    for count, measured in rates.items():
        rate = statistics.median(measured)
        print(f"{count:9}{rate:12,.0f}{max(measured):12,.0f}{rate / count:14,.0f}")
    ratios = [many / single for single, many in zip(rates[1], rates[processes], strict=True)]
    print(f"{processes} processes to one: {statistics.median(ratios):.2f}, best {max(ratios):.2f}")
    print(f"one process, best round: {max(rates[1]):,.0f} states/s (aim: 100,000)")


def published(processes: int) -> bool:
    """Explore the specifications with three replicas; return whether all is as TLC counts it."""
    beside = rate_of_two_replicas()
    kip_279_whole = replace(kip_279(_THREE_REPLICAS), invariants={})
    symmetric = replace(kip_279(_THREE_REPLICAS, is_symmetric=True), invariants={})
    kip_101_whole = replace(kip_101(_THREE_REPLICAS), invariants={})
    whole = [
        is_as_counted("Kip279", kip_279_whole, (6_718_690, 1_616_461, 26), processes, beside),
        is_as_counted("Kip279, symmetry", symmetric, (1_122_953, 270_050, 26), processes, beside),
        is_as_counted("Kip101", kip_101_whole, (5_796_838, 1_613_089, 26), processes, beside),
    ]
    broken = [
        is_broken_at("Kip279", kip_279(_THREE_REPLICAS), 11, processes),
        is_broken_at("Kip101", kip_101(_THREE_REPLICAS), 11, processes),
    ]
    return all(whole + broken)


def model(processes: int) -> bool:
    """Explore the model by releases; return whether each breaks after as many steps as known."""
    beside = rate_of_two_replicas()
    return all([is_as_known(*row, processes, beside) for row in _MODEL])


def rate_of_two_replicas() -> float:
    """Return and print how many states a second the published Kip279 has with two replicas."""
    outcome = explore(kip_279(_TWO_REPLICAS), most_states=_MOST_STATES)
    rate = outcome.distinct / outcome.seconds
    print(f"Kip279, published, 2 replicas, one process: {rate:,.0f} states/s")
    return rate


def is_as_known(
    release: str,
    replicas: int,
    wanted: str,
    skips: bool,
    steps: int | None,
    processes: int,
    beside: float,
) -> bool:
    """Explore one release; print the counts and return whether it breaks after so many steps."""
    bounds = _TWO_REPLICAS if replicas == 2 else _THREE_REPLICAS
    machine = Machine(
        generations=dict.fromkeys(range(replicas), generation_for(release)),
        records=bounds.max_records,
        leader_epoch=bounds.max_leader_epoch,
        log_size=bounds.log_size,
        skips_epochs=skips,
    )
    outcome = explore(
        system_of(machine, [wanted]), most_states=_MOST_STATES, processes=processes, progress=show
    )
    broken = len(outcome.violation.trace) if outcome.violation else None
    said = "holds" if outcome.is_complete else f"breaks after {broken} steps"
    rate = outcome.distinct / outcome.seconds / processes
    print(
        f"\r{release:9}{replicas} replicas, {wanted}{', epochs skipped' * skips}: {said}; "
        f"{outcome.distinct:,} states, depth {outcome.depth}, {outcome.seconds:.1f} s, {rate:,.0f} "
        f"states/s a process, {rate / beside:.2f} of the published; bodies {outcome.runs:,}"
    )
    return broken == steps and outcome.is_complete is (steps is None)


def is_as_counted(
    name: str, system: System, expected: tuple[int, int, int], processes: int, beside: float
) -> bool:
    """Explore a whole space; print the counts and return whether they are those."""
    outcome = explore(system, most_states=_MOST_STATES, processes=processes, progress=show)
    counts = (outcome.generated, outcome.distinct, outcome.depth)
    verdict = "as TLC" if counts == expected else f"TLC has {expected}"
    rate = outcome.distinct / outcome.seconds / processes
    print(
        f"\r{name}, generated, distinct, depth: {counts}, {outcome.seconds:.1f} s: {verdict}; "
        f"{rate:,.0f} states/s a process, {rate / beside:.2f} of two replicas'"
    )
    return counts == expected


def is_broken_at(name: str, system: System, depth: int, processes: int) -> bool:
    """Explore up to the violation; print its depth and return whether it is that one."""
    outcome = explore(system, most_states=_MOST_STATES, processes=processes)
    at = outcome.depth if outcome.violation else None
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
    parser.add_argument("--model", action="store_true", help="the model by releases instead")
    arguments = parser.parse_args()
    if arguments.model:
        is_good = model(arguments.processes)
    elif arguments.published:
        is_good = published(arguments.processes)
    else:
        compare(arguments.processes, arguments.rounds)
        is_good = True
    if not is_good:
        sys.exit(1)


if __name__ == "__main__":
    main()
