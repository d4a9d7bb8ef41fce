"""Environment of docker-compose.yml: folders of jars, a Java, an image."""

import hashlib
import os
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

from kchaos.checkers.acts import Mode
from kchaos.clusters.docker_driver.engine import connect, engine_info
from kchaos.clusters.docker_driver.image import ensure_image
from kchaos.clusters.docker_driver.options import base_image
from kchaos.clusters.errors import MachineError, ReleaseError
from kchaos.clusters.kafka.distribution import Distribution, java_of, resolve
from kchaos.clusters.releases import release_of
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.clusters.start.configuration import FAST_JVM_FLAGS
from kchaos.clusters.start.kraft_storage import write_bootstrap
from kchaos.clusters.start.spec_checks import mode_refused
from kchaos.clusters.system.cache import cache_directory, locked, staging

_HEADER = "# Written by `kchaos compose`; docker-compose.yml reads it."
_LOG4J = """\
log4j.rootLogger=INFO, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


def write_environment(
    kafka: str,
    directory: Path,
    *,
    mode: Mode | None = None,
    offline: bool = False,
    say: Callable[[str], None],
) -> Path:
    """Fetch what is missing, write ``.env`` beside docker-compose.yml and return its path.

    Where there is no docker-compose.yml, kchaos's own is written. ``mode`` says where the metadata
    is, None for what is usual with the release. Raises ReleaseError and
    MachineError as a start of a cluster does, and MachineError when one of the two files is
    somebody else's.
    """
    file = directory / ".env"
    _write_compose_file(directory / "docker-compose.yml")
    if file.exists() and not file.read_text(encoding="utf-8").startswith(_HEADER):
        raise MachineError(f"{file} was not written by kchaos: rename it, or add its lines later")
    distribution = resolve(kafka, offline=offline)
    release = release_of(distribution.release)
    spec = ClusterSpec(brokers=brokers_of(kafka), mode=mode or release.modes[0])
    if why_not := mode_refused(spec, dict.fromkeys((0, 1, 2), release)):
        raise ReleaseError(why_not)
    image = base_image()
    api = connect()
    try:
        ensure_image(api, image, offline=offline, say=say)
        user = engine_info(api).user
    finally:
        api.close()
    jars = _jars_folder(distribution)
    if spec.is_kraft:
        levels = {name: level for name, level in release.feature_levels.items() if level}
        write_bootstrap(jars, levels, timestamp_ms=0)
    lines = [
        _HEADER,
        f"KAFKA_RELEASE={jars.name}",
        f"KCHAOS_MODE={'kraft' if spec.is_kraft else 'zookeeper'}",
        f"KCHAOS_JARS={jars.parent}",
        f"KCHAOS_JAVA={java_of(distribution, offline=offline)}",
        f"KCHAOS_JVM_FLAGS={' '.join(FAST_JVM_FLAGS)}",
        f"KCHAOS_IMAGE={image}",
        f"KCHAOS_USER={user}",
    ]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def _write_compose_file(file: Path) -> None:
    ours = files("kchaos").joinpath("docker-compose.yml").read_text(encoding="utf-8")
    if not file.exists():
        file.write_text(ours, encoding="utf-8")
        return
    there = file.read_text(encoding="utf-8", errors="replace")
    if "KCHAOS_JARS" not in there:
        raise MachineError(f"{file} is not kchaos's: go to a folder without one")


def _jars_folder(distribution: Distribution) -> Path:
    """Return a folder with all jars of a Kafka side by side, and a log4j.properties.

    It is named after the release; a distribution of one's own gets a digest of its jars besides,
    since it may be built anew while containers use the former one.
    """
    name = distribution.release
    if distribution.source != "maven":
        built = [
            (str(jar), jar.stat().st_size, jar.stat().st_mtime_ns)
            for jar in distribution.class_path
        ]
        name += f"-{hashlib.sha256(repr(built).encode()).hexdigest()[:8]}"
    # Compose names this folder when it does not find a release in it.
    folder = cache_directory() / "prepared-by-kchaos-compose" / name
    with locked("compose"), staging(folder.parent) as unfinished:
        made = unfinished / name
        made.mkdir()
        for jar in distribution.class_path:
            _link(jar, made / jar.name)
        (made / "log4j.properties").write_text(_LOG4J, encoding="utf-8")
        if not folder.exists():
            made.rename(folder)
    return folder


def _link(jar: Path, target: Path) -> None:
    """Link where the file systems allow it, else copy."""
    try:
        os.link(jar, target)
    except OSError:
        shutil.copyfile(jar, target)
