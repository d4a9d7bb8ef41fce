"""Whether Spark says of mutants what plain Python says."""

import tempfile
from pathlib import Path

from kchaos.checkers.results import results_to_json
from tests.golden.stored import unpacked
from tests.mutants.suite import FEW_STATES, judge_path, kinds_named, mutants

_COMPARED = ("conforms", "safe", "expected", "findings", "predicted_findings")
_NOT_JUDGED: dict[str, object] = {name: None for name in _COMPARED} | {"expected": False}


def disagreements_with_spark(release: str, pattern: str, seed: int) -> tuple[int, list[str]]:
    """How many mutants of a release's golden run Spark judged, in one job, and a line for each of
    which it says something else than plain Python does.
    """
    from kchaos.checkers.spark import judge_runs
    from kchaos.clusters.java import spark_java_home

    with tempfile.TemporaryDirectory() as folder:
        run = unpacked(release, Path(folder))
        made = list(mutants(run, kinds_named(pattern), Path(folder) / "made", seed=seed))
        paths = [mutant.path for _, _, mutant in made]
        judgement = judge_runs(
            paths,
            output=Path(folder) / "spark",
            java_home=spark_java_home(offline=True),
            most_states=FEW_STATES,
        )
        told = {one.run: one for one in judgement.results}
        found = []
        for kind, place, mutant in made:
            plain, spark = _plain(mutant.path), _shown(told[mutant.name])
            if plain != spark:
                found.append(f"{kind.name} ({place}): Spark disagrees on {_first(plain, spark)}")
        return len(made), found


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
