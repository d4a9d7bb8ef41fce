from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusters.cache import STAGING
from clusters.leftovers import find_leftovers, gc, new_work_directory
from clusters.processes import process_start_time, spawn

LEAVE = """
import os, sys
from clusters.leftovers import new_work_directory
print(new_work_directory("left"), os.getpid(), flush=True)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    return tmp_path


def leave() -> tuple[Path, int]:
    said = subprocess.run(
        [sys.executable, "-c", LEAVE], capture_output=True, text=True, check=True
    ).stdout.split()
    return Path(said[0]), int(said[1])


def test_only_what_dead_owners_left_is_removed(cache: Path) -> None:
    ours = new_work_directory("ours")
    foreign = cache / "work" / "not-ours"
    foreign.mkdir()
    left, owner = leave()

    assert [(found.directory, found.owner_pid) for found in gc()] == [(left, owner)]
    assert (ours.is_dir(), foreign.is_dir(), left.exists()) == (True, True, False)
    assert gc() == []


@pytest.mark.parametrize("folder", [".", "java", "unpacked", "prepared-by-kchaos-compose"])
def test_what_a_dead_process_had_not_finished_is_removed_wherever_it_is(
    cache: Path, folder: str
) -> None:
    _, dead = leave()
    ours, theirs = (cache / folder / f"{STAGING}{pid}-a1" for pid in (os.getpid(), dead))
    ours.mkdir(parents=True)
    theirs.mkdir()
    gc()
    assert (ours.is_dir(), theirs.exists()) == (True, False)


def test_a_process_that_outlived_its_owner_is_ended_and_one_with_its_pid_is_not(
    tmp_path: Path,
) -> None:
    children = [spawn(["sleep", "600"], log_file=tmp_path / "log") for _ in range(2)]
    left, _ = leave()
    lines = [
        json.dumps({"pid": children[0].pid, "start_time": children[0].start_time}),
        json.dumps({"pid": children[1].pid, "start_time": children[1].start_time - 1}),
        '{"pid": 1, "sta',
    ]
    (left / "processes.jsonl").write_text("\n".join(lines))

    assert find_leftovers()[0].processes == ((children[0].pid, children[0].start_time),)
    gc()

    assert process_start_time(children[0].pid) is None
    assert children[1].is_running
    children[1].kill()
