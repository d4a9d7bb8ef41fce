"""`kchaos bisect`: between which releases a bug came or went, by playing it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from kchaos.checkers.model.releases.versions import RELEASED, line_of, parse_version
from kchaos.checkers.results import Results
from kchaos.clusters.releases import KRAFT_RELEASES, judging_release_of
from kchaos.harness.catalogue import entry_named, scenario_of
from kchaos.harness.errors import RunUnknown, UsageError
from kchaos.harness.run.own_parts import FILES
from kchaos.harness.run.scenario import Scenario, read_scenario
from kchaos.harness.run.settings import require_trust

IsBad = Callable[[str], bool]
"""Whether a release shows the bug. Raises RunUnknown where that cannot be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """Two releases next to each other, of which only one shows the bug.

    Attributes:
        older: The older of the two.
        newer: The newer of the two: the next release of its line, or the first of a later line.
        is_fix: Whether the older one shows the bug; else the newer one does.
    """

    older: str
    newer: str
    is_fix: bool

    def to_json(self) -> dict[str, Any]:
        """The object that `--json` prints for it."""
        return asdict(self)

    def __str__(self) -> str:
        """The border in words."""
        if self.is_fix:
            return f"fixed: {self.older} shows it, {self.newer} does not"
        return f"came: {self.older} does not show it, {self.newer} does"


def lines_between(one: str, other: str) -> list[list[str]]:
    """The published releases from one to the other, both inclusive, by line, oldest first.

    Raises:
        UsageError: Either was not published, or they are the same.
    """
    for release in (one, other):
        judging_release_of(release)
        if release not in _RELEASES:
            raise UsageError(f"{release} is none of the releases that can be bisected: {_SPAN}")
    older, newer = sorted((one, other), key=parse_version)
    if older == newer:
        raise UsageError(f"good and bad are both {one}: name two releases")
    between = _RELEASES[_RELEASES.index(older) : _RELEASES.index(newer) + 1]
    by_line = groupby(between, key=lambda release: line_of(parse_version(release)))
    return [list(group) for _line, group in by_line]


# The model knows none that has KRaft alone.
_RELEASES = (*RELEASED, *(release for release in KRAFT_RELEASES if release not in RELEASED))
_SPAN = f"{_RELEASES[0]} to {_RELEASES[-1]}"


def borders(lines: Sequence[Sequence[str]], is_bad: IsBad) -> Iterator[Border]:
    """Yields each border, the one between lines first, then backports, the newest line first.

    The first releases of the lines are bisected, and so are the releases within each line whose
    last one is not as its first one. That a bug comes and goes again within a line is not seen.
    """
    first = lines[0][0]
    starts = [line[0] for line in lines]
    if is_bad(starts[-1]) != is_bad(first):
        change = _first_other(starts, is_bad)
        before = lines[change - 1][-1]
        if is_bad(before) == is_bad(first):
            yield _border(before, starts[change], is_bad)
        older = lines[:change]
    else:
        older = list(lines)
    for line in reversed(older):
        if is_bad(line[-1]) != is_bad(line[0]):
            place = _first_other(line, is_bad)
            yield _border(line[place - 1], line[place], is_bad)


def _first_other(releases: Sequence[str], is_bad: IsBad) -> int:
    """The place of the first release that is not as the first one; the last one is not."""
    low, high = 0, len(releases) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if is_bad(releases[middle]) == is_bad(releases[0]):
            low = middle
        else:
            high = middle
    return high


def _border(older: str, newer: str, is_bad: IsBad) -> Border:
    return Border(older=older, newer=newer, is_fix=is_bad(older))


def scenario_file(name: str) -> Path | None:
    """The file of a scenario, or of a run, that a name means; None if it means an entry."""
    file = Path(name)
    file = file / "scenario.json" if file.is_dir() else file
    return file if file.is_file() and file.suffix != FILES else None


