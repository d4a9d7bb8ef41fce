"""History of clients from links: what was planted is found, and no wish of a client is."""

import itertools
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.client_history import client_history
from kchaos.checkers.evidence.clients import CLIENTS, ClientBatch, ClientLine, ClientPartition
from kchaos.checkers.evidence.history import record_payloads
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.findings import KINDS
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.histories.anomalies import Anomaly, anomalies
from kchaos.checkers.json_form import to_json
from kchaos.checkers.judge import judge
from kchaos.checkers.rules.client_anomalies import NOT_TOLD, client_anomalies
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from tests.golden.stored import not_asked, unpacked
from tests.support.clean_runs import clean_run
from tests.support.rule_evidence import client_line

GOLDEN = Path(__file__).parent.parent / "golden" / "clients"
ABORT, COMMIT = "ABORT", "COMMIT"


class Wire:
    """Makes lines as links write them: each call is a request and its answer."""

    def __init__(self) -> None:
        self.lines: list[ClientLine] = []
        self._numbers = itertools.count(1)

    def line(self, api: str, direction: Any, **fields: Any) -> None:
        number = next(self._numbers)
        told = {"api_version": 9, "correlation_id": number - (direction != "request"), **fields}
        when = {"sequence": number, "time": 100.0 + number}
        self.lines.append(client_line(api, direction, **when, **told))

    def sends(
        self, *values: str, at: int = -1, error: int = 0, acks: int = -1, **more: Any
    ) -> "Wire":
        """A produce that was answered with an offset or an error, or not at all."""
        connection = more.pop("connection", 1)
        asked = told(batches=(batch(*values, **more),))
        self.line("Produce", "request", acks=acks, connection=connection, partitions=(asked,))
        if at >= 0 or error:
            answer = told(base_offset=at, error_code=error)
            self.line("Produce", "response", connection=connection, partitions=(answer,))
        return self

    def fetches(
        self,
        start: int,
        *batches: ClientBatch,
        isolation_level: int = 0,
        connection: int = 9,
        **more: Any,
    ) -> "Wire":
        """A fetch from an offset, and the batches that came."""
        who = {"connection": connection, "client_id": "reader"}
        asked = told(fetch_offset=start)
        self.line("Fetch", "request", isolation_level=isolation_level, partitions=(asked,), **who)
        ends = {"high_watermark": 100, "last_stable_offset": 100, **more}
        self.line("Fetch", "response", partitions=(told(batches=batches, **ends),), **who)
        return self

    def ends(self, producer_id: int, *, committed: bool, is_answered: bool = True) -> "Wire":
        """An EndTxn."""
        self.line("EndTxn", "request", producer_id=producer_id, committed=committed)
        if is_answered:
            self.line("EndTxn", "response")
        return self

    def told(self) -> list[Anomaly]:
        return anomalies(client_history(self.lines).operations)

    def names(self) -> dict[str, int]:
        """The anomalies by name, without what nobody has to do."""
        names = Counter(anomaly.name for anomaly in self.told())
        del names["unseen"]
        return dict(names)


def told(**fields: Any) -> ClientPartition:
    return ClientPartition(topic="t", partition=0, **fields)


def batch(*values: str, at: int = 0, **more: Any) -> ClientBatch:
    return ClientBatch(
        base_offset=at,
        last_offset=at + len(values) - 1,
        magic=2,
        codec="none",
        payloads=record_payloads(values),
        values=values,
        **more,
    )


def transactional(*values: str, producer: int = 7, at: int = 0) -> ClientBatch:
    return batch(*values, at=at, producer_id=producer, is_transactional=True)


def marker(kind: str, *, at: int, producer: int = 7) -> ClientBatch:
    return ClientBatch(
        base_offset=at,
        last_offset=at,
        magic=2,
        codec="none",
        payloads=("0" * 16,),
        control_type=kind,
        producer_id=producer,
        is_transactional=True,
        is_control=True,
    )


ABC = ("a", "b", "c")
AS_SENT = batch(*ABC)
IN_TRANSACTION = {"producer_id": 7, "base_sequence": 0, "is_transactional": True}


