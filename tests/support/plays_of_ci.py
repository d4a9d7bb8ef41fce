"""Plays of CI on real brokers, chosen by what each exercises.

Each entry of the catalogue is played once, where its bug shows if it does: in the case and on the
release that exercise most of what no other play does. Where several would do, it is played on a
release that tests start anyway, or else on the last that has it. An entry with a stored run as it
stands is judged from that.
`BORDERS` has an entry of each seed, a document that the catalogue was begun with, that is played on
both sides of its border. A case is played if no run of it is stored. What these do not exercise of
the steps and faults that entries and cases have is added, the plays with most of it first. What a
test performs on a cluster by itself needs no play (`PERFORMED_BY_TESTS`). The rest is played by
`kchaos measure` and `make cases`. Few releases are started only to see whether they do
(`started_by_tests`); `make releases` starts each.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.model.releases.versions import parse_version
from kchaos.clusters.releases import LINES
from kchaos.faults import FAULTS
from kchaos.harness.catalogue import CATALOGUE, entry_named, scenario_of
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.steps.scenario_steps import STEPS
from tests.cases.plays import CASES, STORED_CASES, newest_release, scenario_of_case
from tests.golden import stored

SEEDS = ("KIP-279", "KIP-380", "KIP-405", "KIP-501", "KAFKA-7601")
BORDERS: Mapping[str, str] = {
    "KIP-279": "KAFKA-6361",
    "KIP-380": "KIP-380-stale-leader-and-isr",
    "KIP-405": "KIP-405-3",
    "KAFKA-7601": "KAFKA-7601-down-conversion",
}
"""The entry of each seed. No release has what KIP-501 proposes: its greens are other entries."""

BOTH_DRIVERS = ("KAFKA-6361", "KIP-966-last-replica")
"""Entries whose bug is shown in containers too: the metadata is in ZooKeeper, and in KRaft's
metadata log, which controllers and brokers have.

