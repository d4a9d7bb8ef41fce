"""Statements of a test about its own clients, judged like what links see."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import kchaos as k
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.clients import CLIENTS
from kchaos.checkers.evidence.history import Operation, record_payloads
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.said import joined
from kchaos.checkers.json_form import to_json
from kchaos.checkers.observations import AddressesGiven
from kchaos.checkers.rules.client_anomalies import client_anomalies
from kchaos.harness.play.recorder import Recorder
from tests.checkers.test_clients import answered, asked, line
from tests.support.clean_runs import clean_run
from tests.support.kafka_6361_runs import BOTH
from tests.support.run_builder import START, RunBuilder

SECRET = line(3, "", "response", answered_bytes=7, not_judged="TLS")


def chaos_of(build: RunBuilder) -> k.Chaos:
    """What a test has in its hand, without a cluster."""
    chaos = k.Chaos.__new__(k.Chaos)
    chaos._is_over, chaos._names, chaos._started = False, {}, START
    chaos._play = cast(Any, SimpleNamespace(recorder=Recorder(run=build.run)))
    return chaos


def begun(path: Path, *lines: Any, client_links: bool = False) -> RunBuilder:
    """A run in which eleven records of kchaos's own lie at 0 to 10, and others' may follow."""
    build = clean_run(path, is_linked=True, client_links=client_links)
    build.link(correlation_id=7, detail={"partitions": []})
    build.observe(AddressesGiven(to="tests"), -1)
    if client_links:
        build.run.begin(CLIENTS)
        for each in lines:
            build.run.append(CLIENTS, to_json(replace(each, time=build.tick())))
    return build


def ended(build: RunBuilder, *others: str, in_one_batch: bool = False) -> RunBuilder:
    """Records of somebody else lie from 11 on, and settling's probe behind them."""
    batches = [(11, 1, [*others])] if in_one_batch else []
    batches = batches or [(offset, 1, [value]) for offset, value in enumerate(others, start=11)]
    end, probe = 11 + len(others), "settle-t-0"
    build.produce(probe, 0, [probe], acks=-1, base_offset=end)
    logs = {broker: [BOTH, *batches, (end, 1, [probe])] for broker in (0, 1)}
    marks = {0: end + 1}
    return build.snapshot("final", logs, epochs={0: [(1, 0)], 1: [(1, 0)]}, high_watermarks=marks)


def of(results: k.Results, kind: str) -> list[k.Finding]:
    return [finding for finding in results.findings if finding.kind == kind]


# -- without links for clients --------------------------------------------------------------------


def test_what_the_test_says_and_every_replica_has_leaves_a_run_safe(tmp_path: Path):
    build = begun(tmp_path / "run")
    chaos = chaos_of(build)
    for offset, value in enumerate(("a", "b", "c"), start=11):
        chaos.acknowledged("t", offset=offset, value=value, client="orders")
    chaos.read("t", offset=12, value="b")

    results = k.judge(ended(build, "a", "b", "c", in_one_batch=True).seal())

    assert (results.conforms, results.safe) == (None, True), results.unknown
    assert of(results, "foreign-write") == []
    assert "where they were acknowledged, and not when they were sent" in (results.unknown or "")
    assert any("that the test alone reports (4 records)" in each for each in results.not_checked)


def test_an_acknowledged_record_that_is_in_no_log_is_lost_and_the_test_said_it(tmp_path: Path):
    build = begun(tmp_path / "run")
    chaos_of(build).acknowledged("t", offset=11, value=b"mine", client="orders")

    results = k.judge(ended(build, "other").seal())

    assert results.safe is False
    (lost,) = of(results, "committed-loss")
    assert (lost.first_offset, lost.last_offset) == (11, 11)
    assert "acknowledged to orders (as the test says)" in lost.message
    (told,) = lost.evidence["operations"]
    assert told["client"] == "orders (as the test says)"


def test_a_record_that_was_read_and_is_in_no_log_is_lost(tmp_path: Path):
    build = begun(tmp_path / "run")
    chaos_of(build).read("t", offset=11, value=b"mine")

    results = k.judge(ended(build, "other").seal())

    assert results.safe is False
    (lost,) = of(results, "committed-loss")
    assert "read to a client (as the test says)" in lost.message


