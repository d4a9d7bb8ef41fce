"""What a run, a judgement and a night rely on is on the disk before anybody can see it."""

import errno
import os
from pathlib import Path

import pytest

from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from kchaos.checkers.run_line import RunLine
from kchaos.harness.summary.lines import append_line
from tests.support.run_builder import RunBuilder


def test_a_seal_is_whole_on_the_disk_before_it_has_its_name(
    tmp_path: Path, on_disk: dict[str, bytes]
):
    run = RunBuilder(tmp_path / "run").run

    run.seal()

    (written,) = [text for name, text in on_disk.items() if name.startswith(f".{MANIFEST}.")]
    assert written == (run.path / MANIFEST).read_bytes()
    assert MANIFEST not in on_disk


def test_a_run_whose_seal_the_disk_refuses_is_not_sealed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def refuse(_fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    run = RunBuilder(tmp_path / "run").run
    monkeypatch.setattr(os, "fsync", refuse)

    with pytest.raises(OSError, match="Input/output error"):
        run.seal()

    assert not (run.path / MANIFEST).exists()
    assert not RunDirectory(run.path).is_sealed


def test_a_line_of_a_night_is_on_the_disk_when_the_next_run_begins(
    tmp_path: Path, on_disk: dict[str, bytes]
):
    file = tmp_path / "night.jsonl"
    for run in ("first", "second"):
        append_line(file, RunLine(run=run))
        assert on_disk[file.name] == file.read_bytes()
