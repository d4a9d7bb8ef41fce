"""Plays of CI on real brokers.

`PLAYED` lists them. Each entry of the catalogue is played where its bug shows, or is judged from a
stored run (`STORED_ENTRIES`). The entry of a seed (`BORDERS`), a document that the catalogue was
begun with, is played on both sides of its border. A case is played if no run of it is stored, or if
it has a step or a fault that nothing else has. What a test performs on a cluster by itself needs no
play (`PERFORMED_BY_TESTS`). The rest is played by `kchaos measure` and `make cases`. Few releases
are started only to see whether they do (`started_by_tests`); `make releases` starts each.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kchaos.clusters.releases import LINES
from kchaos.faults import FAULTS
from kchaos.harness.catalogue import CATALOGUE, entry_named, scenario_of
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.steps.scenario_steps import STEPS
from tests.cases.plays import CASES, scenario_of_case
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
    **{folder.name: folder for folder in sorted(stored.ENTRIES.iterdir())},
}
"""Entries whose stored run CI judges in place of a play (`python -m tests.golden.make --entry`)."""

PERFORMED_BY_TESTS: Mapping[str, str] = {
    "AskAs": "harness/test_steps_on_clusters.py",
    "AwaitAnswer": "harness/test_steps_on_clusters.py",
    "AwaitHighWatermarkKept": "harness/test_steps_on_clusters.py",
    "AwaitLogStart": "harness/test_steps_on_clusters.py",
    "AwaitOffsets": "harness/test_steps_on_clusters.py",
    "AwaitQuiet": "harness/test_quiet.py",
    "ConsumeFrom": "harness/test_steps_on_clusters.py",
    "DeleteRecords": "harness/test_steps_on_clusters.py",
    "DeleteTopic": "harness/test_steps_on_clusters.py",
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


def _parts(value: Any) -> Iterator[object]:
    """The value and all values that it is made of: a step may hold a fault or another step."""
    yield value
    for name in _field_names(value.__class__):
        yield from _parts(getattr(value, name))


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()


def showing(name: str) -> list[Cell]:
    """Return the plays of an entry in which its bug shows; all of them if it shows nowhere."""
    cells = [cell for cell in all_cells() if cell[0] == name]
    return [cell for cell in cells if not is_green(cell)] or cells


PLAYED: tuple[Cell, ...] = (
    ("KAFKA-6361", "n15", "1.1.1"),
    ("KAFKA-6361", "n15", "2.0.1"),
    ("KIP-380-stale-leader-and-isr", "leads-again", "2.1.1"),
    ("KIP-380-stale-leader-and-isr", "leads-again", "2.2.2"),
    ("KIP-405-3", "never-uploaded", "3.6.2"),
    ("KIP-405-3", "uploaded", "3.9.1"),
    ("KAFKA-7601-down-conversion", "downgrade", "2.8.2"),
    ("KAFKA-7601-down-conversion", "downgrade", "3.0.2"),
    ("KIP-966-last-replica", "without-eligible-replicas", "4.1.2"),
    ("KAFKA-15489", "cut-off", "3.6.2"),
    ("KIP-903", "rebooted", "3.4.1"),
    ("KAFKA-9144", "rolled", "2.2.2"),
    ("KAFKA-20961", "idle", "4.1.2"),
    ("KAFKA-18723", "half-sent", "4.0.0"),
    ("KIP-101-1", "read", "0.10.2.2"),
    ("KIP-279-errors", "forged", "2.0.1"),
    ("KIP-501-slow-reads", "held-before-the-lock", "3.9.1"),
    ("KIP-890", "late", "1.1.1"),
    ("KIP-501-long-hang", "inside-the-log-read", "4.1.2"),
    ("KAFKA-7235", "own-protocol", "2.1.1"),
    ("KAFKA-15583", "with-kraft", "3.6.2"),
    ("KAFKA-19996", "with-kraft", "3.6.2"),
    ("KAFKA-19850", "joins-by-itself", "4.4.0"),
    ("KIP-279-compaction", "not-rebuilt", "3.9.1"),
    ("KAFKA-6119", "slow", "1.1.1"),
    ("", "administered", "2.8.2"),
    ("", "replication_throttled", "1.1.1"),
    ("", "lost_epochs", "1.1.1"),
    ("", "disk_fails", "0.10.2.2"),
    ("", "log_directory_failed", "1.1.1"),
)
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
IN_CONTAINERS = tuple(
    next(cell for cell in PLAYED if cell[0] == name and not is_green(cell)) for name in BOTH_DRIVERS
)


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
