"""A replica's directory: its segments in order, and its leader epochs against its batches."""

from pathlib import Path

import pytest

from kchaos.checkers.errors import SegmentError
from kchaos.checkers.formats.checkpoints import EpochEntry
from kchaos.checkers.segments.directory import partition_directories, read_partition, segment_files
from tests.support.segment_encoder import Pair, batch, message

PAIRS: list[Pair] = [(b"k", b"v")] * 5


def partition(tmp_path: Path, segments: dict[int, bytes], epochs: str | None = None) -> Path:
    directory = tmp_path / "my-topic-3"
    directory.mkdir()
    for base_offset, data in segments.items():
        (directory / f"{base_offset:020}.log").write_bytes(data)
    if epochs is not None:
        (directory / "leader-epoch-checkpoint").write_text(epochs)
    return directory


def test_a_clean_directory_gives_every_segment_s_batches_and_no_finding(tmp_path: Path):
    directory = partition(
        tmp_path,
        {
            0: batch(0, PAIRS, leader_epoch=1) + batch(5, PAIRS, leader_epoch=1),
            10: batch(10, PAIRS, leader_epoch=2),
            15: b"",
        },
        "0\n3\n1 0\n2 10\n3 15\n",
    )
    contents = read_partition(directory)
    assert (contents.topic, contents.partition) == ("my-topic", 3)
    assert [(each.base_offset, each.file, each.position) for each in contents.batches] == [
        (0, "00000000000000000000.log", 0),
        (5, "00000000000000000000.log", contents.batches[0].size_bytes),
        (10, "00000000000000000010.log", 0),
    ]
    assert contents.epoch_entries is not None
    assert contents.epoch_entries[1] == EpochEntry(leader_epoch=2, start_offset=10)
    assert contents.findings == ()


def test_files_that_a_broker_is_deleting_or_writing_anew_are_left_out(tmp_path: Path):
    directory = partition(tmp_path, {0: batch(0, PAIRS)})
    for suffix in (".log.deleted", ".log.cleaned", ".log.swap", ".index", ".timeindex"):
        (directory / f"{0:020}{suffix}").write_bytes(b"not a batch")
    assert [path.name for path in segment_files(directory)] == [f"{0:020}.log"]
    assert len(read_partition(directory).batches) == 1


def test_a_segment_without_an_offset_for_a_name_is_refused(tmp_path: Path):
    directory = partition(tmp_path, {})
    (directory / "server.log").write_bytes(b"")
    with pytest.raises(SegmentError, match="named by its base offset"):
        read_partition(directory)


@pytest.mark.parametrize("name", ["t-0.abc-delete", "t-0.abc-future", "t-0.abc-stray", "t", "t-x"])
def test_a_directory_that_is_no_live_partition_is_refused(tmp_path: Path, name: str):
    (tmp_path / name).mkdir()
    with pytest.raises(SegmentError, match="live partition"):
        read_partition(tmp_path / name)


def test_live_partitions_are_found_in_a_log_directory(tmp_path: Path):
    for name in ("t-1", "t-0", "a.b-c-10", "t-0.x-delete", "t-1.x-future", "t-2.x-stray", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "t-5").write_text("a file")
    assert [path.name for path in partition_directories(tmp_path)] == ["a.b-c-10", "t-0", "t-1"]


@pytest.mark.parametrize("tail", [bytes(100), batch(5, PAIRS)[:40]])
def test_a_torn_or_zero_tail_is_corruption_in_any_segment_but_the_last(tmp_path: Path, tail: bytes):
    directory = partition(
        tmp_path, {0: batch(0, PAIRS) + tail, 10: batch(10, PAIRS) + batch(15, PAIRS)[:40]}
    )
    inner, last = read_partition(directory).findings
    assert inner.kind == "corrupt-batch"
    assert inner.evidence["tail"] == ("torn-tail" if any(tail) else "zero-tail")
    assert last.kind == "torn-tail"
    assert {(each.topic, each.partition) for each in (inner, last)} == {("my-topic", 3)}


