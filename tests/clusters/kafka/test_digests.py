"""A file is read for its SHA-256 only where it may have changed."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from kchaos.clusters.kafka import digests
from kchaos.clusters.kafka.digests import FILE, forget_all, sha256_of


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("KCHAOS_CACHE", str(folder))
    return folder


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that are read, as they are."""
    names: list[str] = []
    reading = digests.read_sha256_of

    def told(file: Path) -> str:
        names.append(file.name)
        return reading(file)

    monkeypatch.setattr(digests, "read_sha256_of", told)
    return names


def jars(folder: Path) -> dict[Path, str]:
    made = {folder / "a.jar": b"a", folder / "b.jar": b"b"}
    for file, content in made.items():
        file.write_bytes(content)
    return {file: hashlib.sha256(content).hexdigest() for file, content in made.items()}


def test_no_file_is_read_twice_and_a_new_one_is(tmp_path: Path, read: list[str]):
    made = jars(tmp_path)
    assert sha256_of(made) == made
    assert sha256_of(made) == made
    assert read == ["a.jar", "b.jar"]

    (tmp_path / "c.jar").write_bytes(b"c")
    sha256_of([tmp_path / "c.jar", *made])
    assert read == ["a.jar", "b.jar", "c.jar"]


def test_another_content_is_seen_whatever_size_and_time_the_file_says(tmp_path: Path):
    file, *_ = jars(tmp_path)
    before = file.stat()
    sha256_of([file])
    file.write_bytes(b"x")
    # The kernel's clock of files goes by some milliseconds at a time.
    while file.stat().st_ctime_ns == before.st_ctime_ns:
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    after = file.stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert sha256_of([file])[file] == hashlib.sha256(b"x").hexdigest()


def test_a_file_that_took_the_place_of_another_is_read(tmp_path: Path):
    first, second = jars(tmp_path)
    sha256_of([first, second])
    second.replace(first)
    assert sha256_of([first])[first] == hashlib.sha256(b"b").hexdigest()


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b'{"a": 1}', b"\xff", b"[" * 100_000, b'{"%s": "x"}' % (b"a" * 9999)],
)
def test_a_table_that_is_none_costs_a_reading(
    damage: bytes, tmp_path: Path, cache: Path, read: list[str]
):
    made = jars(tmp_path)
    sha256_of(made)
    (cache / FILE).write_bytes(damage)
    assert sha256_of(made) == made
    assert sha256_of(made) == made
    assert read == ["a.jar", "b.jar"] * 2


def test_a_note_without_a_digest_is_none(tmp_path: Path, cache: Path, read: list[str]):
    made = jars(tmp_path)
    sha256_of(made)
    noted = json.loads((cache / FILE).read_text())
    cut = {file: line.rpartition(" ")[0] + " " for file, line in noted.items()}
    (cache / FILE).write_text(json.dumps(cut))
    assert sha256_of(made) == made
    assert read == ["a.jar", "b.jar"] * 2


def test_what_is_gone_is_noted_no_longer(tmp_path: Path, cache: Path):
    first, second = jars(tmp_path)
    sha256_of([first])
    first.unlink()
    sha256_of([second])
    noted = (cache / FILE).read_text()
    assert str(second) in noted
    assert str(first) not in noted


def test_where_nothing_can_be_written_each_call_reads(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    made = jars(tmp_path)
    assert sha256_of(made) == made
    assert sha256_of(made) == made
    assert read == ["a.jar", "b.jar"] * 2


def test_all_are_read_again_after_they_are_forgotten(tmp_path: Path, read: list[str]):
    made = jars(tmp_path)
    sha256_of(made)
    forget_all()
    forget_all()
    sha256_of(made)
    assert read == ["a.jar", "b.jar"] * 2


def test_a_folder_in_place_of_the_table_is_removed(tmp_path: Path, cache: Path):
    made = jars(tmp_path)
    (cache / FILE / "x").mkdir(parents=True)
    assert sha256_of(made) == made
    forget_all()
    assert sha256_of(made) == made
    assert (cache / FILE).is_file()
