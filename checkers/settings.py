"""Settings of brokers and topics: which the model follows, and which cannot change replication.

Whatever else a run's brokers or topics were given leaves its conformance unknown, by name. What is
in a list here only tells a broker how long, how much or how many: it loads no class, and names no
file, address or secret. So a stranger's scenario may have it.

Read from kafka.server.KafkaConfig and kafka.log.LogConfig, 0.10.2.2 to 3.8, and
org.apache.kafka.common.config.TopicConfig.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The values of a setting with which a cluster does what the model follows.

    Attributes:
        why: What any other value changes.
        values: These.
        least: These whole numbers from this one on, and -1, which means no limit.
    """

    why: str
    values: tuple[str, ...] = ()
    least: int | None = None

    def has(self, value: str) -> bool:
        """Return whether the value is one of these."""
        if value.strip().lower() in self.values:
            return True
        try:
            number = int(value)
        except ValueError:
            return False
        return self.least is not None and (number == -1 or number >= self.least)


WAITS_MS: Mapping[str, int] = {
    "controller.socket.timeout.ms": 30_000,
    "replica.socket.timeout.ms": 30_000,
    "request.timeout.ms": 30_000,
    "zookeeper.session.timeout.ms": 18_000,
}
"""Waits of a healthy broker in silence, in milliseconds, with Kafka's defaults: an answer to its
AlterPartition from a controller that is gone, an answer to its Fetch, the controller for one to a
LeaderAndIsr, ZooKeeper for the end of a session (6 s before 2.5)."""
OUTLASTS = 1.5
"""Times the longest of these, something that should have happened by itself has not."""


def _names(text: str) -> frozenset[str]:
    """Return the names in a text whose lines with # say what the names after them are about."""
    lines = text.splitlines()
    return frozenset(name for line in lines if "#" not in line for name in line.split())


_TABLE = tomllib.loads(files(__package__).joinpath("settings.toml").read_text("utf-8"))
FOLLOWED = _names(_TABLE["followed"])
"""Whatever their value is, the model follows what comes of it."""
HARMLESS = _names(_TABLE["harmless"])
"""None of their values changes what is replicated."""
LIMITED: Mapping[str, Limit] = {
    name: Limit(values=tuple(row.get("values", ())), least=row.get("least"), why=row["why"])
    for row in _TABLE["limited"]
    for name in row["names"]
}
"""With some values the model follows what comes of them, and with others not."""

_OF_A_TIER = ("local.retention.ms", "local.retention.bytes")
_TAKEN_AT_START = frozenset({"min.insync.replicas", "num.replica.fetchers"})
"""Followed settings that a running broker may be given too (KIP-226), which is not followed."""


def not_followed(
    name: str, value: str, *, is_tiered: bool = False, while_it_ran: bool = False
) -> str:
    """Return the effect of a setting that the model does not follow, or "".

    `is_tiered` is for a tiered log's topic, whose retention is followed; `while_it_ran` for a
    setting changed on a running broker.
    """
    if while_it_ran and name in _TAKEN_AT_START:
        return "it takes that setting from a broker's start"
    if name in FOLLOWED or name in HARMLESS or (is_tiered and name in _OF_A_TIER):
        return ""
    limit = LIMITED.get(name)
    if limit is None:
        return "its effect has not been examined"
    return "" if limit.has(value) else limit.why


def is_listed(name: str) -> bool:
    """Return whether a setting is safe for the machine: no class, no file, no address."""
    return name in FOLLOWED or name in HARMLESS or name in LIMITED
