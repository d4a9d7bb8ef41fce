"""Witnesses: what in a run's evidence shows that a bug's mechanism ran.

A `round` is found if some question for a leader epoch has all the named fields of
`checkers.model.values.prediction.EpochRound`; a `log` if a line of the broker's server.log (any
broker's without "broker") matches; a `link` if a line of links.jsonl has all the named fields,
where "api" is Kafka's name, and "partition" and "detail" are objects whose fields must be in one of
the message's partitions, or in its detail; a `hit` if a line of hits.jsonl has all the named
fields, an `observed` if one of observations.jsonl has; `epochs` if the
leader-epoch-checkpoint in that snapshot begins its epochs at these offsets (none for an empty file,
or for no file): the epochs themselves may differ from run to run; `table` if a tiered partition at
that snapshot has these lines in these columns, as `checkers.evidence.tier_tables` writes them;
`magics` if the replica's batches, in their order, are in these message formats, each run of one
format once; an `operation` if one of a client has all the named fields of
`checkers.evidence.history.Operation`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.epoch_rounds import round_in_words
from kchaos.checkers.evidence.forms import MESSAGE_FIELDS, MESSAGE_PARTITION_FIELDS
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.links import LinkMessage
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.tier_tables import tables_of
from kchaos.checkers.formats.partition_names import topic_partition
from kchaos.checkers.formats.point_hit import PointHit
from kchaos.checkers.model.values.prediction import EpochRound
from kchaos.checkers.searching import first_match


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


_FIELDS: Mapping[str, frozenset[str]] = {
    "round": frozenset(EpochRound.__dataclass_fields__),
    "log": frozenset({"broker", "pattern"}),
    "link": frozenset({*LinkMessage.__dataclass_fields__, "partition"} - {"said", "read_at"}),
    "hit": frozenset(PointHit.__dataclass_fields__) - {"read_at"},
    "operation": frozenset(Operation.__dataclass_fields__) - {"read_at"},
    "epochs": frozenset({"snapshot", "broker", "partition", "starts"}),
    "table": frozenset({"snapshot", "partition", "columns"}),
    "magics": frozenset({"snapshot", "broker", "partition", "runs"}),
}
"""The fields of each form of witness. Those of an observation differ from kind to kind."""
_NEEDED: Mapping[str, frozenset[str]] = {
    "log": frozenset({"pattern"}),
    "observed": frozenset({"kind"}),
    **{name: _FIELDS[name] for name in ("epochs", "table", "magics")},
}


def misspelt_witness(wanted: Any) -> str:
    """Return why no run could have this witness: an undocumented form or field; else ""."""
    if not isinstance(wanted, Mapping) or len(wanted) != 1:
        return f"witness {wanted!r} is no object with one form of a witness"
    ((form, named),) = wanted.items()
    if form != "observed" and form not in _FIELDS:
        return f"no witness has the form {form!r}; known: observed, {', '.join(_FIELDS)}"
    if not isinstance(named, Mapping) or not named:
        return f"witness {dict(wanted)!r} names no field"
    more = set() if form == "observed" else named.keys() - _FIELDS[form]
    lacking = _NEEDED.get(form, frozenset()) - named.keys()
    if more or lacking:
        what = f"has no field {min(more)!r}" if more else f"needs the field {min(lacking)!r}"
        return f"witness {dict(wanted)!r}: a witness of the form {form!r} {what}"
    for place, known in (("partition", MESSAGE_PARTITION_FIELDS), ("detail", MESSAGE_FIELDS)):
        inside = named.get(place, {}) if form == "link" else {}
        unknown = inside.keys() - known if isinstance(inside, Mapping) else {"no object"}
        if unknown:
            return f"witness {dict(wanted)!r}: {place} has no field {min(unknown)!r}"
    return _bad_pattern(named.get("pattern", "")) if form == "log" else ""


def _bad_pattern(pattern: Any) -> str:
    try:
        re.compile(pattern)
    except (re.error, TypeError) as error:
        return f"{pattern!r} is no regular expression: {error}"
    return ""


def witness_of(wanted: Mapping[str, Any], evidence: RunEvidence) -> Witness:
    """Look for one witness in the run's evidence.

    Raises:
        AttributeError, ScenarioDataError, ShapeError, TypeError: It is not of a documented form.
    """
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
            "table": {"snapshot": str(label), "partition": str(name), "columns": {} as columns},
            **rest,
        } if not rest:
            return _table_witness(wanted, evidence, label, _about(name), columns)
        case {
            "magics": {"snapshot": str(label), "broker": int(broker), "partition": str(name)},
            **rest,
        } if not rest:
            return _magics_witness(wanted, evidence, label, broker, _about(name))
        case _:
            raise ScenarioDataError(
                f"scenario.json: witness {dict(wanted)} is of no known kind; known are: round, log "
                "(with a pattern), link, hit, operation, observed; epochs and magics (with "
                "snapshot, broker and partition); table (with snapshot, partition and columns)"
            )


def _round_witness(
    wanted: Mapping[str, Any], fields: Mapping[str, Any], rounds: Sequence[EpochRound] | None
) -> Witness:
    if rounds is None:
        return Witness(wanted=wanted, found=False, seen="the run has no links.jsonl")
    unknown = fields.keys() - set(EpochRound.__dataclass_fields__)
    if unknown:
        raise ScenarioDataError(f"scenario.json: a round has no field {', '.join(sorted(unknown))}")
    for epoch_round in rounds:
        if all(getattr(epoch_round, name) == value for name, value in fields.items()):
            return Witness(wanted=wanted, found=True, seen=round_in_words(epoch_round))
    shown = "; ".join(round_in_words(epoch_round) for epoch_round in rounds[:10]) or "none"
    return Witness(
        wanted=wanted, found=False, seen=f"questions for leader epochs ({len(rounds)}): {shown}"
    )


def _log_witness(
    wanted: Mapping[str, Any], pattern: str, broker: int | None, evidence: RunEvidence
) -> Witness:
    logs = [log for owner, log in evidence.server_logs.items() if broker in (None, owner)]
    line = first_match(pattern, logs)
    if line is not None:
        return Witness(wanted=wanted, found=True, seen=line)
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
    partition = topic_partition(name)
    if partition is None:
        raise ScenarioDataError(f"scenario.json: a witness names {name!r}, which is no partition")
    return TopicPartition(*partition)


def _epochs_witness(
    wanted: Mapping[str, Any],
    evidence: RunEvidence,
    label: str,
    broker: int,
    partition: TopicPartition,
) -> Witness:
    if evidence.copied.contents(label, broker, partition) is None:
        return Witness(wanted=wanted, found=False, seen="the run has no such replica")
    entries = evidence.copied.epoch_entries(label, broker, partition)
    starts = [start for _, start in entries or ()]
    seen = "no leader-epoch-checkpoint" if entries is None else f"epochs begin at {starts}"
    return Witness(wanted=wanted, found=starts == wanted["epochs"].get("starts"), seen=seen)


def _table_witness(
    wanted: Mapping[str, Any],
    evidence: RunEvidence,
    label: str,
    partition: TopicPartition,
    columns: Mapping[str, Any],
) -> Witness:
    table = tables_of(evidence, partition).get(label)
    if table is None:
        return Witness(wanted=wanted, found=False, seen=f"the run has no snapshot {label}")
    others = [
        f"{column}: {'; '.join(table.get(column, ())) or 'nothing'}"
        for column, lines in columns.items()
        if list(table.get(column, ())) != list(lines)
    ]
    seen = f"snapshot {label} has {' | '.join(others)}" if others else f"snapshot {label} is so"
    return Witness(wanted=wanted, found=not others, seen=seen)


def _magics_witness(
    wanted: Mapping[str, Any],
    evidence: RunEvidence,
    label: str,
    broker: int,
    partition: TopicPartition,
) -> Witness:
    contents = evidence.copied.contents(label, broker, partition)
    if contents is None:
        return Witness(wanted=wanted, found=False, seen="the run has no such replica")
    runs = [magic for magic, _ in groupby(batch.magic for batch in contents.batches)]
    is_as_wanted = runs == wanted["magics"].get("runs")
    return Witness(wanted=wanted, found=is_as_wanted, seen=f"its batches are in magic {runs}")


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
        named = ", ".join(sorted(unknown))
        raise ScenarioDataError(f"scenario.json: an operation has no field {named}")
    for operation in evidence.operations:
        if all(_plain_value(getattr(operation, name)) == value for name, value in fields.items()):
            return Witness(wanted=wanted, found=True, seen=operation.read_at)
    seen = f"none of {len(evidence.operations)} operations"
    return Witness(wanted=wanted, found=False, seen=seen)


def _observed_witness(
    wanted: Mapping[str, Any], fields: Mapping[str, Any], evidence: RunEvidence
) -> Witness:
    for line in evidence.observed:
        if line.kind == fields.get("kind", line.kind) and _includes(line.plain(), fields):
            return Witness(wanted=wanted, found=True, seen=line.read_at)
    return Witness(
        wanted=wanted, found=False, seen=f"none of {len(evidence.observed)} observations"
    )


def _has(message: LinkMessage, name: str, value: Any) -> bool:
    detail = message.detail or {}
    if name == "partition":
        return any(_includes(entry, value) for entry in detail.get("partitions", ()))
    if name == "detail":
        return _includes(detail, value)
    return bool(getattr(message, name, None) == value)


def _includes(entry: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(entry.get(name) == value for name, value in wanted.items())


def _plain_value(value: Any) -> Any:
    """Return the value in the form of JSON."""
    return list(value) if isinstance(value, tuple) else value
