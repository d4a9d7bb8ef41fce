"""Functions of Spark's tasks, which take some runs each.

They call the functions of the plain judge and add nothing of their own to what these say.
"""

import contextlib
import functools
import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from kchaos.checkers.errors import CheckError, StoreError
from kchaos.checkers.evidence.assembling import run_evidence
from kchaos.checkers.evidence.partition import PartitionEvidence
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.folders import held, remove_abandoned_in
from kchaos.checkers.json_form import members
from kchaos.checkers.judge import Rules, about_the_run, judge
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.packs import SUFFIX, run_at
from kchaos.checkers.record import predict_run
from kchaos.checkers.results import Results, results_text
from kchaos.checkers.rules import Judged, apply_rules, joined
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.spark.rows import (
    BATCHES,
    CRASH,
    FINDINGS,
    FOUND,
    PREDICTED_TOO,
    RESULT_TABLE,
    RESULTS,
    TABLES,
    arrow_schema,
    batch_rows,
    finding_row,
    key_of,
    record_batch,
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


Rows = Mapping[str, list[dict[str, Any]]]
"""The rows of one run, by table; there is one of its results."""


def judge_share(share: Share, *, patience: int, folder: Place) -> Iterator[str]:
    """Judges runs; yields why an object store refuses the tables, if it does.

    Each run is read and followed once, here, and its rows are written once, here: into the tables
    in the folder. A pack of an object store is fetched here; one that cannot be had is unknown. A
    store that cannot take the tables is asked before a run is judged.
    """
    number, runs = share
    try:
        with _Written(folder, number) as written:
            for position, place in runs:
                written.add(rows_of_run(position, place_of(place), patience))
    except StoreError as error:
        yield str(error)


def runs_ended(folder: Path) -> int:
    """Return the number of runs that tasks writing into the folder have judged."""
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
        """Take the rows of one run."""
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
    """Return each table's record batch; a run with rows that do not fit is unknown in them."""
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


def rows_of_run(position: int, place: Place, patience: int) -> Rows:
    """Return the rows of one run, by table; unknown, with the reason, for what is no run at all."""
    start = _start(position, place)
    rows: dict[str, list[dict[str, Any]]] = {BATCHES: [], FINDINGS: []}
    try:
        with run_at(place) as path:
            predict = functools.partial(predict_run, patience=patience)
            rules = _rules_into(rows, path.name)
            results = judge(RunDirectory.open(path), predict=predict, rules=rules)
            rows[FINDINGS] = with_fingerprints(rows[FINDINGS], results.findings)
            return rows | {RESULTS: [_row_of(start, results)]}
    except Exception as error:  # noqa: BLE001 - the run becomes unknown, and the others go on
        return _without_rows(start, error)


def _start(position: int, place: Place) -> dict[str, Any]:
    return dict(zip(_START, (position, place.name.removesuffix(SUFFIX), str(place)), strict=True))


def _without_rows(start: Mapping[str, Any], error: Exception) -> Rows:
    return {BATCHES: [], FINDINGS: [], RESULTS: [_not_judged(start, error)]}


def _rules_into(rows: Mapping[str, list[dict[str, Any]]], run: str) -> Rules:
    """Return the plain judge's rules, which leave their evidence and findings as rows."""

    def rules(evidence: RunEvidence, prediction: Prediction | None) -> Judged:
        parts = []
        for partition in run_evidence(evidence, prediction):
            rows[BATCHES].extend(batch_rows(partition))
            judged = apply_rules(partition)
            rows[FINDINGS].extend(_said(run, partition, judged))
            parts.append(judged)
        return joined([*parts, Judged(findings=tuple(about_the_run(evidence, prediction)))])

    return rules


def _row_of(start: Mapping[str, Any], results: Results) -> dict[str, Any]:
    columns = {name: value for name, value in members(results).items() if name in RESULT_TABLE}
    # Where it was judged may be where its pack was unpacked.
    return {**start, **columns, "path": start["path"], "results": results_text(results)}


def _not_judged(start: Mapping[str, Any], error: Exception) -> dict[str, Any]:
    why = str(error) if isinstance(error, CheckError) else repr(error)
    return {**start, "expected": False, "reason": "not judged", "unknown": why}


def _said(run: str, partition: PartitionEvidence, judged: Judged) -> Iterator[dict[str, Any]]:
    """Yield the rules' results for one partition at one snapshot as rows."""
    for finding in judged.findings:
        yield finding_row(run, FOUND, finding)
    for finding in judged.predicted_findings:
        yield finding_row(run, PREDICTED_TOO, finding)
    for crash in judged.crashes:
        start = key_of(partition)
        last = crash.strip().splitlines()[-1]
        yield start | {"role": CRASH, "message": last, "evidence": crash}
