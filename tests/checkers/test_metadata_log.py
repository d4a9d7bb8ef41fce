"""Copies of the metadata log: what real nodes wrote, and what is no copy of it."""

import json
import re
from collections.abc import Mapping

import pytest

from kchaos.checkers.formats.metadata_records import MetadataRecord, RecordDefinitions
from kchaos.checkers.metadata_log import (
    LeaderChange,
    MetadataLogError,
    NodeLog,
    committed,
    differing,
    entries,
    read_node,
    voters_of,
)
from kchaos.checkers.segments.reader import read_records, read_segment
from tests.support.metadata_logs import (
    FIRST_SEGMENT,
    leader_change,
    logs_in,
    metadata_batch,
    unpack,
)
from tests.support.releases import each_release
from tests.support.segment_encoder import batch

STORED = ("3.3.2-1", "3.9.1-1", "4.0.2-1", "4.1.2-1", "4.1.2-3", "4.1.2-1s", "4.4.0-1")
_DUMPED = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .* payload: (\{.*\})")
DEFINITIONS = RecordDefinitions.from_texts(
    {
        "NoOpRecord.json": b'{"apiKey": 20, "type": "metadata", "name": "NoOpRecord",'
        b'"validVersions": "0", "flexibleVersions": "0+", "fields": []}',
        **{
            f"{name}.json": json.dumps(
                {
                    "apiKey": key,
                    "type": "metadata",
                    "name": name,
                    "validVersions": "0",
                    "flexibleVersions": "0+",
                    "fields": [],
                }
            ).encode()
            for key, name in enumerate(
                ("BeginTransactionRecord", "EndTransactionRecord", "AbortTransactionRecord"), 23
            )
        },
    }
)


def _no_op(offset, epoch=1, count=1):
    return metadata_batch(DEFINITIONS, offset, [("NoOpRecord", 0, {})] * count, leader_epoch=epoch)


def _copy(node, *batches, name=FIRST_SEGMENT):
    return read_node(node, [(f"metadata/node-{node}/{name}", b"".join(batches))])


def _epochs(batches):
    return [(batch.base_offset, batch.leader_epoch) for batch in batches]


BEGUN = leader_change(0, 100, (100, 101, 102))


@pytest.mark.parametrize(
    "name", each_release([name for name in STORED if name not in ("4.1.2-3", "4.1.2-1s")])
)
def test_every_record_is_decoded_as_kafkas_own_tool_does(name, tmp_path):
    folder = unpack(name, tmp_path)
    logs = logs_in(folder)
    decoded = {
        entry.offset: (entry.record, entry.time_ms)
        for entry in entries(logs.shared, logs.definitions)
        if isinstance(entry.record, MetadataRecord)
    }
    dumped = [_DUMPED.match(line) for line in (folder / "dump.txt").read_text().splitlines()]
    # Where a transaction begins and ends is no record of what was decided.
    records = {
        int(each[1]): each for each in dumped if each and "_TRANSACTION_RECORD" not in each[3]
    }

    assert decoded.keys() == records.keys()
    for offset, match in records.items():
        said, (record, time_ms) = json.loads(match[3]), decoded[offset]
        assert _upper(record.name) in (said["type"], said["type"].replace("_STATE", ""))
        assert record.version == said["version"]
        assert time_ms == int(match[2])
        _assert_same(record.fields, said["data"])


