"""A clock that was put during a run: links tell it by the time that only goes on."""

import json
from pathlib import Path

import pytest

from kchaos.checkers.cross_checks.times import time_disagreements
from kchaos.checkers.evidence.run import RunEvidence
from tests.golden.stored import unpacked


@pytest.mark.parametrize(
    ("by_s", "is_told"), [(-1.0, True), (-0.1, True), (-0.01, False), (0.0, False), (1.0, False)]
)
def test_a_clock_that_was_put_back_is_told(by_s: float, is_told: bool, tmp_path: Path) -> None:
    run = unpacked("3.9.1", tmp_path)
    file = run.path / "links.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines[len(lines) // 2 :]:
        line["wall_time_s"] += by_s
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    said = [text for text in time_disagreements(RunEvidence(run)) if "went back" in text]

    assert bool(said) is is_told


@pytest.mark.parametrize(("stood_s", "agrees"), [(0.0, False), (1.5, False), (2.5, True)])
def test_a_zxid_may_be_older_than_its_time_while_the_machine_stood_still(
    stood_s: float, agrees: bool, tmp_path: Path
) -> None:
    run = unpacked("3.9.1", tmp_path)
    file = run.path / "actions.jsonl"
    *others, last = [json.loads(line) for line in file.read_text().splitlines()]
    *_, read, change = sorted(RunEvidence(run).znode_changes, key=lambda each: each.zxid)
    changed = change.time_ms / 1000
    began = changed + 3
    lines = [*others, last | {"zxid": read.zxid, "began": began, "time": began}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    times = [{"began": changed, "ended": began, "seconds": stood_s}]
    with (run.path / "observations.jsonl").open("a") as observations:
        seen = {"time": began, "step": -1, "kind": "stood-still", "times": times}
        observations.write(json.dumps(seen) + "\n")

    said = [text for text in time_disagreements(RunEvidence(run)) if "actions.jsonl" in text]

    assert (said == []) is agrees
