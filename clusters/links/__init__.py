"""Links: a Kafka-aware TCP relay between brokers, and between brokers and ZooKeeper."""

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.link_record import Fate, LinkRecord
from kchaos.clusters.errors import LinkError, RuleRefused
from kchaos.clusters.links.links import Links
from kchaos.clusters.links.records import LinkCounts, LinkKey
from kchaos.clusters.links.rules import Cut, Disturbance, Forgery, Hold, Match, disturbance_refused

__all__ = [
    "ApiKey",
    "Cut",
    "Disturbance",
    "Fate",
    "Forgery",
    "Hold",
    "LinkCounts",
    "LinkError",
    "LinkKey",
    "LinkRecord",
    "Links",
    "Match",
    "RuleRefused",
    "disturbance_refused",
]
