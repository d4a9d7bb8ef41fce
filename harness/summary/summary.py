"""A night beside an earlier one: what is new, gone and still there, and rates with intervals."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kchaos.checkers.evidence.about import marked
from kchaos.checkers.fingerprint import DRAWN
from kchaos.checkers.results import is_unknown
from kchaos.harness.summary.exercised import Exercised, exercised_by
from kchaos.harness.summary.lines import WITHOUT_SERVICE, Line

UNSAFE, NOT_CONFORMING, IS_UNKNOWN, NEW = "unsafe", "not-conforming", "unknown", "new"
FAIL_ON = (UNSAFE, NOT_CONFORMING, IS_UNKNOWN, NEW)
BY_DEFAULT = (UNSAFE, NOT_CONFORMING, IS_UNKNOWN)
"""What fails a night unless it says otherwise: all that is known to be wrong, or is not known."""
FAILS, PASSES = "fails", "passes"
STILL, GONE = "still there", "gone"
_MOST_GATES = 12
_Z = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """How many of a release's runs of one mix are what; intervals are Wilson's, of 95 %."""

    release: str
    mode: str
    mix: str
    runs: int
    safe: int
    unsafe: int
    conforming: int
    not_conforming: int
    unknown: int

    @property
    def unsafe_between(self) -> tuple[float, float] | None:
        """Between which rates of unsafe runs the truth is, of runs whose safety is known."""
        return interval(self.unsafe, self.safe + self.unsafe)

    @property
    def not_conforming_between(self) -> tuple[float, float] | None:
        """The same of runs that do not conform."""
        return interval(self.not_conforming, self.conforming + self.not_conforming)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """How long runs had no service of one kind.

    Attributes:
        runs: In how many it was measured.
        longest_run: The run that had none for the longest.
    """

    runs: int
    median_s: float
    longest_s: float
    longest_run: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """For how long a release's runs of one mix had no service.

    Attributes:
        seconds: By the names of `WITHOUT_SERVICE`; None where no run measured it.
    """

    release: str
    mode: str
    mix: str
    runs: int
    seconds: Mapping[str, Seconds | None]


@dataclass(slots=True, kw_only=True)
class Bug:
    """All findings with one fingerprint on one release.

    Attributes:
        status: "new", "still there" or "gone"; "" without a baseline.
        runs: The runs that show it; of one that is gone those of the baseline.
    """

    fingerprint: str
    release: str
    kind: str
    question: str
    message: str
    status: str = ""
    runs: list[Line] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What is said of a night.

    Attributes:
        fail_on: Which of `FAIL_ON` make a run fail.
        bugs: New ones first, then what is still there, then what is gone; the frequent ones first.
        new: Fingerprints and releases of the new ones.
        service: Of the releases and mixes of `rates` those of which anything was measured.
        gates: The slowest: seconds, name, and the run.
        exercised: Faults, pairs of faults and rules.
        warnings: What the reader must know of the comparison, or of how the night ended.
    """

    lines: Sequence[Line]
    fail_on: tuple[str, ...]
    baseline: str | None
    bugs: Sequence[Bug]
    new: frozenset[tuple[str, str]]
    rates: Sequence[Rate]
    service: Sequence[Service]
    gates: Sequence[tuple[float, str, Line]]
    exercised: Exercised
    warnings: Sequence[str]

    @property
    def failing(self) -> list[Line]:
        """The runs that fail."""
        return [line for line in self.lines if self.why_failing(line)]

    def why_failing(self, line: Line) -> list[str]:
        """Which of `fail_on` the run is."""
        return reasons_to_fail(line, self.fail_on, new=self.new)

    @property
    def answer(self) -> str:
        """ "fails" if a run is unsafe, does not conform or is new, as asked; else "passes".

        It is "unknown" if what fails is only that, or if nothing is known of any run, whatever was
        asked.
        """
        reasons = {reason for line in self.lines for reason in self.why_failing(line)}
        if reasons - {IS_UNKNOWN}:
            return FAILS
        all_unknown = all(is_unknown(line) for line in self.lines)
        return IS_UNKNOWN if reasons or all_unknown else PASSES


def summary_of(
    lines: Sequence[Line],
    *,
    baseline: Sequence[Line] | None = None,
    baseline_name: str = "",
    fail_on: Sequence[str] = BY_DEFAULT,
    warnings: Sequence[str] = (),
) -> Summary:
    """The summary of a night's lines, beside those of an earlier night if there are such."""
    bugs = _bugs(lines)
    warned = list(warnings)
    if baseline is not None:
        before = _bugs(baseline)
        played, known = _releases(lines), _releases(baseline)
        for key, bug in bugs.items():
            bug.status = STILL if key in before else NEW
        for key, bug in before.items():
            if key not in bugs and bug.release in played:
                bug.status = GONE
                bugs[key] = bug
        if missing := sorted(played - known):
            warned.append(
                f"the baseline has no run of {', '.join(missing)} (it has "
                f"{', '.join(sorted(known)) or 'none'}): whatever they show counts as new"
            )
        if missing := sorted(known - played):
            warned.append(
                f"{', '.join(missing)} of the baseline was not played: its bugs are not compared"
            )
    order = (NEW, "", STILL, GONE)
    return Summary(
        lines=lines,
        fail_on=tuple(fail_on),
        baseline=None if baseline is None else baseline_name,
        bugs=sorted(
            bugs.values(),
            key=lambda bug: (order.index(bug.status), -len(bug.runs), bug.release, bug.kind),
        ),
        new=frozenset(key for key, bug in bugs.items() if bug.status == NEW),
        rates=_rates(lines),
        service=_service(lines),
        gates=_slowest(lines),
        exercised=exercised_by(lines),
        warnings=warned,
    )


