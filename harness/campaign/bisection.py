"""`kchaos bisect`: between which releases or builds a bug came or went, by running it."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from kchaos.checkers.model.releases.versions import RELEASED, line_of, parse_version
from kchaos.checkers.run_line import RunLine
from kchaos.clusters.front.ready import fetch
from kchaos.clusters.releases import KRAFT_RELEASES, judging_release_of, release_of
from kchaos.harness.campaign.campaign import Campaign, InThisProcess
from kchaos.harness.campaign.results_file import ResultsFile
from kchaos.harness.catalogue import entry_named, scenario_of
from kchaos.harness.errors import RunUnknown, UsageError
from kchaos.harness.run.own_parts import FILES
from kchaos.harness.run.own_settings import with_settings_beneath
from kchaos.harness.run.runner import RunOptions
from kchaos.harness.run.scenario import Scenario
from kchaos.harness.run.settings import trusted_scenario

IsBad = Callable[[str], bool]
"""Whether a release shows the bug. Raises RunUnknown where that cannot be said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """Two releases or builds next to each other, of which only one shows the bug.

    Attributes:
        older: The older of the two.
        newer: The newer of the two: the next release of its line, or the first of a later line. It
            is the first good one if `is_fix`, else the first bad one.
        is_fix: Whether the older one shows the bug; else the newer one does.
    """

    older: str
    newer: str
    is_fix: bool

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return asdict(self) | {"first_good" if self.is_fix else "first_bad": self.newer}

    def with_runs(self, shown: Mapping[str, tuple[int, int]]) -> str:
        """Describe the border with the number of runs of each side that show the bug, of all.

        A build has the name of its folder entry.
        """
        (shown_older, of_older), (shown_newer, of_newer) = shown[self.older], shown[self.newer]
        older, newer = Path(self.older).name, Path(self.newer).name
        return (
            f"{'fixed in' if self.is_fix else 'broken since'} {newer}: {older} shows it in "
            f"{shown_older} of {of_older} runs, {newer} in {shown_newer} of {of_newer}"
        )

    def is_sure(self, shown: Mapping[str, tuple[int, int]]) -> bool:
        """Return whether all runs of both sides, given as in `with_runs`, agree."""
        sides = (shown[self.older], shown[self.newer])
        (bad, of_bad), (good, _) = sides if self.is_fix else sides[::-1]
        return bad == of_bad and good == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSpan:
    """Releases that are gone through.

    Attributes:
        lines: Releases by line, or builds as one line; the oldest first.
        good: What is said not to show the bug; "" if nothing is said.
        bad: What is said to show it; "" likewise.
    """

    lines: Sequence[Sequence[str]]
    good: str = ""
    bad: str = ""


def span_of_releases(
    name: str, case: str | None, scenario: Scenario | None, *, good: str | None, bad: str | None
) -> ReleaseSpan:
    """Return the releases between the two given, or those of the entry or scenario.

    Of an entry these are the furthest apart of which it says that they show the bug and do not. A
    scenario's own release shows it, and the newest one with ZooKeeper does not.

    Raises:
        UsageError: One is not named and nothing says which, or they are no releases to bisect.
    """
    if scenario is not None:
        good, bad = good or RELEASED[-1], bad or scenario.release
    elif good is None or bad is None:
        known_good, known_bad = _stated(name, case)
        good, bad = good or known_good, bad or known_bad
    return ReleaseSpan(lines=lines_between(good, bad), good=good, bad=bad)


def _stated(name: str, case: str | None) -> tuple[str, str]:
    entry = entry_named(name)
    sides: dict[bool, list[str]] = {True: [], False: []}
    for (of_case, release), expected in entry.expectations.items():
        if case in (None, of_case) and release in _RELEASES:
            sides[expected.is_green].append(release)
    good, bad = (sorted(sides[is_green], key=parse_version) for is_green in (True, False))
    if not good or not bad:
        raise UsageError(
            f"{entry.name} does not name both a release that shows it and one that does not: name "
            "--good and --bad"
        )
    is_fix = parse_version(good[-1]) > parse_version(bad[0])
    return (good[-1], bad[0]) if is_fix else (good[0], bad[-1])


