"""The tables of the Spark job: their columns, as Arrow schemas.

`batches` has the batches of both sides, "observed" and "predicted", at each snapshot.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kchaos.checkers.evidence.partition import BATCH_COLUMNS, OBSERVED, PREDICTED, PartitionEvidence
from kchaos.checkers.findings import Finding
from kchaos.checkers.json_form import members

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
    "side": _TEXT,
    "broker": _INT,
    **{name: _KINDS.get(name, _LONG) for name in BATCH_COLUMNS},
}
"""One row for each batch."""

FOUND = "found"
PREDICTED_TOO = "predicted"
CRASH = "crash"
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
say of the model's own answer), and "crash" for a rule that failed, which has a traceback in
`evidence`. Only what was found has a fingerprint.
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


def arrow_schema(table: Mapping[str, str]) -> Any:
    """Return the table's columns as a `pyarrow.Schema`."""
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


def key_of(partition: PartitionEvidence) -> dict[str, Any]:
    """Return the columns that say where a row belongs: a run, a partition and a snapshot."""
    return {name: getattr(partition, name) for name in ("run", "topic", "partition", "snapshot")}


def batch_rows(partition: PartitionEvidence) -> Iterator[dict[str, Any]]:
    """Yield a row of `BATCH_TABLE` for each batch of either side."""
    key = key_of(partition)
    for side in (OBSERVED, PREDICTED):
        for replica in partition.side(side):
            for batch in replica.batches:
                columns = {name: getattr(batch, name) for name in BATCH_COLUMNS}
                yield {**key, "side": side, "broker": replica.broker, **columns}


_OFFSETS = ("first_offset", "last_offset")


def finding_row(run: str, role: str, finding: Finding) -> dict[str, Any]:
    """Return a finding as a row of `FINDING_TABLE`."""
    told = members(finding) | {"brokers": list(finding.brokers)}
    told["evidence"] = json.dumps(finding.evidence, default=members)
    told |= {name: None for name in _OFFSETS if told[name] < 0}
    told["fingerprint"] = told["fingerprint"] or None
    return told | {"run": run, "role": role, "question": finding.question.value}


def with_fingerprints(
    rows: Iterable[Mapping[str, Any]], findings: Iterable[Finding]
) -> list[dict[str, Any]]:
    """Return the rows of one run, findings with the fingerprints of its results."""
    known = {_identity(members(finding)): finding.fingerprint for finding in findings}
    return [
        {**row, "fingerprint": known.get(_identity(row))} if row.get("role") == FOUND else dict(row)
        for row in rows
    ]


def _identity(finding: Mapping[str, Any]) -> tuple[Any, ...]:
    names = ("kind", "topic", "partition", "snapshot", "message")
    return (*(finding[name] for name in names), tuple(finding["brokers"]))


def record_batch(table: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> Any:
    """Return the rows as one `pyarrow.RecordBatch`; a column that a row lacks is null."""
    import pyarrow as pa

    listed = list(rows)
    columns = {name: [row.get(name) for row in listed] for name in table}
    return pa.RecordBatch.from_pydict(columns, schema=arrow_schema(table))
