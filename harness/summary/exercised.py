"""Coverage of a night: faults, pairs that met, occasions, decision points, rules of the model.

This is simulation coverage, as CCF counts it of its simulated traces (Howard and others, 2024).
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from kchaos.checkers.decision_points import POINTS
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.releases.asked import watching_rules
from kchaos.checkers.occasions import OCCASIONS
from kchaos.checkers.record import predict_run
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.run_line import RunLine
from kchaos.harness.summary.rates import mix_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercised:
    """Counts of what was exercised.

    Attributes:
        runs: Of how many runs.
        faults: By kind: in how many runs, and how often in all.
        pairs: By two kinds, in order: in how many runs both acted at the same time.
        unmet: How many pairs of the kinds that are there never met.
        occasions: By each kind of `checkers.occasions`: in how many runs, and how often in all.
        points: By decision point of the model: in how many runs; those of `POINTS` without one too.
        rules: By rule: in how many runs it decided something, and in how many it was in force.
    """

    runs: int
    faults: Mapping[str, tuple[int, int]]
    pairs: Mapping[tuple[str, str], int]
    unmet: int
    occasions: Mapping[str, tuple[int, int]]
    points: Mapping[str, int]
    rules: Mapping[str, tuple[int, int]]


def exercised_by(lines: Sequence[RunLine]) -> Exercised:
    """Coverage of a night's runs together; the frequent ones first."""
    in_runs, times, pairs = Counter[str](), Counter[str](), Counter[tuple[str, str]]()
    asked, in_force = Counter[str](), Counter[str]()
    had_by, had = Counter[str](), Counter[str]()
    reached = Counter(dict.fromkeys(POINTS, 0))
    for line in lines:
        is_walk = "walks" in mix_of(line)
        faults = [(_kind(name, is_walk), begin, end) for name, begin, end in line.faults]
        times.update(kind for kind, _, _ in faults)
        in_runs.update({kind for kind, _, _ in faults})
        pairs.update(_met(faults))
        had_by.update([*line.occasions])
        had.update(line.occasions)
        reached.update(line.points)
        rules = line.rules or {}
        asked.update(rules.get("asked", ()))
        in_force.update(rules.get("in_force", ()))
    possible = len(in_runs) * (len(in_runs) + 1) // 2
    return Exercised(
        runs=len(lines),
        faults={kind: (count, times[kind]) for kind, count in _frequent_first(in_runs)},
        pairs=dict(_frequent_first(pairs)),
        unmet=possible - len(pairs),
        occasions={kind: (had_by[kind], had[kind]) for kind in OCCASIONS},
        points=dict(_frequent_first(reached)),
        rules={rule: (asked[rule], count) for rule, count in _frequent_first(in_force)},
    )


def rules_of(path: Path) -> dict[str, tuple[str, ...]]:
    """Return the rules that a judged run came to (`asked`) and those in force; it is followed."""
    with watching_rules() as watched:
        predict_run(RunEvidence(RunDirectory.open(path)))
    return {"asked": (*sorted(watched.rules),), "in_force": (*sorted(watched.in_force),)}


def _kind(fault: str, is_walk: bool) -> str:
    """Return the kind in a drawn fault's name, or another fault's class.

    `is_walk` is for a walk's faults, whose names are those of the broker.
    """
    name, _, given = fault.partition(" ")
    drawn = None if is_walk else re.fullmatch(r"([a-z-]+)-\d+", given)
    return drawn[1] if drawn else name


def _met(faults: Sequence[tuple[str, float, float]]) -> set[tuple[str, str]]:
    return {
        (min(fault[0], other[0]), max(fault[0], other[0]))
        for fault, other in combinations(faults, 2)
        if fault[1] <= other[2] and other[1] <= fault[2]
    }


def _frequent_first(counts: Counter[Any]) -> list[tuple[Any, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))
