"""Rates of runs by release, mode and mix, and of all mixes, with Wilson's intervals of 95 %."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kchaos.checkers.evidence.about import marked
from kchaos.checkers.fingerprint import DRAWN, MUTATED
from kchaos.checkers.run_line import RunLine, is_unknown

ALL_MIXES = "all"
"""The mix of a rate of all mixes together."""
_Z = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The runs of one release, mode and mix, and how many of them are what.

    Attributes:
        release: With the digests of builds, so that two builds of one name are two.
        mode: Where the cluster kept its metadata, in words; "" where the lines do not say it.
        mix: What `mix_of` says of each line.
        lines: One for each run; at least one.
    """

    release: str
    mode: str
    mix: str
    lines: Sequence[RunLine]

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.lines)

    @property
    def safe(self) -> int:
        """Number of runs that are known to be safe."""
        return sum(line.safe is True for line in self.lines)

    @property
    def unsafe(self) -> int:
        """Number of runs that are known not to be safe."""
        return sum(line.safe is False for line in self.lines)

    @property
    def conforming(self) -> int:
        """Number of runs that are known to conform."""
        return sum(line.conforms is True for line in self.lines)

    @property
    def not_conforming(self) -> int:
        """Number of runs that are known not to conform."""
        return sum(line.conforms is False for line in self.lines)

    @property
    def unknown(self) -> int:
        """Number of runs without an answer to one of the two questions, or to both."""
        return sum(map(is_unknown, self.lines))

    @property
    def unsafe_between(self) -> tuple[float, float] | None:
        """Between which rates of unsafe runs the truth is, of runs whose safety is known."""
        return interval(self.unsafe, self.safe + self.unsafe)

    @property
    def not_conforming_between(self) -> tuple[float, float] | None:
        """The same of runs that do not conform."""
        return interval(self.not_conforming, self.conforming + self.not_conforming)


def rates_of(lines: Iterable[RunLine]) -> list[Rate]:
    """Return a rate for each release, mode and mix, in the order of releases, modes and mixes."""
    groups: dict[tuple[tuple[int, ...], str, str, str], list[RunLine]] = defaultdict(list)
    for line in lines:
        number = tuple(int(part) for part in line.release.split(".") if part.isdigit())
        groups[number, release_of(line), mode_of(line), mix_of(line)].append(line)
    return [
        Rate(release=release, mode=mode, mix=mix, lines=group)
        for (_, release, mode, mix), group in sorted(groups.items())
    ]


def totals_of(rates: Iterable[Rate]) -> list[Rate]:
    """Return a rate of all mixes for each release and mode that has several of them."""
    groups: dict[tuple[str, str], list[Rate]] = defaultdict(list)
    for rate in rates:
        groups[rate.release, rate.mode].append(rate)
    return [
        Rate(
            release=release,
            mode=mode,
            mix=ALL_MIXES,
            lines=[line for rate in group for line in rate.lines],
        )
        for (release, mode), group in groups.items()
        if len(group) > 1
    ]


def interval(count: int, of: int) -> tuple[float, float] | None:
    """Return Wilson's interval of 95 % for a rate; None without a count."""
    if not of:
        return None
    rate, square = count / of, _Z * _Z
    middle = rate + square / (2 * of)
    around = _Z * math.sqrt(rate * (1 - rate) / of + square / (4 * of * of))
    whole = 1 + square / of
    return max(0.0, (middle - around) / whole), min(1.0, (middle + around) / whole)


def mix_of(line: RunLine) -> str:
    """Kind of schedule: a drawn one's mix, all mutants of a mix as one, else entry and case."""
    drawn = re.sub(f"(-{MUTATED})-[0-9a-f]+", r"\1", line.case)
    return drawn if line.entry == DRAWN else f"{line.entry} {line.case}".strip()


def release_of(line: RunLine) -> str:
    """Return the release for people, with the builds' digests."""
    return marked(line.release or "no release known", line.build)


def mode_of(line: RunLine) -> str:
    """Where the cluster kept its metadata, for people; an older night's line does not say it."""
    return {"zookeeper": "ZooKeeper", "kraft": "KRaft"}.get(str(line.mode), "")
