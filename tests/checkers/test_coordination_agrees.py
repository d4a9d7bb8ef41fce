"""ZooKeeper's log and the zxids that were seen of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from kchaos.checkers.cross_checks.coordination import coordination_disagreements
from kchaos.checkers.evidence.run import RunEvidence
from tests.support.clean_runs import clean_run, clean_snapshot

_NEXT_TERM = 1 << 33


@pytest.mark.parametrize(("zxid", "is_missing"), [(_NEXT_TERM, False), (_NEXT_TERM + 1, True)])
def test_a_term_of_zookeeper_s_leader_begins_with_no_transaction(
    zxid: int, is_missing: bool, tmp_path: Path
) -> None:
    evidence = RunEvidence(clean_snapshot(clean_run(tmp_path / "run")).seal())
    (snapshot, *_) = evidence.snapshots
    vars(evidence)["snapshots"] = (replace(snapshot, zxid=zxid),)
    missing = [text for text in coordination_disagreements(evidence) if text.endswith("was seen")]
    assert len(missing) == is_missing
