"""Spark, over any number of run directories: the same rules, batches and findings as Parquet.

`judge_runs` judges runs; `spark_context` is the context that it makes. Both import Spark when they
are first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kchaos.checkers.spark.context import spark_context
    from kchaos.checkers.spark.job import judge_runs

__all__ = ["judge_runs", "spark_context"]


def __getattr__(name: str) -> Any:
    if name == "judge_runs":
        from kchaos.checkers.spark.job import judge_runs

        return judge_runs
    if name == "spark_context":
        from kchaos.checkers.spark.context import spark_context

        return spark_context
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
