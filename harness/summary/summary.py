"""A night beside earlier ones: what is new, gone and still there, and rates with intervals."""

import bisect
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kchaos.checkers.run_line import KILLED, WITHOUT_SERVICE, RunLine, is_unknown
from kchaos.harness.summary.exercised import Exercised, exercised_by
from kchaos.harness.summary.rates import Rate, rates_of, totals_of

UNSAFE, NOT_CONFORMING, IS_UNKNOWN, NEW = "unsafe", "not-conforming", "unknown", "new"
FAIL_ON = (UNSAFE, NOT_CONFORMING, IS_UNKNOWN, NEW)
BY_DEFAULT = (UNSAFE, NOT_CONFORMING, IS_UNKNOWN)
"""Reasons to fail a night unless it says otherwise: all that is known to be wrong, or unknown."""
FAILS, PASSES = "fails", "passes"
STILL, GONE, NOT_SEEN = "still there", "gone", "not seen"
_APART_S = 4 * 3600.0
"""Seconds without a run between two nights, at least."""
_MOST_GATES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """Seconds for which runs had no service of one kind.

    Attributes:
        runs: In how many it was measured.
        longest_run: The run that had none for the longest.
    """

    runs: int
    median_s: float
    longest_s: float
    longest_run: RunLine


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
        status: "new", "still there", "gone": its schedule was run again and did not show it, or
            "not seen"; "" without a baseline.
        history: In how many earlier nights it was seen, and when last; "" without a baseline.
        runs: The runs that show it; of one that is gone or not seen those of the baseline.
    """

    fingerprint: str
    release: str
    kind: str
    question: str
    message: str
    status: str = ""
    history: str = ""
    runs: list[RunLine] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary of a night.

    Attributes:
        fail_on: Which of `FAIL_ON` make a run fail.
        bugs: New ones first, then what is still there, then what is gone; the frequent ones first.
        new: Fingerprints and releases of the new ones.
        totals: The rates of all mixes together, where a release has several.
        service: Of the releases and mixes of `rates` those of which anything was measured.
        gates: The slowest: seconds, name, and the run.
        exercised: Faults, pairs of faults and rules.
        warnings: What the reader must know of the comparison, or of how the night ended.
    """

    lines: Sequence[RunLine]
    fail_on: tuple[str, ...]
    baseline: str | None
    bugs: Sequence[Bug]
    new: frozenset[tuple[str, str]]
    rates: Sequence[Rate]
    totals: Sequence[Rate]
    service: Sequence[Service]
    gates: Sequence[tuple[float, str, RunLine]]
    exercised: Exercised
    warnings: Sequence[str]

    @property
    def measured(self) -> dict[str, str]:
        """The kinds of time without service that any run has measured, and their words."""
        return {
            name: words
            for name, words in WITHOUT_SERVICE.items()
            if any(service.seconds[name] is not None for service in self.service)
        }

    @property
    def failing(self) -> list[RunLine]:
        """The runs that fail."""
        return [line for line in self.lines if self.why_failing(line)]

    def why_failing(self, line: RunLine) -> list[str]:
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
    lines: Sequence[RunLine],
    *,
    baseline: Sequence[RunLine] | None = None,
    baseline_name: str = "",
    fail_on: Sequence[str] = BY_DEFAULT,
    warnings: Sequence[str] = (),
) -> Summary:
    """Return the summary of a night's lines, beside an earlier night's, if any."""
    bugs = _bugs(lines)
    warned = list(warnings)
    if baseline is not None:
        before = _bugs(baseline)
        played, known = _releases(lines), _releases(baseline)
        nights = _nights(baseline)
        known_schedules = {schedule_of(line) for line in lines if line.safe is not None}
        for key, bug in bugs.items():
            bug.status = STILL if key in before else NEW
            bug.history = _history(before[key], nights) if key in before else ""
        for key, bug in before.items():
            if key not in bugs and bug.release in played:
                again = {schedule_of(line) for line in bug.runs} & known_schedules
                bug.status = GONE if again else NOT_SEEN
                bug.history = _history(bug, nights)
                bugs[key] = bug
        if missing := sorted(played - known):
            warned.append(
                f"the baseline has no run of {', '.join(missing)} (it has "
                f"{', '.join(sorted(known)) or 'none'}): whatever they show counts as new"
            )
        if missing := sorted(known - played):
            warned.append(
                f"{', '.join(missing)} of the baseline was not run: its bugs are not compared"
            )
    order = (NEW, "", STILL, NOT_SEEN, GONE)
    rates = rates_of(lines)
    return Summary(
        lines=lines,
        fail_on=tuple(fail_on),
        baseline=None if baseline is None else baseline_name,
        bugs=sorted(
            bugs.values(),
            key=lambda bug: (order.index(bug.status), -len(bug.runs), bug.release, bug.kind),
        ),
        new=frozenset(key for key, bug in bugs.items() if bug.status == NEW),
        rates=rates,
        totals=totals_of(rates),
        service=_service(rates),
        gates=_slowest(lines),
        exercised=exercised_by(lines),
        warnings=warned,
    )