def test_what_came_as_it_was_acknowledged_is_no_anomaly():
    wire = (
        Wire().sends(*ABC, at=0).sends("d", at=3).fetches(0, AS_SENT).fetches(3, batch("d", at=3))
    )
    assert wire.told() == []
    history = client_history(wire.lines)
    assert history.partitions == {"t-0": TopicPartition("t", 0)}
    assert history.not_known == ()
    assert [(operation.function, operation.outcome) for operation in history.operations] == [
        ("send", "ok"),
        ("send", "ok"),
        ("assign", "ok"),
        ("poll", "ok"),
        ("poll", "ok"),
    ]


PLANTED = {
    "lost-write": Wire().sends(*ABC, at=0).fetches(0, batch("a"), batch("c", at=2)),
    "int-poll-skip": Wire().sends(*ABC, at=0).fetches(0, batch("a"), batch("c", at=2)),
    # The second fetch asks for what is next, and gets what is after it.
    "poll-skip": Wire().sends(*ABC, at=0).fetches(0, batch("a")).fetches(1, batch("c", at=2)),
    "nonmonotonic-poll": Wire()
    .sends(*ABC, at=0)
    .fetches(0, batch("a", "b"))
    .fetches(2, batch("b", at=2)),
    "int-nonmonotonic-poll": Wire().sends(*ABC, at=0).fetches(0, batch("a"), batch("b", "a", at=1)),
    "duplicate": Wire().sends("a", at=0).fetches(0, batch("a", "a")),
    "inconsistent-offsets": Wire().sends("a", at=0).sends("b").fetches(0, batch("b")),
    "G1a": Wire().sends("a", error=ErrorCode.INVALID_RECORD).fetches(0, batch("a")),
    "nonmonotonic-send": Wire()
    .sends("a", at=5, producer_id=7, base_sequence=0)
    .sends("b", at=3, producer_id=7, base_sequence=1),
    "int-nonmonotonic-send": Wire()
    .sends("a", at=5, **IN_TRANSACTION)
    .sends("b", at=3, **IN_TRANSACTION | {"base_sequence": 1})
    .ends(7, committed=True),
    "precommitted-read": Wire()
    .sends("a", at=0, **IN_TRANSACTION)
    .fetches(0, transactional("a"), isolation_level=1)
    .ends(7, committed=True)
    .fetches(1, marker(COMMIT, at=1), isolation_level=1),
}


@pytest.mark.parametrize("name", PLANTED)
def test_an_anomaly_on_the_wire_is_found(name: str):
    assert PLANTED[name].names().get(name, 0) >= 1
    assert KINDS[name].question.value == "safety"


