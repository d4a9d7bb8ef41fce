"""The Spark job: from run directories to batches, findings and results as Parquet.

A task takes a run as the plain judge does, reads and follows it once, and writes its rows: the
batches of both sides to `batches`, what the rules say to `findings`, the verdict to `results`. A
run whose segments are larger than a part is read by several tasks (a data source); its batches are
grouped by run, topic, partition and snapshot, and given to the same rules. A run that is unsealed
or torn, or over which a rule fails, is unknown, and the others go on.

A run may be a pack on an object store. The task that judges it fetches it, with what its own
environment says of the store; the driver reads none. The tables may be there too: each task puts
its own there as it ends, and an empty object `_SUCCESS` says that all have.

With a remote master our Python package is sent to the executors. What cannot be sent must be there:
the same minor version of Python, with pyarrow, pandas, crc32c and cramjam. Run directories and
output must lie at the same paths on every machine.
"""

import contextlib
import functools
import heapq
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kchaos.checkers.errors import SparkError
from kchaos.checkers.evidence.partition import BEFORE, KEY_COLUMNS, OBSERVED, PREDICTED
from kchaos.checkers.folders import WORKING, held, plain, remove_abandoned_in
from kchaos.checkers.json_form import from_json
from kchaos.checkers.model.follow.search import PATIENCE
from kchaos.checkers.packs import SUFFIX
from kchaos.checkers.results import Results
from kchaos.checkers.spark.batch_source import NAME, BatchSource
from kchaos.checkers.spark.context import is_local, ship_package, spark_context, threads_of_start
from kchaos.checkers.spark.early import EarlyJudge, Judging
from kchaos.checkers.spark.parts import PART_BYTES
from kchaos.checkers.spark.rows import (
    BATCH_TABLE,
    BATCHES,
    FINDING_TABLE,
    FINDINGS,
    RESULT_TABLE,
    RESULTS,
    SNAPSHOT_AFTER,
    TABLES,
    ddl,
)
from kchaos.checkers.spark.tasks import (
    ENDED,
    Refused,
    Run,
    Told,
    judge_group,
    predicted_batches,
    results_with,
    runs_ended,
    whole_runs,
)
from kchaos.checkers.store import Place, StoredPlace, files_in, place_of

JUDGEMENTS_FOLDER = "judgements-spark"
ALL_THERE = "_SUCCESS"
"""The object beside tables on a store that is there when they are; readers of Parquet skip it."""
LOG = "spark.log"
_TEMPORARY = "temporary"
_ROWS_TOGETHER = 100
_LOOK_S = 0.25
_TELL_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkJudgement:
    """One judgement of many runs.

    Attributes:
        output: The folder with the Parquet tables `batches`, `findings` and `results`.
    """

    output: Place

    @property
    def results(self) -> Iterator[Results]:
        """Yields those of each run, in the order in which they were given, without predictions.

        They are read from the tables as they are asked for, a few of each task at a time. What is
        no run at all has no `judged_by`. `path` leads nowhere for a pack on an object store.
        """
        files = files_in(self.output / RESULTS, ".parquet")
        # Each task wrote its runs in order.
        for row in heapq.merge(*map(_rows_in, files), key=lambda row: row["position"]):
            yield _results_of(row)