def schedule_of(line: RunLine) -> tuple[object, ...]:
    """Return what tells a schedule from others: two equal ones are the same steps."""
    return line.kafka, line.case, line.acts, line.seed


def _nights(lines: Iterable[RunLine]) -> list[float]:
    """Return when each night began, in seconds since 1970, the first one first.

    Runs are of one night as long as no more than some hours pass between their starts.
    """
    begun: list[float] = []
    last = float("-inf")
    for started_at in sorted(line.started_at for line in lines if line.started_at):
        if started_at - last > _APART_S:
            begun.append(started_at)
        last = started_at
    return begun


def _history(bug: Bug, nights: Sequence[float]) -> str:
    """Describe in how many nights a bug was seen, such as "3 of 30 nights, last 2026-11-20"."""
    times = [line.started_at for line in bug.runs if line.started_at]
    if not times or not nights:
        return ""
    seen = {bisect.bisect_right(nights, started_at) for started_at in times}
    last = time.strftime("%Y-%m-%d", time.gmtime(max(times)))
    of_all = "1 night" if len(nights) == 1 else f"{len(nights)} nights"
    return f"{len(seen)} of {of_all}, last seen {last}"


def reasons_to_fail(
    line: RunLine, fail_on: Sequence[str], *, new: frozenset[tuple[str, str]] = frozenset()
) -> list[str]:
    """Which of `fail_on` a run is; `new` are the fingerprints and releases of new findings.

    What was killed is unknown, whatever is asked: no night that did not end may pass.
    """
    release = line.release
    applies = {
        UNSAFE: line.safe is False,
        NOT_CONFORMING: line.conforms is False,
        IS_UNKNOWN: is_unknown(line),
        NEW: any((finding.fingerprint, release) in new for finding in line.bugs),
    }
    was_killed = (line.unknown or "").endswith(KILLED)
    return [name for name in fail_on if applies[name]] or [IS_UNKNOWN] * was_killed


def _bugs(lines: Iterable[RunLine]) -> dict[tuple[str, str], Bug]:
    bugs: dict[tuple[str, str], Bug] = {}
    for line in lines:
        for finding in line.bugs:
            key = finding.fingerprint, line.release
            if key not in bugs:
                seconds_of = {
                    name: getattr(finding, name) for name in ("kind", "question", "message")
                }
                bugs[key] = Bug(fingerprint=key[0], release=key[1], **seconds_of)
            bugs[key].runs.append(line)
    return bugs


def _releases(lines: Iterable[RunLine]) -> set[str]:
    return {line.release for line in lines if line.release}


def _service(rates: Iterable[Rate]) -> list[Service]:
    service = [
        Service(
            release=rate.release,
            mode=rate.mode,
            mix=rate.mix,
            runs=rate.runs,
            seconds={name: _seconds(name, rate.lines) for name in WITHOUT_SERVICE},
        )
        for rate in rates
    ]
    return [each for each in service if any(each.seconds.values())]


def _seconds(name: str, lines: Iterable[RunLine]) -> Seconds | None:
    seconds_of = [(line.service[name], line) for line in lines]
    measured = [(seconds, line) for seconds, line in seconds_of if seconds is not None]
    if not measured:
        return None
    longest_s, longest_run = max(measured, key=lambda pair: pair[0])
    return Seconds(
        runs=len(measured),
        median_s=statistics.median(seconds for seconds, _ in measured),
        longest_s=longest_s,
        longest_run=longest_run,
    )


def _slowest(lines: Iterable[RunLine]) -> list[tuple[float, str, RunLine]]:
    gates = [(seconds, name, line) for line in lines for name, seconds in line.gates]
    return sorted(gates, key=lambda gate: -gate[0])[:_MOST_GATES]
