"""Stored runs of real clusters to which others' clients wrote, and what damage to them shows.

`1.1.1`, `2.8.2` and `3.9.1`: `kchaos up --judge` with kafka-python's producer and consumer,
librdkafka's idempotent producer and Kafka's own VerifiableProducer. `3.9.1-transactions`: these and
transactional producers of both, when the links did not tell markers yet. `2.8.2-transactions`:
kafka-python's transactional producers, one committed and aborted and one left open for a while, and
read_committed consumers; `...-moved`: the leader, which is the coordinator too, is killed in the
middle of one; `...-bounced`: it is back before anybody has noticed, and another leads.
`...-hanging`: the entry KIP-890. `0.10.2.2-lost`: KIP-101's first scenario, in which the
record that is lost was acknowledged to kafka-python. `...-java-restarts`: Kafka's own
VerifiableProducer, idempotent, and VerifiableConsumer while brokers are restarted. `...-java-lost`:
VerifiableProducer's 20 acknowledged records are lost in an unclean election;
`...-java-idempotent-lost`: the same, idempotent, as it is by itself on 3.9.1;
`...-java-transactions-lost`: four committed transactions of TransactionalMessageCopier.
`...-tail-lost`: the last replica in sync loses its tail, with min.insync.replicas=2.
`...-copier`: VerifiableProducer and VerifiableConsumer without faults, and Kafka's own
TransactionalMessageCopier, aborting at random.
`3.9.1-bad-input`: garbage, a client that hangs up in the middle, 100 MB, and a producer that
claims another's transactional id. `...-forgotten`: the entry KAFKA-9144.
`3.9.1-made-while-writing`: kafka-python writes to a topic that its broker has not heard of yet.
`3.9.1-answered-late`: kafka-python writes until brokers stop. A record that all copies have is
acknowledged when the links' record has ended, so nothing in it explains the answer.
`3.9.1-written-while-settling`: the same, and the high watermark moves on once settling has seen it.
`2.8.2-all-deleted`: librdkafka's producer writes a record to each of 40 topics of 8 partitions, and
all are deleted. Too many orders of steps lead through it to follow them together.
"""

import json
import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from crc32c import crc32c

import kchaos as k
from kchaos.checkers.evidence.assembling import run_evidence
from kchaos.checkers.evidence.clients import CLIENTS
from kchaos.checkers.evidence.partition import PartitionEvidence
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.judge import judge
from kchaos.checkers.model import follow, generation_for
from kchaos.checkers.model.follow.apart import without_topics
from kchaos.checkers.model.follow.observations import Record
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.rules.transactions import logged_transactions
from kchaos.checkers.run_directory import MANIFEST
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.reader import read_segment
from tests.golden.stored import expected_of, judged_as_stored, not_asked, recorded, unpacked

pytestmark = pytest.mark.slow

RUNS = Path(__file__).with_name("clients")
HEALTHY = ("1.1.1", "2.8.2", "3.9.1")
TRANSACTIONS, LOST = "2.8.2-transactions", "0.10.2.2-lost"
WITHOUT_MARKERS = "3.9.1-transactions"
MOVED = ("2.8.2-transactions-moved", "3.9.1-transactions-moved")
BOUNCED = tuple(f"{release}-transactions-bounced" for release in HEALTHY)
HANGING, REFUSED = ("2.3.1-hanging", "2.8.2-hanging"), "3.6.2-hanging"
JAVA = ("1.1.1-java-restarts", "3.9.1-java-restarts", "1.1.1-copier", "3.9.1-copier")
JAVA_PLAIN_LOST = ("1.1.1-java-lost", "2.8.2-java-lost")
JAVA_TAIL_LOST = tuple(f"{release}-java-tail-lost" for release in HEALTHY)
# The producer of 3.9.1 is idempotent unless it is told otherwise.
JAVA_IDEMPOTENT_LOST = (
    "1.1.1-java-idempotent-lost",
    "2.8.2-java-idempotent-lost",
    "3.9.1-java-lost",
    *JAVA_TAIL_LOST,
)
JAVA_LOST = (*JAVA_PLAIN_LOST, *JAVA_IDEMPOTENT_LOST)
JAVA_TRANSACTIONS_LOST = tuple(
    f"{release}-java-transactions-{kind}" for kind in ("lost", "tail-lost") for release in HEALTHY
)
BAD_INPUT = "3.9.1-bad-input"
MADE_WHILE_WRITING = "3.9.1-made-while-writing"
ANSWERED_LATE = "3.9.1-answered-late"
WRITTEN_WHILE_SETTLING = "3.9.1-written-while-settling"
ALL_DELETED = "2.8.2-all-deleted"
FORGOTTEN, FENCED = "2.2.2-forgotten", "2.5.1-forgotten"


