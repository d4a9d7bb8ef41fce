"""A packed run is small, and says the same elsewhere."""

import io
import tarfile
from pathlib import Path

import pytest

from kchaos.checkers.errors import RunDirectoryError
from kchaos.checkers.judge import judge
from kchaos.checkers.packs import pack, unpack
from kchaos.checkers.results import results_to_json, write_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.harness.commands.cli import run as kchaos
from kchaos.harness.exits import USAGE
from kchaos.harness.report import write_report
from kchaos.harness.run.scenario import read_scenario
from tests.golden.stored import unpacked

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = unpacked("1.1.1", tmp_path / "here")
    for _ in range(3):
        write_judgement(run, judge(run))
        write_report(run)
    return run


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_a_packed_run_is_small_and_judged_reported_and_replayed_elsewhere(
    run: RunDirectory, tmp_path: Path
):
    archive = pack(run.path)
    assert len(archive.read_bytes()) < size_of(run.path) / 5
    there = unpack(archive, tmp_path / "there")
    assert there.name == run.name
    assert there.judgements() == run.judgements()[-1:]
    told, before = (results_to_json(judge(each)) for each in (there, run))
    assert told == before
    assert write_report(there).is_file()
    read_scenario(there.path / "scenario.json")


def test_the_same_run_is_packed_into_the_same_bytes(run: RunDirectory, tmp_path: Path):
    first, again = (pack(run.path, tmp_path / name) for name in ("a.tar.xz", "b.tar.xz"))
    assert first.read_bytes() == again.read_bytes()


def test_a_second_judgement_adds_little_to_a_run(run: RunDirectory):
    before = size_of(run.path)
    write_judgement(run, judge(run))
    write_report(run)
    assert size_of(run.path) < 1.2 * before


def test_the_printed_commands_are_those_of_kchaos(
    run: RunDirectory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    archive = tmp_path / "elsewhere/it.tar.xz"
    assert kchaos(["pack", str(run.path), "--output", str(archive)]) == 0
    unpacking, judging, reporting, replaying = capsys.readouterr().out.splitlines()[2:]
    monkeypatch.chdir(archive.parent)
    # The golden runs' scenario expects what the model predicts: a divergence, here.
    for command in (unpacking, judging, reporting):
        assert kchaos(command.split()[1:]) == 0
    assert replaying == f"kchaos replay {run.path.name}"


def test_nothing_is_overwritten(run: RunDirectory, tmp_path: Path):
    archive = pack(run.path)
    with pytest.raises(RunDirectoryError, match="exists"):
        pack(run.path)
    unpack(archive, tmp_path)
    with pytest.raises(RunDirectoryError, match="exists"):
        unpack(archive, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_an_archive_with_changed_evidence_is_refused(run: RunDirectory, tmp_path: Path):
    with (run.path / "history.jsonl").open("a") as file:
        file.write("{}\n")
    archive = pack(run.path)
    with pytest.raises(RunDirectoryError, match="history"):
        unpack(archive, tmp_path)
    assert not (tmp_path / run.name).exists()


@pytest.mark.parametrize("name", ["../outside", "a/x", "/outside"])
def test_an_archive_of_something_else_is_refused(name: str, tmp_path: Path):
    file = tmp_path / "odd.tar.xz"
    with tarfile.open(file, "w:xz") as archive:
        archive.addfile(tarfile.TarInfo(name), io.BytesIO())
    assert kchaos(["unpack", str(file), "--output", str(tmp_path / "to")]) == USAGE
    assert list((tmp_path / "to").iterdir()) == []
    assert not (tmp_path / "outside").exists()


def test_a_pack_with_one_changed_bit_is_refused_wherever_that_is(run: RunDirectory, tmp_path: Path):
    """Where a header is hit the list of members just ends; the checksum comes behind it."""
    content = pack(run.path, tmp_path / "whole.tar.xz").read_bytes()
    file = tmp_path / "changed.tar.xz"
    for place in range(0, len(content), len(content) // 60):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(RunDirectoryError, match="cannot be unpacked"):
            unpack(file, tmp_path / "there")


def test_no_archive_is_a_usage_error(tmp_path: Path):
    file = tmp_path / "text"
    file.write_text("no archive")
    assert kchaos(["unpack", str(file)]) == USAGE
    assert kchaos(["pack", str(tmp_path)]) == USAGE
