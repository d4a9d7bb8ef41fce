"""Judging run directories that exist: one by one in plain Python, or all of them with Spark."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from checkers.judge import judge, results_line, write_judgement
from checkers.run_directory import RunDirectory
from harness.errors import UsageError
from harness.report import write_report

_LINE = (
    "entry",
    "case",
    "release",
    "driver",
    "seed",
    "conforms",
    "safe",
    "expected",
    "findings",
    "seconds",
    "run",
)


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
    output: Path | None,
    offline: bool,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    """Judges every run; returns the object of `--json` for each.

    Args:
        spark: Whether Spark does it; else each run gets a judgement beside its evidence.
        master: Spark's master, or None for this machine.
        output: The folder that Spark makes for its Parquet files; None makes the next number in
            `judgements-spark/` beside the first run.

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


def spark_agrees(runs: Sequence[Path], *, offline: bool, say: Callable[[str], None]) -> bool:
    """Judges the runs with Spark, and compares with each run's newest judgement in plain Python."""
    paths = find_runs(runs)
    lines = _with_spark(paths, master=None, output=None, offline=offline, say=say)
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


def _with_spark(
    runs: Sequence[Path],
    *,
    master: str | None,
    output: Path | None,
    offline: bool,
    say: Callable[[str], None],
) -> list[dict[str, Any]]:
    from clusters.errors import MachineError
    from clusters.java import spark_java_home

    try:
        from checkers.spark import judge_runs

        java_home = spark_java_home(offline=offline)
        judgement = judge_runs(runs, output=output, master=master, java_home=java_home)
    except ModuleNotFoundError as error:
        raise MachineError(
            f"Spark is not installed ({error.name} is missing): pip install 'kchaos[spark]', "
            "or give --no-spark to judge in plain Python"
        ) from error
    say(f"batches, findings and results as Parquet: {judgement.output}")
    return [line_of_spark(one.results, one) for one in judgement.results]


def line_of_spark(results: Mapping[str, Any] | None, one: Any) -> dict[str, Any]:
    """The object of `--json` for one run that Spark judged; `results` None is no run at all."""
    known = results or {}
    line: dict[str, Any] = {name: known.get(name) for name in _LINE}
    findings = [_short_finding(finding) for finding in known.get("findings", ())]
    answers = {"conforms": one.conforms, "safe": one.safe, "expected": one.expected}
    return line | answers | {"findings": findings, "run": str(one.path)}


def _short_finding(finding: Mapping[str, Any]) -> dict[str, Any]:
    topic = finding["topic"]
    return {
        "kind": finding["kind"],
        "partition": f"{topic}-{finding['partition']}" if topic else None,
        "brokers": list(finding["brokers"]),
        "first_offset": finding["first_offset"],
        "last_offset": finding["last_offset"],
    }
