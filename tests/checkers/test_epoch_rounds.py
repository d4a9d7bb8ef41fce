"""Questions for leader epochs at the links, where a fetch session leaves something out."""

from pathlib import Path

from kchaos.checkers.evidence.epoch_rounds import epoch_rounds
from kchaos.checkers.evidence.run import RunEvidence
from tests.support.run_builder import RunBuilder


def test_a_fetch_that_the_links_did_not_record_asks_what_its_session_has(tmp_path: Path) -> None:
    """It names no partition, so nobody recorded it; its answer says that the logs diverge."""
    build = RunBuilder(tmp_path / "run", release="3.9.1")
    asked = {
        "topic": "t",
        "partition": 0,
        "fetch_offset": 3,
        "last_fetched_epoch": 2,
        "current_leader_epoch": 3,
    }
    told = {"topic": "t", "partition": 0, "error_code": 0, "high_watermark": 3}
    fetch = {"source": 1, "target": 0, "api_key": 1, "api": "Fetch"}
    build.link(**fetch, correlation_id=1, detail={"session_epoch": 0, "partitions": [asked]})
    for number, diverging in ((1, None), (2, {"epoch": 0, "end_offset": 3})):
        answer = told | {"diverging_epoch": diverging}
        build.link(
            **fetch,
            correlation_id=number,
            direction="response",
            detail={"error_code": 0, "partitions": [answer]},
        )

    (round_,) = epoch_rounds(RunEvidence(build.seal()).links or ())

    assert (round_.requested_epoch, round_.answered_epoch, round_.end_offset) == (2, 0, 3)