def span_of_builds(folder: Path, *, good: str | None, bad: str | None) -> ReleaseSpan:
    """Return the builds in a folder, in the order of their names.

    Numbers count as numbers, and a release candidate comes before its release. A .tgz beside the
    folder into which it was unpacked is no build of its own.

    Args:
        folder: It has distribution folders or .tgz files.
        good: The name of one of them, with or without .tgz; None for the end of the span that
            does not show it.
        bad: Likewise.

    Raises:
        UsageError: There are fewer than two, or none has such a name.
    """
    by_name = {build.name.removesuffix(_ARCHIVE): str(build) for build in _builds_in(folder)}
    by_name = {name: by_name[name] for name in sorted(by_name, key=_natural)}
    builds = [*by_name.values()]
    good, bad = (named and named.removesuffix(_ARCHIVE) for named in (good, bad))
    if len(builds) < 2:
        raise UsageError(
            f"{folder} has {len(builds)} builds of Kafka, and a border needs two. Put distribution "
            "folders or .tgz files into it, whose names sort from the oldest to the newest"
        )
    for named in (good, bad):
        if named is not None and named not in by_name:
            raise UsageError(f"{folder} has no build {named}; it has {', '.join(by_name)}")
    if good is not None and good == bad:
        raise UsageError(f"good and bad are both {good}: name two builds")
    ends = [builds.index(by_name[named]) for named in (good, bad) if named is not None]
    if len(ends) > 1:
        builds = builds[min(ends) : max(ends) + 1]
    return ReleaseSpan(
        lines=[builds], good=by_name.get(good or "", ""), bad=by_name.get(bad or "", "")
    )


def _builds_in(folder: Path) -> Iterator[Path]:
    """Yield the builds, folders last."""
    try:
        inside = sorted(folder.iterdir(), key=Path.is_dir)
    except OSError as error:
        raise UsageError(f"{folder} is no folder of builds: {error.strerror}") from error
    for path in inside:
        if path.suffix == _ARCHIVE or (path / "libs").is_dir():
            yield path


def _natural(name: str) -> list[tuple[int, str, int]]:
    parts = re.findall(r"(\D*)(\d*)", name)
    return [(_before_release(text), text, int(digits or -1)) for text, digits in parts]


def _before_release(text: str) -> int:
    """0, and less for what comes before a release of the same number."""
    word = re.match(r"[-.]?([a-z]+)", text.lower())
    stage = word.group(1) if word else ""
    return _STAGES.index(stage) - len(_STAGES) if stage in _STAGES else 0


def lines_between(first: str, other: str) -> list[list[str]]:
    """Return the published releases between two, both inclusive, by line, oldest first.

    Raises:
        UsageError: Either was not published, or they are the same.
    """
    for release in (first, other):
        judging_release_of(release)
        if release not in _RELEASES:
            raise UsageError(f"{release} is none of the releases that can be bisected: {_SPAN}")
    older, newer = sorted((first, other), key=parse_version)
    if older == newer:
        raise UsageError(f"good and bad are both {first}: name two releases")
    between = _RELEASES[_RELEASES.index(older) : _RELEASES.index(newer) + 1]
    by_line = groupby(between, key=lambda release: line_of(parse_version(release)))
    return [list(group) for _line, group in by_line]


# The model knows none that has KRaft alone.
_RELEASES = (*RELEASED, *(release for release in KRAFT_RELEASES if release not in RELEASED))
_ARCHIVE = ".tgz"
_STAGES = ("snapshot", "alpha", "beta", "rc")
"""Stages of a build before its release, the earliest first."""
_SPAN = f"{_RELEASES[0]} to {_RELEASES[-1]}"


