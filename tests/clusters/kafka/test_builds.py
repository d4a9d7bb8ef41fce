"""Builds that nobody published: what they are called, and whose rules they are judged by."""

import tarfile
from pathlib import Path

import pytest

from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.kafka.distribution import resolve
from kchaos.clusters.releases import judging_release_of, release_of
from kchaos.clusters.spec import BrokerSpec, ClusterSpec
from tests.support.distributions import VERSION, needed_jar


def kafka(folder: Path, version: str, *, patched: bool = False, zookeeper: bool = True) -> Path:
    """An unpacked distribution, as far as it is looked at before it starts."""
    libs = folder / f"kafka_2.13-{version}" / "libs"
    libs.mkdir(parents=True)
    others = ["scala-library-2.13.14.jar"] + (["zookeeper-3.8.4.jar"] if zookeeper else [])
    for name in (f"kafka_2.13-{version}.jar", f"kafka-clients-{version}.jar", *others):
        own = {VERSION: f"version={version}\n"} if name.startswith("kafka-clients") else {}
        own |= {"PATCHED.txt": ""} if name.startswith("kafka_2.13") and patched else {}
        needed_jar(libs / name, own)
    return libs.parent


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("3.9.1", "3.9.1"),
        ("0.10.2.2", "0.10.2.2"),
        ("3.9.2-SNAPSHOT", "3.9.1"),
        ("3.9.0-SNAPSHOT", "3.9.0"),
        ("0.10.2.3-SNAPSHOT", "0.10.2.2"),
        ("2.8.2-patched", "2.8.2"),
    ],
)
def test_a_build_is_judged_by_the_nearest_release(name: str, nearest: str):
    assert release_of(name).judged_as == nearest
    assert judging_release_of(nearest) == nearest


def test_nothing_is_judged_as_a_build_that_nobody_published():
    said = "no published release; the nearest one is 3.9.1"
    with pytest.raises(ReleaseError, match=said):
        judging_release_of("3.9.2-SNAPSHOT")
    with pytest.raises(ReleaseError, match=said):
        ClusterSpec(brokers=(BrokerSpec(id=0, kafka="3.9.1", judged_as="3.9.2-SNAPSHOT"),))


def test_a_build_is_its_path_and_the_digest_of_its_jars(tmp_path: Path):
    plain, patched = kafka(tmp_path / "a", "3.9.1"), kafka(tmp_path / "b", "3.9.1", patched=True)
    archive = tmp_path / "kafka.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(plain, arcname=plain.name)

    builds = [resolve(str(each)).build for each in (plain, patched, archive)]

    paths, digests = zip(*(each.split(" sha256:") for each in builds), strict=True)
    assert paths == (str(plain), str(patched), str(archive))
    assert digests[0] == digests[2] != digests[1]
    assert {len(digest) for digest in digests} == {64}


def test_a_distribution_needs_zookeeper_where_its_release_can_run_with_it(tmp_path: Path):
    assert resolve(str(kafka(tmp_path, "4.1.0", zookeeper=False))).release == "4.1.0"
    with pytest.raises(ReleaseError, match="libs/ has no zookeeper-VERSION"):
        resolve(str(kafka(tmp_path / "broken", "3.9.1", zookeeper=False)))
