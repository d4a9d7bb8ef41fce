"""The verdict: two questions, three answers each, and whether that is what was expected.

`conforms` and `safe` are True, False, or None for unknown. Unknown is never a pass.

A scenario's expectation is None, and then what the rules say of the model's prediction is
expected; or it is an object:

    {"safe": false,
     "findings": [{"kind": "divergence", "brokers": [0, 1], "first_offset": 11, "last_offset": 20}],
     "witness": [{"round": {"follower": 1, "leader": 0, "end_offset": 21}},
                 {"log": {"broker": 1, "pattern": "regular expression"}},
                 {"link": {"api": "OffsetForLeaderEpoch", "source": 1, "partition": {...}}},
                 {"epochs": {"snapshot": "final", "broker": 2, "partition": "t-0",
                             "starts": [0, 5]}},
                 {"table": {"snapshot": "step-1", "partition": "t-0",
                            "columns": {"broker 0": ["0: msg 0 LE-0"], "metadata": []}}},
                 {"magics": {"snapshot": "final", "broker": 2, "partition": "t-0",
                             "runs": [2, 1, 2]}},
                 {"observed": {"kind": "high-watermark-forgotten", "broker": 1}},
                 {"hit": {"point": "controller-broker-change", "fate": "held"}},
                 {"operation": {"operation": "refused", "error_code": 19}}],
     "source": "where it is written or measured"}

A finding may also name "topic" and "partition". What each witness is: `checkers.witness`.

It may bound how long something was without service, in seconds, by the fields of
`checkers.availability.Bounds`: {"availability": {"without_leader_s": 10, "service_back_s": 30}}.
Such a bound may stand alone; then the rest is expected as the model predicts it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import UNAVAILABLE, Finding, Question
from kchaos.checkers.json_form import ShapeError, from_json
from kchaos.checkers.rules.offsets import in_words
from kchaos.checkers.unknown import Reason
from kchaos.checkers.witness import Witness, witness_of

NOT_PREDICTED = (
    "a KRaft cluster without links, or of combined nodes, is not predicted: when its brokers read "
    "the metadata log is not known"
)
"""Why conformance of a run with KRaft is unknown, without links or with combined nodes."""
MIGRATION_NOT_FOLLOWED = (
    "a migration from ZooKeeper to KRaft is not followed: the model has no KRaft controller that "
    "sends requests to brokers with ZooKeeper"
)
"""Why conformance of a migration is unknown."""
UNPREDICTABLE = (NOT_PREDICTED, MIGRATION_NOT_FOLLOWED)
"""Reasons for which nothing is predicted of a kind of cluster."""
SAFETY_UNKNOWN = "safety is unknown"
CONFORMANCE_UNKNOWN = "conformance is unknown"
EXPECTATION_UNREAD = "the expectation cannot be read"
BOUNDS_UNKNOWN = "a bound of availability was not measured"
"""Why a run is not as expected that kept all its bounds, as far as they were measured."""
OPEN = (SAFETY_UNKNOWN, CONFORMANCE_UNKNOWN, EXPECTATION_UNREAD, BOUNDS_UNKNOWN)
"""Reasons of a verdict by which nobody knows whether the run is as expected."""


def why_not_predicted(evidence: RunEvidence) -> str:
    """Return why nothing can be predicted of such a cluster, or ""."""
    if evidence.is_predicted:
        return ""
    return MIGRATION_NOT_FOLLOWED if evidence.is_migration else NOT_PREDICTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answers.

    Attributes:
        conforms: Whether the replicas did what the model of their release predicts.
        safe: Whether replicas agree, nothing promised is lost, and replication goes on.
        expected: Whether it is all as expected; False if anything is unknown.
        reason: Why it is not expected, in one sentence, or "".
        unknown: Why an answer is unknown, or None.
        expectation_from: "scenario"; "model"; or "safety" where nothing is predicted of the run, so
            that it is expected to be safe.
    """

    conforms: bool | None
    safe: bool | None
    expected: bool
    reason: str
    unknown: str | None
    expectation_from: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expectation:
    """The shape of a scenario's expectation."""

    safe: bool | None = None
    findings: tuple[Mapping[str, Any], ...] = ()
    witness: tuple[Mapping[str, Any], ...] = ()
    availability: Mapping[str, float] = field(default_factory=dict)