def _upper(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def _assert_same(fields: Mapping[str, object], dumped: Mapping[str, object]):
    """Kafka's tool leaves out a tagged field that was not written: it has its default."""
    ours = {name[0].lower() + name[1:]: value for name, value in fields.items()}
    assert dumped.keys() <= ours.keys()
    for name, value in ours.items():
        if name not in dumped:
            assert value in (None, (), 0, -1, -2, False, ""), name
        else:
            _assert_same_value(value, dumped[name])


def _assert_same_value(value, dumped):
    if isinstance(value, Mapping):
        _assert_same(value, dumped)
    elif isinstance(value, tuple):
        assert len(value) == len(dumped)
        for ours, theirs in zip(value, dumped, strict=True):
            _assert_same_value(ours, theirs)
    else:
        assert value == dumped


@pytest.mark.slow
@pytest.mark.parametrize("name", STORED)
def test_what_was_decoded_is_encoded_to_the_same_bytes(name, tmp_path):
    logs = logs_in(unpack(name, tmp_path))
    values = [
        record.value or b""
        for copied in logs.shared
        if not copied.is_control
        for read in read_segment(copied.content, base_offset=0, file="").batches
        for record in read_records(copied.content, read)
    ]

    assert values
    for value in values:
        assert logs.definitions.encode(logs.definitions.decode(value)) == value


@pytest.mark.parametrize("name", each_release(STORED))
def test_all_nodes_of_a_real_cluster_have_the_same_log(name, tmp_path):
    logs = logs_in(unpack(name, tmp_path))

    voters = {"3": {100, 101, 102}}.get(name.partition("-")[2], {100})
    assert logs.voters == voters
    assert logs.copies.keys() == {0, 1, 2, *voters}
    assert [differing(copy, logs.shared) for copy in logs.copies.values()] == [
        None for _ in logs.copies
    ]
    assert len(set(logs.cluster_ids.values())) == 1


def test_the_beginning_of_an_epoch_names_leader_and_voters():
    copy = _copy(100, BEGUN, _no_op(1, count=2))

    assert [
        (entry.offset, entry.batch, entry.record) for entry in entries(copy.batches, DEFINITIONS)
    ] == [
        (0, 0, LeaderChange(leader=100, voters=(100, 101, 102))),
        (1, 1, MetadataRecord(name="NoOpRecord", version=0, fields={})),
        (2, 1, MetadataRecord(name="NoOpRecord", version=0, fields={})),
    ]
    assert voters_of({100: copy}) == {100, 101, 102}


def test_a_torn_tail_of_the_last_segment_is_left_out():
    assert _copy(100, BEGUN, _no_op(1), _no_op(2)[:-1]).end_offset == 2
    assert _copy(100, BEGUN, _no_op(1), bytes(100)).end_offset == 2


def test_a_segment_that_is_torn_before_another_one_is_damage():
    files = [
        ("metadata/node-100/" + FIRST_SEGMENT, BEGUN + _no_op(1)[:-1]),
        (f"metadata/node-100/{1:020d}.log", _no_op(1)),
    ]

    with pytest.raises(MetadataLogError, match=FIRST_SEGMENT):
        read_node(100, files)


def test_a_segment_that_is_missing_between_two_is_damage():
    files = [(f"n/{FIRST_SEGMENT}", BEGUN), (f"n/{2:020d}.log", _no_op(2))]

    with pytest.raises(MetadataLogError, match=r"begins at offset 2, and .* ends at 0"):
        read_node(100, files)


def test_segments_are_read_in_the_order_of_their_offsets():
    files = [(f"n/{1:020d}.log", _no_op(1)), (f"n/{FIRST_SEGMENT}", BEGUN), ("n/x.txt", b"?")]

    assert _epochs(read_node(100, files).batches) == [(0, 1), (1, 1)]


@pytest.mark.parametrize("changed", [30, 70])
def test_a_byte_that_was_changed_is_damage(changed):
    content = bytearray(BEGUN + _no_op(1))
    content[changed] ^= 1

    with pytest.raises(MetadataLogError, match=FIRST_SEGMENT):
        _copy(100, bytes(content))


def test_a_batch_that_is_missing_between_two_is_damage():
    with pytest.raises(MetadataLogError, match="offset 2, where offset 1 should come"):
        _copy(100, BEGUN, _no_op(2))


def test_a_record_without_definition_is_told_by_its_offset():
    copy = _copy(100, BEGUN, batch(1, [(None, b"\x01\x63\x00\x00")], leader_epoch=1))

    with pytest.raises(MetadataLogError, match="offset 1: no definition has kind 99"):
        list(entries(copy.batches, DEFINITIONS))


def test_what_one_voter_of_three_has_alone_was_not_decided():
    deposed = _copy(100, BEGUN, _no_op(1), _no_op(2))
    others = [_copy(node, BEGUN, _no_op(1)) for node in (101, 102)]

    assert _epochs(committed([deposed, *others])) == [(0, 1), (1, 1)]
    assert differing(deposed, committed([deposed, *others])) is None


def test_the_tail_of_a_deposed_leader_is_not_taken_for_what_the_next_one_wrote():
    next_leader = leader_change(2, 101, (100, 101, 102), leader_epoch=3)
    deposed = _copy(100, BEGUN, _no_op(1), _no_op(2, count=2), _no_op(4))
    others = [_copy(node, BEGUN, _no_op(1), next_leader, _no_op(3, 3)) for node in (101, 102)]

    shared = committed([deposed, *others])

    assert _epochs(shared) == [(0, 1), (1, 1), (2, 3), (3, 3)]
    assert differing(deposed, shared) is None


def test_a_voter_that_is_behind_takes_nothing_away():
    whole = [_copy(node, BEGUN, _no_op(1), _no_op(2)) for node in (100, 101)]

    assert len(committed([*whole, _copy(102, BEGUN)])) == 3
    assert len(committed([*whole, NodeLog(node=102)])) == 3


def test_without_a_majority_nothing_was_decided():
    assert committed([_copy(100, BEGUN), NodeLog(node=101), NodeLog(node=102)]) == ()
    assert committed([]) == ()


@pytest.mark.parametrize(
    ("batches", "at"),
    [((_no_op(1, count=2),), 1), ((_no_op(1), _no_op(2, 2)), 2)],
    ids=["of the same epoch", "of a later epoch"],
)
def test_another_batch_is_a_difference(batches, at):
    shared = committed([_copy(100, BEGUN, _no_op(1), _no_op(2))])

    differs = differing(_copy(0, BEGUN, *batches), shared)

    assert differs is not None
    assert differs.base_offset == at


def test_a_tail_of_an_older_epoch_that_comes_back_to_what_is_shared_is_a_difference():
    newer = leader_change(1, 101, (100, 101, 102), leader_epoch=2)
    shared = committed([_copy(node, BEGUN, newer, _no_op(2, 2)) for node in (101, 102, 100)])

    differs = differing(_copy(0, BEGUN, _no_op(1), _no_op(2, 2)), shared)

    assert differs is not None
    assert differs.base_offset == 2


def test_a_voter_whose_log_begins_with_a_snapshot_had_what_is_before_it():
    snapshot = (f"n/{2:020d}-{1:010d}.checkpoint", batch(0, [(None, b"")]))
    later = read_node(101, [snapshot, (f"n/{2:020d}.log", _no_op(2))])

    shared = committed([_copy(100, BEGUN, _no_op(1), _no_op(2)), later, NodeLog(node=102)])

    assert later.start_offset == 2
    assert _epochs(shared) == [(0, 1), (1, 1), (2, 1)]


def _counted(*names):
    """The offsets that count of records with these names, each in a batch of its own."""
    batches = [metadata_batch(DEFINITIONS, at, [(name, 0, {})]) for at, name in enumerate(names)]
    return [entry.offset for entry in entries(_copy(100, *batches).batches, DEFINITIONS)]


def test_what_a_transaction_of_the_controller_wrote_counts_once_it_has_ended():
    begin, end, abort, other = (
        f"{name}Record"
        for name in ("BeginTransaction", "EndTransaction", "AbortTransaction", "NoOp")
    )

    assert _counted(other, begin, other, end, other) == [0, 2, 4]
    assert _counted(other, begin, other, abort, other) == [0, 4]
    assert _counted(other, begin, other) == [0]
