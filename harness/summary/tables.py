"""Tables of many runs as Parquet: what they have, a row for each thing, and none twice.

tables.toml says every column with its type and meaning; docs/tables.md is made of it:

    python -m kchaos.harness.summary.tables docs/tables.md

A table is a folder with a part for each day on which runs began. On a disk each part is one file,
and a lock keeps all but one process away: a run's rows take the place of those that it had.

An object store has no lock: there each call adds a file of its own, `call=NAME/rows.parquet`, and
touches no other. A reader takes of each run the rows of the newest call that `runs` has of it.
"""

import contextlib
import datetime
import fcntl
import json
import os
import re
import secrets
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from kchaos.checkers.availability import Availability, FaultAvailability
from kchaos.checkers.errors import CheckError, RunDirectoryError
from kchaos.checkers.evidence.faults import acted_faults
from kchaos.checkers.evidence.observed import Observed, lines_of
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.observations import StepBegun
from kchaos.checkers.packs import SUFFIX, run_at
from kchaos.checkers.results import Results, read_judgement
from kchaos.checkers.run_directory import JUDGEMENTS, RunDirectory
from kchaos.checkers.run_line import line_of_run
from kchaos.checkers.store import Place, StoredPlace, files_in, replace
from kchaos.clusters.errors import MachineError
from kchaos.harness.errors import UsageError
from kchaos.harness.summary.rates import mix_of

SCHEMA = 5
"""The version of the tables; it is in each file, and in `runs`."""
NO_DAY = "__HIVE_DEFAULT_PARTITION__"
"""The part of runs that do not say when they began: `day` is null there."""
_TEXT, _WHOLE, _NUMBER, _YES = "text", "whole number", "number", "yes or no"
_TIME, _TEXTS, _WHOLES = "time", "texts", "whole numbers"
_VERSION = b"kchaos.schema"
_OF_AN_OPERATION = (
    *("operation", "function", "broker", "topic", "partition", "acks", "codec", "outcome"),
    *("promised", "error", "is_probe"),
)
_RUN = ("run", _TEXT, "the run's own name, wherever a copy of it lies")

TABLES: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    table: (_RUN, *((name, kind, meaning) for name, (kind, meaning) in columns.items()))
    for table, columns in tomllib.loads(
        files(__package__).joinpath("tables.toml").read_text("utf-8")
    ).items()
}
"""Each table's columns: name, type and meaning. All but `run` may be null."""

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
"""Rows by table."""


def rows_of(path: Path) -> tuple[str, Rows]:
    """Return the day on which a run began, and its rows in every table.

    A run that cannot be read has one row, in `runs`, which says why.
    """
    line = line_of_run(path)
    started = line.started_at
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    own: dict[str, Any] = {name: getattr(line, name, None) for name, _, _ in TABLES["runs"]}
    own |= {
        "schema": SCHEMA,
        "entry_case": line.case,
        "started": _when(started),
        "mix": mix_of(line),
        "build_digest": _digest(line.build),
        "fingerprints": [bug.fingerprint for bug in line.bugs],
    }
    rows["runs"].append(own)
    try:
        run = RunDirectory.open(path)
        service: tuple[FaultAvailability, ...] = ()
        if run.judgements():
            newest = run.judgements()[-1]
            results = path / JUDGEMENTS / newest / "results.json"
            own["judged"] = _when(results.stat().st_mtime)
            judged = read_judgement(run, newest)
            _add_judgement(rows, judged)
            if judged.availability is not None:
                service = judged.availability.faults
        evidence = RunEvidence(run)
        own["run"] = evidence.description.name or path.name
        _add_evidence(rows, evidence, service)
    except (CheckError, OSError) as error:
        own["unknown"] = own["unknown"] or str(error)
    day = NO_DAY if started is None else str(_time(started).date())
    return day, {name: [_filled(str(own["run"]), row) for row in rows[name]] for name in rows}


def rows_at(place: Place) -> tuple[str, Rows]:
    """Return `rows_of` a run, or of a pack on an object store, which is fetched.

    Raises:
        StoreError: The store does not give it.
    """
    try:
        with run_at(place) as path:
            return rows_of(path)
    except RunDirectoryError as error:
        day, rows = rows_of(Path(place.name.removesuffix(SUFFIX)))
        return day, {**rows, "runs": [{**row, "unknown": str(error)} for row in rows["runs"]]}


def append(rows: Iterable[tuple[str, Rows]], folder: Place) -> None:
    """Add the rows of runs to the tables in a folder.

    Rows that the same runs had go away on a disk. On a store they stay, and the view of
    docs/tables.md leaves them out as soon as all of the new ones are there.

    Raises:
        MachineError: pyarrow is not installed.
        UsageError: The tables there are of another version, or somebody writes to them now.
        OSError, StoreError: The disk or the store refuses; each file is there whole, as it was or
            as it is to be.
    """
    by_day: dict[str, list[Rows]] = defaultdict(list)
    for day, of_run in rows:
        by_day[day].append(of_run)
    call = _new_call()
    with _only_one(folder):
        for day, of_day in by_day.items():
            runs = {row["run"] for of_run in of_day for row in of_run["runs"]}
            # `runs` is the first of them and comes last: it says that the others are there.
            for name in reversed([*TABLES]):
                new = [row for of_run in of_day for row in of_run[name]]
                _write(folder / name / f"day={day}", name, new, runs, call)