def test_records_of_which_nobody_says_anything_leave_a_run_unknown(tmp_path: Path):
    build = begun(tmp_path / "run")
    chaos_of(build).acknowledged("t", offset=11, value="a")

    results = k.judge(ended(build, "a", "b").seal())

    assert results.safe is None
    (note,) = of(results, "foreign-write")
    assert note.evidence["partitions"]["t-0"]["offsets"] == [(12, 12)]


def test_a_part_of_a_batch_is_no_loss_and_the_batch_leaves_a_run_unknown(tmp_path: Path):
    build = begun(tmp_path / "run")
    chaos_of(build).acknowledged("t", offset=11, value="a")

    results = k.judge(ended(build, "a", "b", in_one_batch=True).seal())

    assert (results.safe, of(results, "committed-loss")) == (None, [])


def test_a_record_whose_place_is_taken_by_a_larger_batch_of_kchaos_is_lost(tmp_path: Path):
    build = begun(tmp_path / "run")
    chaos_of(build).acknowledged("t", offset=11, value="mine")
    build.produce("later", 0, ["a", "b"], acks=-1, base_offset=11)

    results = k.judge(ended(build, "a", "b", in_one_batch=True).seal())

    assert results.safe is False
    assert [each.first_offset for each in of(results, "committed-loss")] == [11]


def test_what_was_acknowledged_by_the_leader_alone_may_be_lost(tmp_path: Path):
    build = begun(tmp_path / "run")
    chaos_of(build).acknowledged("t", offset=11, value="mine", acks=1)

    results = k.judge(ended(build, "other").seal())

    assert of(results, "committed-loss") == []
    assert len(of(results, "permitted-loss")) == 1


@pytest.mark.parametrize(
    ("is_told_when", "kind"), [(False, "permitted-loss"), (True, "committed-loss")]
)
def test_an_unclean_election_excuses_what_may_have_been_acknowledged_before_it(
    is_told_when: bool, kind: str, tmp_path: Path
):
    build = begun(tmp_path / "run")
    build.state(0, 1, [0]).state(1, 2, [1]).state(1, 2, [0, 1])
    at = build.tick() if is_told_when else None
    chaos_of(build).acknowledged("t", offset=11, value="mine", at=at)
    end, probe = 12, "settle-t-0"
    build.produce(probe, 1, [probe], acks=-1, base_offset=end)
    logs = {broker: [BOTH, (11, 2, ["other"]), (end, 2, [probe])] for broker in (0, 1)}
    epochs = {broker: [(1, 0), (2, 11)] for broker in (0, 1)}
    build.snapshot("final", logs, epochs=epochs, high_watermarks={1: 13})

    results = k.judge(build.seal())

    assert [finding.kind for finding in results.findings if "loss" in finding.kind] == [kind]


def test_an_unclean_election_excuses_nothing_that_was_acknowledged_after_it(tmp_path: Path):
    build = begun(tmp_path / "run")
    chaos = chaos_of(build)
    chaos.acknowledged("t", offset=11, value="a", at=build.tick())
    build.state(0, 1, [0]).state(1, 2, [1]).state(1, 2, [0, 1])
    chaos.acknowledged("t", offset=12, value="mine", at=build.tick())
    end, probe = 13, "settle-t-0"
    build.produce(probe, 1, [probe], acks=-1, base_offset=end)
    batches = [BOTH, (11, 1, ["a"]), (12, 2, ["other"]), (end, 2, [probe])]
    epochs = {broker: [(1, 0), (2, 12)] for broker in (0, 1)}
    marks = {1: end + 1}
    build.snapshot("final", {0: batches, 1: batches}, epochs=epochs, high_watermarks=marks)

    results = k.judge(build.seal())

    assert results.safe is False
    (lost,) = (finding for finding in results.findings if "loss" in finding.kind)
    assert (lost.kind, lost.first_offset) == ("committed-loss", 12)


