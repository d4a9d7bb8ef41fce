"""A replica's directory: its segments in order, and its leader epochs against its batches."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.findings import Finding
from kchaos.checkers.formats.checkpoints import EpochEntry
from kchaos.checkers.segments import __main__ as command
from kchaos.checkers.segments.__main__ import main
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.directory import partition_directories, read_partition, segment_files
from kchaos.checkers.segments.errors import SegmentError
from kchaos.checkers.segments.reader import iter_batches
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


def test_a_clean_directory_gives_every_segment_s_batches_and_no_finding(tmp_path: Path) -> None:
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


def test_files_that_a_broker_is_deleting_or_writing_anew_are_left_out(tmp_path: Path) -> None:
    directory = partition(tmp_path, {0: batch(0, PAIRS)})
    for suffix in (".log.deleted", ".log.cleaned", ".log.swap", ".index", ".timeindex"):
        (directory / f"{0:020}{suffix}").write_bytes(b"not a batch")
    assert [path.name for path in segment_files(directory)] == [f"{0:020}.log"]
    assert len(read_partition(directory).batches) == 1


def test_a_segment_without_an_offset_for_a_name_is_refused(tmp_path: Path) -> None:
    directory = partition(tmp_path, {})
    (directory / "server.log").write_bytes(b"")
    with pytest.raises(SegmentError, match="named by its base offset"):
        read_partition(directory)


@pytest.mark.parametrize("name", ["t-0.abc-delete", "t-0.abc-future", "t-0.abc-stray", "t", "t-x"])
def test_a_directory_that_is_no_live_partition_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(SegmentError, match="live partition"):
        read_partition(tmp_path / name)


def test_live_partitions_are_found_in_a_log_directory(tmp_path: Path) -> None:
    for name in ("t-1", "t-0", "a.b-c-10", "t-0.x-delete", "t-1.x-future", "t-2.x-stray", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "t-5").write_text("a file")
    assert [path.name for path in partition_directories(tmp_path)] == ["a.b-c-10", "t-0", "t-1"]


@pytest.mark.parametrize("tail", [bytes(100), batch(5, PAIRS)[:40]])
def test_a_torn_or_zero_tail_is_corruption_in_any_segment_but_the_last(
    tmp_path: Path, tail: bytes
) -> None:
    directory = partition(
        tmp_path, {0: batch(0, PAIRS) + tail, 10: batch(10, PAIRS) + batch(15, PAIRS)[:40]}
    )
    inner, last = read_partition(directory).findings
    assert inner.kind == "corrupt-batch"
    assert inner.evidence["tail"] == ("torn-tail" if any(tail) else "zero-tail")
    assert last.kind == "torn-tail"
    assert {(each.topic, each.partition) for each in (inner, last)} == {("my-topic", 3)}


def test_segments_that_overlap_give_a_finding(tmp_path: Path) -> None:
    directory = partition(tmp_path, {0: batch(0, PAIRS), 3: batch(3, PAIRS)})
    (finding,) = read_partition(directory).findings
    assert (finding.kind, finding.first_offset, finding.last_offset) == ("corrupt-batch", 3, 4)


def epochs_against(tmp_path: Path, batches: list[bytes], epochs: str) -> list[tuple[str, int, int]]:
    contents = read_partition(partition(tmp_path, {0: b"".join(batches)}, epochs))
    return [(each.kind, each.first_offset, each.last_offset) for each in contents.findings]


def test_a_batch_with_another_epoch_than_the_cache_says_is_a_mismatch(tmp_path: Path) -> None:
    batches = [batch(0, PAIRS, leader_epoch=1), batch(5, PAIRS, leader_epoch=2)]
    findings = epochs_against(tmp_path, batches, "0\n2\n1 0\n3 5\n")
    assert findings == [("epoch-cache-mismatch", 5, 9)]


def test_batches_that_are_contradicted_alike_share_a_finding(tmp_path: Path) -> None:
    batches = [batch(offset, PAIRS, leader_epoch=2) for offset in (0, 5, 10)]
    findings = epochs_against(tmp_path, batches, "0\n1\n1 0\n")
    assert findings == [("epoch-cache-mismatch", 0, 14)]


def test_an_epoch_that_begins_inside_a_batch_is_a_mismatch(tmp_path: Path) -> None:
    batches = [batch(0, PAIRS, leader_epoch=1)]
    assert epochs_against(tmp_path, batches, "0\n2\n1 0\n2 3\n") == [("epoch-cache-mismatch", 0, 4)]


def test_epochs_without_a_batch_are_no_mismatch(tmp_path: Path) -> None:
    batches = [batch(0, PAIRS, leader_epoch=1), batch(5, PAIRS, leader_epoch=4)]
    assert epochs_against(tmp_path, batches, "0\n5\n1 0\n2 5\n3 5\n4 5\n7 10\n") == []


def test_the_hole_of_kafka_6361_leaves_an_epoch_without_batches_and_no_mismatch(
    tmp_path: Path,
) -> None:
    batches = [batch(0, [(b"k", b"v")] * 11, leader_epoch=1), batch(21, PAIRS, leader_epoch=3)]
    assert epochs_against(tmp_path, batches, "0\n3\n1 0\n2 11\n3 21\n") == []


def test_batches_below_the_first_entry_and_of_old_magic_are_not_judged(tmp_path: Path) -> None:
    batches = [batch(0, PAIRS, leader_epoch=0), message(5, b"k", b"v", magic=1)]
    batches += [batch(6, PAIRS, leader_epoch=2)]
    assert epochs_against(tmp_path, batches, "0\n1\n2 5\n") == []


@pytest.mark.parametrize("epochs", ["0\n2\n2 0\n1 5\n", "0\n2\n1 5\n2 0\n", "0\n2\n1 0\n1 5\n"])
def test_entries_out_of_order_are_a_mismatch(tmp_path: Path, epochs: str) -> None:
    (finding,) = epochs_against(tmp_path, [batch(0, PAIRS, leader_epoch=1)], epochs)
    assert finding[0] == "epoch-cache-mismatch"


def test_a_cache_that_cannot_be_parsed_is_a_finding_and_no_entries(tmp_path: Path) -> None:
    contents = read_partition(partition(tmp_path, {0: batch(0, PAIRS)}, "0\n7\n"))
    assert contents.epoch_entries is None
    (finding,) = contents.findings
    assert finding.kind == "epoch-cache-mismatch"
    assert "leader-epoch-checkpoint, line 2" in finding.message


def test_a_replica_without_a_cache_is_clean(tmp_path: Path) -> None:
    contents = read_partition(partition(tmp_path, {0: message(0, b"k", b"v", magic=1)}))
    assert contents.epoch_entries is None
    assert contents.findings == ()


def test_the_command_prints_a_line_per_batch_and_per_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = partition(tmp_path, {0: batch(0, PAIRS) + batch(5, PAIRS)[:50], 9: b""})
    assert main(["--decode", *map(str, segment_files(directory))]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("baseOffset: 0 lastOffset: 4 count: 5 ")
    assert "payload: " in lines[1]
    assert lines[2].startswith("torn-tail: ")
    assert len(lines) == 4


def test_the_command_prints_a_large_file_in_slices_as_it_prints_it_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = b"".join(batch(5 * number, PAIRS) for number in range(200))
    (file,) = segment_files(partition(tmp_path, {0: batches + batch(1000, PAIRS)[:50]}))
    assert main(["--decode", str(file)]) == 1
    whole = capsys.readouterr().out
    readers = tmp_path / "readers"

    def note(*arguments: Any, **named: Any) -> Iterator[Batch | Finding]:
        with readers.open("a") as noted:
            noted.write(f"{os.getpid()}\n")
        return iter_batches(*arguments, **named)

    monkeypatch.setattr(command, "_SLICE_BYTES", 1000)
    monkeypatch.setattr(command, "iter_batches", note)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert main(["--decode", str(file)]) == 1
    assert capsys.readouterr().out == whole
    noted = readers.read_text().split()
    assert len(noted) > 10
    assert str(os.getpid()) not in noted


def test_the_command_says_that_a_reading_process_was_ended_and_tells_no_finding(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = b"".join(batch(5 * number, PAIRS) for number in range(200))
    (file,) = segment_files(partition(tmp_path, {0: batches}))
    parent = os.getpid()

    def ended(*_: Any, **_named: Any) -> Iterator[Batch | Finding]:
        assert os.getpid() != parent
        os.kill(os.getpid(), signal.SIGKILL)
        yield from ()

    monkeypatch.setattr(command, "_SLICE_BYTES", 1000)
    monkeypatch.setattr(command, "iter_batches", ended)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    assert main([str(file)]) == 70
    assert "a process that reads was ended" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--help"], ["absent.log"]])
def test_the_command_refuses_what_is_no_segment(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 64
    assert "usage: " in capsys.readouterr().err
