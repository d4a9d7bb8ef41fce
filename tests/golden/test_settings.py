"""Runs with what people set and ask for: explained, and not by a model that does not follow it.

Each was played on real brokers by a case of `tests/cases`, and stored as the runs at borders are:
`python -m tests.golden.make --setting NAME RUN`.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.cross_checks.copies import copy_disagreements
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model import follow
from kchaos.checkers.model.broker import leader, log_start, process
from kchaos.checkers.model.controller import outboxes
from kchaos.checkers.model.follow import matching
from kchaos.checkers.model.state import world
from tests.golden.stored import SETTINGS, expected_of, recorded, unpacked

pytestmark = pytest.mark.slow

Replaced = tuple[Any, str, Callable[..., Any]]
RUNS: Mapping[str, Replaced] = {
    "fetchers-1.1.1": (world, "fetcher_of", lambda *_: 0),
    "fetchers-3.9.1": (world, "fetcher_of", lambda *_: 0),
    "log-directories-1.1.1": (process, "writes_file_of", lambda *_: True),
    "log-directory-failed-1.1.1": (process, "fail_log_directory", lambda *_: None),
    "log-directory-failed-3.9.1": (process, "fail_log_directory", lambda *_: None),
    "retention-by-size-1.1.1": (
        log_start,
        "furthest",
        lambda _world, _broker, _about, replica: replica.log.log_start_offset,
    ),
    "response-limits-1.1.1": (matching, "_is_full", lambda *_: False),
    "response-limits-3.9.1": (matching, "_is_full", lambda *_: False),
    "topic-deleted-1.1.1": (outboxes, "topic_deleted", lambda *_: None),
    "topic-deleted-3.9.1": (outboxes, "topic_deleted", lambda *_: None),
    "throttled-1.1.1": (leader, "may_throttle", lambda *_: False),
    "throttled-3.9.1": (leader, "may_throttle", lambda *_: False),
}
"""What a model without it does otherwise: a module or class, a function of it, and another one."""


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_explained_only_by_a_model_that_follows_its_setting(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    """That the model explains it is said of the run by `test_golden`."""
    record = recorded(name, runs=SETTINGS)

    monkeypatch.setattr(*RUNS[name])
    other = follow(record)

    assert expected_of(name, runs=SETTINGS)["conforms"] is True
    assert other.limit == ""
    assert other.emptied_by is not None


def test_a_log_directory_that_a_snapshot_lacks_or_has_too_many_is_named(tmp_path: Path):
    run = unpacked("log-directories-1.1.1", tmp_path, runs=SETTINGS)
    assert not list(copy_disagreements(RunEvidence(run)))

    final = run.path / "snapshots/final"
    (final / "broker-1.1").rename(final / "broker-1.2")

    said = list(copy_disagreements(RunEvidence(run)))
    assert "snapshot 'final': broker-1.1 is missing" in said
    assert "snapshot 'final': broker-1.2 is there and named nowhere" in said


def test_every_stored_run_with_a_setting_is_looked_at():
    assert {folder.name for folder in SETTINGS.iterdir()} == {*RUNS}
