"""The tables of the Spark job: their columns, as Spark's DDL and as Arrow schemas.

`batches` is `checkers.evidence`'s rows, batch rows and context rows in one table: SIDE is
"observed" or "predicted" in a batch row, and in a context row "context". A run or a part of one
that could not be read has a row with the side "error". SNAPSHOT_AFTER names the snapshot that
follows, for which the same batch is evidence of what was there before.
"""

import json
import traceback
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from kchaos.checkers.errors import CheckError, ModelError
from kchaos.checkers.evidence.partition import BATCH_COLUMNS
from kchaos.checkers.findings import Finding
from kchaos.checkers.json_form import from_json, members

CONTEXT = "context"
ERROR = "error"
SNAPSHOT_AFTER = "snapshot_after"

_TEXT, _INT, _LONG = "string", "int", "bigint"
_KINDS = {
    **dict.fromkeys(("codec", "payload", "file", "marks"), _TEXT),
    **dict.fromkeys(("leader_epoch", "magic"), _INT),
}
BATCH_TABLE: Mapping[str, str] = {
    "run": _TEXT,
    "topic": _TEXT,
    "partition": _INT,
    "snapshot": _TEXT,
    SNAPSHOT_AFTER: _TEXT,
    "side": _TEXT,
    "broker": _INT,
    **{name: _KINDS.get(name, _LONG) for name in BATCH_COLUMNS},
    "finding": _TEXT,
    "context": _TEXT,
}
"""One row for each batch, finding of the segment reader, context, and error."""

FOUND = "found"
PREDICTED_TOO = "predicted"
CRASH = "crash"
DAMAGE = "damage"
"""Kind of the row of an error that says what is wrong with the evidence; of others, "crash"."""
FINDING_TABLE: Mapping[str, str] = {
    "run": _TEXT,
    "topic": _TEXT,
    "partition": _INT,
    "snapshot": _TEXT,
    "role": _TEXT,
    "kind": _TEXT,
    "question": _TEXT,
    "brokers": "array<int>",
    "first_offset": _LONG,
    "last_offset": _LONG,
    "fingerprint": _TEXT,
    "message": _TEXT,
    "evidence": _TEXT,
}
"""One row for each thing that a rule said; what has no offset has null.

`role` is "found" of the observed replicas, "predicted" of the predicted ones (what the safety rules
say of the model's own answer), "crash" for a rule that failed, and "error" for what could not be
read; the last two have a traceback in `evidence`. Only what was found has a fingerprint, and it has
none where several tasks judged one large run.
"""

RESULT_TABLE: Mapping[str, str] = {
    "position": _INT,
    "run": _TEXT,
    "path": _TEXT,
    "entry": _TEXT,
    "case": _TEXT,
    "release": _TEXT,
    "build": _TEXT,
    "driver": _TEXT,
    "seed": _LONG,
    "conforms": "boolean",
    "safe": "boolean",
    "expected": "boolean",
    "reason": _TEXT,
    "unknown": _TEXT,
    "seconds": "double",
    "results": _TEXT,
}
"""One row for each run; `results` is the whole of results.json, null if it was no run at all."""

BATCHES, FINDINGS, RESULTS = "batches", "findings", "results"
TABLES: Mapping[str, Mapping[str, str]] = {
    BATCHES: BATCH_TABLE,
    FINDINGS: FINDING_TABLE,
    RESULTS: RESULT_TABLE,
}
"""The tables of a judgement by the names of their folders."""


def ddl(table: Mapping[str, str]) -> str:
    """The table's columns as Spark's DDL."""
    return ", ".join(f"`{name}` {kind}" for name, kind in table.items())


def arrow_schema(table: Mapping[str, str]) -> Any:
    """The table's columns as a `pyarrow.Schema`."""
    import pyarrow as pa

    kinds = {
        _TEXT: pa.string(),
        _INT: pa.int32(),
        _LONG: pa.int64(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "array<int>": pa.list_(pa.int32()),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in table.items()])


_OFFSETS = ("first_offset", "last_offset")


def finding_row(run: str, role: str, finding: Finding) -> dict[str, Any]:
    """A finding as a row of `FINDING_TABLE`."""
    told = members(finding) | {"brokers": list(finding.brokers)}
    told["evidence"] = json.dumps(finding.evidence, default=members)
    told |= {name: None for name in _OFFSETS if told[name] < 0}
    told["fingerprint"] = told["fingerprint"] or None
    return told | {"run": run, "role": role, "question": finding.question.value}


def finding_of_row(row: Mapping[str, Any]) -> Finding:
    """The finding that `finding_row` put into a row; its fingerprint comes later."""
    columns = {field.name: row[field.name] for field in fields(Finding) if field.name in row}
    # What is null is what a finding has by default.
    given = {name: value for name, value in columns.items() if value is not None}
    return from_json(Finding, given | {"evidence": json.loads(row["evidence"])})


def with_fingerprints(
    rows: Iterable[Mapping[str, Any]], findings: Iterable[Finding]
) -> list[dict[str, Any]]:
    """The rows of one run; those of what was found have the fingerprints of its results."""
    known = {_identity(members(finding)): finding.fingerprint for finding in findings}
    return [
        {**row, "fingerprint": known.get(_identity(row))} if row.get("role") == FOUND else dict(row)
        for row in rows
    ]


def _identity(finding: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("kind", "topic", "partition", "snapshot", "message")
    return (*(finding[name] for name in names), tuple(finding["brokers"]))


def told_error(error: Exception) -> str:
    """An exception as JSON, for `error_row`."""
    trace = "".join(traceback.format_exception(error))
    is_damage = isinstance(error, CheckError) and not isinstance(error, ModelError)
    shown = str(error) if is_damage else repr(error)
    return json.dumps({"error": shown, "traceback": trace, "kind": DAMAGE if is_damage else CRASH})


def error_row(run: str, told: str) -> dict[str, Any]:
    """A row of `BATCH_TABLE` that says what could not be read; see `told_error`."""
    return {
        "run": run,
        "topic": "",
        "partition": -1,
        "snapshot": "",
        "side": ERROR,
        "context": told,
    }


def record_batch(table: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> Any:
    """The rows as one `pyarrow.RecordBatch`; a column that a row lacks is null."""
    import pyarrow as pa

    listed = list(rows)
    columns = {name: [row.get(name) for row in listed] for name in table}
    return pa.RecordBatch.from_pydict(columns, schema=arrow_schema(table))
