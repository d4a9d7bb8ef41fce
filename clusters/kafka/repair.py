"""Making a broken cache whole again."""

import base64
import csv
import hashlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from kchaos.checkers.folders import is_abandoned
from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka.digests import forget_all, read_sha256_of
from kchaos.clusters.kafka.distribution import resolve
from kchaos.clusters.kafka.java import java_folder, java_home
from kchaos.clusters.kafka.maven import LOCK_FILE, BrokenLock, jars_of
from kchaos.clusters.system.cache import cache_directory, locked
from kchaos.clusters.system.leftovers import running_directory

# Made from the rest when it is needed.
_DERIVED = ("archives", "unpacked", "classes", "images")


def problems_of_cache() -> list[str]:
    """Return what is wrong in the cache, a sentence each; every jar and file of Java is read."""
    cache = cache_directory()
    problems = []
    for lock_file in _lock_files(cache):
        try:
            problems += [f"{jar} {what}" for jar, what in _broken_jars(lock_file, cache)]
        except BrokenLock as error:
            problems.append(str(error))
    return problems + [f"{place}: {what}" for place in _javas() for what in _broken_java(place)]


def repair_cache(*, offline: bool, say: Callable[[str], None]) -> list[str]:
    """Remove what is broken, fetch it anew, and return what was done, a sentence each.

    With ``offline`` it is only removed, and fetched when it is needed. Raises MachineError while a
    cluster runs that uses the cache, and when something cannot be fetched.
    """
    used = [folder for folder in running_directory().glob("*") if not is_abandoned(folder)]
    if used:
        raise MachineError(f"a cluster runs on what is in the cache ({used[0]}): end it first")
    try:
        with locked("maven"):
            removed = [*_repaired_locks(cache_directory())]
        javas = [place for place in _javas() if _broken_java(place)]
        forget_all()
        derived = [cache_directory() / name for name in _DERIVED]
        for folder in [*javas, *filter(Path.exists, derived)]:
            shutil.rmtree(folder)
    except OSError as error:
        raise MachineError(
            f"what is broken in the cache cannot be removed: {error}; delete {cache_directory()}"
        ) from error
    done = [what for _, what in removed] + [f"removed {place}" for place in javas]
    if not offline:
        for release in dict.fromkeys(release for release, _ in removed):
            # Byteman, the compiler, and jars of tests and tools are fetched when they are needed.
            if (cache_directory() / "kafka" / release).is_dir():
                say(f"fetching what is missing of Kafka {release}")
                resolve(release)
        for place in javas:
            say(f"fetching Java {place.name}")
            java_home(int(place.name))
        still = [
            what
            for what in problems_of_cache()
            if not any(name in what for name in ("byteman", "ecj", "-test.jar", "kafka-tools-"))
        ]
        if still:
            raise MachineError(f"the cache is still broken: {still[0]}")
    return done


def _repaired_locks(cache: Path) -> Iterator[tuple[str, str]]:
    """Remove broken lock files and jars; yield the release and what was done."""
    for lock_file in _lock_files(cache):
        release = lock_file.parent.name
        try:
            broken = _broken_jars(lock_file, cache)
        except BrokenLock as error:
            lock_file.unlink()
            yield release, f"removed a lock file: {error}"
            continue
        for jar, what in broken:
            jar.unlink(missing_ok=True)
            yield release, f"{jar} {what}: removed"


def _broken_jars(lock_file: Path, cache: Path) -> list[tuple[Path, str]]:
    jars = jars_of(lock_file, cache)
    there = {jar: digest for jar, digest in jars.items() if jar.is_file()}
    changed = [jar for jar, digest in there.items() if read_sha256_of(jar) != digest]
    return [(jar, "is missing") for jar in jars if jar not in there] + [
        (jar, "is not what was fetched") for jar in changed
    ]


def _lock_files(cache: Path) -> list[Path]:
    return sorted(
        file
        for name in ("kafka", "byteman", "ecj", "tiered", "tools")
        for file in cache.glob(f"{name}/*/{LOCK_FILE}")
    )


def _javas() -> list[Path]:
    return sorted(place for place in java_folder().glob("*") if place.name.isdigit())


def _broken_java(place: Path) -> list[str]:
    """Return what differs from the list of files that the wheel brought along."""
    records = [*place.glob("*.dist-info/RECORD")]
    if len(records) != 1:
        return ["it has no list of its files"]
    with records[0].open(newline="", encoding="utf-8") as file:
        listed = [row for row in csv.reader(file) if len(row) == 3 and row[1]]
    broken = []
    for name, digest, _ in listed:
        if name.startswith("..") or name.endswith(".pyc"):
            continue
        try:
            checksum = hashlib.sha256((place / name).read_bytes()).digest()
        except OSError as error:
            broken.append(f"{name}: {error.strerror}")
            continue
        shown = base64.urlsafe_b64encode(checksum).rstrip(b"=").decode()
        if f"sha256={shown}" != digest:
            broken.append(f"{name} is not what was installed")
    return broken
