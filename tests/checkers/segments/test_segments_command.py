"""The command that prints the batches of segments, by one process or by several in turn."""

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.findings import Finding
from kchaos.checkers.segments import __main__ as command
from kchaos.checkers.segments.__main__ import main
from kchaos.checkers.segments.batch import Batch
from kchaos.checkers.segments.reader import iter_batches, split_segment
from tests.support.segment_encoder import Pair, batch, message

PAIRS: list[Pair] = [(b"k", b"v")] * 5
COMMIT: list[Pair] = [(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 42))]
Reading = Callable[..., Iterator[Batch | Finding]]


def segment(tmp_path: Path, data: bytes, base_offset: int = 0) -> Path:
    file = tmp_path / f"{base_offset:020}.log"
    file.write_bytes(data)
    return file


def batches(count: int) -> bytes:
    return b"".join(batch(5 * number, PAIRS) for number in range(count))


def read_side_by_side(monkeypatch: pytest.MonkeyPatch, reading: Reading = iter_batches) -> None:
    """Have files of 3 kB and more read by `reading` in three processes, in slices of 1 kB."""
    monkeypatch.setattr(command, "_SLICE_BYTES", 1000)
    monkeypatch.setattr(command, "iter_batches", reading)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})


def test_the_command_prints_a_line_per_batch_and_per_finding(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = segment(tmp_path, batch(0, PAIRS) + batch(5, PAIRS)[:50])
    empty = segment(tmp_path, b"", 9)
    assert main(["--decode", str(file), str(empty)]) == 1
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == str(file)
    assert lines[1].startswith("baseOffset: 0 lastOffset: 4 count: 5 ")
    assert "payload: " in lines[1]
    assert lines[2].startswith("torn-tail: ")
    assert lines[3:] == [str(empty)]


def test_a_line_has_each_field_of_its_own_batch(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    produced = batch(
        0, PAIRS, leader_epoch=3, attributes=0x10, producer_id=9, producer_epoch=1, base_sequence=4
    )
    marker = batch(5, COMMIT, leader_epoch=4, attributes=0x30, producer_id=9, producer_epoch=2)
    legacy = message(6, b"k", b"v", magic=0)
    positions = (0, len(produced), len(produced + marker))
    assert main([str(segment(tmp_path, produced + marker + legacy))]) == 0
    lines = capfd.readouterr().out.splitlines()[1:]
    assert [line.partition(" crc: ")[0] for line in lines] == [
        "baseOffset: 0 lastOffset: 4 count: 5 baseSequence: 4 producerId: 9 producerEpoch: 1"
        f" partitionLeaderEpoch: 3 isTransactional: True isControl: False position: {positions[0]}"
        f" maxTimestamp: 2000 size: {len(produced)} magic: 2 compresscodec: none",
        "baseOffset: 5 lastOffset: 5 count: 1 baseSequence: -1 producerId: 9 producerEpoch: 2"
        f" partitionLeaderEpoch: 4 isTransactional: True isControl: True position: {positions[1]}"
        f" maxTimestamp: 2000 size: {len(marker)} magic: 2 compresscodec: none",
        "baseOffset: 6 lastOffset: 6 count: 1 baseSequence: -1 producerId: -1 producerEpoch: -1"
        f" partitionLeaderEpoch: -1 isTransactional: False isControl: False"
        f" position: {positions[2]} maxTimestamp: -1 size: {len(legacy)} magic: 0"
        " compresscodec: none",
    ]
    (crc,) = struct.unpack_from(">I", marker, 17)
    assert lines[1].partition(" crc: ")[2] == f"{crc} controlType: COMMIT"


@pytest.mark.parametrize("base_offset", [0, 10**20])
def test_the_command_prints_a_large_file_in_slices_as_it_prints_it_whole(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    base_offset: int,
) -> None:
    file = segment(tmp_path, batches(200) + batch(1000, PAIRS)[:50], base_offset)
    assert main(["--decode", str(file)]) == 1
    whole = capfd.readouterr().out
    readers = tmp_path / "readers"

    def note(*arguments: Any, **named: Any) -> Iterator[Batch | Finding]:
        with readers.open("a") as noted:
            noted.write(f"{os.getpid()}\n")
        return iter_batches(*arguments, **named)

    read_side_by_side(monkeypatch, note)
    assert main(["--decode", str(file)]) == 1
    assert capfd.readouterr().out == whole
    noted = readers.read_text().split()
    assert len(noted) > 10
    assert len(set(noted)) == 3
    assert str(os.getpid()) not in noted


@pytest.mark.parametrize(
    "slices_before", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2)), 7]
)
def test_the_command_says_that_a_reading_process_was_ended_and_leaves_no_hole(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    slices_before: int,
) -> None:
    data = batches(200)
    slices = tuple(split_segment(data, base_offset=0, target_bytes=1000))
    file = segment(tmp_path, data)
    assert main([str(file)]) == 0
    whole = capfd.readouterr().out
    parent = os.getpid()

    def ended(*arguments: Any, start_position: int, **named: Any) -> Iterator[Batch | Finding]:
        assert os.getpid() != parent
        if start_position == slices[slices_before].start_position:
            os.kill(os.getpid(), signal.SIGKILL)
        return iter_batches(*arguments, start_position=start_position, **named)

    read_side_by_side(monkeypatch, ended)
    assert main([str(file)]) == 70
    printed, said = capfd.readouterr()
    assert "a process that reads was ended" in said
    assert whole.startswith(printed)
    assert f"position: {slices[slices_before].start_position} " not in printed


@pytest.mark.parametrize("cores", [1, 3])
def test_an_error_in_reading_is_shown_and_is_no_finding(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cores: int
) -> None:
    def fails(*_: Any, **_named: Any) -> Iterator[Batch | Finding]:
        raise RuntimeError("planted")

    read_side_by_side(monkeypatch, fails)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    assert main([str(segment(tmp_path, batches(200)))]) == 70
    assert "RuntimeError: planted" in capfd.readouterr().err


@pytest.mark.slow
def test_a_reader_that_has_enough_ends_the_command_without_a_word(tmp_path: Path) -> None:
    program = (
        "import os, runpy, sys\n"
        "os.sched_getaffinity = lambda _: {0, 1}\n"
        "runpy.run_module('kchaos.checkers.segments', run_name='__main__', alter_sys=True)\n"
    )
    file = segment(tmp_path, batches(90_000))
    # Less is read by one process.
    assert file.stat().st_size > 2 * command._SLICE_BYTES
    with subprocess.Popen(
        [sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout
        assert process.stderr
        assert process.stdout.readline() == os.fsencode(file) + b"\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == -signal.SIGPIPE


@pytest.mark.parametrize("arguments", [[], ["--help"], ["absent.log"]])
def test_the_command_refuses_what_is_no_segment(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 64
    assert "usage: " in capsys.readouterr().err
