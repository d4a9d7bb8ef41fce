"""Promises to others' clients as links saw them: kept in a clean run, missed where lost."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kchaos as k
from kchaos.checkers import acts
from kchaos.checkers.evidence.clients import (
    CLIENTS,
    ClientBatch,
    ClientLine,
    ClientPartition,
    clients_of,
)
from kchaos.checkers.evidence.history import record_payloads
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.json_form import from_json, to_json
from kchaos.checkers.observations import AddressesGiven
from kchaos.checkers.rules.foreign import OwnBatches
from tests.support.clean_runs import clean_run, clean_snapshot
from tests.support.kafka_6361_runs import BOTH
from tests.support.rule_evidence import batch, client_line, evidence

T = k.TopicPartition("t", 0)
SENT = ClientBatch(
    base_offset=0, last_offset=0, magic=2, codec="none", payloads=record_payloads(["mine"])
)


def line(sequence: int, api: str, direction: Any, **fields: Any) -> ClientLine:
    return client_line(api, direction, sequence=sequence, time=100.0 + sequence, **fields)


def asked(
    sequence: int = 1, *, acks: int = -1, sent: ClientBatch = SENT, **more: Any
) -> ClientLine:
    named = ClientPartition(topic="t", partition=0, batches=(sent,))
    return line(sequence, "Produce", "request", acks=acks, partitions=(named,), **more)


def answered(
    sequence: int = 2, *, base_offset: int = 11, error_code: int = 0, **more: Any
) -> ClientLine:
    told = ClientPartition(topic="t", partition=0, base_offset=base_offset, error_code=error_code)
    return line(sequence, "Produce", "response", partitions=(told,), **more)


def fetched(*batches: ClientBatch, isolation_level: int = 0, **more: Any) -> list[ClientLine]:
    came = ClientPartition(topic="t", partition=0, batches=batches, **more)
    return [
        line(1, "Fetch", "request", isolation_level=isolation_level),
        line(2, "Fetch", "response", partitions=(came,)),
    ]


# -- lines as operations --------------------------------------------------------------------------


def test_lines_are_read_as_they_were_written():
    for each in (asked(), answered(), *fetched(SENT, high_watermark=3)):
        assert from_json(ClientLine, json.loads(json.dumps(to_json(each))), read_at="") == each


def test_what_was_acknowledged_to_all_is_promised_to_that_client():
    (operation,) = clients_of([asked(), answered()]).operations

    assert (operation.function, operation.outcome, operation.promised) == ("produce", "ok", True)
    assert (operation.base_offset, operation.last_offset) == (11, 11)
    assert operation.client == "client 'mine' at 127.0.0.1:4711"


@pytest.mark.parametrize(
    ("lines", "outcome"),
    [
        ([asked(acks=1), answered()], "ok"),
        ([asked()], "info"),
        ([asked(acks=1), answered(base_offset=-1, error_code=6)], "fail"),
        # A leader that is deposed while acks=all is waited for has the record.
        ([asked(), answered(base_offset=-1, error_code=6)], "info"),
        ([asked(), answered(base_offset=-1, error_code=20)], "info"),
        ([asked(), answered(correlation_id=2)], "info"),
    ],
)
def test_what_was_acknowledged_otherwise_is_not(lines: list[ClientLine], outcome: str):
    (operation,) = clients_of(lines).operations

    assert (operation.outcome, operation.promised) == (outcome, False)


def given(*values: str, base_offset: int = 5, **more: Any) -> ClientBatch:
    last_offset = base_offset + len(values) - 1
    return replace(
        SENT,
        base_offset=base_offset,
        last_offset=last_offset,
        payloads=record_payloads(values),
        **more,
    )


@pytest.mark.parametrize(
    ("isolation_level", "ends", "expected"),
    [
        (0, {"high_watermark": 8, "last_stable_offset": 6}, [(5, 7)]),
        (1, {"high_watermark": 8, "last_stable_offset": 6}, [(5, 5)]),
        (1, {"high_watermark": 7}, [(5, 6)]),
        (0, {"high_watermark": 5}, []),
        (0, {"high_watermark": 8, "error_code": 6}, []),
    ],
)
def test_what_is_read_below_the_high_watermark_or_the_last_stable_offset_is_promised(
    isolation_level: int, ends: dict[str, int], expected: list[tuple[int, int]]
):
    lines = fetched(given("a", "b", "c"), isolation_level=isolation_level, **ends)

    reads = clients_of(lines).operations

    assert [(read.base_offset, read.last_offset) for read in reads] == expected
    assert all(read.promised and read.function == "read" for read in reads)


def test_what_a_cleaner_left_is_read_in_pieces_and_markers_are_not():
    left = given("a", "b", offsets=(5, 8))
    marker = given("m", base_offset=9, is_control=True)

    reads = clients_of(fetched(left, marker, high_watermark=20)).operations

    assert [(read.base_offset, read.last_offset) for read in reads] == [(5, 5), (8, 8)]


def test_what_was_promised_once_is_not_promised_again_by_reading_it():
    lines = [asked(), answered()]
    more = fetched(given("mine", "else", base_offset=11), high_watermark=13)
    later = [replace(each, sequence=each.sequence + 2) for each in more]

    operations = clients_of([*lines, *later]).operations

    assert [(operation.function, operation.base_offset) for operation in operations] == [
        ("produce", 11),
        ("read", 12),
    ]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([asked(not_judged="too large"), answered()], "Produce of client 'mine'"),
        ([line(1, "Produce", "response", not_judged="too large")], "was not read: too large"),
        ([asked(sent=replace(SENT, not_judged="zstd: no")), answered()], "zstd: no"),
        ([line(1, "", "response", answered_bytes=7, not_judged="TLS")], "not understood: TLS"),
    ],
)
def test_what_nobody_could_read_is_named(lines: list[ClientLine], said: str):
    (sentence,) = clients_of(lines).unseen

    assert said in sentence


@pytest.mark.parametrize(
    "lines",
    [
        [asked(not_judged="too large")],
        [line(1, "Fetch", "request", not_judged="too large")],
        [line(1, "", "request", not_judged="garbage")],
    ],
)
def test_what_nobody_was_answered_is_no_promise(lines: list[ClientLine]):
    assert clients_of(lines).unseen == ()


NUMBERED = replace(SENT, producer_id=7, producer_epoch=0, base_sequence=0)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([asked()], None),
        ([asked(sent=NUMBERED), asked(2)], None),
        ([asked(sent=NUMBERED), asked(2, sent=NUMBERED)], None),
        ([asked(sent=replace(NUMBERED, is_transactional=True))], None),
        ([asked(), answered(base_offset=-1, error_code=3)], None),
        ([asked(), answered(base_offset=-1, error_code=45)], None),
        ([asked(), answered(base_offset=-1, error_code=46)], "DUPLICATE_SEQUENCE_NUMBER"),
        ([asked(), answered(base_offset=-1, error_code=20)], None),
        # The number of produces is no limit.
        pytest.param([asked(number) for number in range(10_001)], None, marks=pytest.mark.slow),
    ],
)
def test_what_the_model_is_not_told_has_a_reason(lines: list[ClientLine], why: str | None):
    unfollowed = clients_of(lines).unfollowed

    assert (T in unfollowed) == (why is not None)
    assert why is None or why in unfollowed[T]


# -- writes that have no answer -------------------------------------------------------------------


def in_doubt(
    path: Path,
    *,
    ends: Mapping[str, int] | None = None,
    ended: int | None = None,
    is_sent_first: bool = True,
    lacking: int | None = 1,
) -> str:
    """Why the model is not told of a write without an answer; "" if it is.

    Args:
        ends: Where logs ended when settling looked.
        ended: The broker whose process ends before anything is copied, and comes back.
        is_sent_first: Whether the write was sent before.
        lacking: The broker whose copy lacks it, if one does.
    """
    build = clean_run(path, client_links=True)
    build.run.begin(CLIENTS)

    def send() -> None:
        build.run.append(CLIENTS, to_json(replace(asked(), time=build.tick())))

    if is_sent_first:
        send()
    if ended is not None:
        build.act(acts.StopBroker(broker=ended, clean=True))
        build.act(acts.StartBroker(broker=ended, release=build.release))
    if not is_sent_first:
        send()
    logs = {broker: [BOTH] if broker == lacking else [BOTH, (11, 1, ["mine"])] for broker in (0, 1)}
    build.snapshot("final", logs, high_watermarks={0: 11, 1: 11}, probed=False)
    return RunEvidence(build.seal(ends=ends)).unfollowed_clients.get(T, "")


SENT_LATE = "records that were sent while disks were copied"


@pytest.mark.parametrize(
    ("told", "why"),
    [
        # It is in all copies.
        ({"lacking": None}, ""),
        ({"lacking": None, "ends": {"0": 11, "1": 11}}, ""),
        # Nobody looked before copying began: some brokers may have been copied before it came.
        ({}, SENT_LATE),
        ({"ends": {"0": 12, "1": 11}}, ""),
        # The log went on after settling: a write that came then may come again between copies.
        ({"ends": {"0": 11, "1": 11}}, SENT_LATE),
        # Nobody saw where the logs ended, or where one of those that were copied did.
        ({"ends": {}}, SENT_LATE),
        ({"ends": {"0": 12}}, SENT_LATE),
        # A replica that was not copied may have it or not.
        ({"ends": {"0": 12, "1": 11, "2": 12}}, SENT_LATE),
        # Only the process to which it was sent can have appended it.
        ({"ended": 0}, ""),
        ({"ended": 1}, SENT_LATE),
        ({"ended": 0, "is_sent_first": False}, SENT_LATE),
    ],
)
def test_a_write_without_an_answer_is_in_doubt_while_it_may_come_between_copies(
    tmp_path: Path, told: Mapping[str, Any], why: str
):
    assert in_doubt(tmp_path / "run", **told) == why


# -- transactions ---------------------------------------------------------------------------------


OF_7 = {"producer_id": 7, "producer_epoch": 0}


def added(sequence: int) -> ClientLine:
    named = ClientPartition(topic="t", partition=0)
    return line(sequence, "AddPartitionsToTxn", "request", partitions=(named,), **OF_7)


def sent_in_one(sequence: int, **more: Any) -> ClientLine:
    return asked(sequence, sent=replace(NUMBERED, is_transactional=True), **more)


def end(sequence: int, direction: Any, **more: Any) -> ClientLine:
    return line(sequence, "EndTxn", direction, **{**OF_7, "committed": True, **more})


@pytest.mark.parametrize(
    ("lines", "how"),
    [
        ([added(1), sent_in_one(2), end(3, "request"), end(4, "response")], ["committed"]),
        (
            [added(1), sent_in_one(2), end(3, "request", committed=False), end(4, "response")],
            ["aborted"],
        ),
        ([added(1), sent_in_one(2), end(3, "request")], ["open"]),
        (
            [added(1), sent_in_one(2), end(3, "request"), end(4, "response", error_code=51)],
            ["open"],
        ),
        (
            [
                *(added(1), sent_in_one(2), end(3, "request", correlation_id=2)),
                *(end(4, "response", correlation_id=2), sent_in_one(5, correlation_id=3)),
            ],
            ["committed", "none"],
        ),
        ([sent_in_one(1)], ["none"]),
        ([sent_in_one(1, api_version=12)], ["open"]),
        ([replace(added(1), not_judged="too new", partitions=()), sent_in_one(2)], ["open"]),
        ([asked(sent=NUMBERED)], [""]),
    ],
)
def test_a_transaction_ended_as_its_coordinator_answered(lines: list[ClientLine], how: list[str]):
    assert [operation.transaction for operation in clients_of(lines).operations] == how


def test_a_read_committed_client_leaves_out_what_its_answer_says_up_to_the_next_abort():
    of_7 = {**OF_7, "is_transactional": True}
    batches = (
        given("a", base_offset=0, **of_7),
        given("b", base_offset=1, **{**of_7, "producer_id": 8}),
        given("m", base_offset=2, is_control=True, control_type="ABORT", **of_7),
        given("c", base_offset=3, **of_7),
    )
    ends: dict[str, Any] = {"high_watermark": 4, "last_stable_offset": 4, "aborted": ((7, 0),)}
    of_clients = clients_of(fetched(*batches, isolation_level=1, **ends))

    (told,) = of_clients.committed_reads
    assert (told.given, told.left_out) == (((1, 1), (3, 3)), ((0, 0),))
    assert [
        (operation.base_offset, operation.last_offset) for operation in of_clients.operations
    ] == [(1, 1), (3, 3)]
    assert clients_of(fetched(*batches, **ends)).committed_reads == ()


# -- batches on disk ------------------------------------------------------------------------------


def test_a_client_s_batches_are_explained_where_its_links_saw_them_and_no_others():
    (operation,) = clients_of([asked(sent=NUMBERED), answered()]).operations
    held = evidence(operations=(operation,), is_open_to_others=True, transactional=(9,))
    own = OwnBatches(held)
    there = replace(batch(11, 1, "mine"), producer_id=7)

    assert own.has(there)
    assert not own.has(replace(there, base_offset=12, last_offset=12))
    marker = replace(batch(12, 1, "?"), marks="transactional, control, producer 9, 0, -1")
    assert own.has(replace(marker, producer_id=9))
    assert not own.has(replace(marker, producer_id=8))


# -- the verdict ----------------------------------------------------------------------------------


def judged(path: Path, *lines: ClientLine, lost: bool = False) -> k.Results:
    """A run with links for clients, in which somebody's record lies at 11, and settling's at 12."""
    build = clean_run(path, client_links=True)
    build.observe(AddressesGiven(to="tests"), -1)
    build.run.begin(CLIENTS)
    for each in lines:
        build.run.append(CLIENTS, to_json(replace(each, time=build.tick())))
    probe = "settle-t-0"
    build.produce(probe, 0, [probe], acks=-1, base_offset=12)
    last = (12, 1, [probe])
    logs = {broker: [BOTH, (11, 1, ["other" if lost else "mine"]), last] for broker in (0, 1)}
    build.snapshot("final", logs, epochs={0: [(1, 0)], 1: [(1, 0)]}, high_watermarks={0: 13})
    return k.judge(build.seal())


def test_a_client_s_record_that_is_there_leaves_a_run_safe(tmp_path: Path):
    results = judged(tmp_path / "run", asked(), answered())

    assert results.safe is True
    assert not {finding.kind for finding in results.findings} & {"foreign-write", "committed-loss"}


def test_a_client_s_record_that_was_lost_is_unsafe_and_its_client_is_named(tmp_path: Path):
    results = judged(tmp_path / "run", asked(), answered(), lost=True)

    assert results.safe is False
    (lost,) = [finding for finding in results.findings if finding.kind == "committed-loss"]
    assert (lost.first_offset, lost.last_offset) == (11, 11)
    assert "acknowledged to client 'mine' at 127.0.0.1:4711" in lost.message
    (told,) = lost.evidence["operations"]
    assert (told["client"], told["acks"]) == ("client 'mine' at 127.0.0.1:4711", -1)


def test_a_write_that_no_link_saw_leaves_the_run_unknown(tmp_path: Path):
    results = judged(tmp_path / "run")

    assert results.safe is None
    assert "foreign-write" in {finding.kind for finding in results.findings}


def test_an_answer_that_no_link_could_read_leaves_a_run_unknown(tmp_path: Path):
    secret = line(3, "", "response", answered_bytes=7, not_judged="TLS")

    results = judged(tmp_path / "run", asked(), answered(), secret)

    assert results.safe is None
    assert "TLS" in (results.unknown or "")


def test_a_record_of_clients_that_is_missing_leaves_a_run_unknown(tmp_path: Path):
    build = clean_run(tmp_path / "run", client_links=True)

    results = k.judge(clean_snapshot(build).seal())

    assert results.safe is None
    assert f"{CLIENTS} is missing" in (results.unknown or "")