@cache
def judged(name: str) -> k.Results:
    """The results of a stored run, which are what was written down; a process judges it once."""
    with TemporaryDirectory() as folder:
        return judged_as_stored(name, Path(folder), runs=RUNS)


def each(names: Iterable[str]) -> list[Any]:
    """Runs by their names; one process has all tests that look at the results of one of them."""
    return [pytest.param(name, marks=of_run(name), id=name) for name in names]


def of_run(name: str) -> pytest.MarkDecorator:
    return pytest.mark.xdist_group(f"clients {name}")


@pytest.mark.parametrize(
    "name",
    each(
        [
            *(*HEALTHY, TRANSACTIONS, *MOVED, *BOUNCED, WITHOUT_MARKERS, LOST, *HANGING, REFUSED),
            *(*JAVA, *JAVA_LOST, *JAVA_TRANSACTIONS_LOST, BAD_INPUT, FORGOTTEN, FENCED),
            *(MADE_WHILE_WRITING, ANSWERED_LATE, WRITTEN_WHILE_SETTLING, ALL_DELETED),
        ]
    ),
)
def test_what_is_said_of_a_run_with_others_clients_stays(name: str):
    judged(name)


@pytest.mark.parametrize(
    "name",
    [
        *(*HEALTHY, TRANSACTIONS, *MOVED, *BOUNCED, *JAVA, BAD_INPUT, FENCED, ANSWERED_LATE),
        *(WRITTEN_WHILE_SETTLING, ALL_DELETED),
    ],
)
def test_a_run_of_others_clients_in_which_nothing_is_lost_is_safe_and_conforms(name: str):
    """It is said of the run by the test above."""
    said = expected_of(name, runs=RUNS)

    assert (said["conforms"], said["safe"]) == (True, True)
    # Before 2.0 a fetch may meet a leader too early, and the follower logs that.
    assert all(finding.startswith("broker-error ") for finding in said["findings"])


@pytest.mark.parametrize(
    ("name", "brokers"),
    [(WRITTEN_WHILE_SETTLING, set()), (ANSWERED_LATE, set()), ("3.9.1-java-restarts", {0, 2, 3})],
)
def test_settling_pins_no_high_watermark_of_a_partition_that_others_still_write_to(
    name: str, brokers: set[int], tmp_path: Path
):
    pinned = RunEvidence(unpacked(name, tmp_path, runs=RUNS)).read().pinned

    assert {broker for partition, broker in pinned if partition.topic == "t"} == brokers


@of_run(MADE_WHILE_WRITING)
def test_a_broker_that_has_not_heard_of_a_topic_refuses_a_write_and_the_run_conforms(
    tmp_path: Path,
):
    results = judged(MADE_WHILE_WRITING)
    clients = RunEvidence(unpacked(MADE_WHILE_WRITING, tmp_path, runs=RUNS)).clients
    assert clients is not None

    refused = [operation.error for operation in clients.operations if operation.error]
    assert refused == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert (results.conforms, results.safe, results.findings) == (True, True, ())


@pytest.mark.parametrize("name", [*MOVED, *BOUNCED])
def test_a_transaction_goes_on_under_another_leader(name: str, tmp_path: Path):
    (evidence,) = run_evidence(RunEvidence(unpacked(name, tmp_path, runs=RUNS)), None)
    (transaction,) = [
        transaction
        for transaction in logged_transactions(evidence, evidence.replicas[0].batches)
        if len({_epoch_at(evidence, first) for first, _ in transaction.batches}) > 1
    ]

    assert transaction.is_commit is True


def _epoch_at(evidence: PartitionEvidence, offset: int) -> int:
    batches = evidence.replicas[0].batches
    return next(batch.leader_epoch for batch in batches if batch.base_offset == offset)


@pytest.mark.parametrize("name", each(HANGING))
def test_a_late_batch_hangs_where_no_coordinator_is_asked(name: str):
    results = judged(name)

    assert (results.conforms, results.safe) == (True, False)
    assert [finding.kind for finding in results.findings] == ["hanging-transaction"]


def test_a_late_batch_that_was_refused_is_explained_by_kip_890_alone():
    record = recorded(REFUSED, runs=RUNS)
    before, since = (
        follow(record, generations=dict.fromkeys(range(2), generation_for("3.6.2", without=rules)))
        for rules in (("KIP-890",), ())
    )

    assert before.emptied_by is not None
    assert since.emptied_by is None