CLEAN = {
    "read from a later offset on": Wire().sends(*ABC, at=0).fetches(2, batch("c", at=2)),
    "a consumer that seeks": Wire()
    .sends(*ABC, at=0)
    .fetches(0, AS_SENT)
    .fetches(1, AS_SENT)
    .fetches(2, AS_SENT),
    "another consumer": Wire()
    .sends(*ABC, at=0)
    .fetches(0, AS_SENT)
    .fetches(0, AS_SENT, connection=10),
    "acks=1 is no promise": Wire()
    .sends("a", at=0, acks=1)
    .sends("b", at=0)
    .sends("c", at=1)
    .fetches(0, batch("b", "c")),
    "a leader that led no more when followers had it": Wire()
    .sends("a", error=ErrorCode.NOT_LEADER_FOR_PARTITION)
    .fetches(0, batch("a")),
    "the same batch sent again": Wire()
    .sends("a", producer_id=7, base_sequence=0)
    .sends("a", at=0, producer_id=7, base_sequence=0)
    .fetches(0, batch("a")),
    "a refusal after an attempt without an answer": Wire()
    .sends("a", producer_id=7, base_sequence=0)
    .sends("a", error=ErrorCode.NOT_ENOUGH_REPLICAS, producer_id=7, base_sequence=0)
    .fetches(0, batch("a")),
    "the same bytes sent twice": Wire()
    .sends("a", at=0)
    .sends("a", at=1)
    .fetches(0, batch("a", "a")),
    "records of nobody who was seen": Wire().sends("a", at=0).fetches(0, batch("x", "x", "x")),
    "what is above the high watermark": Wire()
    .sends(*ABC, at=0)
    .fetches(0, batch("a"), batch("c", at=2), high_watermark=2),
    "a high watermark that moves between its note and the read": Wire()
    .sends(*ABC, at=0)
    .fetches(0, batch("a"), high_watermark=1)
    .fetches(1, batch("b", at=1), high_watermark=1)
    .fetches(2, batch("c", at=2), high_watermark=3),
    "a batch that could not be read": Wire()
    .sends(*ABC, at=0)
    .fetches(0, batch("a"), batch("x", at=1, not_judged="zstd"), batch("c", at=2)),
    "requests in flight of which the first is answered last": Wire()
    .sends("a", connection=3)
    .sends("b", at=1, connection=3)
    .fetches(0, batch("a", "b")),
    "an aborted transaction that its consumer leaves out": Wire()
    .sends("a", at=0, **IN_TRANSACTION)
    .ends(7, committed=False)
    .fetches(0, transactional("a"), marker(ABORT, at=1), isolation_level=1, aborted=((7, 0),)),
    "a consumer that takes what is not committed": Wire()
    .sends("a", at=0, **IN_TRANSACTION)
    .fetches(0, transactional("a"))
    .ends(7, committed=False),
    "aborted transactions that nobody wrote down": Wire()
    .sends("a", at=0, **IN_TRANSACTION)
    .ends(7, committed=False)
    .fetches(0, transactional("a"), marker("", at=1), isolation_level=1),
    "a transaction that was read after it was committed": Wire()
    .sends("a", at=0, **IN_TRANSACTION)
    .ends(7, committed=True)
    .fetches(0, transactional("a"), marker(COMMIT, at=1), isolation_level=1),
    "an end of a transaction that nobody answered": Wire()
    .sends("a", at=0, **IN_TRANSACTION)
    .ends(7, committed=True, is_answered=False)
    .fetches(0, transactional("a"), isolation_level=1),
    "a transaction that timed out before the next one of a newer epoch": Wire()
    .sends("z", at=0)
    .sends("a", at=1, **IN_TRANSACTION | {"producer_epoch": 0})
    .sends("b", at=3, **IN_TRANSACTION | {"producer_epoch": 1})
    .ends(7, committed=True)
    .fetches(
        0,
        batch("z"),
        transactional("a", at=1),
        marker(ABORT, at=2),
        transactional("b", at=3),
        marker(COMMIT, at=4),
        isolation_level=1,
        aborted=((7, 1),),
    ),
}


@pytest.mark.parametrize("name", CLEAN)
def test_what_the_wire_does_not_show_is_no_anomaly(name: str):
    assert CLEAN[name].names() == {}


def test_an_aborted_record_that_a_consumer_is_not_told_to_leave_out_was_read():
    """The answer names an earlier transaction of that producer, which ended with its marker."""
    wire = (
        Wire()
        .sends("a", at=0, **IN_TRANSACTION)
        .ends(7, committed=False)
        .sends("b", at=2, **IN_TRANSACTION | {"base_sequence": 1})
        .ends(7, committed=False)
    )
    wire.fetches(
        0,
        transactional("a"),
        marker(ABORT, at=1),
        transactional("b", at=2),
        marker(ABORT, at=3),
        isolation_level=1,
        aborted=((7, 0),),
    )
    (aborted,) = [anomaly for anomaly in wire.told() if anomaly.name == "G1a"]
    assert (aborted.values, aborted.first_offset) == (("b",), 2)


