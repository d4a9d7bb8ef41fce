"""Stored runs without what their links saw: from events alone the model predicts the same end.

Only where a race decided, which links alone can tell, is the end another one: those runs are not
here.
"""

import random
from pathlib import Path

import pytest

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.model import predict
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.not_modelled import not_modelled
from kchaos.checkers.record import predict_run
from tests.golden.stored import BORDERS, ENTRIES, HARD, OTHERS, SETTINGS, unpacked
from tests.mutants.run_copy import RunCopy

pytestmark = pytest.mark.slow

STORED = {
    OTHERS: (
        "compacted-2.8.2",
        "forged-2.0.1",
        "late-stop-replica-2.1.1",
        "late-update-metadata-2.1.1",
        "list-offsets-2.8.2",
        "points-2.8.2",
    ),
    BORDERS: ("records-deleted-2.8.2", "stop-replica-2.6.0"),
    SETTINGS: ("log-directories-1.1.1", "log-directory-failed-3.9.1", "fetchers-1.1.1"),
    ENTRIES: ("KIP-380-upgrade-window",),
    HARD: ("2.3.1-told-late", "2.5.1", "2.8.2", "3.9.1-held-fetch", "3.9.1-session-without-ids"),
}


@pytest.mark.parametrize(
    ("runs", "name"),
    [pytest.param(runs, name, id=name) for runs, names in STORED.items() for name in names],
)
def test_events_alone_lead_to_the_end_that_the_links_explain(runs: Path, name: str, tmp_path: Path):
    evidence = RunEvidence(unpacked(name, tmp_path, runs=runs))

    alone = predict(tuple(timed.event for timed in evidence.events))

    assert ends(alone) == ends(predict_run(evidence))


def test_a_run_without_links_is_unknown_where_a_late_shutdown_may_be_why_it_is_unlike(
    tmp_path: Path,
):
    """Up to 2.1 the controller obeys: broker 1 fetches u no more, and no event says so."""
    linked = unpacked("KIP-380-stale-controlled-shutdown", tmp_path / "run", runs=ENTRIES)
    assert [*not_modelled(RunEvidence(linked))] == []
    run = RunCopy.of(linked, tmp_path / "unlinked", random.Random(0))
    run.remove("links.jsonl")
    run.edit_json("scenario.json", lambda value: value["cluster"].update(linked=False))

    results = judge(run.sealed())

    assert {finding.kind for finding in results.findings} >= {"not-as-predicted"}
    assert results.conforms is None
    assert "a late ControlledShutdown may be why" in (results.unknown or "")


def ends(prediction: Prediction) -> dict[tuple[int, str, int], object]:
    """Each replica's log and epochs in the last snapshot."""
    return {
        (replica.broker, replica.topic, replica.partition): (replica.batches, replica.epoch_entries)
        for replica in prediction.snapshots["final"]
    }
