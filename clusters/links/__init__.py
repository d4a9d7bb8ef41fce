"""Links: a Kafka-aware TCP relay between brokers, and between brokers and ZooKeeper."""

from clusters.links.api_keys import ApiKey
from clusters.links.errors import LinkError, RuleRefused
from clusters.links.links import Links
from clusters.links.records import Fate, LinkCounts, LinkKey, LinkRecord
from clusters.links.rules import Cut, Delay, Hold, Match

__all__ = [
    "ApiKey",
    "Cut",
    "Delay",
    "Fate",
    "Hold",
    "LinkCounts",
    "LinkError",
    "LinkKey",
    "LinkRecord",
    "Links",
    "Match",
    "RuleRefused",
]
