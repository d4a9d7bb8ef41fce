"""Kafka's jars: by Maven coordinates, from a distribution folder, or from a .tgz."""

import hashlib
import os
import re
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kchaos.checkers.archives import extract
from kchaos.checkers.folders import plain
from kchaos.clusters.errors import MachineError, ReleaseError
from kchaos.clusters.kafka.digests import sha256_of
from kchaos.clusters.kafka.java import java_home
from kchaos.clusters.kafka.maven import LOCK_FILE, BrokenLock, fetch, jars_of
from kchaos.clusters.releases import TESTED_RELEASES, Release, meant_by, release_of
from kchaos.clusters.system.cache import cache_directory, locked, staging

# What a Kafka is called that comes with a container image.
IN_IMAGE = "image:"

_KAFKA_JAR = re.compile(r"kafka_2\.\d+-(\d[\w.\-]*?)\.jar")
_MAIN_CLASS = "kafka/Kafka.class"
_CLASSES = {
    "kafka-clients-": "org/apache/kafka/common/TopicPartition.class",
    "scala-library-": "scala/Option.class",
    "zookeeper-": "org/apache/zookeeper/server/quorum/QuorumPeerMain.class",
}
"""Beginnings of the jars that a distribution needs, each with a class of every release."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """A Kafka that can be started.

    ``release`` is its version as its jar says it, ``class_path`` its jars, ``source`` where
    they came from (``maven``, the path that was given, or ``image:NAME``). ``definitions`` are of
    the records of KRaft's metadata log; empty where a jar of the class path has them.
    """

    release: str
    class_path: tuple[Path, ...]
    source: str
    definitions: Mapping[str, bytes] = field(default_factory=dict, compare=False, repr=False)

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of each jar by its name; empty for an image, which its own id names."""
        if self.image:
            return {}
        return {jar.name: digest for jar, digest in sha256_of(self.class_path).items()}

    @property
    def build(self) -> str:
        """Which build it is, beside its release: where it came from and what its jars are.

        The digest is the SHA-256 of its jars' names and digests, so that a folder and a .tgz of one
        build have the same. Empty for what Apache published.
        """
        if self.source == "maven":
            return ""
        if self.image:
            return self.source
        jars = "".join(f"{name} {digest}\n" for name, digest in sorted(self.digests.items()))
        return f"{self.source} sha256:{hashlib.sha256(jars.encode()).hexdigest()}"

    @property
    def image(self) -> str:
        """The container image that brings it along, its Java too; empty for jars of our own."""
        return self.source.removeprefix(IN_IMAGE) if self.source.startswith(IN_IMAGE) else ""

    @property
    def java_line(self) -> int:
        """The Java that this release runs on."""
        return release_of(self.release).line.java


def resolve(kafka: str, *, offline: bool = False) -> Distribution:
    """Return the Kafka called ``kafka``: a release, a distribution folder, or a .tgz.

    A release is fetched on first use and found in the cache afterwards, where each jar must be
    the one that was fetched; with ``offline`` nothing is fetched. A .tgz is unpacked into the
    cache once. Raises ReleaseError for an unknown release or a broken distribution, MachineError
    when it cannot be fetched or a jar in the cache is another one.
    """
    if not kafka.strip():
        raise ReleaseError("no Kafka is named: give a release, a distribution folder or a .tgz")
    if kafka.startswith(IN_IMAGE):
        raise ReleaseError(f"{kafka} is a container image: only --driver docker can start it")
    path = Path(kafka).expanduser()
    if os.sep in kafka or kafka.startswith(("~", ".")) or path.is_dir():
        if path.is_dir():
            return _from_folder(path, source=kafka)
        if path.is_file():
            return _from_archive(path)
        raise ReleaseError(f"{kafka} is neither a distribution folder nor a .tgz: nothing is there")
    if path.is_file():
        return _from_archive(path)
    if kafka.endswith((".tgz", ".tar.gz")):
        raise ReleaseError(f"{path.absolute()} is not there")
    return _from_maven(release_of(kafka), offline=offline)


def _from_maven(release: Release, *, offline: bool) -> Distribution:
    folder = cache_directory()
    lock_file = folder / "kafka" / release.text / LOCK_FILE
    jars = present(lock_file, folder)
    if jars is None:
        with locked("maven"):
            jars = present(lock_file, folder)
            if jars is None:
                if offline:
                    raise MachineError(
                        f"Kafka {release.text} is not in the cache {folder}, or not whole, and "
                        "--offline forbids fetching it; run once without --offline"
                    )
                fetch(
                    release.coordinates,
                    name=f"Kafka {release.text}",
                    cache=folder,
                    lock_file=lock_file,
                    meant="" if release.text in TESTED_RELEASES else meant_by(release.text),
                )
                jars = jars_of(lock_file, folder)
    changed = _changed(jars)
    if changed:
        raise MachineError(
            f"{changed[0]} in the cache is not what was fetched: its SHA-256 is another than in "
            f"{lock_file}; kchaos repair fetches it anew"
        )
    return Distribution(release=release.text, class_path=tuple(jars), source="maven")


