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


@pytest.mark.parametrize(("held", "is_told"), [((), False), (("a thread",), True)])
def test_a_name_that_is_used_again_has_the_threads_of_each_hold(
    held: tuple[str, ...], is_told: bool, tmp_path: Path
) -> None:
    run = RunDirectory(tmp_path / "copy")
    shutil.copytree(unpacked("points-2.8.2", tmp_path).path, run.path)
    for name, key in (("actions.jsonl", "action"), ("observations.jsonl", "")):
        file = run.path / name
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        last = lines[-1]["time"]
        again = []
        for line in lines:
            said = line[key] if key else line
            kinds = ("HoldPoint", "ReleasePoint", "released")
            if said.get("name") == HOLD and (said.get("event") or said.get("kind")) in kinds:
                last += 1
                moved = line | {"time": last} | ({"began": last} if key else {"held": [*held]})
                again.append(moved)
        assert again
        file.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *again]))
    told = [said for said in point_disagreements(RunEvidence(run)) if "threads, and" in said]
    assert bool(told) == is_told
