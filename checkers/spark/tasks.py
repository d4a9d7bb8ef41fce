"""Functions of Spark's tasks: a whole run; or its evidence, the rules of a group, its results.

Each calls the functions of the plain judge and adds nothing of its own to what they say.
"""

import contextlib
import functools
import itertools
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from kchaos.checkers.errors import CheckError, StoreError
from kchaos.checkers.evidence.assembling import run_evidence
from kchaos.checkers.evidence.partition import (
    PREDICTED,
    batch_rows,
    context_row,
    partition_evidence,
    rows_of_snapshot,
)
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.folders import held, remove_abandoned_in
from kchaos.checkers.json_form import members
from kchaos.checkers.judge import Rules, about_the_run, judge
from kchaos.checkers.model.follow.search import PATIENCE
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.packs import SUFFIX, run_at
from kchaos.checkers.record import predict_run
from kchaos.checkers.results import Results, results_text
from kchaos.checkers.rules import Judged, apply_rules, joined
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.spark.rows import (
    BATCH_TABLE,
    BATCHES,
    CONTEXT,
    CRASH,
    DAMAGE,
    ERROR,
    FINDING_TABLE,
    FINDINGS,
    FOUND,
    PREDICTED_TOO,
    RESULT_TABLE,
    RESULTS,
    SNAPSHOT_AFTER,
    TABLES,
    arrow_schema,
    error_row,
    finding_of_row,
    finding_row,
    record_batch,
    told_error,
    with_fingerprints,
)
from kchaos.checkers.store import Place, StoredPlace, place_of

ENDED = "ended"
"""The folder beside the tables in which each task counts its runs, a byte each."""
_PART = "kchaos-part-"
_RUNS_TOGETHER = 50
"""The rows of so many runs are written at a time."""
_START = ("position", "run", "path")
"""The columns of a run that are known before it is read."""

Run = tuple[int, str]
"""A run's position among all, and its place."""

Share = tuple[int, Iterable[Run]]
"""The number of a part of the tables, which no two parts share, and its runs."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Refusal of an object store to take a task's tables."""

    why: str


Rows = Mapping[str, list[dict[str, Any]]]
"""The rows of one run, by table; there is one of its results."""

Told = int | Refused
"""A task's word besides its tables: the position of a run that it left alone, or a refusal."""


class PartError(CheckError):
    """Failure of another task to read; it shows itself as the error that was raised there."""

    def __init__(self, shown: str) -> None:
        super().__init__(shown)
        self._shown = shown

    def __repr__(self) -> str:
        return self._shown


class PartFailure(Exception):
    """As `PartError`, of what failed although the evidence is not damaged."""

    def __repr__(self) -> str:
        return str(self)


def predicted_batches(batches: Iterator[Any], *, patience: int) -> Iterator[Any]:
    """Yields, for rows with a run's path, its predicted batches and contexts as rows."""
    for batch in batches:
        for path in batch.column("path").to_pylist():
            yield _table_of(Path(path), patience)


def _table_of(path: Path, patience: int) -> Any:
    try:
        return record_batch(BATCH_TABLE, run_rows(path, patience=patience))
    except Exception as error:  # noqa: BLE001 - the run becomes unknown, and the others go on
        return record_batch(BATCH_TABLE, [error_row(path.name, told_error(error))])


def run_rows(path: Path, *, patience: int = PATIENCE) -> Iterator[dict[str, Any]]:
    """Yields the context rows and predicted batch rows of one run, or one row for an error.

    A run whose evidence cannot be read has no rows: `judge` fails at the same place and says so. A
    model that fails leaves the evidence without a prediction, as it does there.
    """
    run = RunDirectory(path)
    try:
        evidence = RunEvidence(RunDirectory.open(path)).read()
    except Exception:  # noqa: BLE001 - `results_row` reads the same and reports it
        return
    try:
        prediction = predict_run(evidence, patience=patience)
    except Exception:  # noqa: BLE001 - likewise
        prediction = None
    labels = [snapshot.label for snapshot in evidence.snapshots]
    after = dict(itertools.pairwise(labels))
    try:
        for partition in run_evidence(evidence, prediction, with_segments=False):
            yield context_row(partition) | {"side": CONTEXT}
            for row in batch_rows(partition):
                # What was predicted for the snapshot before is that snapshot's own rows.
                if row["side"] == PREDICTED:
                    yield row | {SNAPSHOT_AFTER: after.get(partition.snapshot)}
    except Exception as error:  # noqa: BLE001 - the run becomes unknown, and the others go on
        yield error_row(run.name, told_error(error))


