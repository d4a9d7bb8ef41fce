"""Notable changes from release to release for a running cluster and its clients, by Kafka's notes.

Of the notable changes that `docs/upgrade.html` lists these are the ones of brokers, and of what
clients are promised. Streams, Connect, tools and classes are left out.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from kchaos.checkers.model.releases.every_rule import EVERY_RULE
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.versions import LOOKED_UP, parse_version
from kchaos.clusters.releases import Release, release_of
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


_TABLE: Mapping[str, Any] = tomllib.loads(
    (files(__package__) / "notes.toml").read_text(encoding="utf-8")
)
CHANGES: tuple[NotableChange, ...] = tuple(
    NotableChange(release=release, name=name, text=text)
    for release, name, text in _TABLE["changes"]
)
"""Oldest first."""
LEVELS: Mapping[str, str] = _TABLE["levels"]
"""Effect of each feature of a KRaft cluster on replication."""


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
