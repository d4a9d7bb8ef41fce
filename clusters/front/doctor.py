"""Checks of this machine, one question at a time: `kchaos doctor`."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable
from typing import NamedTuple

from kchaos.clusters.disk.mounting import remedy
from kchaos.clusters.errors import ClusterError, MachineError
from kchaos.clusters.kafka.java import java_home, spark_java_home
from kchaos.clusters.kafka.maven import LOCK_FILE
from kchaos.clusters.kafka.repair import problems_of_cache
from kchaos.clusters.restored import criu, images
from kchaos.clusters.system.cache import cache_directory
from kchaos.clusters.system.leftovers import find_leftovers
from kchaos.clusters.system.memory import available_mib
from kchaos.clusters.system.ports import reserve_port

_ENOUGH_MEMORY_MIB = 1700
_ENOUGH_SPACE_MIB = 2000


class Examined(NamedTuple):
    """One answer: ``ok`` is None when the thing is only needed for a part of kchaos."""

    name: str
    ok: bool | None
    detail: str
    remedy: str


def examine() -> list[Examined]:
    """Return what was found; nothing is fetched and nothing is started but ``java -version``."""
    questions: list[Callable[[], Examined]] = [
        _python,
        _cache,
        _space,
        _memory,
        _ports,
        _broker_java,
        _spark_java,
        _pyspark,
        _slow_disks,
        _docker,
        _criu,
        _left,
    ]
    return [_ask(question) for question in questions]


def _ask(question: Callable[[], Examined]) -> Examined:
    try:
        return question()
    except (ClusterError, OSError) as error:
        name = question.__name__.strip("_").replace("_", " ")
        return Examined(name, False, str(error), "see the detail")


def _python() -> Examined:
    version = sys.version.split()[0]
    ok = sys.platform == "linux" and sys.version_info >= (3, 11)
    return Examined("Python", ok, f"{version} on {sys.platform}", "use Python 3.11+ on Linux")


def _cache() -> Examined:
    cache = cache_directory()
    kafkas = sorted(path.parent.name for path in cache.glob(f"kafka/*/{LOCK_FILE}"))
    detail = f"{cache}, Kafka {', '.join(kafkas) if kafkas else 'none yet'}"
    if not os.access(cache, os.W_OK):
        return Examined("cache", False, detail, "set KCHAOS_CACHE to a writable folder")
    problems = problems_of_cache()
    more = f", and {len(problems) - 1} more" if problems[1:] else ""
    if problems:
        return Examined("cache", False, f"{problems[0]}{more}", "kchaos repair heals it")
    return Examined("cache", True, detail, "")


def _space() -> Examined:
    free_mib = shutil.disk_usage(cache_directory()).free >> 20
    remedy = f"free some: all releases and a few runs take {_ENOUGH_SPACE_MIB} MiB"
    return Examined("disk", free_mib >= _ENOUGH_SPACE_MIB, f"{free_mib} MiB free", remedy)


def _memory() -> Examined:
    mib = available_mib()
    if mib is None:
        return Examined("memory", None, "unknown", "")
    remedy = f"ZooKeeper and 3 brokers take {_ENOUGH_MEMORY_MIB} MiB: stop something"
    return Examined("memory", mib >= _ENOUGH_MEMORY_MIB, f"{mib} MiB available", remedy)


def _ports() -> Examined:
    try:
        port = reserve_port()
    except ClusterError as error:
        return Examined("ports", False, str(error), "stop the listener there")
    port.release()
    return Examined("ports", True, "free ones on 127.0.0.1", "")


def _broker_java() -> Examined:
    try:
        return Examined("Java for brokers", True, str(java_home(11, offline=True)), "")
    except ClusterError:
        return Examined(
            "Java for brokers", None, "not fetched yet", "it is fetched by pip on first use"
        )


def _spark_java() -> Examined:
    try:
        return Examined("Java for Spark", True, str(spark_java_home(offline=True)), "")
    except ClusterError:
        return Examined(
            "Java for Spark", None, "not fetched yet", "it is fetched by pip on first use"
        )


def _pyspark() -> Examined:
    ok = all(importlib.util.find_spec(name) for name in ("pyspark", "pyarrow")) or None
    detail = "installed" if ok else "not installed"
    return Examined("Spark", ok, detail, "needed to judge many runs: pip install 'kchaos[spark]'")


def _slow_disks() -> Examined:
    reason = remedy()
    detail = reason or "a broker's disk can be slow, by FUSE"
    needed = "needed for the fault SlowDisk and the mix slow-disks only"
    return Examined("slow disks", None if reason else True, detail, needed)


def _criu() -> Examined:
    reason = images.why_not()
    detail = reason or f"{criu.version()}, it makes JVMs of images"
    return Examined("CRIU", None if reason else True, detail, "needed for --driver restored only")


def _docker() -> Examined:
    from kchaos.clusters.docker_driver.engine import connect, engine_info
    from kchaos.clusters.docker_driver.image import MAKE_IT, has_image
    from kchaos.clusters.docker_driver.leftovers import dead_runs
    from kchaos.clusters.docker_driver.options import base_image

    only_for = "needed for --driver docker only"
    image = base_image()
    try:
        api = connect(timeout_s=10)
        engine = engine_info(api)
        has_it, left = has_image(api, image), len(dead_runs(api))
        api.close()
    except MachineError as error:
        return Examined("Docker", None, str(error), only_for)
    detail = f"engine {engine.version}"
    if engine.is_rootless:
        detail += ", rootless: without links between brokers"
    if left:
        detail += f", containers of {left} dead runs (kchaos gc removes them)"
    if not has_it:
        return Examined("Docker", None, f"{detail}, no image {image}", f"{MAKE_IT} makes it")
    return Examined("Docker", True, f"{detail}, image {image}", "")


def _left() -> Examined:
    left = find_leftovers()
    folders = "work directory" if len(left) == 1 else "work directories"
    detail = f"{len(left)} {folders} of dead owners"
    return Examined("leftovers", None if left else True, detail, "kchaos gc removes them")
