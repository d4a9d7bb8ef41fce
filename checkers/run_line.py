"""A judged run as one line: of `--json`, of nights and results files, and of tables."""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Self

from kchaos.checkers.availability import Availability, OutageKind
from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.faults import acted_faults
from kchaos.checkers.evidence.observed import Observed
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import KINDS, Finding, Question
from kchaos.checkers.json_form import from_json
from kchaos.checkers.observations import StepBegun, StepNotPossible
from kchaos.checkers.results import Results, read_judgement
from kchaos.checkers.run_directory import REPORT, RunDirectory
from kchaos.checkers.verdict import OPEN, UNPREDICTABLE

WITHOUT_SERVICE = {
    "without_leader_s": "without leader",
    "without_acknowledged_write_s": "without acknowledged write",
    "longest_stall_s": "longest stall",
}
"""Kinds of time without service, and their names for people."""
KILLED = "it did not end: its process was killed"
ANSWERS = {True: "yes", False: "no", None: "unknown"}
"""An answer in words."""
_NOT_JUDGED = "nobody judged it: kchaos judge"
_MOST_GATES = 5
_REASON = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingLine:
    """A finding without its evidence.

    Attributes:
        question: "safety", "conformance" or "neither".
        partition: Such as "t-0"; None for a finding about no partition.
        first_offset: Inclusive, like the last one; -1 for none.
    """

    kind: str
    question: str
    message: str
    partition: str | None
    brokers: tuple[int, ...]
    first_offset: int
    last_offset: int
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLine:
    """One judged run. A field of `Results` of the same name has its meaning.

    Only the run's folder tells `mode`, and the fields from `waited_s` to `faults`; only a campaign
    tells those from `kafka` to `seen_by_clients`.

    Attributes:
        run: The run's path in what `--json` prints, its name in files of lines; "" for a play that
            was lost.
        mode: "zookeeper" or "kraft": where its metadata was kept; None if nobody read the folder.
        signs: Signs of a defect, without the numbers in which two runs may differ; see `signs_of`.
        waited_s: Seconds at gates; None if nobody read the folder.
        steps: Number of steps, gates included; 0 if nobody read the folder.
        not_possible: Number of steps that were impossible, or whose gate never held.
        gates: The slowest: name and seconds.
        faults: Name, and when each began and ended as parts of the run.
        service: Seconds by the names of `WITHOUT_SERVICE`: in which any partition had no leader, in
            which any had no acknowledged write, and the longest stall of a consumer; None where
            nobody measured it.
        report: Where its page is.
        kafka: The release or path that a campaign drew it for; "" of other runs.
        acts: Length of its schedule, in steps or seconds; 0 of a run that was not drawn.
        drawn_s: Seconds in which a campaign drew its schedule; None of other runs.
        wall_s: Seconds in which a campaign played and judged it; None of other runs.
        rules: By "asked" the rules of the model that decided something, by "in_force" those that
            could; None where nobody followed the run once more.
        processor_s: Processor seconds of its play and judgement; None where nobody measured it.
        seen_by_clients: Whether the history of its clients alone shows an anomaly; None where
            nobody asked.
        place: The run's directory, where the line is read from a folder that still has it.
    """

    run: str = ""
    entry: str = ""
    case: str = ""
    release: str = ""
    build: str = ""
    ran: str = ""
    driver: str = ""
    mode: str | None = None
    seed: int | None = None
    started_at: float | None = None
    played_by: str | None = None
    judged_by: str | None = None
    conforms: bool | None = None
    safe: bool | None = None
    expected: bool = False
    reason: str | None = None
    unknown: str | None = None
    findings: tuple[FindingLine, ...] = ()
    signs: tuple[str, ...] = ()
    witness: tuple[Mapping[str, Any], ...] = ()
    not_checked: tuple[str, ...] = ()
    crashes: tuple[str, ...] = ()
    seconds: float | None = None
    service: Mapping[str, float | None] = field(
        default_factory=lambda: dict.fromkeys(WITHOUT_SERVICE)
    )
    occasions: Mapping[str, int] = field(default_factory=dict)
    points: tuple[str, ...] = ()
    waited_s: float | None = None
    steps: int = 0
    not_possible: int = 0
    gates: tuple[tuple[str, float], ...] = ()
    faults: tuple[tuple[str, float, float], ...] = ()
    report: str | None = None
    kafka: str = ""
    acts: int = 0
    drawn_s: float | None = None
    wall_s: float | None = None
    rules: Mapping[str, tuple[str, ...]] | None = None
    processor_s: float | None = None
    seen_by_clients: bool | None = None
    place: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return every field but `place`, as plain JSON values."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        del plain["place"]
        return plain

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return the line that `to_json` wrote; of an earlier kchaos, fields may be missing.

        Raises:
            ShapeError: It is no line of a run.
        """
        return from_json(cls, value, allow_more=True)

    @property
    def bugs(self) -> Sequence[FindingLine]:
        """The findings about safety or conformance, each fingerprint once."""
        bugs: dict[str, FindingLine] = {}
        for finding in self.findings:
            if finding.question != Question.NEITHER.value:
                bugs.setdefault(finding.fingerprint, finding)
        return [*bugs.values()]

    @property
    def verdict(self) -> str:
        """Both answers in words, without whether they were expected."""
        return f"conforms: {ANSWERS[self.conforms]}, safe: {ANSWERS[self.safe]}"


_OF_RUN = ("entry", "case", "release", "driver", "seed", "started_at")
_OF_RESULTS = tuple(
    field.name
    for field in fields(RunLine)
    if field.name in {of.name for of in fields(Results)} - {"run", "findings", "witness"}
)


def line_of(results: Results, *, report: Path | None = None) -> RunLine:
    """Return what the results of a judgement tell, with the path where the run was judged."""
    return RunLine(
        **{name: getattr(results, name) for name in _OF_RESULTS},
        run=str(results.path),
        findings=tuple(map(_finding_line, results.findings)),
        signs=signs_of(results),
        witness=tuple(map(asdict, results.witness)),
        service=_service(results.availability),
        report=None if report is None else str(report),
    )


def line_of_run(path: Path) -> RunLine:
    """Return all that a run's directory and its newest judgement tell, with the run's name.

    A run that cannot be read, or that nobody judged, is unknown, with the reason.
    """
    line = RunLine(run=path.name)
    try:
        run = RunDirectory.open(path)
        evidence = RunEvidence(run)
        about = evidence.description
        line = replace(
            line,
            **{name: getattr(about, name) for name in _OF_RUN},
            played_by=about.kchaos if isinstance(about.kchaos, str) else None,
        )
        judgements = run.judgements()
        if not judgements and not run.is_sealed:
            line = replace(line, unknown=KILLED)
            with suppress(CheckError):  # It may have no scenario yet.
                line = replace(line, mode="kraft" if evidence.is_kraft else "zookeeper")
            return line
        line = replace(line, mode="kraft" if evidence.is_kraft else "zookeeper")
        if not judgements:
            return replace(line, unknown=_NOT_JUDGED)
        observed = evidence.observed
        return replace(
            line_of(read_judgement(run, judgements[-1])),
            run=path.name,
            mode=line.mode,
            waited_s=evidence.outcome.waited_s,
            steps=len(evidence.scenario.steps),
            not_possible=sum(isinstance(each.what, StepNotPossible) for each in observed),
            gates=_gates(observed),
            faults=_faults(observed),
            report=REPORT if (path / REPORT).is_file() else None,
        )
    except CheckError as error:
        return replace(line, unknown=f"it cannot be read: {error}")


def line_at(path: Path) -> RunLine:
    """Return the line of a run's directory, with the paths of the run and of its report."""
    line = line_of_run(path)
    return replace(line, run=str(path), report=str(path / REPORT) if line.report else None)