def scenario_for(name: str, case: str | None, release: str, *, trusted: bool = False) -> Scenario:
    """A case of an entry, or the scenario of a file, on a release.

    Args:
        trusted: Whether a file may run commands and code, and set what may do more than that.

    Raises:
        UsageError: There is no such entry or case, or the release cannot show it; or the entry has
            several cases and none is named.
    """
    file = scenario_file(name)
    if file is not None:
        scenario = read_scenario(file, trusted=trusted)
        if not trusted:
            require_trust(scenario, file)
        brokers = tuple(
            replace(broker, kafka=release, judged_as=None) for broker in scenario.cluster.brokers
        )
        cluster = replace(scenario.cluster, brokers=brokers)
        return replace(scenario, release=release, cluster=cluster, expectation=None)
    entry = entry_named(name)
    if case is None and len(entry.cases) > 1:
        raise UsageError(f"{entry.name} has several cases: name --case {', '.join(entry.cases)}")
    chosen = next(iter(entry.cases)) if case is None else case
    return scenario_of(entry, chosen, release)


def findings_of_bug(name: str, case: str | None) -> frozenset[str]:
    """The kinds of findings with which an entry's case shows its bug, on any release.

    None where that is not written: for a file, and a case that is expected to be safe everywhere.
    """
    expectations = {} if scenario_file(name) is not None else entry_named(name).expectations
    return frozenset(
        finding[0]
        for (of_case, _release), expected in expectations.items()
        if case in (None, of_case)
        for finding in expected.findings
    )


def shows_bug(results: Results, kinds: frozenset[str]) -> bool | None:
    """Whether a judged run shows the bug; None where that is unknown.

    Args:
        results: What is known of the run.
        kinds: As `findings_of_bug` gives them; without any an unsafe run shows it. A run that is
            unsafe without any of these kinds shows something else, so that it is unknown whether
            the bug is there.
    """
    if results.safe is None:
        return None
    if not kinds:
        return not results.safe
    if any(finding.kind in kinds for finding in results.findings):
        return True
    return False if results.safe else None


class Plays:
    """Plays each release when it is first asked about, and keeps what came of it.

    Args:
        play: Plays a release; whether it shows the bug, None for unknown.
        say: Is told of each.
    """

    def __init__(self, play: Callable[[str], bool | None], *, say: Callable[[str], None]) -> None:
        self._play = play
        self._say = say
        self.answers: dict[str, list[bool]] = {}

    def is_bad(self, release: str) -> bool:
        """Whether the release shows the bug, by its first play.

        Raises:
            RunUnknown: The play was unknown.
        """
        return (self.answers.get(release) or self.again(release))[0]

    def require(self, *, good: str, bad: str) -> None:
        """Plays both.

        Raises:
            UsageError: They are not as they are called.
            RunUnknown: A play was unknown.
        """
        if not self.is_bad(bad):
            raise UsageError(f"{bad} does not show the bug: --bad must name a release that does")
        if self.is_bad(good):
            raise UsageError(f"{good} shows the bug: --good must name a release that does not")

    def again(self, release: str) -> list[bool]:
        """Plays it once more; returns all of its answers.

        Raises:
            RunUnknown: The play was unknown.
        """
        is_bad = self._play(release)
        if is_bad is None:
            raise RunUnknown(
                f"{release} was unknown, or unsafe but not by this bug, so no border can "
                "be told: see its report, or name other releases"
            )
        self._say(f"{release} {'shows it' if is_bad else 'does not show it'}")
        answers = self.answers.setdefault(release, [])
        answers.append(is_bad)
        return answers

    def confirmed(self, border: Border, runs: int) -> Mapping[str, str]:
        """Plays both sides of a border until each has so many plays; "k of n" for each."""
        told = {}
        for release, expected in ((border.older, border.is_fix), (border.newer, not border.is_fix)):
            while len(self.answers.get(release, ())) < runs:
                self.again(release)
            same = self.answers[release].count(expected)
            told[release] = f"{same} of {len(self.answers[release])}"
        return told
