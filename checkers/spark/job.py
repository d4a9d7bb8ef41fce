"""The Spark job: from run directories to batches, findings and results as Parquet.

A task takes a run as the plain judge does, reads and follows it once, and writes its rows: the
batches of both sides to `batches`, what the rules say to `findings`, the verdict to `results`. A
run that is unsealed or torn, or over which a rule fails, is unknown, and the others go on.

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
import shutil
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

from kchaos.checkers.errors import SparkError
from kchaos.checkers.folders import WORKING, held, plain, remove_abandoned_in
from kchaos.checkers.json_form import from_json
from kchaos.checkers.model.follow.search import PATIENCE
from kchaos.checkers.packs import SUFFIX
from kchaos.checkers.results import Results
from kchaos.checkers.spark.context import ship_package, spark_context
from kchaos.checkers.spark.rows import RESULTS, TABLES
from kchaos.checkers.spark.tasks import ENDED, Run, judge_share, runs_ended
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
    patience: int = PATIENCE,
    progress: Callable[[int, int], None] = lambda _ended, _runs: None,
) -> SparkJudgement:
    """Judges runs with Spark; what comes out is what `checkers.judge.judge` says of each.

    No two `runs`, directories or addresses of packs, may have the same name. `output` is a new
    folder; None makes the next number in `judgements-spark/` beside the first run, or here if that
    is on a store. `master` and `java_home` are as in `spark_context`. `patience`
    is the number of states that may explain no more of a run before conformance is unknown.
    `progress` is called with the judged runs and all runs, after the first and then every few
    seconds, unless the output is on a store.

    Raises:
        SparkError: Nothing to judge, two runs of one name, the output exists, Spark does not start
            or its job fails.
    """
    places = _distinct(runs)
    beside = places[0].parent if isinstance(places[0], Path) else Path.cwd()
    with _new_folder(beside, output) as (folder, place):
        tables = output if isinstance(output, StoredPlace) else folder
        log = folder / LOG
        with _telling(tables, len(places), progress), _spark(master, java_home, log) as context:
            _judge(context, places, tables, log, patience)
        _finish(tables)
        named = place()
    return SparkJudgement(output=named)


@contextlib.contextmanager
def _spark(master: str | None, java_home: Path | None, log: Path) -> Iterator[SparkContext]:
    """Yield the context of a job, with a folder for its temporary files; errors quote its log.

    Raises:
        SparkError: Spark does not start, or what it is asked fails.
    """
    temporary = log.with_name(_TEMPORARY)
    temporary.mkdir()
    with spark_context(
        master, java_home=java_home, log_file=log, temporary=plain(temporary.parent) / _TEMPORARY
    ) as context:
        try:
            yield context
        except (PySparkException, Py4JError) as error:
            raise _failed((str(error).strip().splitlines() or [repr(error)])[0], log) from error
    shutil.rmtree(temporary, ignore_errors=True)


def _judge(
    context: SparkContext, places: Sequence[Place], tables: Place, log: Path, patience: int
) -> None:
    """Judges runs in tasks, which write their rows; there is no session of Spark SQL.

    SQL has nothing to plan here, and without it such a job starts much earlier.
    """
    ship_package(context)
    runs = [*enumerate(map(str, places))]
    shares = [*enumerate(_shares(runs, at_a_time=context.defaultParallelism))]
    judge = functools.partial(judge_share, patience=patience, folder=tables)
    for why in context.parallelize(shares, len(shares)).flatMap(judge).collect():
        raise _failed(why, log)


def _shares(runs: Sequence[Run], *, at_a_time: int) -> Iterator[Sequence[Run]]:
    """Cut runs into shares of tasks, in order; with small ones last, all cores end together.

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
    """Remove all but the tables; on a store, mark them as complete."""
    if isinstance(tables, StoredPlace):
        (tables / ALL_THERE).write_new(b"")
        return
    shutil.rmtree(tables / ENDED)
    # What a task that was tried again had begun.
    for abandoned in (file for name in TABLES for file in (tables / name).glob(".part-*")):
        abandoned.unlink()


@contextlib.contextmanager
def _telling(folder: Place, runs: int, progress: Callable[[int, int], None]) -> Iterator[None]:
    """Report the number of judged runs during the block, the first at once; none on a store."""
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
                progress(ended, runs)

    teller = threading.Thread(target=tell, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        is_over.set()
        teller.join()


def _rows_in(file: Place) -> Iterator[dict[str, Any]]:
    """Yield the rows of one task's part of the table of results."""
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
    """Yield a new folder, and a function that gives it its final name; remove it on an error.

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
