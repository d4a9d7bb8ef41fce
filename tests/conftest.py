"""Fixtures of all tests: real clusters that are started once for each release.

The clusters come from kchaos's own pytest plugin; see `harness.pytest_plugin`.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.needed import Needed, lack

if TYPE_CHECKING:
    from kchaos.clusters.start.jvm_cluster import JvmCluster
    from kchaos.harness.pytest_plugin.shared import ClusterPool

ReleaseCluster = Callable[[str], "JvmCluster"]


MOST_FLAKY = 2
"""Tests of a session that may fail once; only tests on clusters are played again."""
_UNIT_TIMEOUT_S, _SLOW_TIMEOUT_S, _CLUSTER_TIMEOUT_S = 120, 600, 900
_TESTS = Path(__file__).parent
_IN_MEMORY, _TESTS_NEED_BYTES = Path("/dev/shm"), 1 << 28
_NOT, _ONLY_NOT = re.compile(r"not (\w+)"), re.compile(r"not \w+( and not \w+)*")
_OF_MODULE = re.compile(r"^pytestmark = .*", re.MULTILINE)
_MARK = re.compile(r"\bpytest\.mark\.(\w+)")


def pytest_configure(config: pytest.Config) -> None:
    """Let two tests of a session have a second try; the third that fails has none.

    Skip tests that lack a program (`tests/support/needed.py`).

    Let Ctrl-C reach the processes that tests start; a shell's background jobs ignore it.
    pytest-xdist would begin with the largest groups, and tests that share a release's cluster
    come last.

    Thousands of tests are made while nothing is thrown away: to look for garbage among them takes a
    third of the collection, and again a part of every test.

    Tests make thousands of small files, of which a file system in memory makes one in a tenth of a
    disk's time. It is used where the folders of tests that passed are removed at once.
    """
    gc.disable()
    os.fsync = stays_with_the_kernel
    if config.getini("tmp_path_retention_policy") == "failed" and can_be_worked_in(_IN_MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))
    config.option.max_suite_reruns, config.option.rerun_show_tracebacks = MOST_FLAKY, True
    config.pluginmanager.register(Needed())
    config.option.loadscopereorder = False
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def can_be_worked_in(folder: Path) -> bool:
    """Tell whether tests may write a little to a folder, and start programs that lie there."""
    if not os.access(folder, os.W_OK | os.X_OK):
        return False
    system = os.statvfs(folder)
    free_bytes = system.f_bavail * system.f_frsize
    return free_bytes >= _TESTS_NEED_BYTES and not system.f_flag & os.ST_NOEXEC


_FSYNC = os.fsync


def stays_with_the_kernel(fd: Any) -> None:
    """Take the place of `os.fsync`: to wait for a disk takes minutes, and few tests are of it."""


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Let a test write through to the disk: what files had, by the name at their last `fsync`."""
    files: dict[str, bytes] = {}

    def fsync(fd: int) -> None:
        _FSYNC(fd)
        file = Path(os.readlink(f"/proc/self/fd/{fd}"))
        files[file.name] = file.read_bytes()

    monkeypatch.setattr(os, "fsync", fsync)
    return files


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave alone the modules of which no test is asked for: to import them takes a third."""
    if collection_path.suffix != ".py":
        return None
    return not marks_left_out(config).isdisjoint(module_marks(collection_path)) or None


def marks_left_out(config: pytest.Config) -> set[str]:
    """Return the marks of which no test is asked for, as "not cluster and not slow" says.

    A selection of another form may ask for any test.
    """
    selection = config.option.markexpr
    return set(_NOT.findall(selection)) if _ONLY_NOT.fullmatch(selection) else set()


def module_marks(file: Path) -> set[str]:
    """Return the marks that all tests of a module have, from its line `pytestmark = ...`."""
    return {mark for line in _OF_MODULE.findall(file.read_text()) for mark in _MARK.findall(line)}


def pytest_collection_finish() -> None:
    """Let the collector of garbage look at what comes from here on, and not at the tests."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Set how long each test may take, its second try, which tests one process runs, and the order.

    Tests that share a cluster, a Spark session or something else that is made once are run by one
    process. Those that share a release's cluster are run one after another, and last: few clusters
    of them live at a time, and none beside the tests that start their own.

    Where several processes run tests, those that wait for clusters are spread over those that
    compute all the time, so that no core is idle.

    Hypothesis would parse all modules of kchaos here, to draw the constants that stand there at
    times: three seconds in each process of a fresh clone. A Hypothesis that has these functions no
    longer is left as it is.
    """
    providers: Any = sys.modules.get("hypothesis.internal.conjecture.providers")
    if hasattr(providers, "_get_local_constants") and hasattr(providers, "_local_constants"):
        none = providers._local_constants
        pytest.MonkeyPatch().setattr(providers, "_get_local_constants", lambda: none)
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(_seconds_for(item)))
        if any(item.get_closest_marker(name) for name in ("cluster", "docker")):
            item.add_marker(pytest.mark.flaky(reruns=1))
        if shared_by(item):
            item.add_marker(pytest.mark.xdist_group(shared_by(item)))
    shared = [item for item in items if "release_cluster" in getattr(item, "fixturenames", ())]
    if shared:
        last = {*shared}
        rest = [item for item in items if item not in last]
        sizes = Counter(map(_release_of_item, shared))
        # The longest first, so that no process ends long after the others.
        items[:] = rest + sorted(
            shared, key=lambda item: (-sizes[_release_of_item(item)], _release_of_item(item))
        )
    if hasattr(config, "workerinput"):
        items[:] = _spread(items)


def _spread(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return the tests that wait among the others, each kind in its order, groups as a whole.

    Those of pages and installations play most in a single test: they come first, so that no process
    ends long after the others.
    """
    waiting: dict[str, list[pytest.Item]] = {}
    computing: list[pytest.Item] = []
    for item in sorted(items, key=lambda item: item.path.parent != _TESTS):
        group = item.get_closest_marker("xdist_group")
        if _waits(item):
            waiting.setdefault(group.args[0] if group else item.nodeid, []).append(item)
        else:
            computing.append(item)
    ordered, begun = [], 0
    for number, group_items in enumerate(waiting.values(), 1):
        ordered += group_items
        end = len(computing) * number // len(waiting)
        ordered += computing[begun:end]
        begun = end
    return ordered or computing


