"""What `kchaos versions` shows: how well each release of Kafka is known, and which are here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kchaos.checkers.model.releases.status import Status, status
from kchaos.checkers.model.releases.versions import RELEASED, line_of, parse_version
from kchaos.clusters.distribution import resolve
from kchaos.clusters.errors import MachineError
from kchaos.clusters.releases import KNOWN_RELEASES

_COLUMNS = ("compared", "played", "neither", "in the cache")
_NOTES = (
    "compared: its source was compared with every rule of the model",
    "played:   scenarios were played on it here",
    "On a release that was not compared, a run that is not as predicted is unknown.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of one release that was published."""

    release: str
    status: Status
    is_cached: bool

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints; `read_at` is null where nobody compared its source."""
        return {
            "release": self.release,
            "compared": self.status.compared,
            "read_at": self.status.read_at,
            "played": self.status.played,
            "in_cache": self.is_cached,
        }


def known_releases(*, fetch: bool) -> tuple[Known, ...]:
    """Every release from 0.10.2.0 to the last of 3.9, oldest first.

    Args:
        fetch: Bring those into the cache that are tested, `clusters.releases.KNOWN_RELEASES`.

    Raises:
        MachineError: One could not be fetched.
    """
    return tuple(
        Known(
            release=release,
            status=status(release),
            is_cached=_is_cached(release, fetch=fetch and release in KNOWN_RELEASES),
        )
        for release in RELEASED
    )


def version_lines(known: Sequence[Known]) -> list[str]:
    """A line for each release line; its releases are told by their last number."""
    lines = ["release line" + "".join(f"  {column:14}" for column in _COLUMNS).rstrip()]
    for line, group in groupby(known, key=lambda one: line_of(parse_version(one.release))):
        members = tuple(group)
        columns = (
            _patches(members, lambda one: one.status.compared),
            _patches(members, lambda one: one.status.played),
            _patches(members, lambda one: not (one.status.compared or one.status.played)),
            _patches(members, lambda one: one.is_cached),
        )
        name = ".".join(map(str, line))
        lines.append((f"{name:12}" + "".join(f"  {column:14}" for column in columns)).rstrip())
    return [*lines, "", *_NOTES]


def _patches(known: Sequence[Known], wanted: Callable[[Known], bool]) -> str:
    shown = [f".{one.release.rpartition('.')[2]}" for one in known if wanted(one)]
    return " ".join(shown) or "-"


def _is_cached(release: str, *, fetch: bool) -> bool:
    try:
        resolve(release, offline=not fetch)
    except MachineError:
        if fetch:
            raise
        return False
    return True