def own_jar(coordinates: str, *, file: str, name: str, folder: str, offline: bool) -> Path:
    """Return a jar that no distribution has, fetched on first use; it has a lock file of its own.

    `coordinates` are Maven's, `file` names the jar (the lock file also has its dependencies), and
    `name` is for messages. The lock file is in `folder` below the cache.

    Raises ReleaseError when there is no such jar, MachineError when it cannot be had or changed.
    """
    cache = cache_directory()
    lock_file = cache / folder / LOCK_FILE
    if present(lock_file, cache) is None:
        with locked("maven"):
            if present(lock_file, cache) is None:
                if offline:
                    raise MachineError(
                        f"{coordinates} is not in the cache {cache}, and --offline forbids "
                        "fetching it; run once without --offline"
                    )
                fetch((coordinates,), name=name, cache=cache, lock_file=lock_file)
    jars = jars_of(lock_file, cache)
    named_jars = [jar for jar in jars if jar.name == file]
    if not named_jars:
        raise ReleaseError(f"{file} is not among the jars that were fetched for it")
    if _changed({named_jars[0]: jars[named_jars[0]]}):
        raise MachineError(f"{named_jars[0]} is not what was fetched; kchaos repair removes it")
    return named_jars[0]


def present(lock_file: Path, folder: Path) -> dict[Path, str] | None:
    """Return the jars of a lock file with their SHA-256, if it is whole and all of them exist.

    ``folder`` is the cache.
    """
    if not lock_file.is_file():
        return None
    try:
        jars = jars_of(lock_file, folder)
    except BrokenLock:
        # What it says can be had again where it came from.
        return None
    return jars if all(jar.is_file() for jar in jars) else None


def _changed(jars: Mapping[Path, str]) -> list[Path]:
    """Return the jars that have another SHA-256 than they should."""
    return [jar for jar, digest in sha256_of(jars).items() if jars[jar] != digest]


def _from_folder(folder: Path, *, source: str) -> Distribution:
    """Read an unpacked distribution: a folder whose ``libs`` has Kafka's jars."""
    libs = folder / "libs"
    if not libs.is_dir():
        raise ReleaseError(f"{source} is no Kafka distribution: it has no folder libs/")
    jars = tuple(sorted(libs.glob("*.jar")))
    server = [jar for jar in jars if _KAFKA_JAR.fullmatch(jar.name)]
    if not server:
        raise ReleaseError(f"{source} is broken: libs/ has no kafka_2.1x-VERSION.jar")
    for jar in jars:
        if not zipfile.is_zipfile(jar):
            raise ReleaseError(f"{source} is broken: libs/{jar.name} is no jar")
    _require_class(server, _MAIN_CLASS, source)

    def require(needed: str) -> None:
        named = [jar for jar in jars if jar.name.startswith(needed)]
        if not named:
            raise ReleaseError(f"{source} is broken: libs/ has no {needed}VERSION.jar")
        _require_class(named, _CLASSES[needed], source)

    require("kafka-clients-")
    require("scala-library-")
    release = _release_inside(jars, server[0])
    if "zookeeper" in release_of(release).modes:
        require("zookeeper-")
    return Distribution(
        release=release,
        class_path=tuple(plain(jar.resolve().parent) / jar.resolve().name for jar in jars),
        source=source,
    )


def _require_class(jars: Sequence[Path], needed: str, source: str) -> None:
    """Refuse jars that lack a class without which no broker starts."""
    for jar in jars:
        try:
            with zipfile.ZipFile(jar) as archive:
                if needed in archive.namelist():
                    return
        except zipfile.BadZipFile as error:
            raise ReleaseError(
                f"{source} is broken: libs/{jar.name} is no jar ({error})"
            ) from error
    names = " and ".join(f"libs/{jar.name}" for jar in jars)
    raise ReleaseError(f"{source} is no Kafka that can be started: {names} has no {needed}")


def _release_inside(jars: tuple[Path, ...], server: Path) -> str:
    """Return the release: what kafka-clients says of itself, else the server jar's name."""
    clients = next(jar for jar in jars if jar.name.startswith("kafka-clients-"))
    try:
        with zipfile.ZipFile(clients) as jar:
            text = jar.read("kafka/kafka-version.properties").decode("utf-8", "replace")
        properties = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    except KeyError:
        properties = {}
    named = _KAFKA_JAR.fullmatch(server.name)
    version = properties.get("version", "").strip() or (named[1] if named else "")
    return release_of(version).text


def _from_archive(archive: Path) -> Distribution:
    """Unpack a distribution once, under a name that its bytes give."""
    with archive.open("rb") as file:
        name = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    place = cache_directory() / "unpacked" / name
    if not place.is_dir():
        with locked("unpacked"):
            if not place.is_dir():
                _unpack(archive, place)
    folders = [path for path in place.iterdir() if path.is_dir()]
    inside = folders[0] if len(folders) == 1 and not (place / "libs").is_dir() else place
    return _from_folder(inside, source=str(archive))


def _unpack(archive: Path, place: Path) -> None:
    try:
        with staging(place.parent) as folder:
            inside = folder / "tar"
            inside.mkdir()
            with tarfile.open(archive) as tar:
                extract(tar, inside)
            inside.rename(place)
    except (tarfile.TarError, EOFError) as error:
        raise ReleaseError(f"{archive} is no readable .tgz: {error}") from error
    except OSError as error:
        raise MachineError(f"{archive} could not be unpacked: {error}") from error


def java_of(distribution: Distribution, *, offline: bool = False) -> Path:
    """Return the JAVA_HOME that the distribution runs on, installing it if needed.

    A Kafka in an image runs on the image's own Java, wherever that is in there.
    """
    if distribution.image:
        return Path("$JAVA_HOME")
    return java_home(distribution.java_line, offline=offline)