def borders(lines: Sequence[Sequence[str]], is_bad: IsBad) -> Iterator[Border]:
    """Yield each border: between lines first, then backports, newest line first.

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
    """Return the index of the first release unlike the first; the last is known to be."""
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
    """Return the file of a scenario or a run with this name; None for an entry."""
    file = Path(name)
    file = file / "scenario.json" if file.is_dir() else file
    return file if file.is_file() and file.suffix != FILES else None


def scenario_given(name: str, *, trusted: bool) -> Scenario | None:
    """Return the scenario of a file or run; None if the name means an entry.

    A `trusted` scenario may run commands and code, and have any settings.

    Raises:
        ScenarioError, UsageError: It is none, or needs trust.
    """
    file = scenario_file(name)
    return None if file is None else trusted_scenario(file, trust=trusted)


def scenario_for(
    name: str, case: str | None, release: str, *, rules: str = "", trusted: bool = False
) -> Scenario:
    """Return the scenario of an entry's case, or of a file, on a release.

    `release` may be the path of a build, whose nearest release is `rules`. A `trusted` file may run
    commands and code, and have any settings.

    Raises:
        UsageError: There is no such entry or case, or the release cannot show it; or the entry has
            several cases and none is named.
    """
    scenario = scenario_given(name, trusted=trusted)
    if scenario is not None:
        brokers = tuple(
            replace(broker, kafka=release, judged_as=None) for broker in scenario.cluster.brokers
        )
        cluster = replace(scenario.cluster, brokers=brokers)
        return replace(scenario, release=release, cluster=cluster, expectation=None)
    entry = entry_named(name)
    if case is None and len(entry.cases) > 1:
        raise UsageError(f"{entry.name} has several cases: name --case {', '.join(entry.cases)}")
    chosen = next(iter(entry.cases)) if case is None else case
    return scenario_of(entry, chosen, release, release=rules)


def findings_of_bug(name: str, case: str | None) -> frozenset[str]:
    """Return the kinds of findings by which an entry's case shows its bug on any release.

    None where that is not written: for a file, and a case that is expected to be safe everywhere.
    """
    expectations = {} if scenario_file(name) is not None else entry_named(name).expectations
    return frozenset(
        finding[0]
        for (of_case, _release), expected in expectations.items()
        if case in (None, of_case)
        for finding in expected.findings
    )


def shows_bug(line: RunLine, kinds: frozenset[str]) -> bool | None:
    """Return whether a judged run shows the bug, or None if that is unknown.

    `line` is the run's. `kinds` are as of `findings_of_bug`; without any an unsafe run shows it. A
    run that is unsafe without any of these kinds shows something else: it is unknown.
    """
    if line.safe is None:
        return None
    if not kinds:
        return not line.safe
    if any(finding.kind in kinds for finding in line.findings):
        return True
    return False if line.safe else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """A bisection: its scenario, and the releases or builds that are searched.

    Attributes:
        name: An entry, or the file of a scenario or run.
        case: Of the entry; None where it has one.
        span: What is gone through.
        rules: The nearest release to each build; empty for releases.
        trusted: Whether a file may run commands and code, and set what may do more than that.
        properties: A server.properties with settings beneath those of the scenario, if any.
    """

    name: str
    case: str | None
    span: ReleaseSpan
    rules: Mapping[str, str]
    trusted: bool
    properties: Path | None = None

    @property
    def file_name(self) -> str:
        """Name of the file of what was run, until all borders are found."""
        settings = b"" if self.properties is None else self.properties.read_bytes()
        asked = repr((Path(self.name).stem, self.case, self.span.lines, settings))
        return f"bisect-{hashlib.sha256(asked.encode()).hexdigest()[:12]}.jsonl"

    def most_runs(self, runs: int) -> int:
        """Return how many runs one border between lines takes, with so many of each side."""
        lines = self.span.lines
        longest = max(map(len, lines))
        return 2 + len(lines).bit_length() + longest.bit_length() + 2 * (runs - 1)

    def scenario(self, kafka: str) -> Scenario:
        """Return the scenario to run on a release or build. Raises as `scenario_for`."""
        return scenario_for(
            self.name, self.case, kafka, rules=self.rules.get(kafka, ""), trusted=self.trusted
        )


def search_for(
    name: str,
    case: str | None,
    builds: Path | None,
    *,
    good: str | None,
    bad: str | None,
    trusted: bool,
    properties: Path | None = None,
    options: RunOptions,
    say: Callable[[str], None],
) -> Search:
    """Fetch all Kafkas and return the search, or refuse it before any cluster starts.

    `builds` is a folder of builds, or None for releases. `properties` is as in `Search`.

    Raises:
        UsageError: As of `span_of_releases`, `span_of_builds` and `scenario_for`.
        ScenarioError: The file is no scenario.
        ReleaseError, MachineError: A Kafka is none, or cannot be had.
    """
    rules: dict[str, str] = {}
    if builds is None:
        given = scenario_given(name, trusted=trusted)
        span = span_of_releases(name, case, given, good=good, bad=bad)
    else:
        span = span_of_builds(builds, good=good, bad=bad)
    search = Search(
        name=name, case=case, span=span, rules=rules, trusted=trusted, properties=properties
    )
    if builds is None:
        search.scenario(span.bad)
    for kafka in chain(*span.lines):
        distribution = fetch(kafka, driver=options.driver, offline=options.offline, say=say)
        if builds is not None:
            rules[kafka] = release_of(distribution.release).judged_as
            search.scenario(kafka)
    return search


def confirmed_borders(
    search: Search, *, runs: int, options: RunOptions, say: Callable[[str], None]
) -> Iterator[tuple[Border, Mapping[str, tuple[int, int]]]]:
    """Run what is needed; yield each border, with runs of both sides as in `with_runs`.

    Only verdicts are written, no reports. What was run is kept beside the runs until all borders
    are found, so that the same command goes on after a stop.

    Raises:
        UsageError: What is called good or bad is not.
        RunUnknown: A run was unknown.
        MachineError: The machine cannot go on.
    """
    kinds = findings_of_bug(search.name, search.case)
    # However often a Kafka is run, what its peers cannot read is said once.
    player = InThisProcess(
        options=options, say=lambda _text: None, warn=cache(say), has_report=False
    )

    known = ResultsFile(options.runs_directory / search.file_name)
    once = cache(say)

    def scenario(kafka: str) -> Scenario:
        return with_settings_beneath(search.scenario(kafka), search.properties, options, once)

    def keep(_kafka: str, line: RunLine) -> None:
        say(f"run: {line.run}")
        known.append(line)

    def run_kafka(kafka: str) -> bool | None:
        left = max(1, search.most_runs(runs) - len(known.lines))
        runs_are = "run is" if left == 1 else "runs are"
        say(f"running {Path(kafka).name}; about {left} {runs_are} left with it")
        Campaign(player=player).run([kafka], scenario, keep)
        return shows_bug(known.lines[-1], kinds)

    answers = Answers(run_kafka, say=say)
    for line in known.lines:
        is_bad = shows_bug(line, kinds)
        if is_bad is not None:
            answers.by_release.setdefault(line.kafka, []).append(is_bad)
    if answers.by_release:
        say(f"it goes on from {known.path}: {answers.so_far()}")
    try:
        answers.require(search.span)
        for border in borders(search.span.lines, answers.is_bad):
            yield border, answers.confirmed(border, runs)
    except BaseException:
        if answers.by_release:
            say(f"so far: {answers.so_far()}; the same command goes on from there")
        raise
    known.path.unlink(missing_ok=True)


class Answers:
    """Runs each release when it is first asked about, and keeps what came of it.

    Args:
        run: Runs a release; whether it shows the bug, None for unknown.
        say: Called with a line for each.
    """

    def __init__(self, run: Callable[[str], bool | None], *, say: Callable[[str], None]) -> None:
        self._run = run
        self._say = say
        self.by_release: dict[str, list[bool]] = {}

    def is_bad(self, release: str) -> bool:
        """Whether the release shows the bug, by its first run.

        Raises:
            RunUnknown: The run was unknown.
        """
        return (self.by_release.get(release) or self.again(release))[0]

    def require(self, span: ReleaseSpan) -> None:
        """Run what is called good and bad, and both ends of the span where neither or one is.

        Raises:
            UsageError: They are not as they are called, or both ends are alike.
            RunUnknown: A run was unknown.
        """
        good, bad = Path(span.good).name, Path(span.bad).name
        if bad and not self.is_bad(span.bad):
            raise UsageError(f"{bad} does not show the bug: --bad must name one that does")
        if good and self.is_bad(span.good):
            raise UsageError(f"{good} shows the bug: --good must name one that does not")
        first, last = span.lines[0][0], span.lines[-1][-1]
        if not (good and bad) and self.is_bad(first) == self.is_bad(last):
            answer = "both show the bug" if self.is_bad(first) else "neither shows the bug"
            raise UsageError(
                f"of {Path(first).name} and {Path(last).name} {answer}: name --good and --bad"
            )

    def again(self, release: str) -> list[bool]:
        """Run it once more; return all of its answers.

        Raises:
            RunUnknown: The run was unknown.
        """
        is_bad = self._run(release)
        if is_bad is None:
            raise RunUnknown(
                f"{Path(release).name} was unknown, or unsafe but not by this bug, so no border "
                "can be named: look at its run, or name others"
            )
        self._say(f"{Path(release).name} {'shows it' if is_bad else 'does not show it'}")
        answers = self.by_release.setdefault(release, [])
        answers.append(is_bad)
        return answers

    def so_far(self) -> str:
        """Describe what is known, release by release."""
        return ", ".join(
            f"{Path(release).name} {'shows it' if answers[0] else 'does not show it'}"
            for release, answers in self.by_release.items()
        )

    def confirmed(self, border: Border, runs: int) -> Mapping[str, tuple[int, int]]:
        """Run both sides of a border until each has so many runs; as in `Border.with_runs`."""
        shown = {}
        for release in (border.older, border.newer):
            while len(self.by_release.get(release, ())) < runs:
                self.again(release)
            shown[release] = sum(self.by_release[release]), len(self.by_release[release])
        return shown
