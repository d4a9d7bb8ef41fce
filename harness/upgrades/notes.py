"""Notable changes from release to release for a running cluster and its clients, by Kafka's notes.

Of the notable changes that `docs/upgrade.html` lists these are the ones of brokers, and of what
clients are promised. Streams, Connect, tools and classes are left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kchaos.checkers.model.releases.every_rule import EVERY_RULE
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.versions import LOOKED_UP, parse_version
from kchaos.clusters.releases import METADATA_VERSION, Release, release_of
from kchaos.harness.errors import UsageError
from kchaos.harness.upgrades.pairs import NOTES, OF_4


@dataclass(frozen=True, slots=True, kw_only=True)
class NotableChange:
    """One of them.

    Attributes:
        release: The first one with it.
        text: What is different from then on.
        name: The KIP or Jira that made it, or "".
    """

    release: str
    text: str
    name: str = ""

    @property
    def source(self) -> str:
        """Where Kafka says so."""
        notes = NOTES.get(release_of(self.release).line.line)
        return OF_4 if notes is None else notes.place

    def to_json(self) -> dict[str, str]:
        """Return the object that `kchaos versions --json` prints."""
        return {
            "note": self.text,
            "release": self.release,
            "name": self.name,
            "source": self.source,
        }


def _change(release: str, text: str, name: str = "") -> NotableChange:
    return NotableChange(release=release, text=text, name=name)


CHANGES: tuple[NotableChange, ...] = (
    _change("0.11.0.0", "Unclean leader election is off unless a setting allows it.", "KIP-106"),
    _change(
        "0.11.0.0",
        "Kafka does not make the topic of group offsets before there are as many brokers as "
        "offsets.topic.replication.factor asks for.",
    ),
    _change(
        "0.11.0.0",
        "At message format 0.11 batches have a producer id and a leader epoch. Brokers convert "
        "them for older consumers.",
        "KIP-98",
    ),
    _change("0.11.0.0", "max.message.bytes limits a whole batch.", "KIP-98"),
    _change("1.0.0", "Topics can be deleted: delete.topic.enable is on."),
    _change(
        "1.0.0",
        "At protocol 1.0 a broker goes on with its other log directories when one of them fails.",
        "KIP-112",
    ),
    _change("2.0.0", "Offsets of groups are kept for 7 days; before it was one.", "KIP-186"),
    _change(
        "2.1.0",
        "Offsets of a group are kept while it has members. At protocol 2.1 their topic has records "
        "that older brokers cannot read.",
        "KIP-211",
    ),
    _change(
        "2.1.0",
        "A topic set to unclean.leader.election.enable=true gets an unclean leader at once.",
    ),
    _change(
        "2.1.0",
        "A producer sends again until delivery.timeout.ms is over. Its retries have no bound.",
        "KIP-91",
    ),
    _change(
        "2.4.0",
        "ZooKeeper is 3.5. It does not start on a data directory of 3.4 without a snapshot file.",
    ),
    _change(
        "2.5.0",
        "zookeeper.session.timeout.ms is 18 s and not 6 s; replica.lag.time.max.ms is 30 s and "
        "not 10 s.",
        "KIP-537",
    ),
    _change(
        "2.6.0",
        "A broker that is no replica answers NOT_LEADER_OR_FOLLOWER, and no longer "
        "REPLICA_NOT_AVAILABLE.",
    ),
    _change(
        "2.8.0",
        "At protocol 2.8 topics have ids. A cluster that goes back to an older protocol may lose "
        "them, and topics get new ones later.",
        "KIP-516",
    ),
    _change(
        "3.0.0",
        "Producers ask for acks=all by default. In 3.0.1 and 3.1.1 they are idempotent as well "
        "(KAFKA-13598).",
        "KIP-679",
    ),
    _change(
        "3.0.0",
        "At protocol 3.0 log.message.format.version counts no more. It is to be cleared together "
        "with the roll of the protocol.",
        "KIP-724",
    ),
    _change(
        "3.5.2",
        "A controller no longer answers an AlterPartition with an empty ISR in a rolling upgrade, "
        "as 3.5.0 and 3.5.1 may.",
        "KAFKA-15353",
    ),
    _change("3.6.0", "ZooKeeper is 3.8; clusters below 2.4 need a release in between.", "KIP-902"),
    _change(
        "3.6.0",
        "Leaders check that a transaction has their partition. Compressed writes may fail for it "
        "on 3.6.0; 3.6.1 has that mended.",
        "KIP-890",
    ),
    _change(
        "4.0.0", "There is no ZooKeeper: a cluster has to go to KRaft on 3.9 before.", "KIP-500"
    ),
)
"""Oldest first."""


def changes_between(older: Release, newer: Release) -> tuple[NotableChange, ...]:
    """Return the notes of releases after the older one, up to the newer one, oldest first.

    Nothing for a way back: the notes tell of one direction.
    """
    return tuple(change for change in CHANGES if older < release_of(change.release) <= newer)


def change_texts(older: Release, newer: Release) -> list[str]:
    """Return the notes as sentences, each with its release and its name."""
    return [
        f"{change.release}{f' ({change.name})' if change.name else ''}: {change.text}"
        for change in changes_between(older, newer)
    ]


LEVELS: Mapping[str, str] = {
    METADATA_VERSION: "the records and requests of brokers and controllers (KIP-778)",
    "eligible.leader.replicas.version": "from 1 on a partition below min.insync.replicas keeps "
    "replicas that may lead without loss, and brokers' own min.insync.replicas counts no more "
    "(KIP-966)",
    "group.version": "from 1 on groups of consumers by KIP-848; replication is as before",
    "transaction.version": "from 2 on each transaction has a producer epoch of its own, and its "
    "partitions are added by the produce (KIP-890)",
    "share.version": "from 1 on share groups, whose state is a topic (KIP-932); replication is as "
    "before",
    "streams.version": "from 1 on groups of Kafka Streams (KIP-1071); replication is as before",
}
"""What each feature of a KRaft cluster changes, for replication."""


def level_texts(older: Release, newer: Release) -> list[str]:
    """Return the feature levels that an upgrade with KRaft raises, and what each changes."""
    levels = [release.feature_levels for release in (older, newer)]
    return [
        f"{name} {levels[0].get(name, 0)} to {levels[1].get(name, 0)}: {meaning}"
        for name, meaning in LEVELS.items()
        if all(levels) and levels[0].get(name, 0) != levels[1].get(name, 0)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleChange:
    """A rule of replication that only one of two releases has."""

    rule: Rule
    is_gained: bool

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "rule": self.rule.name,
            "gained": self.is_gained,
            "of_zookeeper": self.rule.is_of_zookeeper,
            "releases": str(self.rule.releases),
            "protocol": self.rule.protocol,
            "meaning": self.rule.meaning,
            "source": self.rule.source,
        }


def rules_between(older: str, newer: str) -> tuple[RuleChange, ...]:
    """Return the rules that only one of two releases has, those gained first.

    Raises:
        UsageError: A release whose rules nobody has read.
    """
    for release in (older, newer):
        if release not in LOOKED_UP:
            raise UsageError(
                f"the rules of {release} are not known: nobody looked them up in its source. "
                f"They are known from {LOOKED_UP[0]} to {LOOKED_UP[-1]}"
            )
    before, after = parse_version(older), parse_version(newer)
    changes = [
        RuleChange(rule=rule, is_gained=rule.releases.includes(after))
        for rule in EVERY_RULE
        if rule.releases.includes(before) != rule.releases.includes(after)
    ]
    return tuple(sorted(changes, key=lambda change: not change.is_gained))