def test_what_passed_of_bad_input_is_told(tmp_path: Path):
    evidence = RunEvidence(unpacked(BAD_INPUT, tmp_path, runs=RUNS))
    assert evidence.clients is not None
    lines = evidence.clients.lines

    whys = [line.not_judged for line in lines if line.not_judged]
    assert whys.count("its bytes stopped to be Kafka's protocol; encrypted ones are none") == 2
    assert "it has 100000004 bytes, and 67108864 are read" in whys
    claimed = {
        (operation.producer.producer_epoch, operation.error)
        for operation in evidence.clients.operations
        if operation.producer is not None and operation.producer.is_transactional
    }
    assert claimed == {(0, ""), (2, ""), (0, "INVALID_PRODUCER_EPOCH")}


def test_a_fenced_producer_is_forgotten_without_kafka_9144_alone():
    red, green = recorded(FORGOTTEN, runs=RUNS), recorded(FENCED, runs=RUNS)

    def explains(record: Record, generation: Generation) -> bool:
        generations = dict.fromkeys(range(2), generation)
        return follow(record, generations=generations).emptied_by is None

    rule = ("KAFKA-9144",)
    assert explains(red, generation_for("2.2.2"))
    assert not explains(red, generation_for("2.2.2", also=rule))
    assert explains(green, generation_for("2.5.1"))
    assert not explains(green, generation_for("2.5.1", without=rule))


@of_run(WITHOUT_MARKERS)
def test_transactions_whose_markers_no_link_told_leave_their_topics_alone_unknown():
    results = judged(WITHOUT_MARKERS)

    assert (results.conforms, results.safe, results.findings) == (None, True, ())
    assert (results.unknown or "").startswith("4 of 6 partitions conform; not counted: ct, kt; ")
    assert "transactions whose markers the links did not see" in (results.unknown or "")


@of_run(WITHOUT_MARKERS)
@pytest.mark.parametrize(("topic", "conforms"), [("jv", False), ("ct", None)])
def test_a_lost_batch_is_not_as_predicted_beside_topics_that_are_not_followed(
    topic: str, conforms: bool | None, tmp_path: Path
):
    run = unpacked(WITHOUT_MARKERS, tmp_path, runs=RUNS)
    (segment,) = run.path.glob(f"snapshots/final/broker-2/{topic}-0/*.log")
    content = segment.read_bytes()
    last = read_segment(content, base_offset=0, file=segment.name).batches[-1]
    segment.write_bytes(content[: last.position])
    (run.path / MANIFEST).unlink()
    run.seal()

    results = judge(run)

    assert results.conforms is conforms
    assert "partitions conform" not in (results.unknown or "") or topic == "ct"


@of_run(WITHOUT_MARKERS)
def test_a_record_without_a_topic_is_explained_and_one_that_says_half_of_it_is_not():
    whole = recorded(WITHOUT_MARKERS, runs=RUNS)

    assert follow(whole).emptied_by is None
    without = without_topics(whole, {"jv"})
    assert follow(without).emptied_by is None
    assert not any("jv" in str(item.what) for item in without.seen)
    produced = replace(
        whole, seen=tuple(each for each in whole.seen if getattr(each.what, "topic", None) != "jv")
    )
    assert follow(produced, patience=200).emptied_by is not None


@of_run(LOST)
def test_a_record_that_a_client_had_acknowledged_and_that_was_lost_is_named():
    results = judged(LOST)

    assert (results.conforms, results.safe) == (True, False)
    (lost,) = [finding for finding in results.findings if finding.kind == "committed-loss"]
    assert (lost.topic, lost.first_offset, lost.last_offset) == ("t", 1, 1)
    assert "acknowledged to client 'kafka-python" in lost.message


@pytest.mark.parametrize("name", each(JAVA_LOST))
def test_what_kafka_s_own_producer_lost_is_named(name: str):
    (lost,) = _lost(name, judged(name))

    expected = (12, 19) if name in JAVA_TAIL_LOST else (1, 20)
    assert (lost.topic, lost.first_offset, lost.last_offset) == ("t", *expected)
    assert "acknowledged to client 'producer-1' at 127.0.0.1:" in lost.message


def _lost(name: str, results: k.Results) -> list[k.Finding]:
    """The losses in a run of Kafka's own clients, after it was made sure that they are as stated.

    An unclean election permits one. min.insync.replicas=2 promises that none comes of one tail.
    """
    is_of_a_tail = "tail" in name
    kind = "last-replica-loss" if is_of_a_tail else "permitted-loss"
    assert (results.conforms, results.safe) == (True, not is_of_a_tail)
    assert {finding.kind for finding in results.findings} <= {"broker-error", kind}
    return [finding for finding in results.findings if finding.kind == kind]


