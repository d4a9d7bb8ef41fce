"""Runs of a cluster of two in which nothing went wrong, for tests that plant what does."""

from pathlib import Path
from typing import Any

from kchaos.checkers.results import Results
from tests.support.kafka_6361_runs import BOTH
from tests.support.run_builder import RunBuilder, values


def cluster_of_two(path: Path, **fields: Any) -> RunBuilder:
    """Brokers 0 and 1 are in sync, and nothing was written yet."""
    build = RunBuilder(path, **fields).begin_with(2)
    return build.topic("t", [0, 1]).state(0, 1, [0, 1])


def clean_run(path: Path, *, acks: int = -1, **fields: Any) -> RunBuilder:
    """A cluster of two that took eleven records, before its last snapshot."""

    build = cluster_of_two(path, **fields)
    return build.produce("both", 0, values("both", 11), acks=acks, base_offset=0)


def clean_snapshot(build: RunBuilder, **fields: Any) -> RunBuilder:
    logs = fields.pop("logs", {broker: [BOTH] for broker in (0, 1)})
    epochs = {broker: [(1, 0)] for broker in (0, 1)}
    return build.snapshot("final", logs, epochs=epochs, high_watermarks={0: 11, 1: 11}, **fields)


def unknown_of(results: Results) -> str:
    assert (results.conforms, results.safe, results.expected) == (None, None, False)
    assert results.unknown is not None
    return results.unknown
