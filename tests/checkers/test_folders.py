"""Folders that are held by a lock, and paths that a JVM can be given."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kchaos.checkers.folders import Hold, held, is_abandoned, is_held, plain, remove_abandoned

HOLD = """
import os, sys
from pathlib import Path
from kchaos.checkers.folders import held
with held(Path(sys.argv[1]), "x-") as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    {then}
"""


def _left_by_a_killed_process(above: Path) -> Path:
    code = HOLD.format(then="os.kill(os.getpid(), 9)")
    done = subprocess.run(
        [sys.executable, "-c", code, str(above)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -9
    return Path(done.stdout.strip())


def test_a_held_folder_is_in_use_and_goes_with_the_block(tmp_path: Path):
    with held(tmp_path / "new", "x-") as folder:
        assert folder.parent == tmp_path / "new"
        assert not is_abandoned(folder)
        assert not remove_abandoned(folder)
        assert folder.is_dir()
    assert not folder.exists()


def test_a_folder_whose_owner_was_killed_is_abandoned_and_removed(tmp_path: Path):
    folder = _left_by_a_killed_process(tmp_path)
    assert is_abandoned(folder)
    assert remove_abandoned(folder)
    assert not folder.exists()
    assert not remove_abandoned(folder)


def test_a_folders_lock_is_held_until_it_is_let_go_and_asking_takes_it_from_nobody(tmp_path: Path):
    hold = Hold()
    assert not is_held(tmp_path)
    hold.take(tmp_path)
    # Another one does not get it, and lets go of nothing.
    other = Hold()
    other.take(tmp_path)
    other.let_go(tmp_path)
    assert is_held(tmp_path)
    hold.let_go(tmp_path)
    hold.let_go(tmp_path)
    assert not is_held(tmp_path)
    assert not is_held(tmp_path / "none")
    asking = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(asking, fcntl.LOCK_SH)
    assert not is_held(tmp_path)
    os.close(asking)


def test_nobody_holds_what_a_killed_process_held(tmp_path: Path):
    code = "from kchaos.checkers.folders import *; import sys; Hold().take(Path(sys.argv[1])); "
    code += "print(is_held(Path(sys.argv[1]))); sys.stdout.flush(); os.kill(os.getpid(), 9)"
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True"
    assert not is_held(tmp_path)


@pytest.mark.needs("namespaces")
def test_an_owner_with_another_table_of_processes_is_seen_to_live(tmp_path: Path):
    code = HOLD.format(then="sys.stdin.read()")
    own_table = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc"]
    with subprocess.Popen(
        [*own_table, sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        folder = Path(other.stdout.readline().strip())
        assert not remove_abandoned(folder)
        assert (folder / "file").exists()
        other.stdin.close()
        other.wait(30)
    assert not folder.exists()


@pytest.mark.parametrize(
    "name", ["ö", "a:b", "a,b", "a\\b", "a b", "a%20b", "a\nb", "a*b", os.fsdecode(b"a\xff")]
)
def test_an_odd_path_is_reached_by_a_plain_one(tmp_path: Path, name: str):
    odd = tmp_path / name
    odd.mkdir()
    (odd / "file").write_text("there")
    link = plain(odd)
    assert (link / "file").read_text() == "there"
    assert str(link).isascii()
    assert not set(str(link)) & set(":,\\ %\n*")
    assert plain(odd) == link
    link.unlink()


def test_a_plain_path_is_left_as_it_is(tmp_path: Path):
    assert plain(tmp_path) == tmp_path
    assert plain(Path("x")) == Path.cwd() / "x"


def test_a_link_that_leads_elsewhere_is_not_followed(tmp_path: Path):
    odd = tmp_path / "a:b"
    odd.mkdir()
    first = plain(odd)
    first.unlink()
    first.symlink_to(tmp_path)
    second = plain(odd)
    try:
        assert second != first
        assert os.path.realpath(second) == str(odd)
    finally:
        first.unlink()
        second.unlink()
