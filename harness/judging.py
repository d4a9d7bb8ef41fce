"""Judging run directories that exist: one by one in plain Python, or all of them with Spark."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from checkers.judge import judge, results_line, write_judgement
from checkers.run_directory import RunDirectory
from harness.errors import UsageError
from harness.report import write_report


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """The run directories among the paths and directly inside them, by name, each once.

    Raises:
        UsageError: A path is no run directory and holds none.
    """
    found: dict[Path, None] = {}
    for path in paths:
        inside = [path] if _is_run(path) else sorted(filter(_is_run, _children(path)))
        if not inside:
            raise UsageError(f"{path} is no run directory, and holds none: there is no run.json")
        found |= dict.fromkeys(one.resolve() for one in inside)
    return list(found)


def judge_paths(
    paths: Sequence[Path],
    *,
    spark: bool,
    master: str | None,
    output: Path,
    offline: bool,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Judges every run; returns the object of `--json` for each.

    Args:
        spark: Whether Spark does it; then findings and batches land as Parquet in a new folder
            below `output`. Else each run gets a judgement beside its evidence.
        master: Spark's master, or None for this machine.

    Raises:
        UsageError: A path is no run directory and holds none.
        RunDirectoryError: A run was written by a newer kchaos.
    """
    runs = find_runs(paths)
    for run in runs:
        RunDirectory.open(run)
    if spark:
        return _with_spark(runs, master=master, output=output, offline=offline, say=say)
    lines = []
    for run in runs:
        directory = RunDirectory.open(run)
        results = judge(directory)
        write_judgement(directory, results)
        write_report(directory)
        lines.append(results_line(results))
    return lines


def spark_agrees(
    runs: Sequence[Path], *, output: Path, offline: bool, say: Callable[[str], None]
) -> bool:
    """Judges the runs with Spark, and compares with each run's newest judgement in plain Python."""
    paths = find_runs(runs)
    lines = _with_spark(paths, master=None, output=output, offline=offline, say=say)
    agreed = 0
    for path, line in zip(paths, lines, strict=True):
        plain = _newest_judgement(path)
        same = all(plain[name] == line[name] for name in ("conforms", "safe", "expected"))
        same = same and _kinds(plain["findings"]) == _kinds(line["findings"])
        agreed += same
        if not same:
            say(f"Spark and plain Python disagree on {path.name}: {json.dumps(line)}")
    say(f"Spark agrees with plain Python on {agreed} of {len(paths)} runs")
    return agreed == len(paths)


def _kinds(findings: Sequence[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What identifies a finding in both forms, whatever the order."""
    names = ("kind", "first_offset", "last_offset")
    return sorted((*(one[name] for name in names), tuple(one["brokers"])) for one in findings)


def _newest_judgement(run: Path) -> dict[str, Any]:
    directory = RunDirectory.open(run)
    return directory.read(f"judgements/{directory.judgements()[-1]}/results.json")


def _is_run(path: Path) -> bool:
    return (path / "run.json").is_file()


def _children(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (child for child in path.iterdir() if child.is_dir() and not child.is_symlink())