def test_segments_that_overlap_give_a_finding(tmp_path: Path):
    directory = partition(tmp_path, {0: batch(0, PAIRS), 3: batch(3, PAIRS)})
    (finding,) = read_partition(directory).findings
    assert (finding.kind, finding.first_offset, finding.last_offset) == ("corrupt-batch", 3, 4)


def epochs_against(tmp_path: Path, batches: list[bytes], epochs: str) -> list[tuple[str, int, int]]:
    contents = read_partition(partition(tmp_path, {0: b"".join(batches)}, epochs))
    return [(each.kind, each.first_offset, each.last_offset) for each in contents.findings]


def test_a_batch_with_another_epoch_than_the_cache_says_is_a_mismatch(tmp_path: Path):
    batches = [batch(0, PAIRS, leader_epoch=1), batch(5, PAIRS, leader_epoch=2)]
    findings = epochs_against(tmp_path, batches, "0\n2\n1 0\n3 5\n")
    assert findings == [("epoch-cache-mismatch", 5, 9)]


def test_batches_that_are_contradicted_alike_share_a_finding(tmp_path: Path):
    batches = [batch(offset, PAIRS, leader_epoch=2) for offset in (0, 5, 10)]
    findings = epochs_against(tmp_path, batches, "0\n1\n1 0\n")
    assert findings == [("epoch-cache-mismatch", 0, 14)]


def test_an_epoch_that_begins_inside_a_batch_is_a_mismatch(tmp_path: Path):
    batches = [batch(0, PAIRS, leader_epoch=1)]
    assert epochs_against(tmp_path, batches, "0\n2\n1 0\n2 3\n") == [("epoch-cache-mismatch", 0, 4)]


def test_epochs_without_a_batch_are_no_mismatch(tmp_path: Path):
    batches = [batch(0, PAIRS, leader_epoch=1), batch(5, PAIRS, leader_epoch=4)]
    assert epochs_against(tmp_path, batches, "0\n5\n1 0\n2 5\n3 5\n4 5\n7 10\n") == []


def test_the_hole_of_kafka_6361_leaves_an_epoch_without_batches_and_no_mismatch(tmp_path: Path):
    batches = [batch(0, [(b"k", b"v")] * 11, leader_epoch=1), batch(21, PAIRS, leader_epoch=3)]
    assert epochs_against(tmp_path, batches, "0\n3\n1 0\n2 11\n3 21\n") == []


def test_batches_below_the_first_entry_and_of_old_magic_are_not_judged(tmp_path: Path):
    batches = [batch(0, PAIRS, leader_epoch=0), message(5, b"k", b"v", magic=1)]
    batches += [batch(6, PAIRS, leader_epoch=2)]
    assert epochs_against(tmp_path, batches, "0\n1\n2 5\n") == []


@pytest.mark.parametrize("epochs", ["0\n2\n2 0\n1 5\n", "0\n2\n1 5\n2 0\n", "0\n2\n1 0\n1 5\n"])
def test_entries_out_of_order_are_a_mismatch(tmp_path: Path, epochs: str):
    (finding,) = epochs_against(tmp_path, [batch(0, PAIRS, leader_epoch=1)], epochs)
    assert finding[0] == "epoch-cache-mismatch"


def test_a_cache_that_cannot_be_parsed_is_a_finding_and_no_entries(tmp_path: Path):
    contents = read_partition(partition(tmp_path, {0: batch(0, PAIRS)}, "0\n7\n"))
    assert contents.epoch_entries is None
    (finding,) = contents.findings
    assert finding.kind == "epoch-cache-mismatch"
    assert "leader-epoch-checkpoint, line 2" in finding.message


def test_a_replica_without_a_cache_is_clean(tmp_path: Path):
    contents = read_partition(partition(tmp_path, {0: message(0, b"k", b"v", magic=1)}))
    assert contents.epoch_entries is None
    assert contents.findings == ()
