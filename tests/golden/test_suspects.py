"""A run that nothing explains ends in seconds, and the observation that was changed is named.

Each is a stored run with one change, sealed again, as a broker with a bug would have left it. With
a bound on all states, not on those beyond the furthest point, it ended as unknown and nameless.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.model import follow
from kchaos.checkers.record import record_of
from kchaos.checkers.results import Results
from tests.golden.stored import HARD, unpacked
from tests.mutants.run_copy import Line, RunCopy

Edit = Callable[[list[Line]], object]
NOTHING = {"base_offset": None, "last_offset": None, "batch_count": 0, "records_size_bytes": 0} | {
    "first_leader_epoch": None,
    "last_leader_epoch": None,
}
CHANGES = {
    "a high watermark that is one too high": (
        "links.jsonl",
        lambda lines: about(lines[155]).update(high_watermark=7),
        "links.jsonl:156: t-0: high watermark 7, possible was records 6 to 6, high watermark 6",
    ),
    "an acknowledgement before a follower has the record": (
        "history.jsonl",
        lambda lines: lines[5].update(time=lines[4]["time"] + 1e-4),
        "history.jsonl:5: produce settle-t-0 acknowledged at 6, possible was that it waits",
    ),
    "a batch that the follower dropped": (
        "links.jsonl",
        lambda lines: about(lines[155]).update(NOTHING),
        "links.jsonl:157: t-0: fetched from 7, possible was 6",
    ),
    "a fetch from one less": (
        "links.jsonl",
        lambda lines: about(lines[156]).update(fetch_offset=6),
        "links.jsonl:157: t-0: fetched from 6, possible was 7",
    ),
}


def about(line: Line) -> Line:
    entry: Line = line["detail"]["partitions"][0]
    return entry


def changed(tmp_path: Path, file: str, edit: Edit) -> RunCopy:
    whole = unpacked("2.8.2-resumed", tmp_path, runs=HARD)
    run = RunCopy.of(whole, tmp_path / "changed", Random(0))
    lines = run.lines(file)
    edit(lines)
    run.write_lines(file, lines)
    return run


def messages(results: Results) -> list[str]:
    return [finding.message for finding in results.findings]


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
def test_the_observation_that_was_changed_is_what_does_not_conform(change: str, tmp_path: Path):
    file, edit, message = CHANGES[change]
    results = judge(changed(tmp_path, file, edit).sealed())

    assert (results.conforms, results.unknown) == (False, None), messages(results)
    (finding,) = (each for each in results.findings if each.evidence.get("what") == "observation")
    assert finding.message.startswith(message)
    assert results.prediction is not None
    assert results.prediction.states < 10_000


def test_a_suspect_behind_which_no_search_ends_leaves_conformance_unknown(tmp_path: Path):
    """What only follows from it is no finding. Searches that gave up too confirmed it once."""
    run = unpacked("2.0.1", tmp_path)

    results = judge(run, predict=lambda evidence: follow(record_of(evidence), patience=3))

    assert (results.conforms, results.safe, results.expected) == (None, True, False)
    assert results.unknown is not None
    assert "the model gave up following the run: of " in results.unknown
    assert "AwaitQuiet between its acts" in results.unknown
    suspect, loss = results.findings
    assert loss.kind == "permitted-loss"
    assert suspect.kind == "not-explained"
    assert suspect.message.startswith("not explained: links.jsonl:26: t-0: records up to 2, seen ")
    assert suspect.message.endswith("; not proved")
    assert suspect.evidence["reason"] == "_: records up to _"
    assert suspect.fingerprint


def test_a_longer_run_has_no_other_bound(tmp_path: Path):
    """The bound is of states beyond the furthest point: a whole run takes many times as many."""
    run = unpacked("2.0.1", tmp_path)

    prediction = follow(record_of(RunEvidence(run)), patience=50)

    assert (prediction.limit, prediction.emptied_by) == ("", None)
    assert prediction.states > 300
