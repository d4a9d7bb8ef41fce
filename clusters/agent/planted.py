"""Bugs planted in Kafka on purpose: what the agent changes in which release, read of planted.toml.

Each is a few lines of Byteman's rule language on one method of a released jar: an argument or an
answer is changed, or the method returns at once. They measure kchaos: `kchaos measure --planted`
hunts them. A rule reports at the gate before it acts, so hits.jsonl says whether it ever did.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from typing import Any, Literal

from kchaos.checkers.formats.point_hit import PLANTED
from kchaos.clusters.agent.point import Place, Point
from kchaos.clusters.releases import Release, release_of

Side = Literal["leader", "follower", "broker", "controller"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug(Point):
    """A planted bug; ``places`` are exactly the releases that it fits.

    ``side`` is who misbehaves. ``breaks`` is what Kafka promises and the bug breaks. A finding
    points at the bug if it is of one of the ``kinds`` and its message has one of the ``words``.
    """

    side: Side
    breaks: str
    kinds: tuple[str, ...]
    words: tuple[str, ...]

    def place(self, release: Release) -> Place | None:
        """Return where the bug is in exactly this release, None where it has no such place."""
        return next((place for place in self.places if place.since == release.number), None)

    @property
    def short_name(self) -> str:
        """The name for people, as `--plant` takes it."""
        return self.name.removeprefix(PLANTED)

    @property
    def releases(self) -> tuple[str, ...]:
        """The releases that it fits."""
        return tuple(".".join(map(str, place.since)) for place in self.places)


_NOT_EXPLAINED = ("not-explained", "not-as-predicted")
"""Kinds that may point at every bug."""
_LOST = ("committed-loss", "divergence", "hole", "missing-tail")
"""The kinds that planted.toml calls "lost"."""


def _bug_of(name: str, bug: dict[str, Any], tables: Mapping[str, Any]) -> PlantedBug:
    """Return a bug of its table; a field of its places has one value, or several by release."""
    fields = {"class": bug.pop("class"), "method": bug.pop("method"), "does": bug.pop("does")}
    fields |= {"class": tables["classes"].get(str(fields["class"]), fields["class"])}
    fields |= {"when": bug.pop("when", "TRUE")}

    def place(release: str) -> Place:
        number = release_of(release).number
        of = {key: at if isinstance(at, str) else _newest(at, number) for key, at in fields.items()}
        return Place(number, of["class"], of["method"], when=of["when"], does=of["does"])

    lost_or_not = ((_LOST if kind == "lost" else (kind,)) for kind in bug.pop("kinds", ()))
    return PlantedBug(
        name=PLANTED + name,
        kinds=(*_NOT_EXPLAINED, *chain.from_iterable(lost_or_not)),
        words=tuple(bug.pop("words")),
        places=tuple(map(place, bug.pop("releases", tables["releases"]))),
        **bug,
    )


def _newest(values: Mapping[str, str], number: tuple[int, ...]) -> str:
    """Return the value of the newest release that is not after this one."""
    numbers = {release_of(release).number: value for release, value in values.items()}
    return numbers[max(each for each in numbers if each <= number)]


def _read() -> dict[str, PlantedBug]:
    tables = tomllib.loads(files(__package__).joinpath("planted.toml").read_text("utf-8"))
    return {name: _bug_of(name, bug, tables) for name, bug in tables["bugs"].items()}


PLANTED_BUGS: Mapping[str, PlantedBug] = _read()
"""The planted bugs by short name."""
