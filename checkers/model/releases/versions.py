"""Kafka's releases: which there are, and from which of them on a broker behaves in a given way.

A fix usually lands in several release lines, so that one "from here on" can not say who has it:
KAFKA-14704 is in 3.4.1 and in 3.5.0, and not in 3.4.0. `Since` names the first release of each line
that got it, as Kafka's own list of fix versions does.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby, pairwise

from kchaos.checkers.errors import ModelError

Version = tuple[int, int, int, int]
"""Four numbers: 1.1.1 is (1, 1, 1, 0), 0.10.2.2 is (0, 10, 2, 2)."""

ANY_IV = 99
"""The last field of a protocol version that names no IV: the newest of that release line."""

RELEASED: tuple[str, ...] = (
    *("0.10.2.0", "0.10.2.1", "0.10.2.2"),
    *("0.11.0.0", "0.11.0.1", "0.11.0.2", "0.11.0.3"),
    *("1.0.0", "1.0.1", "1.0.2"),
    *("1.1.0", "1.1.1"),
    *("2.0.0", "2.0.1"),
    *("2.1.0", "2.1.1"),
    *("2.2.0", "2.2.1", "2.2.2"),
    *("2.3.0", "2.3.1"),
    *("2.4.0", "2.4.1"),
    *("2.5.0", "2.5.1"),
    *("2.6.0", "2.6.1", "2.6.2", "2.6.3"),
    *("2.7.0", "2.7.1", "2.7.2"),
    *("2.8.0", "2.8.1", "2.8.2"),
    *("3.0.0", "3.0.1", "3.0.2"),
    *("3.1.0", "3.1.1", "3.1.2"),
    *("3.2.0", "3.2.1", "3.2.2", "3.2.3"),
    *("3.3.0", "3.3.1", "3.3.2"),
    *("3.4.0", "3.4.1"),
    *("3.5.0", "3.5.1", "3.5.2"),
    *("3.6.0", "3.6.1", "3.6.2"),
    *("3.7.0", "3.7.1", "3.7.2"),
    *("3.8.0", "3.8.1"),
    *("3.9.0", "3.9.1", "3.9.2"),
)
"""Every release from 0.10.2 to 3.9 that was published, oldest first."""

WITHOUT_ZOOKEEPER = "4.0.0"
"""The first release that has none."""

LOOKED_UP: tuple[str, ...] = (
    *RELEASED,
    *(WITHOUT_ZOOKEEPER, "4.0.1", "4.0.2"),
    *("4.1.0", "4.1.1", "4.1.2"),
    *("4.2.0", "4.2.1"),
    *("4.3.0", "4.3.1", "4.4.0"),
)
"""Every release in whose source each rule was looked up, or in its class files."""


_FIRST_METADATA_VERSIONS: tuple[tuple[int, str], ...] = (
    *((4, "3.3"), (8, "3.4"), (9, "3.5"), (12, "3.6"), (15, "3.7"), (20, "3.8"), (21, "3.9")),
    *((22, "4.0"), (26, "4.1"), (28, "4.2"), (30, "4.3"), (31, "4.4"), (34, "")),
)
"""The level of each line's IV0 (org.apache.kafka.server.common.MetadataVersion, 4.4.0)."""


def metadata_version(level: int) -> str:
    """Return the name of a level of metadata.version: 7 is "3.3-IV3".

    Raises:
        ModelError: Kafka has none up to 4.4, or none for KRaft.
    """
    for (first, line), (after, _) in pairwise(_FIRST_METADATA_VERSIONS):
        if first <= level < after:
            return f"{line}-IV{level - first}"
    raise ModelError(f"metadata.version {level} is none of Kafka 3.3 to 4.4")


