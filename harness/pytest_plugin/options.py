"""Options of kchaos on pytest's command line and in its ini file.

This module is imported in every pytest run of an environment that has kchaos installed: it
imports pytest, the standard library, and of kchaos only what imports nothing else.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from kchaos.clusters.front.drivers import DRIVERS

KEEP = ("never", "failed", "always")
_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")
_DAY_S = 86_400.0
_MARKERS = (
    "kafka_cluster(release=..., judged_as=None, brokers=3, zookeepers=1, mode=None, controllers=1, "
    "features=None, observers=0, combined=False, properties={}, first_broker=None, linked=True, "
    "client_links=True, broker_memory_mib=None, broker_cpus=None, log_directories=1, tiered=False, "
    "points=()): the cluster that the test gets. release is one release or path, a tuple of them "
    "to run the test on each, or a mapping from broker ids; it comes before --kafka-release. "
    "judged_as is the release whose rules a build of your own is judged by. mode "
    "is zookeeper or kraft; controllers, features and observers are KRaft's. linked and "
    "client_links put relays before brokers. broker_memory_mib and broker_cpus limit each "
    "container. first_broker is the first controller, log_directories the number of folders of "
    "each broker, and tiered brokers have a remote store. combined brokers are the controllers "
    "too. points are places in the brokers' code where threads can be held",
    "chaos_seed(n): the seed of the test's run; comes before --kchaos-seed",
    "chaos_settle_bound(seconds): for how long nothing may change, once all is healed, before "
    "replication counts as stopped; comes before --kchaos-settle-bound",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSettings:
    """Settings by the options, the environment and the ini file together.

    Attributes:
        releases: Releases or paths to distributions; empty for the newest known release.
        driver: One of `clusters.front.drivers.DRIVERS`.
        runs_directory: Absolute; where run directories go.
        keep: Which run directories stay: "never", "failed" (those of failed tests, and every run
            that is unknown or not as predicted) or "always".
        seed: None for a new one in every test.
        offline: Never fetch anything.
        settle_bound_s: Seconds without progress after which replication counts as stopped; None
            for what the brokers' time-outs need.
        judged_as: The release whose rules those of `releases` are judged by; None for their own,
            or the nearest to a build that was not published.
    """

    releases: tuple[str, ...]
    driver: str
    runs_directory: Path
    keep: str
    seed: int | None
    offline: bool
    settle_bound_s: float | None = None
    judged_as: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """One option and its twins; the first that is given wins: flag, environment, ini, default."""

    flag: str
    environment: str
    kind: Literal["string", "args", "bool"] = "string"
    help: str
    flag_arguments: Mapping[str, Any]

    @property
    def ini(self) -> str:
        """Its name in the ini file, which is also pytest's name for its value."""
        return self.flag.removeprefix("--").replace("-", "_")


_OPTIONS = (
    _Option(
        flag="--kafka-release",
        environment="KCHAOS_KAFKA_RELEASE",
        kind="args",
        help="Kafka release, or path to a distribution; repeat it to run the tests that use "
        "Kafka on each (in the environment: separated by commas). 1.1.1+2.0.1 is a mixed cluster, "
        "whose brokers run the one and the other in turn. Default: the newest known",
        flag_arguments={"action": "append", "metavar": "RELEASE|PATH"},
    ),
    _Option(
        flag="--kafka-judged-as",
        environment="KCHAOS_JUDGED_AS",
        help="the release whose rules a build of your own is judged by. Default: its own, or the "
        "nearest one that was published",
        flag_arguments={"metavar": "RELEASE"},
    ),
    _Option(
        flag="--kafka-driver",
        environment="KCHAOS_DRIVER",
        help="how clusters are started: as processes (local), as processes made of images "
        "(restored), or as containers (docker). Default: local",
        flag_arguments={"choices": DRIVERS},
    ),
    _Option(
        flag="--kchaos-runs-dir",
        environment="KCHAOS_RUNS_DIR",
        help="where run directories go. Default: kchaos-runs beside the ini file",
        flag_arguments={"metavar": "DIR"},
    ),
    _Option(
        flag="--kchaos-keep",
        environment="KCHAOS_KEEP",
        help="which run directories stay after the test. Default: failed, which also keeps runs "
        "that are unknown or not as predicted",
        flag_arguments={"choices": KEEP},
    ),
    _Option(
        flag="--kchaos-seed",
        environment="KCHAOS_SEED",
        help="seed of every test's run. Default: a new one each, which the run records",
        flag_arguments={"metavar": "N"},
    ),
    _Option(
        flag="--kchaos-settle-bound",
        environment="KCHAOS_SETTLE_BOUND",
        help="for how long nothing may change, once all is healed, before replication counts as "
        "stopped. Default: 1.5 times the brokers' longest time-out",
        flag_arguments={"metavar": "SECONDS"},
    ),
    _Option(
        flag="--kchaos-offline",
        environment="KCHAOS_OFFLINE",
        kind="bool",
        help="never fetch anything; use the cache",
        flag_arguments={"action": "store_true"},
    ),
)
_SETTINGS = pytest.StashKey[PluginSettings]()