def write_views(folder: Path, database: Path) -> None:
    """Write a DuckDB database with a view for each table; it has no rows itself.

    Raises:
        MachineError: duckdb is not installed.
        UsageError: The file is no database of DuckDB, or another process uses it.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MachineError("duckdb is not installed: pip install duckdb") from error
    try:
        with duckdb.connect(database) as connection:
            for name in TABLES:
                files = f"{folder.resolve()}/{name}/*/*.parquet".replace("'", "''")
                connection.sql(
                    f"create or replace view {name} as select * from read_parquet('{files}', "
                    "hive_partitioning = true)"
                )
    except duckdb.Error as error:
        raise UsageError(f"{database} cannot be written: {error}; name another file") from error


def rows_in(folder: Path) -> Iterator[tuple[str, Rows]]:
    """Yield the rows of the tables in a folder by the runs' day, in the form of `append`.

    Raises:
        MachineError: pyarrow is not installed.
    """
    parquet = _pyarrow()[2]
    for part in sorted((folder / "runs").glob("day=*")):
        yield (
            part.name.removeprefix("day="),
            {
                name: [
                    row
                    for file in sorted((folder / name / part.name).glob("*.parquet"))
                    for row in parquet.ParquetFile(file).read().to_pylist()
                ]
                for name in TABLES
            },
        )


def _write(
    folder: Place, name: str, rows: Sequence[Mapping[str, Any]], runs: set[str], call: str
) -> None:
    """Put the rows of runs into a part, replacing their earlier rows on a disk."""
    arrow = _pyarrow()[0]
    there = {file: _read(file) for file in files_in(folder, ".parquet")}
    table = arrow.Table.from_pylist([dict(row) for row in rows], schema=_schema(arrow, name))
    if isinstance(folder, StoredPlace):
        _put(folder / f"call={call}" / "rows.parquet", table)
        return
    folder.mkdir(parents=True, exist_ok=True)
    own = folder / "rows.parquet"
    if own in there:
        table = arrow.concat_tables([_without(there.pop(own), runs), table])
    # What is new comes first, so that an error leaves rows twice and never takes any.
    _put(own, table)
    for file, other in there.items():
        if runs & {*other["run"].to_pylist()}:
            _put(file, _without(other, runs))


def _read(file: Place) -> Any:
    """Return the rows of a part's file.

    Raises:
        UsageError: It has those of another version.
    """
    arrow, _, parquet = _pyarrow()
    table = parquet.ParquetFile(arrow.BufferReader(file.read_bytes())).read()
    if (table.schema.metadata or {}).get(_VERSION) != str(SCHEMA).encode():
        raise UsageError(f"{file} has tables of another version than {SCHEMA}: name another folder")
    return table


def _without(table: Any, runs: set[str]) -> Any:
    arrow, compute, _ = _pyarrow()
    return table.filter(compute.invert(compute.is_in(table["run"], arrow.array(sorted(runs)))))


def _put(file: Place, table: Any) -> None:
    arrow, _, parquet = _pyarrow()
    written = arrow.BufferOutputStream()
    parquet.write_table(table.sort_by("run"), written, compression="zstd")
    replace(file, written.getvalue().to_pybytes())


def _new_call() -> str:
    """Return a unique name for a call, which sorts before later calls' names.

    Of two machines the clock of each decides which call is later.
    """
    return f"{datetime.datetime.now(datetime.UTC):%Y%m%dT%H%M%S.%fZ}-{secrets.token_hex(8)}"


def _schema(arrow: Any, name: str) -> Any:
    kinds = {
        _TEXT: arrow.string(),
        _WHOLE: arrow.int64(),
        _NUMBER: arrow.float64(),
        _YES: arrow.bool_(),
        _TIME: arrow.timestamp("us", tz="UTC"),
        _TEXTS: arrow.list_(arrow.string()),
        _WHOLES: arrow.list_(arrow.int64()),
    }
    columns = [(column, kinds[kind]) for column, kind, _ in TABLES[name]]
    return arrow.schema(columns, metadata={_VERSION: str(SCHEMA).encode()})


def _pyarrow() -> tuple[Any, Any, Any]:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError as error:
        raise MachineError(
            f"tables need {error.name}, which is not installed: pip install 'kchaos[spark]'"
        ) from error
    return pyarrow, pyarrow.compute, pyarrow.parquet


@contextlib.contextmanager
def _only_one(folder: Place) -> Iterator[None]:
    if isinstance(folder, StoredPlace):
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UsageError(f"another kchaos writes tables in {folder}: wait until it ends") from None
    finally:
        os.close(lock)


def _add_judgement(rows: Mapping[str, list[dict[str, Any]]], results: Results) -> None:
    for number, finding in enumerate(results.findings):
        rows["findings"].append(
            {
                "number": number,
                "fingerprint": finding.fingerprint,
                "kind": finding.kind,
                "question": finding.question.value,
                "topic": finding.topic,
                "partition": _known(finding.partition),
                "brokers": list(finding.brokers),
                "first_offset": _known(finding.first_offset),
                "last_offset": _known(finding.last_offset),
                "snapshot": finding.snapshot,
                "message": finding.message,
            }
        )
    for number, witness in enumerate(results.witness):
        wanted = json.dumps(witness.wanted)
        row = {"number": number, "wanted": wanted, "found": witness.found, "seen": witness.seen}
        rows["witnesses"].append(row)
    if results.availability is not None:
        _add_availability(rows, results.availability)


def _add_availability(rows: Mapping[str, list[dict[str, Any]]], availability: Availability) -> None:
    rows["partitions"].extend(asdict(partition) for partition in availability.partitions)
    for consumer in availability.consumers:
        known = {"partition": _known(consumer.partition)}
        rows["consumers"].append(asdict(consumer) | known)
    for outage in availability.outages:
        times = {"began": _when(outage.began), "ended": _when(outage.ended)}
        row = asdict(outage) | times | {"seconds": round(outage.seconds, 3)}
        rows["outages"].append(row)


def _add_evidence(
    rows: Mapping[str, list[dict[str, Any]]],
    evidence: RunEvidence,
    service: Sequence[FaultAvailability],
) -> None:
    rows["runs"][0]["machine"] = evidence.description.platform
    if evidence.rolled_to:
        rows["runs"][0]["rolled_from"] = " and ".join(evidence.started_as)
        rows["runs"][0]["rolled_to"] = " and ".join(evidence.rolled_to)
    for broker, ran in sorted(evidence.description.brokers.items()):
        versions = {"release": ran.release, "judged_as": ran.judged_as, "build": ran.build}
        rows["brokers"].append({"broker": broker, **versions})
    for operation in evidence.operations:
        # Of what a test says of its own clients nobody knows when it began.
        began = None if operation.is_said else operation.invoked_at
        ended = operation.ended_at or None
        row = {
            **{name: getattr(operation, name) for name in _OF_AN_OPERATION},
            "records": len(operation.payloads),
            "base_offset": _known(operation.base_offset),
            "last_offset": _known(operation.last_offset),
            "error_code": operation.error_code or None,
            "broker": _known(operation.broker),
            "invoked": _when(began),
            "ended": _when(ended),
            "seconds": None if ended is None or began is None else round(ended - began, 6),
        }
        table = "writes" if operation.function == "produce" else "reads"
        rows[table].append({name: row[name] for name, _, _ in TABLES[table] if name in row})
    rows["steps"].extend(_steps(evidence.observed))
    rows["faults"].extend(_faults(evidence.observed, service))


def _steps(observed: Sequence[Observed]) -> Iterator[dict[str, Any]]:
    steps = [*lines_of(observed, StepBegun)]
    if not steps:
        return
    last = max(line.time for line in observed if line.step == steps[-1][0].step)
    ends = [*(line.time for line, _ in steps[1:]), last]
    for (line, step), end in zip(steps, ends, strict=True):
        yield {
            "number": line.step,
            "name": step.name,
            "is_gate": step.name.startswith("Await"),
            "began": _when(line.time),
            "seconds": round(end - line.time, 6),
        }


def _faults(
    observed: Sequence[Observed], service: Sequence[FaultAvailability]
) -> Iterator[dict[str, Any]]:
    """Yield a row for each fault; `service` has them in the same order, or is empty."""
    of_each = iter(service)
    for span in acted_faults(observed):
        after = next(of_each, None)
        yield {
            "name": span.injected.name,
            "fault": span.injected.fault,
            "step": span.step,
            "lasting": span.injected.lasting,
            "injected": _when(span.seen),
            "healed": _when(span.healed),
            "is_back": None if after is None else after.is_back,
            "service_back_s": None if after is None else after.service_back_s,
        }


def _filled(run: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with nulls for empty texts, and its run."""
    return {name: None if value == "" else value for name, value in row.items()} | {"run": run}


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _digest(build: str) -> str | None:
    digest = re.search("sha256:([0-9a-f]+)", build)
    return None if digest is None else digest[1]


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def _when(seconds: float | None) -> datetime.datetime | None:
    return None if seconds is None else _time(seconds)


def columns_page() -> str:
    """Return the part of docs/tables.md that describes every column."""
    lines = []
    for name, columns in TABLES.items():
        lines += [f"### {name}", "", "| column | type | meaning |", "|---|---|---|"]
        lines += ["| day | date | the part: when the run began, in UTC |"]
        lines += [f"| {column} | {kind} | {meaning} |" for column, kind, meaning in columns]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    page = Path(sys.argv[1])
    before, marker, _ = page.read_text().partition("## Columns\n\n")
    page.write_text(before + marker + columns_page())
