import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kchaos.checkers.acts import DiskError, HoldPoint
from kchaos.clusters.agent import Gate
from kchaos.clusters.agent.points import disk_points
from kchaos.clusters.disk import mounting
from kchaos.clusters.disk.mounting import Disk, remedy
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.system import leftovers
from kchaos.clusters.system.unmounting import unmount_below

READ = "import sys; print(len(open(sys.argv[1], 'rb').read()))"
FLUSH = "import os, sys; f = open(sys.argv[1], 'ab'); f.write(b'x'); f.flush(); os.fsync(f)"


@pytest.fixture
def gate() -> Iterator[Gate]:
    seen = Gate("127.0.0.1")
    yield seen
    seen.close()


def served(gate: Gate, folder: Path, *points: str) -> Disk:
    disk = Disk(directory=folder / "broker-1", points=points)
    disk.serve(1, gate.address, folder)
    (disk.mount / "t-0").mkdir()
    (disk.mount / "t-0" / "0.log").write_bytes(b"x" * 100)
    return disk


def run(code: str, file: Path) -> str:
    done = subprocess.run([sys.executable, "-c", code, file], capture_output=True, check=True)
    return done.stdout.decode().strip()


@pytest.mark.slow
@pytest.mark.needs("fuse")
def test_what_reads_without_the_page_cache_waits_each_time(gate: Gate, tmp_path: Path):
    disk = served(gate, tmp_path, "disk-read")
    act = HoldPoint(name="d", broker=1, point="disk-read", manner="delay", delay_ms=20)
    try:
        hold = gate.hold(act)
        assert run(READ, disk.mount / "t-0" / "0.log") == "100"
        first = len(hold.held)
        assert run(READ, disk.mount / "t-0" / "0.log") == "100"
    finally:
        disk.take_away()

    assert first > 0
    assert len(hold.held) > first
    assert hold.held[0].seen.startswith("(t-0,0.log) offset=0 size=")
    assert hold.held[0].partitions == (("t", 0),)


@pytest.mark.slow
@pytest.mark.needs("fuse")
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_writes_to_one_folder_fail_with_the_error_until_that_is_over(
    error: DiskError, gate: Gate, tmp_path: Path
):
    disk = served(gate, tmp_path, "disk-write")
    (disk.mount / "t-01").mkdir()
    other = disk.mount / "t-01" / "0.log"
    act = HoldPoint(name="d", broker=1, point="disk-write", manner="fail", error=error, path="t-0")
    try:
        hold = gate.hold(act)
        with pytest.raises(OSError, match=os.strerror(getattr(errno, error))):
            (disk.mount / "t-0" / "0.log").write_bytes(b"y")
        other.write_bytes(b"y")
        hold.release()
        (disk.mount / "t-0" / "0.log").write_bytes(b"z")
        left = [(disk.files / name / "0.log").read_bytes() for name in ("t-0", "t-01")]
    finally:
        disk.take_away()

    assert left == [b"z", b"y"]
    assert {(hit.fate, hit.partitions) for hit in hold.held} == {("failed", (("t", 0),))}


@pytest.mark.slow
@pytest.mark.needs("fuse")
def test_behind_the_page_cache_only_a_flush_comes_to_the_disk(gate: Gate, tmp_path: Path):
    disk = served(gate, tmp_path, "cached-disk-read", "cached-disk-flush")
    file = disk.mount / "t-0" / "0.log"
    try:
        for _ in range(3):
            run(READ, file)
            run(FLUSH, file)
        assert (disk.files / "t-0" / "0.log").read_bytes() == b"x" * 103
    finally:
        disk.take_away()

    # What was written from its first byte on was never read.
    assert gate.hits(1, "cached-disk-read") == 0
    assert gate.hits(1, "cached-disk-flush") == 3


@pytest.mark.slow
@pytest.mark.needs("fuse")
def test_what_is_only_in_the_page_cache_is_seen_in_the_files(gate: Gate, tmp_path: Path):
    disk = served(gate, tmp_path, "cached-disk-flush")
    try:
        with (disk.mount / "t-0" / "0.log").open("ab", buffering=0) as open_file:
            open_file.write(b"y")
            assert (disk.files / "t-0" / "0.log").read_bytes() == b"x" * 100 + b"y"
    finally:
        disk.take_away()


@pytest.mark.slow
@pytest.mark.needs("fuse")
def test_a_disk_whose_server_was_killed_is_unmounted(gate: Gate, tmp_path: Path):
    disk = served(gate, tmp_path, "disk-read")
    assert disk._process is not None
    disk._process.kill()
    with pytest.raises(OSError, match="not connected"):
        os.listdir(disk.mount)

    unmount_below(tmp_path)

    assert os.listdir(disk.mount) == []


@pytest.mark.needs("fuse")
def test_gc_unmounts_the_disk_of_a_dead_owner(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    folder = leftovers.running_directory() / "dead"
    folder.mkdir(parents=True)
    served(gate, folder, "disk-read")

    collected = leftovers.gc()

    assert collected.problems == ()
    assert [leftover.directory for leftover in collected.removed] == [folder]
    assert not folder.exists()


def test_a_machine_that_cannot_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mounting, "_DEVICE", Path("/dev/no-such-device"))
    assert "modprobe fuse" in remedy()

    monkeypatch.setattr(mounting, "_DEVICE", Path("/dev/null"))
    monkeypatch.setattr(mounting, "find_spec", lambda _name: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "pip install 'kchaos[disk]'" in remedy()

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(mounting, "mount_helper", lambda: None)
    assert "run as root, or install fusermount3" in remedy()


def test_a_disk_is_behind_the_page_cache_or_not():
    assert disk_points(["fetch-read", "disk-read", "disk-flush"]) == ("disk-read", "disk-flush")
    with pytest.raises(ReleaseError, match="take either the cached points or the others"):
        disk_points(["disk-read", "cached-disk-flush"])