def add_options(parser: pytest.Parser) -> None:
    """Add the options and their ini twins."""
    group = parser.getgroup("kchaos", "kchaos: real Kafka clusters, broken on purpose")
    for option in _OPTIONS:
        group.addoption(
            option.flag, dest=option.ini, default=None, help=option.help, **option.flag_arguments
        )
        default: Any = {"string": "", "args": [], "bool": False}[option.kind]
        parser.addini(option.ini, option.help, type=option.kind, default=default)


def configure(config: pytest.Config) -> None:
    """Read the settings and register the markers.

    Raises:
        pytest.UsageError: A value is none that its option can have.
    """
    config.stash[_SETTINGS] = read_settings(config, os.environ)
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


def settings_of(config: pytest.Config) -> PluginSettings:
    """Return the settings that `configure` read."""
    return config.stash[_SETTINGS]


def read_settings(config: pytest.Config, environment: Mapping[str, str]) -> PluginSettings:
    """Read the settings: command line before environment before ini file before default.

    Raises:
        pytest.UsageError: A value is none that its option can have; the message says where it is.
    """
    given = {option.ini: _given(config, environment, option) for option in _OPTIONS}

    def checked(name: str, read: Callable[[Any], Any], wanted: str, default: Any) -> Any:
        value, place = given[name]
        if place == "":
            return default
        try:
            return read(value)
        except ValueError:
            raise pytest.UsageError(f"{place} is {value!r}; it must be {wanted}") from None

    return PluginSettings(
        releases=checked("kafka_release", _releases, "releases separated by commas", ()),
        driver=checked("kafka_driver", _one_of(DRIVERS), " or ".join(DRIVERS), DRIVERS[0]),
        runs_directory=_runs_directory(config, *given["kchaos_runs_dir"]),
        keep=checked("kchaos_keep", _one_of(KEEP), ", ".join(KEEP), "failed"),
        seed=checked("kchaos_seed", int, "a whole number", None),
        offline=checked("kchaos_offline", _flag, "true or false", False),
        settle_bound_s=checked(
            "kchaos_settle_bound", settle_seconds, "a number of seconds above 0", None
        ),
        judged_as=checked("kafka_judged_as", str, "a release", None),
    )


def _given(
    config: pytest.Config, environment: Mapping[str, str], option: _Option
) -> tuple[Any, str]:
    """Return the value and its origin; nothing and "" without one."""
    value = config.getoption(option.ini)
    if value is not None:
        return value, option.flag
    value = environment.get(option.environment, "")
    if value:
        return value, f"{option.environment} in the environment"
    value = config.getini(option.ini)
    if value:
        return value, f"{option.ini} in {config.inipath or 'the ini options'}"
    return None, ""


def _runs_directory(config: pytest.Config, value: str | None, place: str) -> Path:
    """Return the runs' directory; a relative one of command line or environment is resolved."""
    beside_ini = config.inipath.parent if config.inipath is not None else config.rootpath
    typed = place.startswith("--") or place.endswith("in the environment")
    above = config.invocation_params.dir if typed else beside_ini
    return (above / Path(value or "kchaos-runs").expanduser()).absolute()


def settle_seconds(value: str | float) -> float:
    """Return a number of seconds above 0, a day at most.

    Raises:
        TypeError, ValueError: It is none.
    """
    seconds = float(value)
    if not 0 < seconds <= _DAY_S:
        raise ValueError(value)
    return seconds


def _releases(value: str | list[str]) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    releases = tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))
    if not releases:
        raise ValueError(value)
    return releases


def _one_of(known: tuple[str, ...]) -> Callable[[str], str]:
    def read(value: str) -> str:
        if value not in known:
            raise ValueError(value)
        return value

    return read


def _flag(value: str | bool) -> bool:
    if isinstance(value, bool):
        return value
    if value.lower() not in (*_YES, *_NO):
        raise ValueError(value)
    return value.lower() in _YES
