import os
import threading
import time
from pathlib import Path

import pytest

from kchaos.clusters.kafka import class_archive
from kchaos.clusters.kafka.class_archive import ClassSharing, forget_oldest
from kchaos.clusters.kafka.distribution import java_of, resolve
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.clusters.start.local import LocalCluster


@pytest.mark.cluster
def test_the_third_cluster_of_a_release_maps_the_archive_that_the_first_two_prepared(
    tmp_path: Path, borrowing_cache: Path
):
    spec = ClusterSpec(brokers=brokers_of("1.1.1", (0,)), linked=False)

    collected = []
    for name in ("lists", "writes", "maps"):
        with LocalCluster(spec, work_directory=tmp_path / name) as cluster:
            pid = cluster.brokers[0].pid
            mapped = f"{borrowing_cache}/archives/1.1.1-" in Path(f"/proc/{pid}/maps").read_text()
            for thread in threading.enumerate():
                if thread.name == "archive":
                    thread.join(300)
        kept = {file.suffix for file in (borrowing_cache / "archives").glob("1.1.1-*")}
        collected.append((mapped, ".lst" in kept, ".jsa" in kept))

    assert collected == [(False, True, False), (False, True, True), (True, True, True)]


def test_a_cache_that_takes_no_archives_has_jvms_list_no_classes(
    tmp_path: Path, borrowing_cache: Path
):
    (borrowing_cache / "archives").write_text("no folder")
    sharing, kafka = ClassSharing(), resolve("1.1.1")
    assert sharing.flags(kafka, java_of(kafka), tmp_path / "broker-0") == []
    sharing.write_archives()
    sharing.collect()


def test_an_archive_that_could_not_be_written_is_tried_again(monkeypatch: pytest.MonkeyPatch):
    tried = []
    monkeypatch.setattr(class_archive, "_write", lambda key, *_: tried.append(key))
    monkeypatch.setattr(class_archive, "_under_way", {})
    kafka = resolve("1.1.1")
    for _ in range(2):
        class_archive._write_in_background("1.1.1-key", kafka, java_of(kafka))
        class_archive._under_way["1.1.1-key"].join(10)

    assert tried == ["1.1.1-key"] * 2


def test_of_a_release_only_the_archives_that_were_used_last_are_kept(tmp_path: Path):
    now = time.time()
    for number in range(5):
        for suffix in ("lst", "jsa", "log"):
            file = tmp_path / f"1.1.1-{number:012x}.{suffix}"
            file.touch()
            os.utime(file, (now, now - 86400 + number))
    # Both are of another release, the second one of a build of one's own.
    others = {"1.1.0-000000000000.jsa", "1.1.1-SNAPSHOT-000000000000.jsa"}
    for name in others:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (now, now - 2 * 86400))

    forget_oldest(tmp_path, "1.1.1")

    kept = {file.name for file in tmp_path.iterdir()}
    assert others <= kept
    assert {name for name in kept - others if name.endswith("jsa")} == {
        f"1.1.1-{number:012x}.jsa" for number in (2, 3, 4)
    }
    assert len(kept - others) == 9


def test_an_archive_that_somebody_may_still_write_is_not_removed(tmp_path: Path):
    for number in range(5):
        (tmp_path / f"1.1.1-{number:012x}.unfinished").touch()
    forget_oldest(tmp_path, "1.1.1")
    assert len(list(tmp_path.iterdir())) == 5