FindingKey = tuple[str, str, int, tuple[int, ...], int, int]


def verdict(
    findings: Iterable[Finding],
    predicted_findings: Iterable[Finding],
    *,
    expectation: Mapping[str, Any] | None,
    witnesses: Sequence[Witness],
    reasons: Sequence[Reason] = (),
    not_predicted: str = "",
    bounds: Sequence[str] = (),
) -> Verdict:
    """Return the answers to both questions, and whether they are the expected ones.

    **Verifies**: expected is True only if the run conforms, safety is known and as expected, the
    safety findings are exactly the expected ones by kind, partition, brokers and offsets, and each
    witness was found. Safe without its witness is unknown: the mechanism may not have run at all.
    A finding that denies conformance may be expected as those about safety are. Where nothing can
    be predicted of such a cluster, conformance cannot be affirmed; without an expectation in the
    scenario the run must be safe and have no finding that denies it.
    A bound of availability that was passed, or not measured, is not as expected.

    `reasons` say why questions have no answer. `not_predicted` says why nothing is predicted of
    such a cluster, or "": conformance cannot be affirmed then, and the expectation is of safety
    alone. `bounds` of availability that could not be measured leave unknown whether the run is as
    expected.

    **Does not verify**: other findings that answer neither question, `permitted-loss` for one.
    """
    expectation = _of_findings(expectation)
    findings = list(findings)
    is_predicted = not not_predicted
    conforms = _answer(findings, Question.CONFORMANCE, reasons)
    if conforms and not is_predicted:
        conforms = None
    safe = _answer(findings, Question.SAFETY, reasons)
    why = [*(reason.sentence for reason in reasons), *bounds]
    if not is_predicted and conforms is None:
        why.append(not_predicted)
    missing = [str(dict(witness.wanted)) for witness in witnesses if not witness.found]
    if safe and missing:
        safe = None
        why.append(f"safe, but nothing shows that the mechanism ran: no {' and no '.join(missing)}")
    reason = _unexpected(
        findings, list(predicted_findings), expectation, conforms if is_predicted else True, safe
    )
    if not reason and bounds:
        reason = BOUNDS_UNKNOWN
    if not reason and missing:
        reason = f"not reproduced: unsafe, but without its witness {' and '.join(missing)}"
    return Verdict(
        conforms=conforms,
        safe=safe,
        expected=not reason,
        reason=reason,
        unknown="; ".join(dict.fromkeys(why)) or None,
        expectation_from=_source(expectation, is_predicted),
    )