def reasons_to_fail(
    line: Line, fail_on: Sequence[str], *, new: frozenset[tuple[str, str]] = frozenset()
) -> list[str]:
    """Which of `fail_on` a run is; `new` are the fingerprints and releases of new findings."""
    release = str(line["release"])
    said = {
        UNSAFE: line["safe"] is False,
        NOT_CONFORMING: line["conforms"] is False,
        IS_UNKNOWN: is_unknown(line),
        NEW: any((finding["fingerprint"], release) in new for finding in line["findings"]),
    }
    return [name for name in fail_on if said[name]]


def interval(count: int, of: int) -> tuple[float, float] | None:
    """Wilson's interval of 95 % for a rate; None where nothing was counted."""
    if not of:
        return None
    rate, square = count / of, _Z * _Z
    middle = rate + square / (2 * of)
    around = _Z * math.sqrt(rate * (1 - rate) / of + square / (4 * of * of))
    whole = 1 + square / of
    return max(0.0, (middle - around) / whole), min(1.0, (middle + around) / whole)


def mix_of(line: Line) -> str:
    """What kind of schedule it was: a drawn one's mix, else entry and case."""
    entry, case = str(line["entry"]), str(line["case"])
    return case if entry == DRAWN else f"{entry} {case}".strip()


def release_of(line: Line) -> str:
    """The release for people: with the builds' digests."""
    return marked(str(line["release"]) or "no release known", str(line.get("build") or ""))


def mode_of(line: Line) -> str:
    """Where the cluster kept its metadata, for people; an older night's line does not say it."""
    return {"zookeeper": "ZooKeeper", "kraft": "KRaft"}.get(str(line.get("mode")), "")


def _bugs(lines: Iterable[Line]) -> dict[tuple[str, str], Bug]:
    bugs: dict[tuple[str, str], Bug] = {}
    for line in lines:
        for finding in line["findings"]:
            key = finding["fingerprint"], str(line["release"])
            if key not in bugs:
                told = {name: finding[name] for name in ("kind", "question", "message")}
                bugs[key] = Bug(fingerprint=key[0], release=key[1], **told)
            bugs[key].runs.append(line)
    return bugs


def _releases(lines: Iterable[Line]) -> set[str]:
    return {str(line["release"]) for line in lines if line["release"]}


def _of_one_kind(lines: Iterable[Line]) -> Iterator[tuple[dict[str, str], list[Line]]]:
    """Yields the runs of each release, mode and mix, by release, with these three in words."""
    groups: dict[tuple[tuple[int, ...], str, str, str], list[Line]] = defaultdict(list)
    for line in lines:
        number = tuple(int(part) for part in str(line["release"]).split(".") if part.isdigit())
        groups[number, release_of(line), mode_of(line), mix_of(line)].append(line)
    for (_, release, mode, mix), group in sorted(groups.items()):
        yield {"release": release, "mode": mode, "mix": mix}, group


def _rates(lines: Iterable[Line]) -> list[Rate]:
    return [
        Rate(
            **kind,
            runs=len(group),
            safe=sum(line["safe"] is True for line in group),
            unsafe=sum(line["safe"] is False for line in group),
            conforming=sum(line["conforms"] is True for line in group),
            not_conforming=sum(line["conforms"] is False for line in group),
            unknown=sum(is_unknown(line) for line in group),
        )
        for kind, group in _of_one_kind(lines)
    ]


def _service(lines: Iterable[Line]) -> list[Service]:
    service = [
        Service(
            **kind,
            runs=len(group),
            seconds={name: _seconds(name, group) for name in WITHOUT_SERVICE},
        )
        for kind, group in _of_one_kind(lines)
    ]
    return [each for each in service if any(each.seconds.values())]


def _seconds(name: str, lines: Iterable[Line]) -> Seconds | None:
    # The lines of an earlier kchaos say nothing of it.
    told = [(line["service"][name], line) for line in lines if line.get("service")]
    measured = [(float(seconds), line) for seconds, line in told if seconds is not None]
    if not measured:
        return None
    longest_s, longest_run = max(measured, key=lambda pair: pair[0])
    return Seconds(
        runs=len(measured),
        median_s=statistics.median(seconds for seconds, _ in measured),
        longest_s=longest_s,
        longest_run=longest_run,
    )


def _slowest(lines: Iterable[Line]) -> list[tuple[float, str, Line]]:
    gates = [(float(seconds), str(name), line) for line in lines for name, seconds in line["gates"]]
    return sorted(gates, key=lambda gate: -gate[0])[:_MOST_GATES]
