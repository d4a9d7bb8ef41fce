"""The SHA-256 of each jar that the known releases run from, as this kchaos has seen them.

A repository vouches for what it sends with a checksum of its own; these digests are ours.
`python -m tests.pinning` resolves every known release and writes them anew. A jar of another
release has none: what was fetched first is trusted from then on, by its lock file.
"""

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from kchaos.clusters.errors import MachineError

PINS = Path(__file__).with_name("pinned_jars.toml")


@cache
def pinned() -> Mapping[str, str]:
    """Return the SHA-256 of each pinned jar, by its place in a Maven repository."""
    table: dict[str, str] = tomllib.loads(PINS.read_text(encoding="utf-8"))
    return table


def is_pinned(artifact: Any) -> bool:
    """Return whether an artifact of jgo's is a jar that is pinned."""
    place: Path = artifact.component.path_prefix / artifact.filename
    return place.as_posix() in pinned()


def refuse_other_jars(jars: Mapping[str, str]) -> None:
    """Refuse a jar whose SHA-256 is not the pinned one.

    Args:
        jars: The SHA-256 of what was fetched, by its place in a Maven repository.

    Raises:
        MachineError: The message names the jar.
    """
    wanted = pinned()
    for place, digest in jars.items():
        if wanted.get(place, digest) != digest:
            raise MachineError(
                f"{place} was fetched with the SHA-256 {digest}, and this kchaos knows it with "
                f"{wanted[place]}: it is torn, or somebody has changed it. Delete it below "
                "~/.m2/repository and try again, and look at the mirror in Maven's settings"
            )


def unpinned(places: Iterable[str]) -> list[str]:
    """Return those of these places in a Maven repository for which nothing is pinned."""
    return sorted(set(places) - pinned().keys())
