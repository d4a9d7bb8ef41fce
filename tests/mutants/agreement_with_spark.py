"""Comparison of Spark's and plain Python's answers about mutants."""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from kchaos.checkers.results import results_to_json
from kchaos.checkers.run_directory import RunDirectory
from tests.golden.stored import unpacked
from tests.mutants.kinds import Kind
from tests.mutants.suite import FEW_STATES, judge_path, mutants

_COMPARED = ("conforms", "safe", "expected", "findings", "predicted_findings")
_NOT_JUDGED: dict[str, object] = {name: None for name in _COMPARED} | {"expected": False}
_AT_ONCE = 600


def disagreements_with_spark(
    wanted: Iterable[tuple[str, Sequence[Kind]]], seed: int
) -> Iterator[tuple[int, list[str]]]:
    """Yields how many mutants one Spark job judged, and a line for each of which it disagrees.

    Args:
        wanted: Releases whose golden runs are changed, each with the kinds of changes.
    """
    with tempfile.TemporaryDirectory() as folder:
        made: list[tuple[str, RunDirectory]] = []
        for release, kinds in wanted:
            run = unpacked(release, Path(folder) / "runs")
            for kind, place, mutant in mutants(run, kinds, Path(folder) / "made", seed=seed):
                made.append((f"{kind.name} ({release}, {place})", mutant))
            if len(made) >= _AT_ONCE:
                yield len(made), _disagreements(made)
                made = []
        if made:
            yield len(made), _disagreements(made)


def _disagreements(made: Sequence[tuple[str, RunDirectory]]) -> list[str]:
    from kchaos.checkers.spark import judge_runs
    from kchaos.clusters.kafka.class_archive import spark_archive
    from kchaos.clusters.kafka.java import spark_java_home

    java_home = spark_java_home(offline=True)
    with tempfile.TemporaryDirectory() as folder:
        judgement = judge_runs(
            [mutant.path for _, mutant in made],
            output=Path(folder) / "spark",
            java_home=java_home,
            class_archive=spark_archive(java_home),
            patience=FEW_STATES,
        )
        told = {result.run: result for result in judgement.results}
    collected = []
    for name, mutant in made:
        plain, spark = _plain(mutant.path), _shown(told[mutant.name])
        if plain != spark:
            collected.append(f"{name}: Spark disagrees on {_first(plain, spark)}")
    return collected


def _plain(path: Path) -> dict[str, object]:
    results, _ = judge_path(path)
    return _NOT_JUDGED if results is None else _shown(results)


def _shown(results: object) -> dict[str, object]:
    told = results_to_json(results)  # type: ignore[arg-type]
    if told["reason"] == "not judged":
        return _NOT_JUDGED
    return {name: told[name] for name in _COMPARED}


def _first(plain: dict[str, object], spark: dict[str, object]) -> str:
    name = next(name for name in _COMPARED if plain[name] != spark[name])
    return f"{name}: {str(plain[name])[:200]} and {str(spark[name])[:200]}"
