"""One Spark session for all tests that need one."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session that `judge_runs` finds and uses; with the Java that kchaos finds."""
    from kchaos.checkers.spark import spark_session
    from kchaos.clusters.java import spark_java_home

    log_file = tmp_path_factory.mktemp("spark") / "spark.log"
    with spark_session("local[2]", java_home=spark_java_home(), log_file=log_file) as session:
        yield session