def judge_group(key: tuple[Any, ...], table: Any) -> Any:
    """Findings of the rules for one run, topic, partition and snapshot, as rows."""
    import pyarrow as pa

    run = key[0].as_py()
    try:
        rows = record_batch(FINDING_TABLE, _said_of_group(run, table.to_pylist()))
    except Exception as error:  # noqa: BLE001 - the run becomes unknown, and the others go on
        rows = record_batch(FINDING_TABLE, [_failed_group(run, error)])
    return pa.Table.from_batches([rows])


def results_with(patience: int) -> Callable[[tuple[Any, ...], Any], Any]:
    """The task that makes the results of one run, from its row and the rows of what rules said."""

    def results_of_group(key: tuple[Any, ...], table: Any) -> Any:
        import pyarrow as pa

        rows = table.to_pylist()
        own = next(row for row in rows if row["path"] is not None)
        said = [row for row in rows if row["path"] is None]
        result = results_row(own["position"], Path(own["path"]), said, patience=patience)
        return pa.Table.from_batches([record_batch(RESULT_TABLE, [result])])

    return results_of_group


def results_row(
    position: int,
    path: Path,
    said: Sequence[Mapping[str, Any]],
    *,
    patience: int = PATIENCE,
) -> dict[str, Any]:
    """The results of one run as a row; unknown, with the reason, for what is no run at all.

    Args:
        said: What the rules said of it in other tasks.
    """
    start = _start(position, path)
    try:
        row = _row_of(start, _judged(path, _rules_from(said), patience))
        record_batch(RESULT_TABLE, [row])
    except Exception as error:  # noqa: BLE001 - one run's fault must not end the others' judging
        return _not_judged(start, error)
    return row


def whole_runs(share: Share, *, patience: int, most_bytes: int, folder: Place) -> Iterator[Told]:
    """Judges runs; yields the positions of those that it left alone, or why there are no tables.

    Each run is read and followed once, here, and its rows are written once, here: into the tables
    in the folder. A run whose segments have more than `most_bytes` is left alone, for several tasks
    may share its reading. A pack of an object store is fetched here, whatever its size; one that
    cannot be had is unknown. A store that cannot take the tables is asked before a run is judged.
    """
    number, runs = share
    try:
        with _Written(folder, number) as written:
            for position, place in runs:
                of_run = _whole_run(position, place_of(place), patience, most_bytes)
                if of_run is None:
                    yield position
                else:
                    written.add(of_run)
    except StoreError as error:
        yield Refused(str(error))


def runs_ended(folder: Path) -> int:
    """Number of runs judged by the tasks that write into the folder, or have written there."""
    sizes = 0
    for file in (folder / ENDED).glob("*"):
        sizes += file.stat().st_size
    return sizes


