"""Unpacking what somebody made, with Python's own filter and without it."""

import io
import tarfile
from pathlib import Path

import pytest

from kchaos.checkers.archives import extract


@pytest.fixture(params=["as this Python does it", "as an older one does it"], autouse=True)
def _python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "as an older one does it":
        monkeypatch.delattr(tarfile, "data_filter", raising=False)


def _archive(*members: tuple[str, bytes, str]) -> tarfile.TarFile:
    """Members are name, type, and content or where a link leads."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, kind, text in members:
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, 0o4777
            if kind == tarfile.REGTYPE:
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
            else:
                member.linkname = text
                archive.addfile(member)
    packed.seek(0)
    return tarfile.open(fileobj=packed)


def test_files_folders_and_links_inside_are_unpacked(tmp_path: Path):
    archive = _archive(
        ("kafka/libs", tarfile.DIRTYPE, ""),
        ("kafka/libs/a.jar", tarfile.REGTYPE, "a"),
        ("kafka/libs/b.jar", tarfile.SYMTYPE, "a.jar"),
        ("kafka/c.jar", tarfile.LNKTYPE, "kafka/libs/a.jar"),
    )
    extract(archive, tmp_path)
    assert (tmp_path / "kafka/libs/b.jar").read_text() == "a"
    assert (tmp_path / "kafka/c.jar").read_text() == "a"
    assert (tmp_path / "kafka/libs/a.jar").stat().st_mode & 0o7022 == 0


@pytest.mark.parametrize(
    "member",
    [
        ("../x", tarfile.REGTYPE, "x"),
        ("a/../../x", tarfile.REGTYPE, "x"),
        ("link", tarfile.SYMTYPE, "/etc/passwd"),
        ("link", tarfile.SYMTYPE, "../x"),
        ("link", tarfile.LNKTYPE, "../x"),
        ("device", tarfile.CHRTYPE, ""),
    ],
)
def test_what_leads_out_or_is_no_file_is_refused(tmp_path: Path, member: tuple[str, bytes, str]):
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "x").write_text("mine")
    with pytest.raises(tarfile.TarError):
        extract(_archive(member), inside)
    assert (tmp_path / "x").read_text() == "mine"
    assert list(inside.rglob("*")) == []
