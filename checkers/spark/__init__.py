"""Spark, over any number of run directories: the same rules, batches and findings as Parquet.

`judge_runs` judges runs; `spark_session` is the session that it makes. Both import Spark when they
are first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kchaos.checkers.spark.job import judge_runs
    from kchaos.checkers.spark.session import spark_session

__all__ = ["judge_runs", "spark_session"]


def __getattr__(name: str) -> Any:
    if name == "judge_runs":
        from kchaos.checkers.spark.job import judge_runs

        return judge_runs
    if name == "spark_session":
        from kchaos.checkers.spark.session import spark_session

        return spark_session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
