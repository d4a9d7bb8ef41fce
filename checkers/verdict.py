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
                 {"magics": {"snapshot": "final", "broker": 2, "partition": "t-0",
                             "runs": [2, 1, 2]}},
                 {"observed": {"kind": "high-watermark-forgotten", "broker": 1}},
                 {"hit": {"point": "controller-broker-change", "fate": "held"}},
                 {"operation": {"operation": "refused", "error_code": 19}}],
     "source": "where it is written or measured"}

A finding may also name "topic" and "partition". A `round` is found if some question for a leader
epoch has all the named fields of `checkers.model.prediction.EpochRound`; a `log` if a line of the
broker's server.log (any broker's without "broker") matches; a `link` if a line of links.jsonl has
all the named fields, where "api" is compared without case and underscores, and "partition" and
"detail" are objects whose fields must be in one of the message's partitions, or in its detail; a
`hit` if a line of hits.jsonl has all the named fields, an `observed` if one of observations.jsonl
has; `epochs` if the leader-epoch-checkpoint in that snapshot begins its epochs at these offsets
(none for an empty file, or for no file): the epochs themselves may differ from run to run; `magics`
if the replica's batches, in their order, are in these message formats, each run of one format once;
an `operation` if one of a client has all the named fields of
`checkers.evidence.history.Operation`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from checkers.acts import TopicPartition
from checkers.errors import ScenarioDataError
from checkers.evidence.epoch_rounds import round_in_words
from checkers.evidence.history import Operation
from checkers.evidence.links import LinkMessage
from checkers.evidence.run import RunEvidence
from checkers.findings import Finding, Question
from checkers.json_form import ShapeError, from_json
from checkers.model.prediction import EpochRound
from checkers.rules.offsets import in_words
from checkers.searching import first_match
from checkers.segments.directory import topic_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One thing that shows that a bug's mechanism ran.

    Attributes:
        wanted: As the expectation has it.
        found: Whether it was there.
        seen: What was found, or what there was instead.
    """

    wanted: Mapping[str, Any]
    found: bool
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """Why a question cannot be answered; empty where it can.

    Attributes:
        run: Reasons that leave both questions open.
        safety: Reasons that leave only safety open.
        conformance: Reasons that leave only conformance open.
    """

    run: tuple[str, ...] = ()
    safety: tuple[str, ...] = ()
    conformance: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answers.

    Attributes:
        conforms: Whether the replicas did what the model of their release predicts.
        safe: Whether replicas agree, nothing promised is lost, and replication goes on.
        expected: Whether it is all as expected; False if anything is unknown.
        reason: Why it is not expected, in one sentence, or "".
        unknown: Why an answer is unknown, or None.
        expectation_from: "scenario" or "model".
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


FindingKey = tuple[str, str, int, tuple[int, ...], int, int]


def verdict(
    findings: Iterable[Finding],
    predicted_findings: Iterable[Finding],
    *,
    expectation: Mapping[str, Any] | None,
    witnesses: Sequence[Witness],
    unknown: Unknown,
) -> Verdict:
    """The answers to both questions, and whether they are the expected ones.

    **Verifies**: expected is True only if the run conforms, safety is known and as expected, the
    safety findings are exactly the expected ones by kind, partition, brokers and offsets, and each
    witness was found. Safe without its witness is unknown: the mechanism may not have run at all.
    **Does not verify**: findings that answer neither question, `permitted-loss` for one.
    """
    if expectation is not None:
        try:
            is_said = from_json(_Expectation, expectation, allow_more=True).safe is not None
        except ShapeError as error:
            raise ScenarioDataError(f"scenario.json: expectation: {error}") from error
        if not is_said:
            raise ScenarioDataError("scenario.json: expectation: it does not say safe or not")
    findings = list(findings)
    conforms = _answer(findings, Question.CONFORMANCE, (*unknown.run, *unknown.conformance))
    safe = _answer(findings, Question.SAFETY, (*unknown.run, *unknown.safety))
    reasons = [*unknown.run, *unknown.safety, *unknown.conformance]
    missing = [str(dict(one.wanted)) for one in witnesses if not one.found]
    if safe and missing:
        safe = None
        reasons.append(
            f"safe, but nothing shows that the mechanism ran: no {' and no '.join(missing)}"
        )
    reason = _unexpected(findings, list(predicted_findings), expectation, conforms, safe)
    if not reason and missing:
        reason = f"not reproduced: unsafe, but without its witness {' and '.join(missing)}"
    return Verdict(
        conforms=conforms,
        safe=safe,
        expected=not reason,
        reason=reason,
        unknown="; ".join(reasons) or None,
        expectation_from="model" if expectation is None else "scenario",
    )


def find_witnesses(
    expectation: Mapping[str, Any] | None, evidence: RunEvidence
) -> tuple[Witness, ...]:
    """Looks for each witness of an expectation in the run's evidence.

    Raises:
        ScenarioDataError: A witness is not of a documented form.
    """
    if expectation is None:
        return ()
    try:
        wanted = from_json(_Expectation, expectation, allow_more=True).witness
        return tuple(_witness(one, evidence) for one in wanted)
    except (AttributeError, ShapeError, TypeError) as error:
        raise ScenarioDataError(f"scenario.json: expectation: {error}") from error


def finding_key(finding: Finding) -> FindingKey:
    """What makes two findings the same to an expectation."""
    return (
        finding.kind,
        finding.topic,
        finding.partition,
        finding.brokers,
        finding.first_offset,
        finding.last_offset,
    )


def _answer(findings: Iterable[Finding], question: Question, unknown: Sequence[str]) -> bool | None:
    if unknown:
        return None
    return all(finding.question is not question for finding in findings)


def _unexpected(
    findings: Sequence[Finding],
    predicted: Sequence[Finding],
    expectation: Mapping[str, Any] | None,
    conforms: bool | None,
    safe: bool | None,
) -> str:
    if safe is None:
        return "safety is unknown"
    if conforms is not True:
        return "conformance is unknown" if conforms is None else "the run is not as predicted"
    found = {finding_key(f) for f in findings if f.question is Question.SAFETY}
    if expectation is None:
        wanted = {finding_key(f) for f in predicted if f.question is Question.SAFETY}
        wanted_safe = not wanted
    else:
        wanted = {_expected_key(one, found) for one in expectation.get("findings", ())}
        wanted_safe = bool(expectation["safe"])
    if safe is not wanted_safe:
        return f"{'safe' if wanted_safe else 'unsafe'} was expected"
    if found != wanted:
        return "; ".join(
            [f"expected and not found: {_told(key)}" for key in sorted(wanted - found)]
            + [f"found and not expected: {_told(key)}" for key in sorted(found - wanted)]
        )
    return ""


def _expected_key(expected: Mapping[str, Any], found: Iterable[FindingKey]) -> FindingKey:
    """The key of an expected finding; without a topic it is the found one that has the rest."""
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
    for key in sorted(found):
        same = key[0] == kind and key[3:] == rest
        if same and topic in (None, key[1]) and partition in (None, key[2]):
            return key
    return (kind, topic or "", -1 if partition is None else partition, *rest)


def _told(key: FindingKey) -> str:
    kind, topic, partition, brokers, first, last = key
    where = f" of {topic}-{partition}" if topic else ""
    offsets = f" at {in_words(first, last)}" if first >= 0 else ""
    return f"{kind}{where} on brokers {list(brokers)}{offsets}"


def _witness(wanted: Mapping[str, Any], evidence: RunEvidence) -> Witness:
    match dict(wanted):
        case {"round": {} as fields, **rest} if not rest:
            return _round_witness(wanted, fields, evidence.rounds)
        case {"log": {"pattern": str(pattern)} as log, **rest} if not rest:
            return _log_witness(wanted, pattern, log.get("broker"), evidence)
        case {"link": {} as fields, **rest} if not rest:
            return _link_witness(wanted, fields, evidence)
        case {"hit": {} as fields, **rest} if not rest:
            return _hit_witness(wanted, fields, evidence)
        case {"operation": {} as fields, **rest} if not rest:
            return _operation_witness(wanted, fields, evidence)
        case {"observed": {} as fields, **rest} if not rest:
            return _observed_witness(wanted, fields, evidence)
        case {
            "epochs": {"snapshot": str(label), "broker": int(broker), "partition": str(name)},
            **rest,
        } if not rest:
            return _epochs_witness(wanted, evidence, label, broker, _about(name))
        case {
            "magics": {"snapshot": str(label), "broker": int(broker), "partition": str(name)},
            **rest,
        } if not rest:
            return _magics_witness(wanted, evidence, label, broker, _about(name))
        case _:
            raise ScenarioDataError(
                f"scenario.json: witness {dict(wanted)} is no round, log with a pattern, link, "
                "hit, operation, observed, or epochs or magics with snapshot, broker and partition"
            )


def _round_witness(
    wanted: Mapping[str, Any], fields: Mapping[str, Any], rounds: Sequence[EpochRound] | None
) -> Witness:
    if rounds is None:
        return Witness(wanted=wanted, found=False, seen="the run has no links.jsonl")
    unknown = fields.keys() - set(EpochRound.__dataclass_fields__)
    if unknown:
        raise ScenarioDataError(f"scenario.json: a round has no field {', '.join(sorted(unknown))}")
    for one in rounds:
        if all(getattr(one, name) == value for name, value in fields.items()):
            return Witness(wanted=wanted, found=True, seen=round_in_words(one))
    shown = "; ".join(round_in_words(one) for one in rounds[:10]) or "none"
    return Witness(
        wanted=wanted, found=False, seen=f"questions for leader epochs ({len(rounds)}): {shown}"
    )


def _log_witness(
    wanted: Mapping[str, Any], pattern: str, broker: int | None, evidence: RunEvidence
) -> Witness:
    logs = [log for owner, log in evidence.server_logs.items() if broker in (None, owner)]
    found = first_match(pattern, logs)
    if found is not None:
        return Witness(wanted=wanted, found=True, seen=found)
    return Witness(wanted=wanted, found=False, seen=f"no such line in {len(logs)} server logs")


def _link_witness(
    wanted: Mapping[str, Any], fields: Mapping[str, Any], evidence: RunEvidence
) -> Witness:
    messages = evidence.links or ()
    for message in messages:
        if all(_has(message, name, value) for name, value in fields.items()):
            return Witness(wanted=wanted, found=True, seen=message.read_at)
    return Witness(wanted=wanted, found=False, seen=f"none of {len(messages)} messages")


def _about(name: str) -> TopicPartition:
    found = topic_partition(name)
    if found is None:
        raise ScenarioDataError(f"scenario.json: a witness names {name!r}, which is no partition")
    return TopicPartition(*found)


def _epochs_witness(
    wanted: Mapping[str, Any], evidence: RunEvidence, label: str, broker: int, about: TopicPartition
) -> Witness:
    if evidence.copied.contents(label, broker, about) is None:
        return Witness(wanted=wanted, found=False, seen="the run has no such replica")
    entries = evidence.copied.epoch_entries(label, broker, about)
    starts = [start for _, start in entries or ()]
    seen = "no leader-epoch-checkpoint" if entries is None else f"epochs begin at {starts}"
    return Witness(wanted=wanted, found=starts == wanted["epochs"].get("starts"), seen=seen)


def _magics_witness(
    wanted: Mapping[str, Any], evidence: RunEvidence, label: str, broker: int, about: TopicPartition
) -> Witness:
    contents = evidence.copied.contents(label, broker, about)
    if contents is None:
        return Witness(wanted=wanted, found=False, seen="the run has no such replica")
    runs = [magic for magic, _ in groupby(batch.magic for batch in contents.batches)]
    found = runs == wanted["magics"].get("runs")
    return Witness(wanted=wanted, found=found, seen=f"its batches are in magic {runs}")


def _hit_witness(
    wanted: Mapping[str, Any], fields: Mapping[str, Any], evidence: RunEvidence
) -> Witness:
    for hit in evidence.hits:
        if all(getattr(hit, name, None) == value for name, value in fields.items()):
            return Witness(wanted=wanted, found=True, seen=hit.read_at)
    return Witness(wanted=wanted, found=False, seen=f"none of {len(evidence.hits)} hits at points")


def _operation_witness(
    wanted: Mapping[str, Any], fields: Mapping[str, Any], evidence: RunEvidence
) -> Witness:
    unknown = fields.keys() - set(Operation.__dataclass_fields__)
    if unknown:
        raise ScenarioDataError(f"scenario.json: an operation has no field {', '.join(unknown)}")
    values = {name: tuple(one) if isinstance(one, list) else one for name, one in fields.items()}
    for one in evidence.operations:
        if all(getattr(one, name) == value for name, value in values.items()):
            return Witness(wanted=wanted, found=True, seen=one.read_at)
    return Witness(wanted=wanted, found=False, seen=f"none of {len(evidence.operations)}")


def _observed_witness(
    wanted: Mapping[str, Any], fields: Mapping[str, Any], evidence: RunEvidence
) -> Witness:
    for line in evidence.observed:
        if _includes({"kind": line.kind, **line.detail}, fields):
            return Witness(wanted=wanted, found=True, seen=line.read_at)
    return Witness(
        wanted=wanted, found=False, seen=f"none of {len(evidence.observed)} observations"
    )


def _has(message: LinkMessage, name: str, value: Any) -> bool:
    detail = message.detail or {}
    if name == "api":
        return _plain(message.api or "") == _plain(value)
    if name == "partition":
        return any(_includes(entry, value) for entry in detail.get("partitions", ()))
    if name == "detail":
        return _includes(detail, value)
    return bool(getattr(message, name, None) == value)


def _includes(entry: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(entry.get(name) == value for name, value in wanted.items())


def _plain(api: str) -> str:
    return api.replace("_", "").lower()
