"""`kchaos versions`: how well each release of Kafka is known, and which are here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kchaos.checkers.model.releases.status import Status, status
from kchaos.checkers.model.releases.versions import (
    RELEASED,
    WITHOUT_ZOOKEEPER,
    line_of,
    parse_version,
)
from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka.distribution import resolve
from kchaos.clusters.releases import KRAFT_RELEASES, TESTED_RELEASES, release_of
from kchaos.harness.printable import wrapped
from kchaos.harness.upgrades.notes import RuleChange, change_texts, level_texts

_COLUMNS = ("compared", "run", "neither", "with KRaft", "in cache")
_NOTES = (
    "compared: its source was compared with every rule of the model",
    "run:      scenarios were run on it here, with ZooKeeper",
    "with KRaft: clusters are started here; runs on them are judged for safety alone",
    "On a release that was not compared, a run that is not as predicted is unknown.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """State of knowledge of one release that was published."""

    release: str
    status: Status
    is_cached: bool

    @property
    def is_with_kraft(self) -> bool:
        """Whether clusters with KRaft are tested on it."""
        return self.release in KRAFT_RELEASES

    @property
    def is_neither(self) -> bool:
        """Whether it has ZooKeeper, and was neither compared nor run."""
        known = self.status.compared or self.status.played
        return not known and self.release in RELEASED

    def to_json(self) -> dict[str, Any]:
        """Return the `--json` object; `read_at` is null if nobody compared its source."""
        return {
            "release": self.release,
            "compared": self.status.compared,
            "read_at": self.status.read_at,
            "run": self.status.played,
            "with_kraft": self.is_with_kraft,
            "in_cache": self.is_cached,
        }


def known_releases(*, fetch: bool) -> tuple[Known, ...]:
    """Return the releases from 0.10.2.0 to 3.9, and later tested ones, oldest first.

    Args:
        fetch: Bring those into the cache that are tested, `clusters.releases.TESTED_RELEASES`.

    Raises:
        MachineError: One could not be fetched.
    """
    return tuple(
        Known(
            release=release,
            status=status(release),
            is_cached=_is_cached(release, fetch=fetch and release in TESTED_RELEASES),
        )
        for release in dict.fromkeys((*RELEASED, *KRAFT_RELEASES))
    )


def difference_lines(older: str, newer: str, changes: Sequence[RuleChange]) -> list[str]:
    """Return the rules and notes between two releases, in lines of 80 columns."""
    ends_zookeeper = _has_zookeeper(older) != _has_zookeeper(newer)
    lines = []
    for is_gained, heading in (
        (True, f"{newer} has, and {older} has not:"),
        (False, f"{older} has, and {newer} has not:"),
    ):
        same = [change.rule for change in changes if change.is_gained is is_gained]
        of_zookeeper = [rule.name for rule in same if ends_zookeeper and rule.is_of_zookeeper]
        others = [rule for rule in same if rule.name not in of_zookeeper]
        lines += [heading, *([] if others else ["  nothing that the model knows"])]
        for rule in others:
            protocol = f", at protocol {rule.protocol} or later" if rule.protocol else ""
            lines += wrapped(f"{rule.name} ({rule.releases}{protocol}): {rule.meaning}")
        if of_zookeeper:
            lines += wrapped(f"and what is about ZooKeeper's controller: {', '.join(of_zookeeper)}")
        lines.append("")
    if levels := level_texts(release_of(older), release_of(newer)):
        lines += ["Feature levels of a cluster with KRaft, from a new one of each:"]
        lines += [line for text in levels for line in wrapped(text)] + [""]
    texts = change_texts(release_of(older), release_of(newer))
    lines += ["Kafka's upgrade notes say, of brokers and of what clients are promised:"]
    for text in texts or ["nothing"]:
        lines += wrapped(text)
    return lines


def _has_zookeeper(release: str) -> bool:
    return parse_version(release) < parse_version(WITHOUT_ZOOKEEPER)


def version_lines(known: Sequence[Known]) -> list[str]:
    """Return a line for each release line, with its releases' last numbers."""
    lines = ["release line" + "".join(f"  {column:11}" for column in _COLUMNS).rstrip()]
    for line, group in groupby(known, key=lambda row: line_of(parse_version(row.release))):
        members = tuple(group)
        columns = (
            _patches(members, lambda row: row.status.compared),
            _patches(members, lambda row: row.status.played),
            _patches(members, lambda row: row.is_neither),
            _patches(members, lambda row: row.is_with_kraft),
            _patches(members, lambda row: row.is_cached),
        )
        name = ".".join(map(str, line))
        lines.append((f"{name:12}" + "".join(f"  {column:11}" for column in columns)).rstrip())
    return [*lines, "", *_NOTES]


def _patches(known: Sequence[Known], wanted: Callable[[Known], bool]) -> str:
    shown = [f".{row.release.rpartition('.')[2]}" for row in known if wanted(row)]
    return " ".join(shown) or "-"


def _is_cached(release: str, *, fetch: bool) -> bool:
    try:
        resolve(release, offline=not fetch)
    except MachineError:
        if fetch:
            raise
        return False
    return True
