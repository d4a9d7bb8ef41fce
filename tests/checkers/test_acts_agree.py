"""Acts that the model does not follow leave conformance open."""

from pathlib import Path

import pytest

from kchaos.checkers.acts import Hold, ReleaseHold
from kchaos.checkers.judge import judge
from tests.support.clean_runs import clean_run, clean_snapshot


@pytest.mark.parametrize(("api", "conforms"), [("Fetch", True), ("WriteTxnMarkers", None)])
def test_a_hold_of_what_the_model_does_not_follow_leaves_it_unknown_whether_a_run_conforms(
    api: str, conforms: bool | None, tmp_path: Path
) -> None:
    run = clean_run(tmp_path / "run", is_linked=True).epoch_round(1, 0, -1, None, -1)
    run.act(Hold(name="h", api=api)).act(ReleaseHold(name="h"))

    results = judge(clean_snapshot(run).seal())

    assert results.conforms is conforms
    said = "requests of WriteTxnMarkers were held, which the model does not follow"
    assert (said in (results.unknown or "")) is (conforms is None)