@lru_cache(maxsize=256)
def parse_version(text: str) -> Version:
    """Return a release as four numbers.

    Raises:
        ModelError: It is none.
    """
    parts = text.split(".")
    if not 2 <= len(parts) <= 4 or not all(part.isdecimal() for part in parts):
        raise ModelError(f"{text!r} is not a Kafka release; write it like 1.1.1 or 0.10.2.2")
    numbers = [int(part) for part in parts] + [0] * (4 - len(parts))
    return numbers[0], numbers[1], numbers[2], numbers[3]


def parse_protocol(text: str) -> Version:
    """Return a value of `inter.broker.protocol.version` as four numbers, its IV the last one.

    Raises:
        ModelError: It is none.
    """
    version, _, iv = text.partition("-IV")
    if "-IV" in text and not iv.isdecimal():
        raise ModelError(f"{text!r} is not a protocol version; write it like 1.1 or 2.7-IV1")
    numbers = parse_version(version)
    own = int(iv) if iv else ANY_IV
    if numbers[0] == 0:
        return numbers[0], numbers[1], numbers[2], own
    return numbers[0], numbers[1], 0, own


def line_of(version: Version) -> tuple[int, ...]:
    """Return the release line: three numbers before 1.0, as in 0.10.2, and two from then on."""
    return version[:3] if version[0] == 0 else version[:2]


@dataclass(frozen=True, slots=True, init=False)
class Since:
    """The first release that behaves so, in each release line that did not do so from its start.

    Attributes:
        first_releases: Such as ("3.4.1", "3.5.0"), oldest first. Lines after the last one behave
            so from their start; a line in between that is not named never does.
    """

    first_releases: tuple[str, ...]
    _firsts: tuple[Version, ...]

    def __init__(self, *first_releases: str) -> None:
        """Take the first releases, oldest first, at most one of each line.

        Raises:
            ModelError: A release that cannot be read, none, or two of one line or out of order.
        """
        firsts = tuple(parse_version(release) for release in first_releases)
        lines = [line_of(version) for version in firsts]
        if not lines or lines != sorted(set(lines)):
            raise ModelError(
                f"{first_releases!r} are no first releases; name one of each line, oldest first"
            )
        object.__setattr__(self, "first_releases", first_releases)
        object.__setattr__(self, "_firsts", firsts)

    @property
    def first(self) -> Version:
        """Return the oldest of them."""
        return self._firsts[0]

    def includes(self, version: Version) -> bool:
        """Return whether that release behaves so."""
        line = line_of(version)
        for first in self._firsts:
            if line_of(first) == line:
                return version >= first
        return line > line_of(self._firsts[-1])

    def __str__(self) -> str:
        """Return such as "3.4.1, 3.5.0 on"."""
        return f"{', '.join(self.first_releases)} on"


@dataclass(frozen=True, slots=True)
class ReleaseRange:
    """The releases that behave so: from `since` on and, if it ended again, before `until`."""

    since: Since
    until: Since | None = None

    def includes(self, version: Version) -> bool:
        """Return whether that release behaves so."""
        ended = self.until is not None and self.until.includes(version)
        return self.since.includes(version) and not ended

    def released(self) -> tuple[str, ...]:
        """Return the releases that behave so, of those that were looked up, oldest first."""
        return tuple(release for release in LOOKED_UP if self.includes(parse_version(release)))

    def __str__(self) -> str:
        """Return such as "2.1.0 to 2.4.1", or what `runs` has of several ranges."""
        return runs(self.released())


def runs(releases: tuple[str, ...]) -> str:
    """Return releases as runs of what was released one after the other: "0.11.0.3, 2.0.0 to 3.9.2".

    What goes on to the last release that was looked up is said as "on".
    """
    numbered = [(LOOKED_UP.index(release), release) for release in releases]
    parts = []
    for _, group in groupby(enumerate(numbered), key=lambda item: item[1][0] - item[0]):
        run = [release for _, (_, release) in group]
        if run[-1] == LOOKED_UP[-1]:
            parts.append(f"{run[0]} on")
        else:
            parts.append(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}")
    return ", ".join(parts) or "none"
