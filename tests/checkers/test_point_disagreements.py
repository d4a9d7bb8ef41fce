"""Threads that are held and threads that are delayed, compared with the act that lets them on."""

import json
import shutil
from pathlib import Path

import pytest

from kchaos.checkers.cross_checks.points import point_disagreements
from kchaos.checkers.evidence.hits import HITS
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.run_directory import RunDirectory
from tests.golden.stored import unpacked

HOLD = "followers-read-1"


@pytest.mark.parametrize(
    ("fate", "is_told"), [("held", True), ("delayed", False)], ids=["held", "delayed"]
)
def test_only_a_delayed_thread_goes_on_before_its_release(
    fate: str, is_told: bool, tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path / "copy")
    shutil.copytree(unpacked("points-2.8.2", tmp_path).path, run.path)
    file = run.path / HITS
    hits = [json.loads(line) for line in file.read_text().splitlines()]
    began = {hit["number"]: hit for hit in hits if hit["hold"] == HOLD and hit["fate"] == "held"}
    assert began
    for hit in hits:
        if hit["hold"] == HOLD and hit["fate"] == "released":
            hit["time"] = began[hit["number"]]["time"] + 1
    for hit in began.values():
        hit["fate"] = fate
    file.write_text("".join(json.dumps(hit) + "\n" for hit in hits))
    told = [
        sentence
        for sentence in point_disagreements(RunEvidence(run))
        if f"before {HOLD!r} was released" in sentence
    ]
    assert len(told) == (len(began) if is_told else 0)