def _waits(item: pytest.Item) -> bool:
    """Whether a test starts processes of others, and waits for them for a part of its time."""
    return any(item.get_closest_marker(name) for name in ("cluster", "docker", "spark"))


def _seconds_for(item: pytest.Item) -> int:
    """How long a test may take before it counts as one that hangs; no test is expected to."""
    if _waits(item):
        return _CLUSTER_TIMEOUT_S
    return _SLOW_TIMEOUT_S if item.get_closest_marker("slow") else _UNIT_TIMEOUT_S


def shared_by(item: pytest.Item) -> str:
    """Name what the test shares with others of its module or session; empty if it shares nothing.

    Two processes would each make it. Tests that look at Docker's engine would each see what others
    have there. A fixture of a plugin costs nothing until a test asks for it.
    """
    names = set(getattr(item, "fixturenames", ()))
    if "release_cluster" in names:
        return "cluster of " + ".".join(map(str, _release_of_item(item)))
    if "spark" in names:
        return "spark"
    if "engine" in names:
        return "docker"
    definitions = getattr(item, "_fixtureinfo").name2fixturedefs if names else {}  # noqa: B009
    for name in sorted(names.intersection(definitions)):
        if definitions[name][-1].scope == "module" and not name.startswith("_"):
            callspec = getattr(item, "callspec", None)
            return f"{item.path.stem} {callspec.params.get(name, '') if callspec else ''}".strip()
    return item.path.stem if "kafka_cluster_pool" in names else ""


def _release_of_item(item: pytest.Item) -> tuple[int, ...]:
    callspec = getattr(item, "callspec", None)
    release = str(callspec.params.get("release", "0")) if callspec else "0"
    return tuple(int(part) for part in release.split("."))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The one Spark session of a process, which `judge_runs` finds and uses."""
    from pyspark.sql import SparkSession

    from kchaos.checkers.spark import spark_context
    from kchaos.clusters.kafka.java import spark_java_home

    java_home, log_file = spark_java_home(), tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_context("local[2]", java_home=java_home, log_file=log_file) as context:
        yield SparkSession(context)


@pytest.fixture(scope="session")
def _machine_cache() -> Path:
    """The cache as it is before a test has a home of its own."""
    from kchaos.clusters.system.cache import cache_directory

    return cache_directory()


@pytest.fixture
def machine_cache(_machine_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test with a home of its own find the Kafka, the Java and the archives of all others."""
    monkeypatch.setenv("KCHAOS_CACHE", str(_machine_cache))


@pytest.fixture(scope="session")
def docker_base() -> None:
    """Docker's base image. The first process makes it if it can neither be found nor pulled.

    An engine that cannot have it, or runs no container of it, is as none.
    """
    from kchaos.clusters.docker_driver.base_image import ensure_base_image
    from kchaos.clusters.docker_driver.engine import connect, speaking
    from kchaos.clusters.docker_driver.options import base_image
    from kchaos.clusters.errors import MachineError
    from kchaos.clusters.system.cache import locked

    try:
        with contextlib.closing(connect()) as api, locked("base image of tests"):
            ensure_base_image(api, base_image())
            with speaking(f"no container of {base_image()} runs"):
                container = api.create_container(base_image(), ["true"])
                try:
                    api.start(container)
                finally:
                    api.remove_container(container, force=True)
    except MachineError as error:
        lack("docker", str(error))


@pytest.fixture(scope="session")
def release_cluster(kafka_cluster_pool: ClusterPool) -> ReleaseCluster:
    """The running cluster of a release: ``release_cluster("1.1.1")``; the one before is stopped.

    It has two linked brokers, 0 and 1, and 0 is the controller. Tests that change something
    (topics aside) leave the cluster as they found it.
    """
    from kchaos.clusters.spec import ClusterSpec, brokers_of

    return lambda release: kafka_cluster_pool(
        ClusterSpec(brokers=brokers_of(release, (0, 1)), first_broker=0)
    )