class _Written:
    """One task's part of each table: a file of its own, there when all of it is written.

    A task that is tried again writes its own file again. Runs are counted as they end, where the
    tables are on a disk. What goes to an object store is a file of this machine before.
    """

    def __init__(self, target: Place, number: int) -> None:
        self._target = target
        self._number = number
        self._waiting: list[Rows] = []
        self._ending = contextlib.ExitStack()
        self._leaving = contextlib.ExitStack()

    def __enter__(self) -> Self:
        import pyarrow.parquet as pq

        name = f"part-{self._number:05d}.parquet"
        if isinstance(self._target, StoredPlace):
            # What refuses this would refuse the tables in the end.
            (self._target / RESULTS / name).exists()
        self._folder = self._target if isinstance(self._target, Path) else self._temporary()
        (self._folder / ENDED).mkdir(parents=True, exist_ok=True)
        self._files = {}
        for table in TABLES:
            place = self._folder / table
            place.mkdir(parents=True, exist_ok=True)
            # Spark reads no file whose name begins with a point.
            self._files[place / f".{name}.{os.getpid()}"] = place / name
        self._writers = {
            table: self._ending.enter_context(pq.ParquetWriter(file, arrow_schema(TABLES[table])))
            for table, file in zip(TABLES, self._files, strict=True)
        }
        count = (self._folder / ENDED / str(self._number)).open("wb", buffering=0)
        self._count = self._ending.enter_context(count)
        return self

    def add(self, of_run: Rows) -> None:
        """Takes the rows of one run."""
        self._waiting.append(of_run)
        if len(self._waiting) >= _RUNS_TOGETHER:
            self._write()
        self._count.write(b".")

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._write()
        with self._leaving:
            self._ending.close()
            for temporary, file in self._files.items():
                if kind is None:
                    temporary.rename(file)
                else:
                    temporary.unlink()
            if kind is None and isinstance(self._target, StoredPlace):
                for file in self._files.values():
                    (self._target / file.parent.name / file.name).replace(file.read_bytes())

    def _temporary(self) -> Path:
        above = Path(tempfile.gettempdir())
        remove_abandoned_in(above, _PART)
        return self._leaving.enter_context(held(above, _PART))

    def _write(self) -> None:
        if self._waiting:
            for table, batch in _batches_of_runs(self._waiting).items():
                self._writers[table].write_batch(batch)
        self._waiting = []


def _batches_of_runs(runs: Sequence[Rows]) -> Mapping[str, Any]:
    """A record batch for each table; a run with rows that Arrow cannot have is unknown in them."""
    try:
        return _record_batches(runs)
    except Exception:  # noqa: BLE001 - it is found out below whose rows they were
        return _record_batches([_taken_or_unknown(of_run) for of_run in runs])


def _record_batches(runs: Sequence[Rows]) -> Mapping[str, Any]:
    return {
        table: record_batch(columns, itertools.chain.from_iterable(rows[table] for rows in runs))
        for table, columns in TABLES.items()
    }


def _taken_or_unknown(of_run: Rows) -> Rows:
    try:
        _record_batches([of_run])
    except Exception as error:  # noqa: BLE001 - the run becomes unknown, and the others go on
        (result,) = of_run[RESULTS]
        return _without_rows({name: result[name] for name in _START}, error)
    return of_run


def _whole_run(position: int, place: Place, patience: int, most_bytes: int) -> Rows | None:
    """The run's rows for each table; None for a larger run on a disk."""
    if isinstance(place, Path) and segment_bytes(place) > most_bytes:
        return None
    start = _start(position, place)
    try:
        with run_at(place) as path:
            return _rows_of_run(start, path, patience)
    except Exception as error:  # noqa: BLE001 - the run becomes unknown, and the others go on
        return _without_rows(start, error)


def _start(position: int, place: Place) -> dict[str, Any]:
    return dict(zip(_START, (position, place.name.removesuffix(SUFFIX), str(place)), strict=True))


def _without_rows(start: Mapping[str, Any], error: Exception) -> Rows:
    return {BATCHES: [], FINDINGS: [], RESULTS: [_not_judged(start, error)]}


def _rows_of_run(start: Mapping[str, Any], path: Path, patience: int) -> Rows:
    rows: dict[str, list[dict[str, Any]]] = {BATCHES: [], FINDINGS: []}
    results = _judged(path, _rules_into(rows, path.name), patience)
    rows[FINDINGS] = with_fingerprints(rows[FINDINGS], results.findings)
    return rows | {RESULTS: [_row_of(start, results)]}


def segment_bytes(path: Path) -> int:
    """Bytes of the segments in a run's snapshots; 0 for those that cannot be read."""
    try:
        # `Path.rglob` took a hundredth of judging a run.
        return sum(
            os.lstat(os.path.join(folder, name)).st_size
            for folder, _, names in os.walk(path / "snapshots", onerror=_raise)
            for name in names
            if name.endswith(".log")
        )
    except OSError:
        # Whoever reads it says what is wrong.
        return 0


