"""Findings, each with the bytes on both sides."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kchaos.checkers.findings import KINDS, Finding, Question
from kchaos.checkers.model.values.prediction import PredictedBatch
from kchaos.checkers.outcome import partition_of
from kchaos.checkers.segments.batch import Batch
from kchaos.harness.report.headers import HeaderField, header_fields, mark_differences
from kchaos.harness.report.replicas import PartitionView, ReplicaView

MOST_WITH_BYTES = 60
"""So many findings show the bytes; the findings after them show their evidence only."""
_MOST_SIDES = 3
_EVIDENCE_WIDTH = 110
_ORDER = ("safety", "conformance", "neither")


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One batch header that a finding is about.

    Attributes:
        title: Whose it is, and where it stands.
        note: Why it is shown, or what is missing; "" if the title says it.
        fields: The header, field by field; empty where nothing is there.
    """

    title: str
    note: str
    fields: tuple[HeaderField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingView:
    """One finding, ready to be shown.

    Attributes:
        question: "safety", "conformance" or "neither".
        where: Partition, brokers, offsets and snapshot, each as text; "" where it has none.
        evidence: Its evidence as indented JSON, or "".
        sides: The headers of the batches concerned.
        others: Findings of the same kind about the same brokers, a sentence each.
    """

    kind: str
    question: str
    meaning: str
    partition: str
    brokers: str
    offsets: str
    snapshot: str
    message: str
    evidence: str
    sides: tuple[Side, ...]
    others: tuple[str, ...] = ()


def finding_views(
    findings: Sequence[Finding], views: Sequence[PartitionView]
) -> tuple[FindingView, ...]:
    """Return the findings, the first `MOST_WITH_BYTES` with their batches' headers.

    Findings of one kind about the same brokers are one view: the first of them, with the others
    as sentences.
    """
    groups: dict[tuple[str, str, tuple[int, ...]], list[Finding]] = {}
    for finding in findings:
        key = (finding.kind, finding.question.value, tuple(finding.brokers))
        groups.setdefault(key, []).append(finding)
    return tuple(
        replace(
            _view(first, sides_of(first, views) if number < MOST_WITH_BYTES else ()),
            others=tuple(map(_in_a_line, others)),
        )
        for number, (first, *others) in enumerate(groups.values())
    )


def _in_a_line(finding: Finding) -> str:
    where = [partition_of(finding)]
    where += [f"offsets {offsets_text(finding)}"] if finding.first_offset >= 0 else []
    where += [f"in snapshot {finding.snapshot}"] if finding.snapshot else []
    place = " ".join(each for each in where if each)
    return f"{place}: {finding.message}" if place else finding.message


def in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings in reading order: safety, conformance, then the rest."""
    return tuple(sorted(findings, key=lambda finding: _ORDER.index(finding.question.value)))


def offsets_text(finding: Finding) -> str:
    """Return the finding's offsets, both ends inclusive; "" if it has none."""
    first, last = finding.first_offset, finding.last_offset
    if first < 0:
        return ""
    return str(first) if first == last else f"{first}-{last}"


def _view(finding: Finding, sides: tuple[Side, ...]) -> FindingView:
    return FindingView(
        kind=finding.kind,
        question=finding.question.value,
        meaning=KINDS[finding.kind].meaning,
        partition=partition_of(finding),
        brokers=", ".join(map(str, finding.brokers)),
        offsets=offsets_text(finding),
        snapshot=finding.snapshot,
        message=finding.message,
        evidence=_compact(finding.evidence) if finding.evidence else "",
        sides=sides,
    )


def _compact(value: Any, indent: int = 0) -> str:
    """Return the value as JSON; a short value, or one of plain values only, takes one line."""
    line = json.dumps(value, ensure_ascii=False)
    inner = value.values() if isinstance(value, dict) else value
    if (
        len(line) + indent <= _EVIDENCE_WIDTH
        or not isinstance(value, dict | list)
        or not any(isinstance(each, dict | list) for each in inner)
    ):
        return line
    pad = "  " * (indent // 2 + 1)
    if isinstance(value, dict):
        items = [
            f"{pad}{json.dumps(key, ensure_ascii=False)}: {_compact(item, indent + 2)}"
            for key, item in value.items()
        ]
        return "{\n" + ",\n".join(items) + f"\n{pad[2:]}}}"
    items = [pad + _compact(item, indent + 2) for item in value]
    return "[\n" + ",\n".join(items) + f"\n{pad[2:]}]"


def sides_of(finding: Finding, views: Sequence[PartitionView]) -> tuple[Side, ...]:
    """Return a batch header of each side of the finding, with fields that differ marked.

    The sides are the finding's brokers; if it names only one, the prediction for it as well when
    the finding is about conformance, else another replica.
    """
    view = _view_of(finding, views)
    if view is None:
        return ()
    named = [each for each in view.replicas if each.broker in finding.brokers]
    others = [each for each in view.replicas if each not in named]
    others.sort(key=lambda each: each.role != "leader")
    first, last = finding.first_offset, finding.last_offset
    with_prediction = finding.question is Question.CONFORMANCE
    if with_prediction and first < 0:
        # It is about a checkpoint, a request or an answer: no batch shows it.
        return ()
    chosen = named if len(named) > 1 or with_prediction else [*named, *others[:1]]
    probes = _probes_held(finding)
    sides = [_found_side(each, first, last, probes) for each in chosen[:_MOST_SIDES]]
    if with_prediction and len(named) == 1:
        sides.append(_foreseen_side(named[0], first, last))
    marked = mark_differences([side.fields for side in sides])
    return tuple(replace(side, fields=fields) for side, fields in zip(sides, marked, strict=True))


def _view_of(finding: Finding, views: Sequence[PartitionView]) -> PartitionView | None:
    partition = (finding.topic, finding.partition)
    same = [view for view in views if (view.topic, view.partition) == partition]
    at_snapshot = (view for view in same if view.snapshot == finding.snapshot)
    return next(at_snapshot, same[-1] if same else None)


def _probes_held(finding: Finding) -> set[int]:
    """Return base offsets of settling's records at lost offsets, by the finding's evidence."""
    held = finding.evidence.get("held_instead")
    by_broker = held.values() if isinstance(held, Mapping) else ()
    headers = (each for given in by_broker if isinstance(given, list) for each in given)
    return {
        each["base_offset"] for each in headers if isinstance(each, dict) and "is_probe" in each
    }


def _found_side(replica: ReplicaView, first: int, last: int, probes: set[int]) -> Side:
    who = f"broker {replica.broker}, on disk"
    if replica.on_disk is None:
        return Side(title=who, note="no directory of this partition", fields=())
    batch, note = _chosen(replica.on_disk.batches, first, last)
    if batch is None:
        return Side(title=who, note="the log is empty", fields=())
    where = f"{batch.file}, byte {batch.position}"
    what = ", a probe record" if batch.base_offset in probes else ""
    return Side(
        title=f"{who}: {where}{what}",
        note=note,
        fields=header_fields(replica.on_disk.directory / batch.file, batch),
    )


def _foreseen_side(replica: ReplicaView, first: int, last: int) -> Side:
    who = f"broker {replica.broker}, predicted"
    if replica.foreseen is None:
        return Side(title=who, note="the prediction has no such replica", fields=())
    batch, note = _chosen(replica.foreseen.batches, first, last)
    if batch is None:
        return Side(title=who, note="the predicted log is empty", fields=())
    values = (
        ("baseOffset", batch.base_offset),
        ("partitionLeaderEpoch", batch.leader_epoch),
        ("magic", batch.magic),
        ("lastOffset", batch.last_offset),
        ("payload digest", batch.payload),
    )
    return Side(
        title=who,
        note=note,
        fields=tuple(
            HeaderField(name=name, at=-1, raw="", value=str(value)) for name, value in values
        ),
    )


def _chosen(
    batches: Iterable[Batch] | Iterable[PredictedBatch], first: int, last: int
) -> tuple[Any, str]:
    """Return the first batch in the range, else the next one, else the last one of all."""
    after = before = None
    for batch in batches:
        if first >= 0 and batch.base_offset <= last and batch.last_offset >= first:
            return batch, ""
        if first >= 0 and batch.base_offset > last and after is None:
            after = batch
        before = batch
    wanted = str(first) if first == last else f"{first}-{last}"
    if first < 0:
        return before, "the last batch of the log"
    if after is not None:
        return after, f"no batch holds {wanted}; this is the next one"
    return before, f"no batch holds {wanted}; this is the last one"