# -- anomalies of clients -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ([(11, "a"), (12, "b"), (13, "c")], []),
        # Two records at one offset, and the first was passed over.
        ([(11, "a"), (12, "x"), (13, "c")], ["inconsistent-offsets", "lost-write"]),
        # Nobody knows how often it was sent, nor what the test does not tell of its consumer.
        ([(11, "a"), (12, "b"), (13, "a")], []),
        ([(11, "a"), (13, "c")], []),
        ([(13, "c"), (11, "a")], []),
    ],
)
def test_what_the_test_says_is_judged_for_anomalies(
    read: list[tuple[int, str]], expected: list[str], tmp_path: Path
):
    build = begun(tmp_path / "run")
    chaos = chaos_of(build)
    for offset, value in ((11, "a"), (12, "b"), (13, "c")):
        chaos.acknowledged("t", offset=offset, value=value)
    for offset, value in read:
        chaos.read("t", offset=offset, value=value)

    findings = [*client_anomalies(RunEvidence(ended(build, "a", "b", "c").seal()))]

    assert [finding.kind for finding in findings] == expected


# -- beside links for clients ---------------------------------------------------------------------


def test_what_a_link_saw_too_adds_nothing(tmp_path: Path):
    build = begun(tmp_path / "run", asked(), answered(), client_links=True)
    chaos_of(build).acknowledged("t", offset=11, value="mine")

    run = ended(build, "mine").seal()

    assert RunEvidence(run).said_alone == ()
    assert k.judge(run).safe is True


@pytest.mark.parametrize(("offset", "value"), [(11, "else"), (12, "mine")])
def test_what_links_would_have_seen_and_did_not_leaves_a_run_unknown(
    offset: int, value: str, tmp_path: Path
):
    build = begun(tmp_path / "run", asked(), answered(), client_links=True)
    chaos_of(build).acknowledged("t", offset=offset, value=value)

    results = k.judge(ended(build, "mine").seal())

    assert results.safe is None
    said = f"the test says that the record of t-0 at offset {offset} was acknowledged"
    assert said in (results.unknown or "")


@pytest.mark.parametrize(("is_there", "expected"), [(True, True), (False, False)])
def test_the_test_speaks_for_what_no_link_could_read(
    is_there: bool, expected: bool, tmp_path: Path
):
    build = begun(tmp_path / "run", SECRET, client_links=True)
    chaos_of(build).acknowledged("t", offset=11, value="mine")

    results = k.judge(ended(build, "mine" if is_there else "other").seal())

    assert results.safe is expected, results.unknown


def test_what_links_saw_too_speaks_for_nothing_that_they_could_not_read(tmp_path: Path):
    build = begun(tmp_path / "run", asked(), answered(), SECRET, client_links=True)
    chaos_of(build).acknowledged("t", offset=11, value="mine")

    results = k.judge(ended(build, "mine").seal())

    assert results.safe is None
    assert "not understood: TLS: what was promised there may be lost" in (results.unknown or "")


def test_what_no_link_could_read_stands_beside_what_the_test_says_of_it(tmp_path: Path):
    build = begun(tmp_path / "run", SECRET, client_links=True)
    chaos_of(build).acknowledged("t", offset=11, value="mine")

    results = k.judge(ended(build, "mine").seal())

    unread = "not understood: TLS: what was promised there may be lost"
    assert any(unread in each for each in results.not_checked)
    assert any("that the test alone reports" in each for each in results.not_checked)


def test_a_partition_that_is_not_there_leaves_a_run_unknown(tmp_path: Path):
    build = begun(tmp_path / "run")
    chaos_of(build).acknowledged("t", partition=7, offset=11, value="mine")

    results = k.judge(ended(build).seal())

    assert results.safe is None
    assert "t-7, which is not there" in (results.unknown or "")


