"""Judging run directories that exist: one by one in plain Python, or all of them with Spark."""

import importlib.util
import json
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kchaos.checkers.errors import CheckError, RunDirectoryError
from kchaos.checkers.judge import judge
from kchaos.checkers.packs import run_at
from kchaos.checkers.results import Results, write_judgement
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.run_line import FindingLine, RunLine, line_at, line_of, reason_of
from kchaos.checkers.signatures import require_signature
from kchaos.checkers.store import Place, StoredPlace
from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka.java import spark_java_home
from kchaos.harness.campaign.campaign import write_report_or_say
from kchaos.harness.commands.show import result_lines
from kchaos.harness.errors import UsageError
from kchaos.harness.exits import machine_error_in
from kchaos.harness.run.directories import find_places, find_runs

SPARK_FROM = 400
"""So many runs are judged with Spark unless told: the fewest with which it was seen to be faster.

Its start costs what 100 runs do, and its tasks work side by side (`python -m benchmarks.judge`).
"""


def judge_paths(
    places: Sequence[Place],
    *,
    spark: bool | None,
    master: str | None,
    output: Place | None,
    offline: bool,
    say: Callable[[str], None],
    signed_by: Path | None = None,
) -> Iterator[RunLine]:
    """Judge every run; yield the line of each, and keep none of them.

    A pack on an object store is fetched for as long as it is judged, by Spark's tasks or here.

    `spark` selects Spark, whose `output` folder of Parquet files is by default the next number in
    `judgements-spark/` beside the first run, and whose `master` is by default this machine.
    Otherwise each run directory gets a judgement beside its evidence, and a pack none. None selects
    Spark from `SPARK_FROM` runs on if installed, or with a master or an output. With `signed_by`, a
    file of public keys, plain Python judges runs that one of them signed; others are unknown.

    Raises:
        UsageError: A path is no run directory and holds none; or the output is there already.
        RunDirectoryError: There is one run only, and it cannot be opened.
        StoreError: The store cannot be asked which packs there are.
    """
    runs = find_places(places)
    if output is not None and _is_there(output):
        raise UsageError(
            f"{output} exists, and no judgement is written over: name another --output"
        )
    if signed_by is not None:
        spark = False
    if spark is None and (master is not None or output is not None):
        spark = True
    if with_spark(spark, runs=len(runs), offline=offline, say=say):
        # A name that is no text has no place in Spark's tables.
        odd = [run for run in runs if not str(run).isprintable()]
        plain = [run for run in runs if run not in odd]
        if plain:
            yield from _with_spark(plain, master=master, output=output, offline=offline, say=say)
        runs = odd
    elif len(runs) == 1 and isinstance(runs[0], Path) and signed_by is None:
        RunDirectory.open(runs[0])
    for run in runs:
        yield _line_of(run, say, signed_by)


def _line_of(run: Place, say: Callable[[str], None], signed_by: Path | None = None) -> RunLine:
    """Judge one run in plain Python; a folder that is no run becomes an unknown line.

    So is one over which the judge itself fails: the others are judged.

    Raises:
        OSError, MemoryError: The machine cannot, and could not for the next run either.
    """
    try:
        with run_at(run) as path:
            directory = RunDirectory.open(path)
            if signed_by is not None:
                require_signature(directory, signed_by)
            results = judge(directory)
        if isinstance(run, Path):
            _write(directory, results)
    except CheckError as error:
        say(f"{run} cannot be judged: {error}")
        return RunLine(run=str(run), unknown=str(error))
    except (OSError, MemoryError):
        raise
    except Exception as error:  # noqa: BLE001 - a defect of kchaos is told, as unknown
        say(f"{run} cannot be judged; this is a defect of kchaos:\n{traceback.format_exc()}")
        return RunLine(run=str(run), unknown=f"the judge failed: {error!r}")
    # The line that is returned has the verdict.
    for line in result_lines(results, has_verdict=False, place=run):
        say(line)
    report = write_report_or_say(directory, say) if isinstance(run, Path) else None
    return replace(line_of(results, report=report), run=str(run))


def _is_there(output: Place) -> bool:
    """Return whether a folder, or a prefix of a store, has content."""
    return bool(output.objects()) if isinstance(output, StoredPlace) else output.exists()


def _write(run: RunDirectory, results: Results) -> None:
    """Write the judgement.

    Raises:
        OSError: The machine refuses.
        RunDirectoryError: Something else has the folder's name.
    """
    try:
        write_judgement(run, results)
    except RunDirectoryError as error:
        if (refused := machine_error_in(error)) is not None:
            raise refused from error
        raise


def spark_agrees(runs: Sequence[Path], *, offline: bool, say: Callable[[str], None]) -> bool:
    """Judge each run in a task of Spark; compare it with its newest plain judgement."""
    paths = find_runs(runs)
    lines = _with_spark(paths, master=None, output=None, offline=offline, say=say)
    agreed = 0
    for path, line in zip(paths, lines, strict=True):
        plain = line_at(path)
        names = ("conforms", "safe", "expected")
        same = all(getattr(plain, name) == getattr(line, name) for name in names)
        same = same and Counter(map(_shape, plain.findings)) == Counter(map(_shape, line.findings))
        agreed += same
        if not same:
            say(f"Spark and plain Python disagree on {path.name}: {json.dumps(line.to_json())}")
    say(f"Spark agrees with plain Python on {agreed} of {len(paths)} runs")
    return agreed == len(paths)


def with_spark(
    wanted: bool | None, *, runs: int, offline: bool, say: Callable[[str], None]
) -> bool:
    """Return whether Spark judges: as wanted, or, for None, if there are many runs.

    Where many runs are judged without it, because it is not installed, that is said.

    Raises:
        MachineError: It is wanted and cannot start, or there is no Java for it.
    """
    if wanted is None and runs < SPARK_FROM:
        return False
    if wanted is None and (missing := _missing_for_spark()):
        say(f"plain Python judges: {missing} is not installed (pip install 'kchaos[spark]')")
        return False
    if wanted is not False:
        require_spark(offline=offline)
    return wanted is not False


def require_spark(*, offline: bool) -> Path:
    """Prepare Spark and return its JAVA_HOME.

    Raises:
        MachineError: pyspark or what it needs is not installed, or there is no Java for it.
    """
    if missing := _missing_for_spark():
        raise MachineError(
            f"Spark is not installed ({missing} is missing): pip install 'kchaos[spark]', or "
            "give --no-spark to judge in plain Python"
        )
    return spark_java_home(offline=offline)


def _missing_for_spark() -> str:
    names = ("pyspark", "pyarrow", "pandas")
    return next((name for name in names if importlib.util.find_spec(name) is None), "")


def _shape(finding: FindingLine) -> tuple[object, ...]:
    return finding.kind, finding.first_offset, finding.last_offset, finding.brokers


def _with_spark(
    runs: Sequence[Place],
    *,
    master: str | None,
    output: Place | None,
    offline: bool,
    say: Callable[[str], None],
) -> Iterator[RunLine]:
    java_home = require_spark(offline=offline)
    from kchaos.checkers.spark import judge_runs

    judgement = judge_runs(
        runs,
        output=output,
        master=master,
        java_home=java_home,
        progress=lambda ended, of: say(f"{ended} of {of} runs are judged"),
    )
    say(f"batches, findings and results as Parquet: {judgement.output}")
    for run, result in zip(runs, judgement.results, strict=True):
        if reason := reason_of(result):
            say(f"{result.run}: {reason}")
        # It may be no run at all.
        line = line_of(result) if result.judged_by else RunLine(unknown=result.unknown)
        yield replace(line, run=str(run))
