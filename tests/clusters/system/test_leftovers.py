import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kchaos.checkers.folders import remove_abandoned
from kchaos.clusters.system import leftovers, unmounting
from kchaos.clusters.system.cache import STAGING, staging
from kchaos.clusters.system.leftovers import find_leftovers, gc, is_left, work_directory
from kchaos.clusters.system.processes import process_start_time, process_table, spawn

LEAVE = """
import os
from kchaos.clusters.system.cache import cache_directory, staging
from kchaos.clusters.system.leftovers import work_directory
with work_directory("left") as folder, staging(cache_directory() / {above!r}) as unfinished:
    print(folder, unfinished, sep="\\n", flush=True)
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    return tmp_path


def leave(above: str = ".") -> tuple[Path, Path]:
    """The work directory and the unfinished download of a process that was killed."""
    done = subprocess.run(
        [sys.executable, "-c", LEAVE.format(above=above)],
        capture_output=True,
        text=True,
        check=False,
    )
    folder, unfinished = done.stdout.splitlines()
    assert done.returncode == -9
    return Path(folder), Path(unfinished)


def test_only_what_dead_owners_left_is_removed():
    with work_directory("ours") as ours:
        left, _ = leave()
        assert (is_left(ours.name), is_left(left.name)) == (False, True)
        assert [leftover.directory for leftover in find_leftovers()] == [left]
        assert [leftover.directory for leftover in gc().removed] == [left]
        assert (ours.is_dir(), left.exists()) == (True, False)
        assert gc().removed == ()
    assert not ours.exists()


@pytest.mark.slow
@pytest.mark.parametrize("folder", [".", "java", "unpacked", "prepared-by-kchaos-compose"])
def test_what_a_dead_process_had_not_finished_is_removed_wherever_it_is(cache: Path, folder: str):
    _, theirs = leave(folder)
    with staging(cache / folder) as ours:
        assert theirs.parent == ours.parent
        assert ours.name.startswith(STAGING)
        gc()
        assert (ours.is_dir(), theirs.exists()) == (True, False)


@pytest.mark.slow
def test_a_process_that_outlived_its_owner_is_ended_and_one_with_its_pid_is_not(tmp_path: Path):
    children = [spawn(["sleep", "600"], log_file=tmp_path / "log") for _ in range(3)]
    left, _ = leave()
    born = [child.start_time for child in children]
    lines = [
        {"pid": children[0].pid, "start_time": born[0], "table": process_table()},
        {"pid": children[1].pid, "start_time": born[1] - 1, "table": process_table()},
        {"pid": children[2].pid, "start_time": born[2], "table": "another container's"},
    ]
    damage = ['{"pid": 1, "sta', "[]", "7", '{"pid": "x", "start_time": 1, "table": null}', "\xff"]
    (left / "processes.jsonl").write_text("\n".join([*map(json.dumps, lines), *damage]))

    assert find_leftovers()[0].processes == ((children[0].pid, children[0].start_time),)
    gc()

    assert process_start_time(children[0].pid) is None
    assert children[1].is_running
    assert children[2].is_running
    for child in children[1:]:
        child.kill()


@pytest.mark.slow
def test_one_that_cannot_be_removed_is_named_and_the_others_go(monkeypatch: pytest.MonkeyPatch):
    stuck, other = leave()[0], leave()[0]
    remove = remove_abandoned

    def refuse(folder: Path) -> bool:
        if folder == stuck:
            raise PermissionError(1, "Operation not permitted", str(folder / "file"))
        return remove(folder)

    monkeypatch.setattr(leftovers, "remove_abandoned", refuse)
    collected = gc()
    assert [leftover.directory for leftover in collected.removed] == [other]
    (problem,) = collected.problems
    assert str(stuck) in problem
    assert "Operation not permitted" in problem


def test_a_name_that_is_no_folders_becomes_one():
    with work_directory("../../a:b,c\nö" + "x" * 300) as folder:
        assert folder.parent == leftovers.running_directory()
        assert len(folder.name) < 80


def test_a_jvm_that_nobody_wrote_down_is_found_by_its_files(tmp_path: Path):
    """kchaos may be killed while a JVM is being made."""
    java = tmp_path / "java"
    shutil.copy("/bin/sleep", java)
    left, _ = leave()
    with (left / "server.log").open("w") as log, (tmp_path / "ours.log").open("w") as other:
        jvm = subprocess.Popen([java, "300"], stdout=log)
        ours = subprocess.Popen([java, "300"], stdout=other)
    try:
        removed = gc().removed
        assert [pid for leftover in removed for pid, _ in leftover.processes] == [jvm.pid]
        assert jvm.wait(30) == -9
        assert ours.poll() is None
    finally:
        ours.kill()
        ours.wait()


LINE = "36 35 98:0 / {place} rw - {kind} {source} rw\n"


def test_only_what_kchaos_mounts_below_the_folder_is_taken_away_the_innermost_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    table, folder = tmp_path / "mountinfo", tmp_path / "work"
    mounts = [
        (folder, "fuse", "kchaos"),
        (folder / "broker-1" / "data", "fuse", "kchaos"),
        (folder / "theirs", "ext4", "/dev/sda1"),
        (folder / "sshfs", "fuse", "somebody"),
        (tmp_path / "work-too", "fuse", "kchaos"),
    ]
    table.write_text("".join(LINE.format(place=p, kind=k, source=s) for p, k, s in mounts))
    monkeypatch.setattr(unmounting, "_MOUNTS", table)
    taken: list[str] = []

    def take(mount: str) -> None:
        taken.append(mount)
        kept = [line for line in table.read_text().splitlines(True) if f" {mount} " not in line]
        table.write_text("".join(kept))

    monkeypatch.setattr(unmounting, "_unmount", take)

    unmounting.unmount_below(folder)

    assert taken == [str(folder / "broker-1" / "data"), str(folder)]
