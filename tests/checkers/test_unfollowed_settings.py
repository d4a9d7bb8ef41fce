"""A setting that the model does not follow leaves conformance unknown, and safety judged."""

import json
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.results import Results
from tests.support.clean_runs import clean_run, clean_snapshot
from tests.support.run_builder import RunBuilder


def judged(path: Path, *znodes: tuple[str, dict[str, str]], **properties: str) -> Results:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    build: RunBuilder = clean_snapshot(clean_run(path, properties=given))
    for znode, settings in znodes:
        data = json.dumps({"version": 1, "config": settings}).encode()
        build._put(znode, data, 0x77)
    return judge(build.seal())


def test_a_run_without_such_settings_conforms(tmp_path: Path) -> None:
    results = judged(tmp_path / "run", num_io_threads="3")
    assert (results.conforms, results.safe) == (True, True), results.unknown


@pytest.mark.parametrize(
    ("znodes", "properties", "told"),
    [
        (
            [],
            {"log_preallocate": "true"},
            "every broker was given log.preallocate=true, which the model does not follow",
        ),
        (
            [("/config/brokers/1", {"log.preallocate": "true"})],
            {},
            "broker 1 was given log.preallocate=true",
        ),
        (
            [("/config/brokers/<default>", {"min.insync.replicas": "1"})],
            {},
            "which the model does not follow: it takes that setting from a broker's start",
        ),
        (
            [("/config/brokers/<default>", {"log.retention.ms": "1000"})],
            {},
            "brokers may delete records of t, and without links nobody knows when they did",
        ),
        (
            [("/config/topics/t", {"retention.ms": "1000"})],
            {},
            "brokers may delete records of t, and without links nobody knows when they did",
        ),
        ([("/config/topics/t", {"preallocate": "true"})], {}, "topic t was given preallocate=true"),
    ],
    ids=[
        "in the scenario",
        "while the broker ran",
        "min.insync.replicas while all ran",
        "retention while all ran",
        "retention of a topic",
        "of a topic",
    ],
)
def test_one_with_such_a_setting_is_unknown_by_name(
    znodes: list[Any], properties: dict[str, str], told: str, tmp_path: Path
) -> None:
    results = judged(tmp_path / "run", *znodes, **properties)
    assert results.conforms is None
    assert results.safe is True
    assert told in str(results.unknown)


def test_what_a_broker_is_rolled_with_counts_too(tmp_path: Path) -> None:
    fault = {"fault": "RollBroker", "broker": 0, "properties": [["log.preallocate", "true"]]}
    build = clean_snapshot(clean_run(tmp_path / "run"))
    build.steps.append({"step": "IfPossible", "do": {"step": "Inject", "fault": fault}})
    results = judge(build.seal())
    assert results.conforms is None
    assert "broker 0 was given log.preallocate=true" in str(results.unknown)
