"""The command that prints the batches of segments."""

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.findings import Finding
from kchaos.checkers.segments import __main__ as command
from kchaos.checkers.segments.__main__ import main
from kchaos.checkers.segments.batch import Batch
from tests.support.segment_encoder import Pair, batch, message

PAIRS: list[Pair] = [(b"k", b"v")] * 5
COMMIT: list[Pair] = [(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 42))]


def segment(tmp_path: Path, data: bytes, base_offset: int = 0) -> Path:
    file = tmp_path / f"{base_offset:020}.log"
    file.write_bytes(data)
    return file


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


def test_an_error_in_reading_is_shown_and_is_no_finding(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **_named: Any) -> Iterator[Batch | Finding]:
        raise RuntimeError("planted")

    monkeypatch.setattr(command, "iter_batches", fails)
    assert main([str(segment(tmp_path, batch(0, PAIRS)))]) == 70
    assert "RuntimeError: planted" in capfd.readouterr().err


@pytest.mark.slow
def test_a_reader_that_has_enough_ends_the_command_without_a_word(tmp_path: Path) -> None:
    # More lines than a pipe holds.
    data = b"".join(batch(5 * number, PAIRS) for number in range(2000))
    file = segment(tmp_path, data)
    with subprocess.Popen(
        [sys.executable, "-m", "kchaos.checkers.segments", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
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
