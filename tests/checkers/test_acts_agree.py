"""Acts are in actions.jsonl and in observations.jsonl, one for one, and each is understood."""

from pathlib import Path

import pytest

from kchaos.checkers.acts import Hold, ReleaseHold
from kchaos.checkers.judge import judge
from kchaos.checkers.observations import HighWatermarkNotPinned
from kchaos.checkers.run_directory import RunDirectory
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


@pytest.mark.parametrize("is_in_vain", [False, True])
def test_settling_looked_at_the_checkpoints_of_each_partition_or_says_that_it_waited_in_vain(
    is_in_vain: bool, tmp_path: Path
) -> None:
    def look_away(run: RunDirectory) -> None:
        observations = run.path / "observations.jsonl"
        lines = observations.read_text().splitlines(keepends=True)
        observations.write_text("".join(line for line in lines if '"high-watermark"' not in line))

    build = clean_snapshot(clean_run(tmp_path / "run"))
    if is_in_vain:
        build.observe(HighWatermarkNotPinned(detail="5 s"), len(build.steps), build.clock)

    results = judge(build.seal(before=look_away))

    assert results.conforms is (True if is_in_vain else None)
    said = "has no high-watermark of t-0 from after the last step"
    assert (said in (results.unknown or "")) is not is_in_vain
