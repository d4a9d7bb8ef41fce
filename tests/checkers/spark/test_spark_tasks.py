"""What Spark's tasks do, without Spark."""

from pathlib import Path

import pytest

from kchaos.checkers.rules import Judged
from kchaos.checkers.spark import tasks
from kchaos.checkers.spark.rows import CONTEXT
from tests.support.clean_runs import clean_run, clean_snapshot


def test_a_rule_that_fails_makes_the_run_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    contexts = [row for row in tasks.run_rows(run.path) if row["side"] == CONTEXT]
    assert contexts
    crashed = Judged(crashes=("Traceback\nTypeError: two",))
    monkeypatch.setattr(tasks, "apply_rules", lambda evidence: crashed)

    said = [one for row in contexts for one in tasks._said_of_group(run.name, [row])]
    result = tasks.results_row(0, run.path, said)

    assert (result["conforms"], result["safe"], result["expected"]) == (None, None, False)
    assert "a rule failed: TypeError: two" in result["unknown"]