# -- what is written down and read ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"topic": ""}, "a topic is a text"),
        ({"topic": "__consumer_offsets"}, "of Kafka's own"),
        ({"partition": -1}, "partition is a whole number"),
        ({"offset": -1}, "offset is a whole number"),
        ({"offset": True}, "offset is a whole number"),
        ({"offset": "7"}, "offset is a whole number"),
        ({"value": 7}, "value is bytes, a text or None, not 7"),
        ({"key": 7}, "key is bytes"),
        ({"client": None}, "client is bytes"),
        ({"acks": 0}, "acks must be 1"),
        ({"at": START - 60}, "is not between the beginning of the run"),
        ({"at": float("nan")}, "is not between the beginning of the run"),
    ],
)
def test_what_no_client_can_be_answered_is_refused(
    wrong: dict[str, Any], said: str, tmp_path: Path
):
    chaos = chaos_of(begun(tmp_path / "run"))
    given: dict[str, Any] = {"topic": "t", "offset": 11, "value": "mine"} | wrong

    with pytest.raises(k.ScenarioError, match=said):
        chaos.acknowledged(**given)
    assert RunEvidence(chaos._play.recorder.run).said == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"value": "x", "records": 2}, "one record each time"),
        ({"value": "x", "operation": "r"}, "one record each time"),
        ({"key": "x"}, "need the value that was read"),
    ],
)
def test_half_of_what_was_read_is_refused(given: dict[str, Any], said: str, tmp_path: Path):
    chaos = chaos_of(begun(tmp_path / "run"))

    with pytest.raises(k.ScenarioError, match=said):
        chaos.read("t", **given)


def test_nothing_is_said_of_a_run_that_is_over(tmp_path: Path):
    chaos = chaos_of(begun(tmp_path / "run"))
    chaos._is_over = True

    with pytest.raises(k.ScenarioError, match="say it before that"):
        chaos.acknowledged("t", offset=11, value="mine")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"base_offset": -1}, "has no topic, partition and base offset"),
        ({"topic": None}, "has no topic, partition and base offset"),
        ({"function": "fetch"}, "neither what was acknowledged nor what was read"),
        ({"payloads": []}, "neither what was acknowledged nor what was read"),
        ({"payloads": ["mine"]}, "payloads that are no digests"),
        ({"values": ["a", "b"]}, "2 values for its payloads"),
        ({"keys": ["a", "b"]}, "2 keys for its payloads"),
        ({"acks": 0}, "acks 0"),
        ({"zxid": 3}, "zxid, step or codec"),
    ],
)
def test_a_line_that_says_what_no_test_can_say_is_refused(
    changed: dict[str, Any], said: str, tmp_path: Path
):
    build = begun(tmp_path / "run")
    told = {"function": "produce", "topic": "t", "partition": 0, "acks": -1, "base_offset": 11}
    build.history("s", "said", **told | {"payloads": record_payloads(["mine"])} | changed)

    evidence = RunEvidence(build.run)
    with pytest.raises(ScenarioDataError, match=said):
        _ = evidence.said, evidence.actions


def at(offset: int, *values: str, **more: Any) -> Operation:
    given: dict[str, Any] = {"client": "a", "promised": True, "ended_at": 5.0, "values": values}
    return Operation(
        operation=f"said-{offset}",
        function="produce",
        broker=-1,
        topic="t",
        partition=0,
        acks=-1,
        outcome="ok",
        payloads=record_payloads(values),
        base_offset=offset,
        is_said=True,
        **given | more,
    )


def test_what_lies_one_behind_the_other_is_one_operation_and_none_is_there_twice():
    said = [
        at(12, "c", client="b", ended_at=3.0),
        at(11, "b"),
        at(11, "b"),
        at(14, "e"),
        at(12, "x"),
    ]

    spans = [(each.base_offset, each.values, each.client, each.ended_at) for each in joined(said)]

    assert spans == [(11, ("b", "c"), "a; b", 3.0), (12, ("x",), "a", 5.0), (14, ("e",), "a", 5.0)]


def test_what_was_answered_before_and_after_a_turn_is_not_one_operation():
    said = [at(11, "b", ended_at=3.0), at(12, "c", ended_at=5.0), at(13, "d", ended_at=6.0)]

    assert [(each.base_offset, each.values) for each in joined(said, [4.0])] == [
        (11, ("b",)),
        (12, ("c", "d")),
    ]