def is_unknown(judged: RunLine | Results) -> bool:
    """Return whether a run left something unknown that can be answered of its cluster.

    Of a KRaft run that is safety alone. A bound of availability that nobody could measure counts
    too; a run with a finding that was not expected is red.
    """
    is_predicted = not any(why in (judged.unknown or "") for why in UNPREDICTABLE)
    is_open = judged.safe is not False and is_predicted and judged.conforms is None
    return judged.safe is None or is_open or judged.reason in OPEN


def reason_of(judged: RunLine | Results) -> str:
    """Return what the answers of a run rest on: kinds of findings, and why an answer is unknown.

    Only findings about a question that is answered with no count. Without them, and with both
    answers, it is the reason why the run is not as expected, or "".
    """
    answers = {Question.SAFETY: judged.safe, Question.CONFORMANCE: judged.conforms}
    kinds = dict.fromkeys(
        finding.kind
        for finding in judged.findings
        if answers.get(KINDS[finding.kind].question) is False
    )
    found = [f"by {', '.join(kinds)}"] if kinds else []
    if not found or None in answers.values():
        found.append(judged.unknown or judged.reason or "")
    return "; ".join(filter(None, found))


def signs_of(results: Results) -> tuple[str, ...]:
    """Return signs of a defect in a run, without the numbers in which two runs may differ.

    The kinds of its findings: those about conformance if it does not conform, else those about
    safety if it is not safe. Of an unknown run the reason. A run that conforms and is safe shows
    nothing.
    """
    if is_unknown(results):
        return (f"unknown: {re.sub('[0-9]+', 'N', str(results.unknown))[:_REASON]}",)
    question = Question.CONFORMANCE if results.conforms is False else Question.SAFETY
    kinds = {
        "/".join(filter(None, (finding.kind, str(finding.evidence.get("what") or ""))))
        for finding in results.findings
        if finding.question is question
    }
    return tuple(sorted(kinds))


