"""A server.properties of somebody's own: which of its settings the brokers of a test are given."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from kchaos.checkers.errors import CheckError
from kchaos.checkers.formats.batches import CODECS
from kchaos.checkers.formats.checkpoints import parse_properties
from kchaos.checkers.settings import is_listed, not_followed
from kchaos.clusters.ask.client import why_not_compressed
from kchaos.clusters.front.ready import fetch
from kchaos.clusters.releases import Release, release_of
from kchaos.clusters.settings import BROKER_FORMAT, PROTOCOL
from kchaos.clusters.spec import OWN_PROPERTIES, ClusterSpec
from kchaos.clusters.start.broker_settings import unknown_setting
from kchaos.harness.errors import UsageError
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.run.scenario import Scenario

_ROLES, _COMPRESSION, _MAGIC = "process.roles", "compression.type", 2
_OWNED: Mapping[str, str] = {
    **dict.fromkeys(OWN_PROPERTIES, "kchaos sets it"),
    **dict.fromkeys((PROTOCOL, BROKER_FORMAT), "kchaos sets it"),
    "replica.high.watermark.checkpoint.interval.ms": "kchaos looks at that file while it waits",
    "log.cleaner.dedupe.buffer.size": "the brokers of a test have small heaps",
}
_COUNTS = (".replication.factor", ".min.isr", "min.insync.replicas")
"""Endings of settings that count replicas."""
_DESCRIBED = re.compile(
    r"^\s+(\S+?)=(.*) sensitive=false synonyms=\{(?:STATIC|DYNAMIC)_", re.MULTILINE
)
"""A setting that somebody made, in the output of kafka-configs.sh --describe --all."""
_CONTINUED = re.compile(r"(?<!\\)\\\r?\n[ \t]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSettings:
    """What was read from a file.

    Attributes:
        file: Where it lies.
        taken: (name, value) of each setting that the brokers are given.
        left_out: (name, why) of each that they are not.
    """

    file: str
    taken: tuple[tuple[str, str], ...]
    left_out: tuple[tuple[str, str], ...]

    @property
    def case(self) -> str:
        """Their part of a case, with the first digits of a digest of what is taken."""
        return f"properties-{hashlib.sha256(repr(self.taken).encode()).hexdigest()[:6]}"

    def texts(self) -> Iterator[str]:
        """Yield what a reader has to know, in sentences."""
        yield f"Brokers are given {len(self.taken)} settings of {self.file}."
        reasons: dict[str, list[str]] = {}
        for name, why in self.left_out:
            reasons.setdefault(why, []).append(name)
        yield from (f"Left out ({why}): {', '.join(names)}." for why, names in reasons.items())
        for name, value in self.taken:
            if why := not_followed(name, value):
                yield f"With {name}={value} conformance is unknown: {why}."


def with_own_settings(scenario: Scenario, own: OwnSettings | None) -> Scenario:
    """Return the scenario with these settings in place of those of its cluster, None for none."""
    if own is None:
        return scenario
    properties = {**scenario.cluster.properties, **dict(own.taken)}
    cluster = replace(scenario.cluster, properties=properties)
    return replace(scenario, cluster=cluster)


def with_settings_of(
    file: Path | None, spec: ClusterSpec, *, options: RunOptions, say: Callable[[str], None]
) -> ClusterSpec:
    """Return the cluster with settings of a server.properties, beneath its own; say what is taken.

    Raises:
        UsageError: The file cannot be read, or is of another role or mode.
        ReleaseError, MachineError: A Kafka is not there.
    """
    if file is None:
        return spec
    own = own_settings(
        file,
        oldest_release(spec, options, say),
        is_kraft=spec.is_kraft,
        brokers=len(spec.brokers),
        owned=spec.properties.keys(),
    )
    for text in own.texts():
        say(text)
    return replace(spec, properties={**dict(own.taken), **spec.properties})


def with_settings_beneath(
    scenario: Scenario, file: Path | None, options: RunOptions, say: Callable[[str], None]
) -> Scenario:
    """Return the scenario with a file's settings beneath its own, if there is one.

    The model then predicts the end. Raises as `with_settings_of`.
    """
    if file is None:
        return scenario
    cluster = with_settings_of(file, scenario.cluster, options=options, say=say)
    return replace(scenario, cluster=cluster, expectation=None)


def oldest_release(spec: ClusterSpec, options: RunOptions, say: Callable[[str], None]) -> Release:
    """Return the oldest release of a cluster's brokers; raises as `fetch`."""
    kafkas = (
        fetch(kafka, driver=options.driver, offline=options.offline, say=say)
        for kafka in spec.kafkas
    )
    return min(release_of(kafka.release) for kafka in kafkas)


def own_settings(
    file: Path, release: Release, *, is_kraft: bool, brokers: int, owned: Collection[str] = ()
) -> OwnSettings:
    """Return the settings of a broker's file for a test on that many brokers.

    The file is a server.properties, or the output of `kafka-configs.sh --describe --all` for a
    broker. The test itself sets those that are `owned`.

    Raises:
        UsageError: It cannot be read, or is of another role or mode.
    """
    try:
        text = _CONTINUED.sub("", file.read_text(encoding="utf-8"))
        described = dict(_DESCRIBED.findall(text))
        settings = described or parse_properties(text, file=str(file))
    except (OSError, UnicodeDecodeError, CheckError) as error:
        raise UsageError(f"{file} is no server.properties: {error}") from error
    roles = {role.strip() for role in settings.get(_ROLES, "").split(",")} - {""}
    if roles and "broker" not in roles:
        raise UsageError(f"{file} is of a controller, by {_ROLES}: name the file of a broker")
    if (roles or "zookeeper.connect" in settings) and is_kraft is not bool(roles):
        of, has = ("KRaft", "ZooKeeper") if roles else ("ZooKeeper", "KRaft")
        raise UsageError(f"{file} is of a broker with {of}, and the cluster has {has}: see --mode")
    why = {
        name: "the test sets it" if name in owned else _why_left_out(name, value, release, brokers)
        for name, value in settings.items()
    }
    return OwnSettings(
        file=str(file),
        taken=tuple((name, value) for name, value in settings.items() if not why[name]),
        left_out=tuple((name, reason) for name, reason in why.items() if reason),
    )


def _why_left_out(name: str, value: str, release: Release, brokers: int) -> str:
    """Return why brokers of a test are not given a setting, or ""."""
    if name in _OWNED:
        return _OWNED[name]
    if unknown := unknown_setting([release], name):
        return unknown
    if not is_listed(name):
        return "it may load a class, read a file or connect elsewhere"
    if name == _COMPRESSION and value in CODECS and (why := why_not_compressed(value, _MAGIC)):
        return why
    if name.endswith(_COUNTS) and value.isdecimal() and int(value) > brokers:
        return f"there are {brokers} brokers"
    return ""
