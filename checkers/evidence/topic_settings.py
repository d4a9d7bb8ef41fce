"""Settings of topics, as the run set them at any time: which decide what brokers may delete."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_EXPIRING = ("retention.ms", "retention.minutes", "retention.hours", "retention.bytes")
DELETING = (*_EXPIRING, "remote.storage.enable", "remote.log.storage.system.enable")
"""Settings, without "log.", that let brokers delete records."""

_DAY_MS = 86_400_000


@dataclass(frozen=True, kw_only=True)
class TopicSettings:
    """Settings of all topics of a run.

    Attributes:
        last: Each topic's last configuration, as the cluster's metadata have it.
        changes: Each topic's configurations from first to last, by topic.
        of_brokers: Properties that scenario.json sets for all brokers or for any one of them.
        while_running: Names of the settings that brokers were given while they ran.
        deleted_from: Topics of which a client requested the deletion of records.
    """

    last: Mapping[str, Mapping[str, str]]
    changes: Mapping[str, Sequence[Mapping[str, str]]]
    of_brokers: Mapping[str, str]
    while_running: frozenset[str]
    deleted_from: frozenset[str]

    def delete_retention_s(self, topic: str) -> float:
        """Return the shortest time for which cleaners keep a record without a value, in seconds."""
        given = [settings.get("delete.retention.ms") for settings in self._settings_of(topic)]
        given.append(self.of_brokers.get("log.cleaner.delete.retention.ms"))
        # Both have a day by default; a value that is no number is told elsewhere.
        numbers = [int(value) for value in given if value and value.isdecimal()]
        return min(numbers, default=_DAY_MS) / 1000

    def may_delete(self, topic: str) -> bool:
        """Return whether a setting lets brokers delete the topic's records before the default time.

        By default they keep them for a week. A client may have asked for it too.
        """
        return self.is_deleted_from(topic) or self._is_set(topic, DELETING)

    def is_deleted_from(self, topic: str) -> bool:
        """Return whether a client requested the deletion of the topic's records."""
        return topic in self.deleted_from

    def retains_less(self, topic: str) -> bool:
        """Return whether a setting lets brokers delete records by age or log size."""
        return self._is_set(topic, _EXPIRING)

    def _is_set(self, topic: str, names: tuple[str, ...]) -> bool:
        if self._policies(topic) == {"compact"}:
            return False
        set_there = {name.removeprefix("log.") for name in (*self.of_brokers, *self.while_running)}
        return not set_there.union(*self._settings_of(topic)).isdisjoint(names)

    def is_compacted(self, topic: str) -> bool:
        """Return whether log cleaners may compact the topic at any time of the run."""
        runs = self.of_brokers.get("log.cleaner.enable", "true") == "true"
        return runs and any("compact" in policy for policy in self._policies(topic))

    def cleanup_policy(self, topic: str) -> str:
        """Return the topic's or else the brokers' given policy; "" is Kafka's default, delete."""
        return self.last.get(topic, {}).get("cleanup.policy", self.default_cleanup_policy)

    def _policies(self, topic: str) -> frozenset[str]:
        """Return the policies of each of the topic's settings, or the default, without spaces."""
        given = [
            settings.get("cleanup.policy", self.default_cleanup_policy)
            for settings in self._settings_of(topic)
        ]
        return frozenset(policy.replace(" ", "") for policy in given)

    def _settings_of(self, topic: str) -> list[Mapping[str, str]]:
        """Return the settings that the topic was given, oldest first."""
        return [*self.changes.get(topic, ()), self.last.get(topic, {})]

    @property
    def default_cleanup_policy(self) -> str:
        """The brokers' default `cleanup.policy`."""
        return self.of_brokers.get("log.cleanup.policy", "")

    def has_other_codec(self, topic: str) -> bool:
        """Return whether a setting lets brokers compress producers' batches anew."""
        named = [self.last.get(topic, {}), self.of_brokers]
        return any(settings.get("compression.type", "producer") != "producer" for settings in named)

    def has_other_times(self, topic: str) -> bool:
        """Return whether a setting lets brokers replace producers' timestamps."""
        of_topic = self.last.get(topic, {}).get("message.timestamp.type")
        of_brokers = self.of_brokers.get("log.message.timestamp.type")
        return "LogAppendTime" in (of_topic, of_brokers)

    def is_tiered_topic(self, topic: str) -> bool:
        """Return whether the topic's log is tiered."""
        return self.last.get(topic, {}).get("remote.storage.enable") == "true"