def judge_runs(
    runs: Sequence[str | Place],
    *,
    output: Place | None = None,
    master: str | None = None,
    java_home: Path | None = None,
    class_archive: Path | None = None,
    whole_bytes: int = PART_BYTES,
    part_bytes: int = PART_BYTES,
    patience: int = PATIENCE,
    early: int | None = None,
    progress: Callable[[int, int], None] = lambda _ended, _runs: None,
) -> SparkJudgement:
    """Judges runs with Spark; what comes out is what `checkers.judge.judge` says of each.

    Args:
        runs: Run directories, and addresses of packs; no two may have the same name.
        output: The folder to make, which must not exist; None makes the next number in
            `judgements-spark/` beside the first run, or here if that is on a store. With one on a
            store no progress is told, and no run is split over several tasks.
        master: See `spark_context`, like `java_home` and `class_archive`.
        whole_bytes: A run whose segments have more bytes is split over several tasks.
        part_bytes: About how many bytes of segments one task reads.
        patience: How many states may explain no more of a run until the model gives up,
            and conformance is unknown.
        early: How many processes may judge runs of this machine's disks while Spark starts on it,
            by the same function as Spark's tasks, which then get the rest. There are no more of
            them than threads of Spark. None for as many as this process has cores.
        progress: Called with how many runs are judged, and of how many, while they are: as soon as
            one is, and then every few seconds.

    Raises:
        SparkError: Nothing to judge, two runs of one name, the output exists, Spark does not start
            or its job fails.
    """
    places = _distinct(runs)
    beside = places[0].parent if isinstance(places[0], Path) else Path.cwd()
    with _new_folder(beside, output) as (folder, place):
        work = _Work(
            places=places,
            tables=output if isinstance(output, StoredPlace) else folder,
            log=folder / LOG,
            whole_bytes=whole_bytes,
            part_bytes=part_bytes,
            patience=patience,
        )
        with (
            _early(work, master, early) as judges,
            _telling(work, progress),
            _spark(master, java_home, class_archive, work.log) as context,
        ):
            _judge(context, work, judges)
        _finish(work.tables)
        named = place()
    return SparkJudgement(output=named)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """Runs to judge, and the place for their results.

    Attributes:
        tables: The folder of the tables.
        log: What Spark prints goes there.
        whole_bytes: As of `judge_runs`, like `part_bytes` and `patience`.
    """

    places: Sequence[Place]
    tables: Place
    log: Path
    whole_bytes: int
    part_bytes: int
    patience: int

    @property
    def runs(self) -> list[Run]:
        """Each with its position."""
        return [*enumerate(map(str, self.places))]

    @property
    def judging(self) -> Judging:
        """Function that judges some of the runs and writes their rows, here or in a task."""
        # Where tables go to a store no run is split over tasks, which would share a disk.
        most_bytes = sys.maxsize if isinstance(self.tables, StoredPlace) else self.whole_bytes
        return functools.partial(
            whole_runs, patience=self.patience, most_bytes=most_bytes, folder=self.tables
        )


@contextlib.contextmanager
def _early(work: _Work, master: str | None, most: int | None) -> Iterator[Sequence[EarlyJudge]]:
    """So many judges at most while Spark starts on this machine; none if it starts elsewhere.

    With runs or tables on a store there is none either: only tasks fetch from a store, and write to
    it. There is none where this process must not be forked: a daemonic process may have no child,
    and the copy of a process with threads would have locks that nobody gives back.
    """
    is_on_disk = all(isinstance(place, Path) for place in (*work.places, work.tables))
    may_fork = not multiprocessing.current_process().daemon and threading.active_count() == 1
    most = len(os.sched_getaffinity(0)) if most is None else most
    judges = min(most, threads_of_start(master), len(work.runs)) if is_on_disk and may_fork else 0
    with contextlib.ExitStack() as ending:
        yield [
            ending.enter_context(EarlyJudge(judge, work.runs[judge::judges], work.judging))
            for judge in range(judges)
        ]


@contextlib.contextmanager
def _spark(
    master: str | None, java_home: Path | None, class_archive: Path | None, log: Path
) -> Iterator[SparkContext]:
    """The context of a job, with a folder for its temporary files; what fails is told with its log.

    Raises:
        SparkError: Spark does not start, or what it is asked fails.
    """
    temporary = log.with_name(_TEMPORARY)
    temporary.mkdir()
    with spark_context(
        master,
        java_home=java_home,
        log_file=log,
        temporary=_as_java_takes_it(temporary),
        class_archive=class_archive,
    ) as context:
        try:
            yield context
        except (PySparkException, Py4JError) as error:
            raise _failed((str(error).strip().splitlines() or [repr(error)])[0], log) from error
    shutil.rmtree(temporary, ignore_errors=True)


def _judge(context: SparkContext, work: _Work, early: Sequence[EarlyJudge]) -> None:
    ship_package(context)
    runs = work.runs
    if early:
        _start_workers(context)
        runs = sorted(run for judge in early for run in judge.take_rest())
    told = _judged(context, runs, work.judging, first=len(early)) if runs else []
    for judge in early:
        told += judge.told()
    for each in told:
        if isinstance(each, Refused):
            raise _failed(each.why, work.log)
    large = sorted(each for each in told if not isinstance(each, Refused))
    if large:
        # Those are none of packs: they lie on disks.
        _split(context, [(at, Path(str(work.places[at]))) for at in large], work)


def _start_workers(context: SparkContext) -> None:
    """Has each of this machine's Python workers started, by a task that does nothing."""
    workers = context.defaultParallelism
    context.parallelize(range(workers), workers).map(abs).collect()


