"""The signature of a seal: by one of the keys, by another, and none."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.errors import RunDirectoryError, SignatureError
from kchaos.checkers.packs import pack, unpack
from kchaos.checkers.run_directory import MANIFEST, SIGNATURE, RunDirectory
from kchaos.checkers.signatures import digest_of, require_signature, sign
from kchaos.harness.commands.judge_runs import judge_paths
from tests.support.clean_runs import clean_run, clean_snapshot

pytestmark = [pytest.mark.slow, pytest.mark.needs("openssh")]


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    """Two keys; the public ones lie beside them."""
    for name in ("ours", "theirs"):
        command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name))
        subprocess.run(command, check=True)
    return tmp_path / "ours", tmp_path / "theirs"


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return clean_snapshot(clean_run(tmp_path / "run")).seal()


def test_a_signed_run_is_whole_and_needs_one_of_the_keys(
    run: RunDirectory, keys: tuple[Path, Path], tmp_path: Path
):
    sign(run, keys[0])

    assert run.verify() == ()
    both = tmp_path / "both"
    both.write_text("".join(key.with_suffix(".pub").read_text() for key in keys))
    require_signature(run, both)
    require_signature(run, keys[0].with_suffix(".pub"))
    with pytest.raises(RunDirectoryError, match=r"is not signed by a key of .*theirs.pub"):
        require_signature(run, keys[1].with_suffix(".pub"))


def test_a_seal_that_was_changed_has_another_digest_and_no_signature_fits(
    run: RunDirectory, keys: tuple[Path, Path]
):
    before = digest_of(run)
    sign(run, keys[0])
    manifest = run.path / MANIFEST
    manifest.write_text(manifest.read_text() + " ")

    assert digest_of(run) != before
    with pytest.raises(RunDirectoryError, match="is not signed by a key of"):
        require_signature(run, keys[0].with_suffix(".pub"))


def test_a_key_that_is_none_signs_nothing(run: RunDirectory, tmp_path: Path):
    (tmp_path / "no-key").write_text("text")
    with pytest.raises(SignatureError, match=r"nothing can be signed with .*no-key"):
        sign(run, tmp_path / "no-key")
    assert not (run.path / SIGNATURE).exists()


def test_a_signature_that_is_missing_makes_a_run_unknown_in_one_line(
    run: RunDirectory, keys: tuple[Path, Path]
):
    def unknown() -> Any:
        lines = judge_paths(
            [run.path],
            spark=None,
            master=None,
            output=None,
            offline=True,
            say=lambda _: None,
            signed_by=keys[0].with_suffix(".pub"),
        )
        return next(lines).unknown

    assert unknown() == f"{run.path} has no signature: {SIGNATURE} is missing"
    sign(run, keys[0])
    assert unknown() is None


def test_a_pack_has_the_signature(run: RunDirectory, keys: tuple[Path, Path], tmp_path: Path):
    sign(run, keys[0])
    unpacked = unpack(pack(run.path, tmp_path / "packed.tar.xz"), tmp_path / "unpacked")
    require_signature(unpacked, keys[0].with_suffix(".pub"))
