"""A JSON value of another type, wherever it stands, is refused by name and crashes no checker."""

import random
import shutil
from pathlib import Path

import pytest

from kchaos.checkers.run_directory import RunDirectory
from tests.golden.stored import KRAFT, unpacked
from tests.golden.test_kraft import LAST
from tests.mutants.fuzz import Fuzzed, fuzz_types
from tests.support.examples import examples

pytestmark = pytest.mark.slow

_PLACES = {
    "2.8.2": (
        *("run.json", "scenario.json", "outcome.json", "actions.jsonl", "history.jsonl"),
        *("observations.jsonl", "links.jsonl", "manifest.json", "snapshots/*/snapshot.json"),
    ),
    "points-2.8.2": ("hits.jsonl",),
    "tiered-3.9.1": ("tier.jsonl",),
    LAST: ("observations.jsonl", "actions.jsonl"),
}


@pytest.mark.parametrize(
    ("golden", "pattern"), [(run, name) for run, names in _PLACES.items() for name in names]
)
def test_a_value_of_another_type_crashes_no_checker(
    golden: str, pattern: str, tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path / "copy")
    shutil.copytree(
        unpacked(golden, tmp_path, runs=KRAFT if golden == LAST else None).path, run.path
    )
    fuzzed = Fuzzed()
    number = examples(30)
    fuzz_types(fuzzed, run, pattern, number, random.Random(pattern))
    assert fuzzed.problems == []
    assert fuzzed.numbers == {f"types {pattern}": number}
