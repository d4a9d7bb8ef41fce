"""Log cleaning that was seen, beside the checkpoint in the snapshot that follows."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kchaos.checkers.acts import Hold, ReleaseHold, StopBroker
from kchaos.checkers.cross_checks.cleaning import cleaning_disagreements
from kchaos.checkers.cross_checks.clients import client_disagreements
from kchaos.checkers.cross_checks.coordination import coordination_disagreements
from kchaos.checkers.cross_checks.ending import ending_disagreements
from kchaos.checkers.cross_checks.times import time_disagreements
from kchaos.checkers.errors import CheckpointError, ScenarioDataError
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.model.values.events import LogCleaned, Produce, Snapshot
from kchaos.checkers.run_directory import RunDirectory
from tests.golden.stored import unpacked
from tests.support.clean_runs import clean_run, clean_snapshot

CLEANED = LogCleaned(broker=1, topic="t", partition=0, cleaned_until=4, kept=((2, 3),))
OTHER = LogCleaned(broker=2, topic="t", partition=0, cleaned_until=6, kept=())
TAKEN = Snapshot(label="after")


def told(offset: int | None, *events: object) -> list[str]:
    """What is said where broker 1's checkpoint has this offset, and broker 2's has 6."""

    def cleaned(_label: str, broker: int) -> dict[tuple[str, int], int]:
        if offset is None and broker == 1:
            return {}
        if offset == -1:
            raise CheckpointError("cleaner-offset-checkpoint, line 1: no version")
        return {("t", 0): 6 if broker == 2 else cast(int, offset)}

    evidence: Any = SimpleNamespace(
        events=tuple(SimpleNamespace(event=event) for event in events),
        copied=SimpleNamespace(cleaned=cleaned),
        snapshots=(),
        scenario=SimpleNamespace(steps=()),
        broker_properties={},
    )
    return list(cleaning_disagreements(cast(RunEvidence, evidence)))


@pytest.mark.parametrize(
    "events",
    [(CLEANED, TAKEN), (CLEANED, OTHER, TAKEN), (CLEANED,), (TAKEN,)],
    ids=["the same", "two brokers", "no snapshot follows", "nothing was cleaned"],
)
def test_a_checkpoint_that_says_the_same_agrees(events: tuple[object, ...]):
    assert told(4, *events) == []


def test_a_broker_that_has_ended_since_may_say_something_else():
    assert told(9, CLEANED, StopBroker(broker=1, clean=True), TAKEN) == []


def test_a_cleaner_may_go_on_before_the_snapshot():
    assert told(5, CLEANED, TAKEN) == []


@pytest.mark.parametrize("offset", [None, 3])
def test_an_earlier_offset_or_none_does_not_agree(offset: int | None):
    (said,) = told(offset, CLEANED, TAKEN)

    assert said == (
        f"broker 1's log of t-0 was seen to be cleaned up to 4; snapshot 'after' has {offset}"
    )


def test_a_checkpoint_that_cannot_be_read_does_not_agree():
    assert told(-1, CLEANED, TAKEN) == ["cleaner-offset-checkpoint, line 1: no version"]


# -- Acts that the model does not follow leave conformance open --


@pytest.mark.parametrize(("api", "conforms"), [("Fetch", True), ("WriteTxnMarkers", None)])
def test_a_hold_of_what_the_model_does_not_follow_leaves_it_unknown_whether_a_run_conforms(
    api: str, conforms: bool | None, tmp_path: Path
):
    run = clean_run(tmp_path / "run", is_linked=True).epoch_round(1, 0, -1, None, -1)
    run.act(Hold(name="h", api=api)).act(ReleaseHold(name="h"))

    results = judge(clean_snapshot(run).seal())

    assert results.conforms is conforms
    said = "requests of WriteTxnMarkers were held, which the model does not follow"
    assert (said in (results.unknown or "")) is (conforms is None)


# -- ZooKeeper's log and the zxids that were seen of it --

_NEXT_TERM = 1 << 33


@pytest.mark.parametrize(("zxid", "is_missing"), [(_NEXT_TERM, False), (_NEXT_TERM + 1, True)])
def test_a_term_of_zookeeper_s_leader_begins_with_no_transaction(
    zxid: int, is_missing: bool, tmp_path: Path
):
    evidence = RunEvidence(clean_snapshot(clean_run(tmp_path / "run")).seal())
    (snapshot, *_) = evidence.snapshots
    vars(evidence)["snapshots"] = (replace(snapshot, zxid=zxid),)
    missing = [text for text in coordination_disagreements(evidence) if text.endswith("was seen")]
    assert len(missing) == is_missing


# -- The settle record: in-sync replicas that it saw differ are told in its own form --


@pytest.mark.parametrize(
    "changed",
    [{"batches": [1, 2]}, {"batches": 5}, {"batches": [[], []]}, {"brokers": [[1]]}],
    ids=["numbers", "a number", "empty lists", "a list of lists"],
)
def test_a_difference_of_another_shape_is_told(changed: dict[str, Any], tmp_path: Path):
    run = unpacked("1.1.1", tmp_path)
    assert _of_shape(run.path) == []
    file = run.path / "outcome.json"
    outcome = json.loads(file.read_text())
    (seen,) = (each for each in outcome["settle"]["last_seen"].values() if each.get("different"))
    seen["different"] |= changed
    file.write_text(json.dumps(outcome))

    (said,) = _of_shape(run.path)
    assert said.startswith("outcome.json: t-0 has 'different' of another shape")


def _of_shape(run: Path) -> list[str]:
    evidence = RunEvidence(RunDirectory.open(run))
    return [text for text in ending_disagreements(evidence) if "another shape" in text]


# -- A clock that was put during a run: links tell it by the time that only goes on --


@pytest.mark.parametrize(
    ("by_s", "is_told"), [(-1.0, True), (-0.1, True), (-0.01, False), (0.0, False), (1.0, False)]
)
def test_a_clock_that_was_put_back_is_told(by_s: float, is_told: bool, tmp_path: Path):
    run = unpacked("3.9.1", tmp_path)
    file = run.path / "links.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines[len(lines) // 2 :]:
        line["wall_time_s"] += by_s
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    said = [text for text in time_disagreements(RunEvidence(run)) if "went back" in text]

    assert bool(said) is is_told


@pytest.mark.parametrize(("stood_s", "agrees"), [(0.0, False), (1.5, False), (2.5, True)])
def test_a_zxid_may_be_older_than_its_time_while_the_machine_stood_still(
    stood_s: float, agrees: bool, tmp_path: Path
):
    run = unpacked("3.9.1", tmp_path)
    file = run.path / "actions.jsonl"
    *others, last = [json.loads(line) for line in file.read_text().splitlines()]
    *_, read, change = sorted(RunEvidence(run).znode_changes, key=lambda each: each.zxid)
    changed = change.time_ms / 1000
    began = changed + 3
    lines = [*others, last | {"zxid": read.zxid, "began": began, "time": began}]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    times = [{"began": changed, "ended": began, "seconds": stood_s}]
    with (run.path / "observations.jsonl").open("a") as observations:
        seen = {"time": began, "step": -1, "kind": "stood-still", "times": times}
        observations.write(json.dumps(seen) + "\n")

    said = [text for text in time_disagreements(RunEvidence(run)) if "actions.jsonl" in text]

    assert (said == []) is agrees


# -- Writes of clients: in the history alone, and as the steps of the scenario ask for --

TOLD = ("zxid", "step", "codec")


def _edit(run: RunDirectory, name: str, lines: list[dict[str, Any]]) -> None:
    (run.path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def _without_place(run: RunDirectory) -> list[TimedEvent]:
    return [replace(timed, read_at="") for timed in RunEvidence(run).actions]


def test_a_produce_that_only_the_actions_have_is_refused(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run"))
    sent = Produce(operation="more", broker=0, topic="t", partition=0, records=("x",), acks=1)
    build.act(sent)

    with pytest.raises(ScenarioDataError, match="has the produce 'more'"):
        _ = RunEvidence(build.run).actions


@pytest.mark.parametrize(
    "told", [{"zxid": 3}, {"step": 0}, {"codec": "none"}, {"zxid": 3, "step": 0, "codec": "none"}]
)
def test_only_a_line_that_invokes_a_produce_is_told_to_the_model(
    told: dict[str, Any], tmp_path: Path
):
    run = clean_run(tmp_path / "run").run
    invoked, ended = run.read_lines("history.jsonl")

    _edit(run, "history.jsonl", [invoked, ended | {"records": ["x"]} | told])
    with pytest.raises(ScenarioDataError, match=r"history\.jsonl:2 .* invokes no produce"):
        _ = RunEvidence(run).actions

    read = {"time": invoked["time"], "operation": "r", "type": "invoke", "function": "read"}
    fields = {"broker": 0, "topic": "t", "partition": 0}
    _edit(run, "history.jsonl", [invoked, ended, read | fields | told])
    with pytest.raises(ScenarioDataError, match=r"history\.jsonl:3 .* invokes no produce"):
        _ = RunEvidence(run).actions


def test_keys_of_some_records_alone_are_refused_with_their_line(tmp_path: Path):
    run = clean_run(tmp_path / "run").run
    invoked, ended = run.read_lines("history.jsonl")

    _edit(run, "history.jsonl", [invoked | {"keys": ["k"]}, ended])

    with pytest.raises(ScenarioDataError, match=r"history\.jsonl:1 has 1 keys for 11 records"):
        _ = RunEvidence(run).actions


def test_actions_are_in_the_order_of_their_zxids_and_times(tmp_path: Path):
    run = clean_snapshot(clean_run(tmp_path / "run")).seal()
    in_order = _without_place(run)

    _edit(run, "actions.jsonl", list(run.read_lines("actions.jsonl"))[::-1])

    assert _without_place(run) == in_order


@pytest.mark.parametrize(("records", "is_refused"), [(["both-0"], False), (["ghost"], True)])
def test_a_consumer_gets_only_records_that_somebody_sent(
    records: list[str], is_refused: bool, tmp_path: Path
):
    build = clean_run(tmp_path / "run")
    read = {"function": "read", "broker": 0, "topic": "t", "partition": 0}
    ended = {"records": records, "base_offset": 0, "promised": True}
    build.history("r", "invoke", **read).history("r", "ok", **read, **ended)
    run = clean_snapshot(build).seal()

    refused = [text for text in client_disagreements(RunEvidence(run)) if "no producer" in text]

    assert bool(refused) is is_refused