def _of_findings(expectation: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the expectation, or None if it has bounds of availability alone.

    Raises:
        ScenarioDataError: It is none, or does not say whether the run is safe.
    """
    if expectation is None or set(expectation) == {"availability"}:
        return None
    try:
        is_said = from_json(_Expectation, expectation, allow_more=True).safe is not None
    except ShapeError as error:
        raise ScenarioDataError(f"scenario.json: expectation: {error}") from error
    if not is_said:
        raise ScenarioDataError("scenario.json: expectation: it does not say safe or not")
    return expectation


def _source(expectation: Mapping[str, Any] | None, is_predicted: bool) -> str:
    if expectation is not None:
        return "scenario"
    return "model" if is_predicted else "safety"


def find_witnesses(
    expectation: Mapping[str, Any] | None, evidence: RunEvidence
) -> tuple[Witness, ...]:
    """Look for each witness of an expectation in the run's evidence.

    Raises:
        ScenarioDataError: A witness is not of a documented form.
    """
    if expectation is None:
        return ()
    try:
        wanted = from_json(_Expectation, expectation, allow_more=True).witness
        return tuple(witness_of(kind, evidence) for kind in wanted)
    except (AttributeError, ShapeError, TypeError) as error:
        raise ScenarioDataError(f"scenario.json: expectation: {error}") from error


def finding_key(finding: Finding) -> FindingKey:
    """Return the key by which two findings are the same to an expectation."""
    return (
        finding.kind,
        finding.topic,
        finding.partition,
        finding.brokers,
        finding.first_offset,
        finding.last_offset,
    )


def _answer(
    findings: Iterable[Finding], question: Question, reasons: Iterable[Reason]
) -> bool | None:
    """Return False for a finding that every reason lets stand, else None for any reason."""
    open_by = [reason for reason in reasons if question in reason.opens]
    against = (finding for finding in findings if finding.question is question)
    if any(all(reason.lets_stand(finding) for reason in open_by) for finding in against):
        return False
    return None if open_by else True


def _unexpected(
    findings: Sequence[Finding],
    predicted: Sequence[Finding],
    expectation: Mapping[str, Any] | None,
    conforms: bool | None,
    safe: bool | None,
) -> str:
    if safe is None:
        return SAFETY_UNKNOWN
    about = (Question.SAFETY,) if conforms is None else (Question.SAFETY, Question.CONFORMANCE)
    keys = {finding_key(f) for f in findings if f.question in about}
    unlike = {finding_key(f) for f in findings if f.question is Question.CONFORMANCE}
    if expectation is None:
        # What is not known to conform is not known to be unsafe for what the model predicts.
        about_safety = [f for f in predicted if f.question is Question.SAFETY]
        wanted = {finding_key(f) for f in about_safety} if conforms is not None else set()
        wanted_safe = not wanted
    else:
        wanted = {
            _expected_key(expected_finding, keys)
            for expected_finding in expectation.get("findings", ())
        }
        wanted_safe = bool(expectation["safe"])
    if conforms is None and (safe or keys <= wanted):
        return CONFORMANCE_UNKNOWN
    if conforms is False and not unlike <= wanted:
        return "the run is not as predicted"
    if safe is not wanted_safe:
        return f"{'safe' if wanted_safe else 'unsafe'} was expected"
    passed = [finding.message for finding in findings if finding.kind == UNAVAILABLE]
    if keys == wanted and passed:
        return "; ".join(passed)
    if keys != wanted:
        return "; ".join(
            [f"expected and not found: {_told(key)}" for key in sorted(wanted - keys)]
            + [f"found and not expected: {_told(key)}" for key in sorted(keys - wanted)]
        )
    return ""


def _expected_key(expected: Mapping[str, Any], keys: Iterable[FindingKey]) -> FindingKey:
    """Return an expected finding's key; without a topic, that of the found one that fits."""
    try:
        kind = expected["kind"]
        rest = (
            tuple(sorted(expected["brokers"])),
            expected.get("first_offset", -1),
            expected.get("last_offset", -1),
        )
    except (KeyError, TypeError) as error:
        raise ScenarioDataError(
            f"scenario.json: expected finding {dict(expected)} needs kind and brokers"
        ) from error
    topic, partition = expected.get("topic"), expected.get("partition")
    for key in sorted(keys):
        same = key[0] == kind and key[3:] == rest
        if same and topic in (None, key[1]) and partition in (None, key[2]):
            return key
    return (kind, topic or "", -1 if partition is None else partition, *rest)


def _told(key: FindingKey) -> str:
    kind, topic, partition, brokers, first, last = key
    where = f" of {topic}-{partition}" if topic else ""
    offsets = f" at {in_words(first, last)}" if first >= 0 else ""
    return f"{kind}{where} on brokers {list(brokers)}{offsets}"
