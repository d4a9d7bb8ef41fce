"""Settings of brokers and topics by release; those that it would refuse are told beforehand.

Sources: kafka.api.ApiVersion and the last checks of kafka.server.KafkaConfig, 1.1.1 and 2.8.2;
org.apache.kafka.common.config.TopicConfig of every release line from 2.0 on, kafka.log.LogConfig
before. From protocol 3.0 on brokers take a message format and ignore it (KIP-724).
"""

import re
from collections.abc import Mapping

from kchaos.clusters.releases import Release

PROTOCOL = "inter.broker.protocol.version"
BROKER_FORMAT = "log.message.format.version"
LARGE_SEGMENTS = (4, 1)
"""The first release whose topics' segments have 1 MiB at least; brokers' have from 4.0 on."""
SEGMENT_BYTES, _LEAST_SEGMENT = "segment.bytes", 1 << 20
TOPIC_FORMAT = "message.format.version"

_VERSION = re.compile(r"(0\.\d+\.\d+|[1-9]\d*\.\d+)(?:\.\d+)*(?:-IV(\d+))?")
_NEWEST_IV = 99
_IGNORES_FORMATS = (3, 0, 0, 0)
_FIRST_MAGIC = {(0, 11, 0, 0): 2, (0, 10, 0, 0): 1, (0, 0, 0, 0): 0}

TOPIC_SETTINGS: Mapping[str, tuple[int, ...]] = {
    name: since
    for since, names in {
        (0, 10, 2): """
            cleanup.policy compression.type delete.retention.ms file.delete.delay.ms flush.messages
            flush.ms follower.replication.throttled.replicas index.interval.bytes
            leader.replication.throttled.replicas max.message.bytes message.format.version
            message.timestamp.difference.max.ms message.timestamp.type min.cleanable.dirty.ratio
            min.compaction.lag.ms min.insync.replicas preallocate retention.bytes retention.ms
            segment.bytes segment.index.bytes segment.jitter.ms segment.ms
            unclean.leader.election.enable""",
        (2, 0): "message.downconversion.enable",
        (2, 3): "max.compaction.lag.ms",
        (3, 0): "local.retention.bytes local.retention.ms remote.storage.enable",
        (3, 6): "message.timestamp.after.max.ms message.timestamp.before.max.ms",
        (3, 8): "compression.gzip.level compression.lz4.level compression.zstd.level",
        (3, 9): "remote.log.copy.disable remote.log.delete.on.disable",
        (4, 1): "internal.segment.bytes",
    }.items()
    for name in names.split()
}
"""Every setting of a topic, with the release that it came with."""

Version = tuple[int, int, int, int]


def broker_settings_refused(release: Release, properties: Mapping[str, str]) -> str:
    """Return why a broker of this release would not start with these properties, or ""."""
    newest = _version(release.protocol_version)
    size = properties.get(f"log.{SEGMENT_BYTES}", "")
    if release.number >= (4, 0) and size.isdecimal() and int(size) < _LEAST_SEGMENT:
        return _too_small(f"log.{SEGMENT_BYTES}", size, release)
    for name in (PROTOCOL, BROKER_FORMAT):
        text = properties.get(name)
        if text is None:
            continue
        version = _version(text)
        if version is None:
            return f"{name} is {text!r}; write it like 1.1 or 2.7-IV1"
        if newest is not None and version[:3] > newest[:3]:
            return f"{name} is {text}, which {release.text} does not know: it is older"
    return _beyond_protocol(release, properties, BROKER_FORMAT, properties.get(BROKER_FORMAT))


def unread_protocol(brokers: Mapping[int, tuple[Release, Mapping[str, str]]]) -> str:
    """Return which broker speaks a protocol that another one cannot read, and the remedy, or "".

    Args:
        brokers: The release and the properties of each, by id; with ZooKeeper.
    """
    older, (oldest, _) = min(brokers.items(), key=lambda item: item[1][0].number)
    readable = _version(oldest.protocol_version)
    for broker, (release, properties) in sorted(brokers.items()):
        text = properties.get(PROTOCOL) or release.protocol_version
        spoken = _version(text)
        if spoken is None or readable is None or spoken[:3] <= readable[:3]:
            continue
        why = "" if properties.get(PROTOCOL) else ", its own, since none is set"
        return (
            f"broker {broker} ({release.text}) speaks {PROTOCOL} {text}{why}, which broker "
            f"{older} ({oldest.text}) cannot read, so that replication between them may stop. Set "
            f"it to {oldest.protocol_version} on every broker until all run {release.text}"
        )
    return ""


def topic_settings_refused(
    release: Release, properties: Mapping[str, str], configuration: Mapping[str, str]
) -> str:
    """Return why a broker of this release and properties does not take a topic's own, or ""."""
    for name in configuration:
        since = TOPIC_SETTINGS.get(name)
        if since is None:
            return f"no topic setting is named {name!r}; known: {', '.join(sorted(TOPIC_SETTINGS))}"
        if release.number < since:
            first = ".".join(map(str, since))
            return f"{release.text} does not know the topic setting {name}: it came with {first}"
    size = configuration.get(SEGMENT_BYTES, "")
    if release.number >= LARGE_SEGMENTS and size.isdecimal() and int(size) < _LEAST_SEGMENT:
        return _too_small(SEGMENT_BYTES, size, release)
    text = configuration.get(TOPIC_FORMAT)
    refused = broker_settings_refused(release, {} if text is None else {BROKER_FORMAT: text})
    if refused:
        return refused.replace(BROKER_FORMAT, TOPIC_FORMAT)
    return _beyond_protocol(release, properties, TOPIC_FORMAT, text)


def _too_small(name: str, size: str, release: Release) -> str:
    return f"{name} is {size}, and {release.text} takes {_LEAST_SEGMENT} at least (KIP-1030)"


def segment_size_setting(release: tuple[int, ...]) -> str:
    """Return the name of the setting by which a topic of this release has segments of any size.

    From 4.1 on that is a setting for tests (LogConfig, 4.0.2 and 4.1.2).
    """
    return SEGMENT_BYTES if release < LARGE_SEGMENTS else "internal.segment.bytes"


def magic_of_format(release: Release, properties: Mapping[str, str], text: str | None) -> int:
    """Return the magic that a broker writes: 0, 1 or 2.

    Args:
        release: The broker's.
        properties: Its own, of which the inter-broker protocol counts.
        text: The topic's message format, or the broker's, or None for neither.
    """
    protocol = _version(properties.get(PROTOCOL) or release.protocol_version)
    version = _version(text or properties.get(BROKER_FORMAT) or release.protocol_version)
    if protocol is not None and protocol >= _IGNORES_FORMATS:
        return 2
    return next(magic for first, magic in _FIRST_MAGIC.items() if (version or first) >= first)


def _beyond_protocol(
    release: Release, properties: Mapping[str, str], name: str, text: str | None
) -> str:
    protocol = properties.get(PROTOCOL) or release.protocol_version
    spoken, written = _version(protocol), None if text is None else _version(text)
    if spoken is None or written is None or written <= spoken or spoken >= _IGNORES_FORMATS:
        return ""
    return f"{name} is {text}, which {PROTOCOL} {protocol} forbids: raise that first"


def _version(text: str) -> Version | None:
    """Return a version as four numbers, the last one the IV, None if it is none."""
    matched = _VERSION.fullmatch(text)
    if matched is None:
        return None
    numbers = [int(part) for part in matched[1].split(".")]
    first, second, third = (*numbers, 0)[:3]
    return first, second, third, _NEWEST_IV if matched[2] is None else int(matched[2])