@pytest.mark.parametrize("name", JAVA_LOST)
def test_which_of_kafka_s_own_producers_were_idempotent_is_told(name: str, tmp_path: Path):
    evidence = RunEvidence(unpacked(name, tmp_path, runs=RUNS))
    assert evidence.clients is not None

    has_ids = {
        batch.producer_id >= 0
        for line in evidence.clients.lines
        if line.api == "Produce" and line.direction == "request"
        for partition in line.partitions
        for batch in partition.batches
    }
    assert has_ids == {name in JAVA_IDEMPOTENT_LOST}


@pytest.mark.parametrize("name", each(JAVA_TRANSACTIONS_LOST))
def test_committed_transactions_that_were_lost_are_named(name: str, tmp_path: Path):
    clients = RunEvidence(unpacked(name, tmp_path, runs=RUNS)).clients
    assert clients is not None
    assert len([line for line in clients.lines if line.api == "EndTxn" and line.committed]) == 4

    lost = _lost(name, judged(name))
    # Between them are the markers.
    assert [(finding.first_offset, finding.last_offset) for finding in lost] == (
        [(12, 16), (18, 22)] if "tail" in name else [(1, 5), (7, 11), (13, 17), (19, 23)]
    )
    assert all(
        "acknowledged to client 'producer-" in finding.message
        and "transactional id 'copier' at 127.0.0.1:" in finding.message
        for finding in lost
    )


def _damaged(name: str, folder: Path, damage: Callable[[Path], None]) -> k.Results:
    run = unpacked(name, folder, runs=RUNS)
    (run.path / MANIFEST).unlink()
    damage(run.path)
    k.RunDirectory(run.path).seal()
    return k.judge(k.RunDirectory.open(run.path), predict=not_asked)


def test_a_late_answer_must_have_the_offset_at_which_the_copies_have_the_record(tmp_path: Path):
    run = unpacked(ANSWERED_LATE, tmp_path, runs=RUNS)
    (run.path / MANIFEST).unlink()
    *before, last = (run.path / CLIENTS).read_text().splitlines()
    told = json.loads(last)
    told["partitions"][0]["base_offset"] += 1
    (run.path / CLIENTS).write_text("\n".join([*before, json.dumps(told)]) + "\n")

    k.RunDirectory(run.path).seal()

    results = k.judge(k.RunDirectory.open(run.path))

    assert (results.conforms, results.safe) == (None, None)
    assert "somebody else than kchaos wrote to t-0: offset 133" in str(results.unknown)


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize(
    ("topic", "client"), [("python", "kafka-python"), ("librdkafka", "librdkafka")]
)
def test_a_batch_that_no_disk_has_any_more_is_lost_to_its_client(
    name: str, topic: str, client: str, tmp_path: Path
):
    def lose(path: Path) -> None:
        for segment in path.glob(f"snapshots/final/broker-*/{topic}-0/*.log"):
            content = segment.read_bytes()
            batches = read_segment(content, base_offset=0, file=segment.name).batches
            # Of the last batches one is settling's probe.
            segment.write_bytes(content[: batches[-2].position])

    results = _damaged(name, tmp_path, lose)

    assert results.safe is False
    (lost, *_) = [finding for finding in results.findings if finding.kind == "committed-loss"]
    assert f"client '{client}" in lost.message


def test_what_no_line_of_clients_explains_was_written_by_somebody_else(tmp_path: Path):
    def forget(path: Path) -> None:
        lines = (path / CLIENTS).read_text().splitlines()
        kept = [line for line in lines if json.loads(line)["client_id"] != "librdkafka"]
        (path / CLIENTS).write_text("".join(f"{line}\n" for line in kept))

    results = _damaged("3.9.1", tmp_path, forget)

    assert results.safe is None
    assert [finding.topic for finding in results.findings if finding.kind == "foreign-write"] == [
        "librdkafka"
    ]


# -- faults planted in a run with transactions ----------------------------------------------------


def _planted(folder: Path, plant: Callable[[Path], None]) -> k.Results:
    """The run with transactions after a fault was planted, judged with the model."""
    run = unpacked(TRANSACTIONS, folder, runs=RUNS)
    (run.path / MANIFEST).unlink()
    plant(run.path)
    k.RunDirectory(run.path).seal()
    return k.judge(k.RunDirectory.open(run.path))