def test_a_transaction_is_there_as_a_whole_once_a_part_of_it_was_read():
    """Nobody answered its end; one of its two records was read, and the other was passed over."""
    wire = Wire().sends("a", at=0, **IN_TRANSACTION)
    wire.sends("b", at=1, **IN_TRANSACTION | {"base_sequence": 1})
    wire.ends(7, committed=True, is_answered=False)
    wire.sends("c", at=3, producer_id=8, base_sequence=0)
    end = marker(COMMIT, at=2)
    wire.fetches(0, transactional("a"), end, batch("c", at=3), isolation_level=1)
    assert wire.names() == {"lost-write": 1, "int-poll-skip": 1}


def test_records_beyond_the_high_watermark_are_said():
    wire = Wire().sends("a", at=0).fetches(0, batch("a"), high_watermark=0)
    assert client_history(wire.lines).not_known == (
        "records of t-0 came beyond the offset that was reported as committed: 1",
    )


def test_what_is_left_out_is_said():
    wire = Wire().sends("a", at=0).sends("a", at=1).sends("b", at=2, not_judged="zstd: not here")
    assert client_history(wire.lines).not_known == (
        "records of t-0 were sent several times with the same bytes: 1",
        "records that were sent to t-0 could not be read",
    )
    assert client_history(wire.lines, left_out=["t"]).operations == ()


# -- whole runs -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "kind"), [((), "lost-write"), (((1, 2, [1]),), "permitted-anomaly")]
)
def test_what_comes_after_an_unclean_election_is_permitted(
    after: tuple[Any, ...], kind: str, tmp_path: Path
):
    wire = Wire().sends(*ABC, at=11).fetches(11, batch("a", at=11), batch("c", at=13))
    build = clean_run(tmp_path / "run", client_links=True)
    build.state(0, 1, [0])
    for state in after:
        build.state(*state)
    build.run.begin(CLIENTS)
    for line in wire.lines:
        build.run.append(CLIENTS, to_json(replace(line, time=build.tick())))

    findings = [*client_anomalies(RunEvidence(build.seal()))]

    assert findings[0].kind == kind
    assert (findings[0].topic, findings[0].first_offset) == ("t", 12)
    assert ("unclean election of broker 1" in findings[0].message) is bool(after)


def test_a_run_in_which_a_fetch_passed_over_a_record_is_unsafe(tmp_path: Path):
    """A stored run of a healthy cluster, whose consumer is made not to get its first record."""
    run = unpacked("3.9.1", tmp_path, runs=GOLDEN)
    lines = [json.loads(line) for line in (run.path / CLIENTS).read_text().splitlines()]
    cut = 0
    for line in lines:
        if line["api"] == "Fetch" and line["direction"] == "response":
            for partition in line["partitions"]:
                cut += len(partition.get("batches", ())) > 1
                partition["batches"] = partition.get("batches", [])[1:]
    assert cut == 1
    (run.path / CLIENTS).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (run.path / MANIFEST).unlink()
    RunDirectory(run.path).seal()

    results = judge(RunDirectory.open(run.path), predict=not_asked)

    assert results.safe is False
    lost = [finding for finding in results.findings if finding.kind == "lost-write"]
    assert lost
    assert {(finding.topic, finding.partition) for finding in lost} == {("python", 0)}
    assert all(finding.fingerprint for finding in lost)
    assert "client 'kafka-python" in lost[0].message
    assert NOT_TOLD in results.not_checked
    assert "polls passed by acknowledged records of python-0 at offset 0" in results.outcome


def test_a_late_batch_of_a_fenced_producer_hides_no_loss_of_the_transaction_that_goes_on():
    newer = IN_TRANSACTION | {"producer_epoch": 1}
    late = {"producer_epoch": 0, "base_sequence": 5, "error": ErrorCode.INVALID_PRODUCER_EPOCH}
    wire = (
        Wire()
        .sends("z", at=0)
        .sends("a", at=1, **newer)
        .sends("late", **IN_TRANSACTION | late)
        .sends("b", at=2, **newer | {"base_sequence": 1})
        .ends(7, committed=True)
        .fetches(
            0,
            batch("z"),
            transactional("b", at=2),
            marker(COMMIT, at=3),
            batch("y", at=4),
            isolation_level=1,
        )
    )

    assert "lost-write" in wire.names()