def _finding_line(finding: Finding) -> FindingLine:
    return FindingLine(
        kind=finding.kind,
        question=finding.question.value,
        message=finding.message,
        partition=f"{finding.topic}-{finding.partition}" if finding.topic else None,
        brokers=finding.brokers,
        first_offset=finding.first_offset,
        last_offset=finding.last_offset,
        fingerprint=finding.fingerprint,
    )


def _service(measured: Availability | None) -> Mapping[str, float | None]:
    if measured is None:
        return dict.fromkeys(WITHOUT_SERVICE)
    tried = [each for each in measured.partitions if each.without_acknowledged_write_s is not None]
    stalls = [consumer.longest_stall_s for consumer in measured.consumers]

    def seconds(kind: OutageKind) -> float:
        return measured.seconds_between(kind, 0, float("inf"))

    return {
        "without_leader_s": seconds("no-leader") if measured.partitions else None,
        "without_acknowledged_write_s": seconds("no-acknowledged-write") if tried else None,
        "longest_stall_s": max((stall for stall in stalls if stall is not None), default=None),
    }


def _gates(observed: Sequence[Observed]) -> tuple[tuple[str, float], ...]:
    begun = [
        (each.step, each.time, each.what.name)
        for each in observed
        if isinstance(each.what, StepBegun)
    ]
    # The last step ends with the last that was observed of it.
    ends = [time for _, time, _ in begun[1:]]
    ends += [each.time for each in observed if begun and each.step == begun[-1][0]][-1:]
    gates = [
        (f"step {step}: {name}", round(end - time, 3))
        for (step, time, name), end in zip(begun, ends, strict=True)
        if name.startswith("Await")
    ]
    return tuple(sorted(gates, key=lambda gate: -gate[1])[:_MOST_GATES])


def _faults(observed: Sequence[Observed]) -> tuple[tuple[str, float, float], ...]:
    if not observed:
        return ()
    first, last = observed[0].time, observed[-1].time

    def part(time: float | None) -> float:
        return round(((last if time is None else time) - first) / max(last - first, 0.001), 6)

    return tuple(
        (f"{span.injected.fault} {span.injected.name}", part(span.began), part(span.ended))
        for span in acted_faults(observed)
    )