def _judged(
    context: SparkContext, runs: Sequence[Run], judging: Judging, *, first: int
) -> list[Told]:
    """Judges runs in tasks, whose numbers begin with `first`; returns what these told.

    A run's rows are made by one task, which reads and follows it once, and writes them. Without
    Spark SQL, which has nothing to plan here, such a job starts much earlier.
    """
    shares = [*enumerate(_shares(runs, at_a_time=context.defaultParallelism), start=first)]
    return list(context.parallelize(shares, len(shares)).flatMap(judging).collect())


def _shares(runs: Sequence[Run], *, at_a_time: int) -> Iterator[Sequence[Run]]:
    """Cuts runs into shares of tasks, in order; with small ones last, all cores end together.

    A share is as many of the runs that are left as two such tasks for each core would take, and no
    more than a quarter of what a core has to do: a task may be tried again, or begin before all
    executors are there.
    """
    most = -(-len(runs) // (4 * at_a_time))
    begun = 0
    while begun < len(runs):
        ended = begun + min(most, max(1, (len(runs) - begun) // (2 * at_a_time)))
        yield runs[begun:ended]
        begun = ended


def _finish(tables: Place) -> None:
    """Removes what is no table, or says on a store that all tables are there."""
    if isinstance(tables, StoredPlace):
        (tables / ALL_THERE).write_new(b"")
        return
    shutil.rmtree(tables / ENDED)
    # What a task that was tried again had begun.
    for abandoned in (file for name in TABLES for file in (tables / name).glob(".part-*")):
        abandoned.unlink()


@contextlib.contextmanager
def _telling(work: _Work, progress: Callable[[int, int], None]) -> Iterator[None]:
    """While the block runs, tells how many runs are judged: the first at once; none of a store."""
    folder = work.tables
    if isinstance(folder, StoredPlace):
        yield
        return
    is_over = threading.Event()

    def tell() -> None:
        told, due = 0, 0.0
        while not is_over.wait(_LOOK_S):
            ended = runs_ended(folder)
            if ended > told and time.monotonic() >= due:
                told, due = ended, time.monotonic() + _TELL_S
                progress(ended, len(work.places))

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


def _split(context: SparkContext, large: Sequence[tuple[int, Path]], work: _Work) -> None:
    """Adds runs that are too large for one task to the tables: several read one, others judge it.

    Such a run's small files are read, and the run is followed, in two of these tasks.

    Args:
        large: Each with its position among all.
    """
    assert isinstance(work.tables, Path)
    is_here = is_local(str(context.master))
    folder = _as_java_takes_it(work.tables) if is_here else work.tables
    session = SparkSession.getActiveSession() or SparkSession(context)
    session.dataSource.register(BatchSource)
    runs = session.createDataFrame(
        [(position, path.name, str(path)) for position, path in large],
        "position int, run string, path string",
    )
    observed = (
        session.read.format(NAME)
        .option("runs", json.dumps([str(path) for _, path in large]))
        .option("part_bytes", str(work.part_bytes))
        .load()
    )
    predicted = runs.mapInArrow(
        functools.partial(predicted_batches, patience=work.patience), ddl(BATCH_TABLE)
    )
    names = [path.name for _, path in large]
    batches = _added(observed.unionByName(predicted), folder, BATCHES, names)
    said = (
        _with_batches_before(batches)
        .groupBy(*KEY_COLUMNS)
        .applyInArrow(judge_group, ddl(FINDING_TABLE))
    )
    findings = _added(said, folder, FINDINGS, names)
    results = (
        findings.unionByName(runs, allowMissingColumns=True)
        .groupBy("run")
        .applyInArrow(results_with(work.patience), ddl(RESULT_TABLE))
        .sortWithinPartitions("position")
    )
    _added(results, folder, RESULTS, names)


def _added(rows: DataFrame, folder: Path, name: str, runs: Sequence[str]) -> DataFrame:
    """The rows, added to a table, and those of these runs read from there.

    A folder for each run would be some files for each run: with two hundred small runs they cost
    eight times what everything else in the JVM does. The rows of a run lie together instead, so
    whoever filters by run skips what Parquet's statistics exclude.
    """
    place = (folder / name).as_uri()
    rows.write.mode("append").parquet(place)
    table = rows.sparkSession.read.schema(ddl(TABLES[name])).parquet(place)
    return table.where(f.col("run").isin([*runs]))


def _with_batches_before(batches: DataFrame) -> DataFrame:
    """Each batch once for its own snapshot, and once as what was there before the next one."""
    here = f.struct(f.col("snapshot"), f.col("side"))
    next_one = f.struct(
        f.col(SNAPSHOT_AFTER).alias("snapshot"),
        f.concat(f.col("side"), f.lit(BEFORE)).alias("side"),
    )
    shown_twice = (
        f.col(SNAPSHOT_AFTER).isNotNull()
        & f.col("side").isin(OBSERVED, PREDICTED)
        & f.col("base_offset").isNotNull()
    )
    shown = f.explode(f.when(shown_twice, f.array(here, next_one)).otherwise(f.array(here)))
    return (
        batches.withColumn("shown", shown)
        .withColumn("snapshot", f.col("shown.snapshot"))
        .withColumn("side", f.col("shown.side"))
        .drop("shown")
    )


def _rows_in(file: Place) -> Iterator[dict[str, Any]]:
    """Yields the rows of one task's part of the table of results."""
    from pyarrow import BufferReader, parquet

    opened = file if isinstance(file, Path) else BufferReader(file.read_bytes())
    with parquet.ParquetFile(opened) as part:
        for batch in part.iter_batches(batch_size=_ROWS_TOGETHER):
            yield from batch.to_pylist()


def _results_of(row: Any) -> Results:
    path = Path(row["path"])
    if row["results"] is not None:
        return from_json(Results, json.loads(row["results"]), path=path, prediction=None)
    columns = {name: row[name] for name in ("run", "expected", "reason", "unknown")}
    return Results(**columns, conforms=None, safe=None, path=path, prediction=None)


def _distinct(runs: Sequence[str | Place]) -> list[Place]:
    named = [place_of(run) if isinstance(run, str) else run for run in runs]
    resolved = (run.resolve() if isinstance(run, Path) else run for run in named)
    places = list(dict.fromkeys(resolved))
    if not places:
        raise SparkError("no run to judge: name at least one run directory")
    by_name: dict[str, Place] = {}
    for place in places:
        other = by_name.setdefault(place.name.removesuffix(SUFFIX), place)
        if other != place:
            raise SparkError(
                f"{other} and {place} have the same name, which names a run in the tables: judge "
                "them apart, or rename the copy"
            )
    return places


@contextlib.contextmanager
def _new_folder(beside: Path, output: Place | None) -> Iterator[tuple[Path, Callable[[], Place]]]:
    """A folder to write to, and what gives it its final name; it goes away if the block raises.

    What killed processes left there goes first. Where Spark fails, its log stays. Where the tables
    go to a store, it is for what else Spark writes.
    """
    if isinstance(output, StoredPlace):
        root, is_there = Path(tempfile.gettempdir()), bool(output.objects())
    else:
        root = (beside / JUDGEMENTS_FOLDER if output is None else output.parent).resolve()
        is_there = output is not None and output.exists()
    if is_there:
        raise SparkError(f"{output} exists; a judgement is never written over: name another")
    root.mkdir(parents=True, exist_ok=True)
    remove_abandoned_in(root, WORKING)
    with held(root, WORKING) as working:
        try:
            yield working, lambda: _named(working, root, output)
        except SparkError as error:
            kept = root / f"failed-{working.name.removeprefix(WORKING)}.log"
            with contextlib.suppress(FileNotFoundError):
                (working / LOG).rename(kept)
            raise type(error)(str(error).replace(str(working / LOG), str(kept))) from error


def _as_java_takes_it(folder: Path) -> Path:
    """The folder by a path that Java and Hadoop do not misread, on this machine."""
    return plain(folder.parent) / folder.name


def _named(working: Path, root: Path, output: Place | None) -> Place:
    if isinstance(output, StoredPlace):
        return output
    if output is not None:
        working.rename(output)
        return output
    taken = [int(entry.name) for entry in root.iterdir() if entry.name.isdigit()]
    first = 1 + max(taken, default=0)
    for number in range(first, first + 1000):
        place = root / f"{number:04d}"
        try:
            working.rename(place)
        except OSError:
            if not place.exists():
                raise
        else:
            return place
    raise SparkError(f"{root} holds too many judgements")


def _failed(why: str, log: Path) -> SparkError:
    last = log.read_text(errors="replace").splitlines()[-15:] if log.exists() else []
    return SparkError(
        f"the Spark job failed: {why}; its log is {log}, the end of it below.\n"
        "Every executor needs this Python's minor version with pyarrow, pandas, crc32c and "
        "cramjam, and the runs at the same paths.\n  " + "\n  ".join(last)
    )