def _raise(error: OSError) -> None:
    raise error


def _rules_into(rows: Mapping[str, list[dict[str, Any]]], run: str) -> Rules:
    """The rules of the plain judge, which leave what they read and said as rows."""

    def rules(evidence: RunEvidence, prediction: Prediction | None) -> Judged:
        labels = [snapshot.label for snapshot in evidence.snapshots]
        after = dict(itertools.pairwise(labels))
        parts = []
        for partition in run_evidence(evidence, prediction):
            context = context_row(partition)
            rows[BATCHES].append(context | {"side": CONTEXT})
            following = {SNAPSHOT_AFTER: after.get(partition.snapshot)}
            rows[BATCHES].extend(row | following for row in rows_of_snapshot(partition))
            judged = apply_rules(partition)
            rows[FINDINGS].extend(_said(run, context, judged))
            parts.append(judged)
        return joined([*parts, Judged(findings=tuple(about_the_run(evidence, prediction)))])

    return rules


def _judged(path: Path, rules: Rules, patience: int) -> Results:
    predict = functools.partial(predict_run, patience=patience)
    return judge(RunDirectory.open(path), predict=predict, rules=rules)


def _row_of(start: Mapping[str, Any], results: Results) -> dict[str, Any]:
    columns = {name: value for name, value in members(results).items() if name in RESULT_TABLE}
    # Where it was judged may be where its pack was unpacked.
    return {**start, **columns, "path": start["path"], "results": results_text(results)}


def _not_judged(start: Mapping[str, Any], error: Exception) -> dict[str, Any]:
    return {**start, "expected": False, "reason": "not judged", "unknown": _told(error)}


def _rules_from(said: Sequence[Mapping[str, Any]]) -> Rules:
    """Stand-in for the rules when they have been applied already, group by group."""

    def rules(evidence: RunEvidence, prediction: Prediction | None) -> Judged:
        errors = sorted((row["message"], row["kind"]) for row in said if row["role"] == ERROR)
        for message, kind in errors[:1]:
            raise PartError(message) if kind == DAMAGE else PartFailure(message)
        parts = Judged(
            findings=tuple(finding_of_row(row) for row in said if row["role"] == FOUND),
            predicted_findings=tuple(
                finding_of_row(row) for row in said if row["role"] == PREDICTED_TOO
            ),
            crashes=tuple(row["evidence"] for row in said if row["role"] == CRASH),
        )
        return joined([parts, Judged(findings=tuple(about_the_run(evidence, prediction)))])

    return rules


def _said_of_group(run: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    errors = [json.loads(row["context"]) for row in rows if row["side"] == ERROR]
    for told in errors:
        yield _error_finding(run, told)
    context = next((row for row in rows if row["side"] == CONTEXT), None)
    if context is None:
        # Nobody asked about it: the partition is unknown to ZooKeeper's log and the snapshot.
        return
    batches = [row for row in rows if row["side"] not in (CONTEXT, ERROR)]
    yield from _said(run, context, apply_rules(partition_evidence(context, batches)))


def _said(run: str, context: Mapping[str, Any], judged: Judged) -> Iterator[dict[str, Any]]:
    """Yields what the rules said of one partition at one snapshot as rows."""
    for finding in judged.findings:
        yield finding_row(run, FOUND, finding)
    for finding in judged.predicted_findings:
        yield finding_row(run, PREDICTED_TOO, finding)
    for crash in judged.crashes:
        start = {name: context[name] for name in ("run", "topic", "partition", "snapshot")}
        last = crash.strip().splitlines()[-1]
        yield start | {"role": CRASH, "message": last, "evidence": crash}


def _failed_group(run: str, error: Exception) -> dict[str, Any]:
    return _error_finding(run, json.loads(told_error(error)))


def _error_finding(run: str, told: Mapping[str, str]) -> dict[str, Any]:
    row = {"run": run, "role": ERROR, "kind": told["kind"]}
    return row | {"message": told["error"], "evidence": told["traceback"]}


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, CheckError) else repr(error)
