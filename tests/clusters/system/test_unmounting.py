from pathlib import Path

import pytest

from kchaos.clusters.system import unmounting

LINE = "36 35 98:0 / {place} rw - {kind} {source} rw\n"


def test_only_what_kchaos_mounts_below_the_folder_is_taken_away_the_innermost_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