def _change_lines(
    path: Path, wanted: Callable[[dict[str, Any]], bool], change: Callable[[dict[str, Any]], None]
) -> None:
    """Change the first line that is wanted."""
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        content = json.loads(line)
        if wanted(content):
            change(content)
            lines[number] = json.dumps(content)
            path.write_text("".join(f"{line}\n" for line in lines))
            return
    raise AssertionError(f"{path} has no such line")


def _segments(path: Path, broker: str) -> list[Path]:
    return [*path.glob(f"snapshots/final/broker-{broker}/orders-0/*.log")]


def _batch(content: bytes, base_offset: int) -> Batch:
    batches = read_segment(content, base_offset=0, file="").batches
    return next(batch for batch in batches if batch.base_offset == base_offset)


FIRST_ABORT, LAST_COMMIT = 4, 12


def _with_commit(content: bytes) -> bytes:
    """The same log in which the first transaction that was aborted is committed."""
    marker = _batch(content, FIRST_ABORT)
    before, rest = content[: marker.position], bytearray(content[marker.position :])
    # Behind the batch's header lie length, attributes, two deltas and the length of the key, a byte
    # each; the key has a version and the type, two bytes each.
    rest[61 + 5 + 3] = 1
    struct.pack_into(">I", rest, 17, crc32c(bytes(rest[21 : marker.size_bytes])))
    return before + bytes(rest)


def test_a_marker_that_one_replica_has_no_more_is_found(tmp_path: Path):
    def lose(path: Path) -> None:
        for segment in _segments(path, "1"):
            content = segment.read_bytes()
            segment.write_bytes(content[: _batch(content, LAST_COMMIT).position])

    results = _damaged(TRANSACTIONS, tmp_path, lose)

    assert results.safe is False
    assert "missing-tail" in {finding.kind for finding in results.findings}


def test_a_marker_that_no_replica_has_is_lost(tmp_path: Path):
    def lose(path: Path) -> None:
        for segment in _segments(path, "*"):
            content = segment.read_bytes()
            segment.write_bytes(content[: _batch(content, LAST_COMMIT).position])

    results = _damaged(TRANSACTIONS, tmp_path, lose)

    assert results.safe is False
    assert "lost-marker" in {finding.kind for finding in results.findings}


@pytest.mark.parametrize(("broker", "kind"), [("*", "aborted-as-committed"), ("2", "divergence")])
def test_an_aborted_transaction_that_is_committed_on_all_disks_or_one_is_found(
    broker: str, kind: str, tmp_path: Path
):
    def commit(path: Path) -> None:
        for segment in _segments(path, broker):
            segment.write_bytes(_with_commit(segment.read_bytes()))

    results = _planted(tmp_path, commit)

    assert (results.conforms, results.safe) == (False, False)
    assert kind in {finding.kind for finding in results.findings}


def _is_committed_read(line: dict[str, Any]) -> bool:
    return line["api"] == "Fetch" and any(
        partition.get("aborted") for partition in line.get("partitions", ())
    )


def test_a_reader_that_is_not_told_of_an_aborted_transaction_is_found(tmp_path: Path):
    def forget(line: dict[str, Any]) -> None:
        line["partitions"][0]["aborted"] = []

    results = _planted(
        tmp_path, lambda path: _change_lines(path / CLIENTS, _is_committed_read, forget)
    )

    assert results.safe is False
    # The log shows it, and so does what clients did alone: G1a is Jepsen's name for it.
    assert {finding.kind for finding in results.findings} == {"aborted-read", "G1a"}


def test_a_last_stable_offset_beyond_an_open_transaction_is_found(tmp_path: Path):
    def move(line: dict[str, Any]) -> None:
        line["partitions"][0]["last_stable_offset"] = line["partitions"][0]["high_watermark"]

    results = _planted(
        tmp_path, lambda path: _change_lines(path / CLIENTS, _is_committed_read, move)
    )

    assert (results.conforms, results.safe) == (False, True)
    assert {finding.kind for finding in results.findings} == {"not-as-predicted"}


def test_a_marker_that_was_asked_for_otherwise_is_not_as_predicted(tmp_path: Path):
    def is_asked(line: dict[str, Any]) -> bool:
        return (line["api"], line["direction"]) == ("WriteTxnMarkers", "request")

    def fence(line: dict[str, Any]) -> None:
        line["detail"]["partitions"][0]["coordinator_epoch"] += 1

    results = _planted(tmp_path, lambda path: _change_lines(path / "links.jsonl", is_asked, fence))

    assert results.conforms is not True
    assert results.findings
