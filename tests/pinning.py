"""Writes the digests of `pinned_jars`: every known release is resolved, and its jars are hashed."""

from pathlib import Path

from kchaos.clusters.agent.byteman import byteman_jar
from kchaos.clusters.kafka.distribution import resolve
from kchaos.clusters.kafka.maven import LOCK_FILE, jars_of
from kchaos.clusters.kafka.pinned_jars import PINS
from kchaos.clusters.releases import KNOWN_RELEASES, TESTED_RELEASES, release_of
from kchaos.clusters.start.tiered import FIRST_TIERED, tiered_storage_jar
from kchaos.clusters.system.cache import cache_directory


def _of_known_releases() -> dict[str, str]:
    byteman_jar()
    for text in TESTED_RELEASES:
        resolve(text)
        if text in KNOWN_RELEASES and release_of(text).number[:2] >= FIRST_TIERED:
            tiered_storage_jar(release_of(text))
    folder = cache_directory()
    known = [folder / "kafka" / text / LOCK_FILE for text in TESTED_RELEASES]
    known += [folder / "tiered" / text / LOCK_FILE for text in KNOWN_RELEASES]
    known += sorted((folder / "byteman").glob(f"*/{LOCK_FILE}"))
    digests: dict[str, str] = {}
    for lock_file in filter(Path.is_file, known):
        for jar, digest in jars_of(lock_file, folder).items():
            digests[jar.relative_to(folder / "maven").as_posix()] = digest
    return digests


if __name__ == "__main__":
    lines = [f'"{place}" = "{digest}"\n' for place, digest in sorted(_of_known_releases().items())]
    PINS.write_text("# Written by `python -m tests.pinning`.\n" + "".join(lines), encoding="utf-8")