Each has a step or a fault that the other lacks.
"""

STORED_ENTRIES: Mapping[str, Path] = {
    "KIP-380-stale-stop-replica": stored.OTHERS / "late-stop-replica-2.1.1",
    "KIP-380-stale-update-metadata": stored.OTHERS / "late-update-metadata-2.1.1",
    "KIP-405-1": stored.OTHERS / "built-upon-the-tier-3.6.2",
    "KIP-405-4": stored.OTHERS / "misled-by-the-tier-3.6.2",
    "KIP-501-min-isr": stored.OTHERS / "points-2.8.2",
    **{folder.name: folder for folder in sorted(stored.ENTRIES.iterdir())},
}
"""Entries whose stored run CI judges in place of a play (`python -m tests.golden.make --entry`)."""

PERFORMED_BY_TESTS: Mapping[str, str] = {
    "AskAs": "harness/test_asking.py",
    "AwaitAnswer": "harness/test_steps_on_clusters.py",
    "AwaitHighWatermarkKept": "harness/test_steps_on_clusters.py",
    "AwaitLogStart": "harness/test_deleting_steps.py",
    "AwaitOffsets": "harness/test_steps_on_clusters.py",
    "AwaitQuiet": "harness/test_quiet.py",
    "ConsumeFrom": "harness/test_asking.py",
    "DeleteRecords": "harness/test_deleting_steps.py",
    "DeleteTopic": "harness/test_deleting_steps.py",
    "FormatDowngrade": "faults/test_configuration_faults.py",
    "HoldController": "faults/test_jvm_faults.py",
    "HoldPoint": "faults/test_jvm_faults.py",
    "Reassign": "harness/test_steps_on_clusters.py",
    "SetLogLevel": "harness/test_steps_on_clusters.py",
    "WriteWhereTold": "harness/test_steps_on_clusters.py",
}
"""Steps and faults that no play has to go through, and the file of the test that performs each."""

STARTED_WITH_KRAFT: tuple[str, ...] = (
    *("3.3.2", "3.6.2", "3.9.1"),
    *(line.known[-1] for line in LINES if line.modes == ("kraft",)),
)
"""`make releases` starts each, as it does `KNOWN_RELEASES` with ZooKeeper; CI the first and the
last."""

SHARED = ("0.10.2.2", "1.1.1", "2.1.1", "2.2.2", "2.8.2", "3.9.1")
"""Releases with ZooKeeper whose cluster several tests share, so that one more test starts none."""

Cell = tuple[str, str, str]
"""The entry, its case and the release; or "" and a case of `tests/cases` with its release."""


def sides_of(name: str) -> tuple[tuple[str, str] | None, tuple[str, str] | None]:
    """Return the cases and releases that show an entry: the last red and the first green after it.

    They are of the first case that has both. Without such a case, red and green are of the first
    case that has them, each on its newest release; None if there is none.
    """
    entry = entry_named(name)
    red: dict[str, list[str]] = {}
    green: dict[str, list[str]] = {}
    for case, release in sorted(entry.expectations, key=lambda cell: parse_version(cell[1])):
        if case not in entry.measured_only:
            end = green if entry.expectations[case, release].is_green else red
            end.setdefault(case, []).append(release)
    for case, _ in entry.expectations:
        if case in red and case in green:
            last = red[case][-1]
            after = [each for each in green[case] if parse_version(each) > parse_version(last)]
            return (case, last), (case, (after or green[case][-1:])[0])
    return _newest_of_first_case(entry.expectations, red), _newest_of_first_case(
        entry.expectations, green
    )


def _newest_of_first_case(
    cells: Iterable[tuple[str, str]], releases: Mapping[str, list[str]]
) -> tuple[str, str] | None:
    return next(((case, releases[case][-1]) for case, _ in cells if case in releases), None)


def all_cells() -> list[Cell]:
    """Return what can be played of entries and cases, without what is measured alone."""
    of_cases = [("", name, release) for name, case in CASES.items() for release in case.RELEASES]
    return [*_of_entries(is_measured_only=False), *of_cases]


def measured_cells() -> list[Cell]:
    """Return the long plays, which `kchaos measure` has and no test run."""
    return _of_entries(is_measured_only=True)


def _of_entries(*, is_measured_only: bool) -> list[Cell]:
    return [
        (name, case, release)
        for name, entry in CATALOGUE.items()
        for case, release in entry.expectations
        if (case in entry.measured_only) is is_measured_only
    ]


@cache
def scenario_of_cell(cell: Cell) -> Scenario:
    """Return what is played; it is made once, and asked for many times."""
    entry, case, release = cell
    return (
        scenario_of(entry_named(entry), case, release) if entry else scenario_of_case(case, release)
    )


def exercised(scenario: Scenario) -> set[str]:
    """Return the names of the steps and the faults that a play goes through."""
    kinds = {type(part).__name__ for step in scenario.steps for part in _parts(step)}
    return kinds & {*STEPS, *FAULTS}


def releases_in(cells: Iterable[Cell]) -> set[tuple[str, bool]]:
    """Return the releases that plays start, each with whether its cluster is one of KRaft."""
    clusters = [scenario_of_cell(cell).cluster for cell in cells]
    return {(broker.kafka, cluster.is_kraft) for cluster in clusters for broker in cluster.brokers}


def _parts(value: Any) -> Iterator[object]:
    """The value and all values that it is made of: a step may hold a fault or another step."""
    yield value
    for name in _field_names(value.__class__):
        yield from _parts(getattr(value, name))


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def _chosen() -> list[Cell]:
    cells = {cell: exercised(scenario_of_cell(cell)) for cell in all_cells()}
    chosen: dict[Cell, None] = {}
    for name in (*BORDERS.values(), *BOTH_DRIVERS):
        sides = sides_of(name)[: 2 if name in BORDERS.values() else 1]
        chosen.update({(name, *side): None for side in sides if side})
    chosen.update(
        {("", name, newest_release(name)): None for name in CASES if name not in STORED_CASES}
    )
    missing = set().union(*cells.values()) - {*PERFORMED_BY_TESTS}
    missing.difference_update(*(cells[cell] for cell in chosen))

    # The first cluster of a release takes the processor as long as some further ones.
    at_hand = {(release, False) for release in SHARED} | releases_in(chosen)

    def choose(candidates: Iterable[Cell]) -> None:
        most = max(
            candidates,
            key=lambda cell: (len(cells[cell] & missing), releases_in([cell]) <= at_hand),
        )
        chosen[most] = None
        missing.difference_update(cells[most])
        at_hand.update(releases_in([most]))

    # Those with the fewest plays to choose from come first.
    begun = {*STORED_ENTRIES, *(name for name, _, _ in chosen)}
    of_others = [candidates_for(name) for name in CATALOGUE if name not in begun]
    for candidates in sorted(filter(None, of_others), key=len):
        choose(candidates)
    # Of those with equally many the shortest is played.
    shortest_first = sorted(cells, key=lambda cell: len(scenario_of_cell(cell).steps))
    while missing:
        choose(shortest_first)
    return list(chosen)


def candidates_for(name: str) -> list[Cell]:
    """What may stand for an entry: where its bug shows, or else all, the last release first."""
    entry = entry_named(name)
    short = [cell for cell in entry.expectations if cell[0] not in entry.measured_only]
    red = [cell for cell in short if not entry.expectations[cell].is_green]
    first = [side for side in sides_of(name) if side][:1]
    return [(name, *side) for side in dict.fromkeys([*first, *(red or short)])]


PLAYED: tuple[Cell, ...] = tuple(_chosen())
ENTRIES_PLAYED = tuple(cell for cell in PLAYED if cell[0])
CASES_PLAYED = tuple((case, release) for entry, case, release in PLAYED if not entry)


def is_green(cell: Cell) -> bool:
    """Return whether the bug of an entry does not show in a play."""
    name, case, release = cell
    return entry_named(name).expectations[case, release].is_green


def plays_of_seed(seed: str) -> list[Cell]:
    """Return the plays of the entries that are made of a seed."""
    return [
        cell for cell in ENTRIES_PLAYED if cell[0].startswith(seed) or cell[0] == BORDERS.get(seed)
    ]


ON_NEW_JVMS = frozenset(
    next(cell for cell in plays_of_seed(seed) if is_green(cell) is green)
    for seed in SEEDS
    for green in (True, False)
)
"""A red and a green play of each seed, by the driver that a user has who chooses none."""
IN_CONTAINERS = tuple((name, *side) for name in BOTH_DRIVERS for side in sides_of(name)[:1] if side)


def started_by_tests(releases: Iterable[str], *, is_kraft: bool = False) -> list[str]:
    """Return the releases that tests start without a play; all, if that is asked for.

    With ZooKeeper they are those of `SHARED`, with KRaft the oldest and the newest.
    """
    if os.environ.get("KCHAOS_ALL_RELEASES"):
        return list(releases)
    first, *_, last = STARTED_WITH_KRAFT
    return [each for each in releases if each in ((first, last) if is_kraft else SHARED)]


def in_one_process(cell: Cell) -> Sequence[pytest.MarkDecorator]:
    """Return the mark for tests of a cell that use each other's play, if there are several."""
    return [pytest.mark.xdist_group("-".join(cell))] if cell in IN_CONTAINERS else []
