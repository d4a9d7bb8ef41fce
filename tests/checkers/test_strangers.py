"""Run directories that somebody else made: they lead kchaos nowhere and hold nothing up."""

import gzip
import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import cramjam
import pytest
from crc32c import crc32c

from kchaos.checkers.errors import RunDirectoryError, ScenarioDataError
from kchaos.checkers.formats.partition_names import topic_partition
from kchaos.checkers.judge import judge
from kchaos.checkers.opening import MOST_NESTED_JSON, bounded_json
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from kchaos.checkers.searching import first_match
from kchaos.checkers.segments import compression
from kchaos.checkers.segments.compression import UndecodableError, decompress
from kchaos.checkers.segments.reader import read_segment
from tests.support.clean_runs import clean_run, clean_snapshot, unknown_of
from tests.support.run_builder import segment


def clean(path: Path) -> RunDirectory:
    return clean_snapshot(clean_run(path)).seal()


def put(file: Path, how: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    if how == "link":
        file.symlink_to("/etc/hostname")
    elif how == "device":
        file.symlink_to("/dev/zero")
    else:
        os.mkfifo(file)


@pytest.mark.parametrize("how", ["link", "device", "pipe"])
@pytest.mark.parametrize(
    "name",
    ["brokers/0/server.log", "snapshots/final/broker-0/t-0/1.log", "judgements", "more/deep"],
)
def test_what_is_no_file_is_refused_by_its_name(name: str, how: str, tmp_path: Path):
    run = clean(tmp_path / "run")
    (run.path / name).unlink(missing_ok=True)
    put(run.path / name, how)

    with pytest.raises(RunDirectoryError, match=name.split("/")[-1]):
        RunDirectory.open(run.path)


@pytest.mark.parametrize("name", ["run.json", "scenario.json", MANIFEST])
def test_a_link_in_place_of_a_file_is_not_followed(name: str, tmp_path: Path):
    run = clean(tmp_path / "run")
    (run.path / name).rename(tmp_path / "outside")
    (run.path / name).symlink_to(tmp_path / "outside")

    with pytest.raises(RunDirectoryError):
        RunDirectory.open(run.path)


def test_a_run_that_is_reached_by_a_link_is_judged(tmp_path: Path):
    clean(tmp_path / "run")
    (tmp_path / "latest").symlink_to("run")

    assert judge(RunDirectory.open(tmp_path / "latest")).expected


@pytest.mark.parametrize("deep", [MOST_NESTED_JSON + 1, 100_000])
def test_json_that_is_nested_too_deep_is_refused_before_it_is_parsed(deep: int):
    with pytest.raises(ValueError, match="nested deeper"):
        bounded_json(b'{"a": ' + b"[" * deep + b"]" * deep + b"}")


def test_lines_with_the_same_texts_in_their_fields_have_them_once():
    first, second = (bounded_json(b'{"client_id": "a client"}') for _ in range(2))

    assert first["client_id"] is second["client_id"]


def test_brackets_in_texts_are_no_depth():
    assert bounded_json(json.dumps({"a": '[{"' * 500}).encode()) == {"a": '[{"' * 500}


@pytest.mark.parametrize("text", [b"NaN", b"-Infinity", b'"\\ud800"', b"\xff", b"1e999999"])
def test_json_that_nothing_writes_is_refused_or_finite(text: bytes):
    if text == b"1e999999":
        assert bounded_json(text) == float("inf")  # The shapes refuse it, field by field.
        return
    with pytest.raises(ValueError, match=r"."):
        bounded_json(text)


@pytest.mark.parametrize("name", ["../etc-0", "/etc/x-0", "..-0", "t-00", "t-99999999999", "-0"])
def test_a_name_that_is_no_partition_s_is_none(name: str):
    assert topic_partition(name) is None


@pytest.mark.slow
def test_a_pattern_that_takes_for_ever_is_given_up():
    with pytest.raises(ScenarioDataError, match="no end was in sight"):
        first_match("(a+)+$", [["a" * 40 + "b"]], timeout_s=0.5)


def test_a_pattern_that_is_found_gives_its_line():
    assert first_match("tw.", [["one"], ["zero", "two"]]) == "two"
    assert first_match("three", [["one"]]) is None


def test_a_pattern_that_is_none_is_told():
    with pytest.raises(ScenarioDataError, match="unterminated"):
        first_match("(", [["one"]])


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_a_batch_decompresses_to_no_more_than_the_bound(
    codec: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(compression, "MOST_BYTES", 100_000)
    packs: dict[str, Any] = {
        "gzip": gzip.compress,
        "lz4": cramjam.lz4.compress,
        "zstd": cramjam.zstd.compress,
        "snappy": cramjam.snappy.compress_raw,
    }
    pack = packs[codec]

    assert decompress(codec, bytes(pack(bytes(100_000))), magic=2) == bytes(100_000)
    with pytest.raises(UndecodableError, match="more than 100000 bytes"):
        decompress(codec, bytes(pack(bytes(100_001))), magic=2)


def test_a_snappy_block_that_claims_gigabytes_takes_none():
    with pytest.raises(UndecodableError, match="decompresses to more than"):
        decompress("snappy", b"\xff\xff\xff\xff\x0f" + b"x" * 10, magic=2)


@pytest.mark.parametrize("offset", [2**63 - 1, 2**63 - 2, -(2**63)])
def test_offsets_at_the_ends_of_their_range_are_findings(offset: int):
    segment_ = segment([(0, 1, ["a", "b"])])
    seen = read_segment(
        struct.pack(">q", offset) + segment_[8:] + b"torn", base_offset=0, file="0.log"
    )

    assert "corrupt-batch" in {finding.kind for finding in seen.findings}
    assert all(batch.last_offset < 2**63 - 1 for batch in seen.batches)


def test_a_message_with_an_offset_beyond_the_largest_is_a_finding():
    body = b"\1\0" + struct.pack(">q", 1000) + struct.pack(">i", -1) + struct.pack(">i", 1) + b"v"
    message = struct.pack(">I", zlib.crc32(body)) + body
    entry = struct.pack(">qi", 2**63 - 1, len(message)) + message

    (finding,) = read_segment(entry, base_offset=0, file="0.log").findings

    assert "it would have the offset 9223372036854775807" in finding.message


def test_more_records_than_are_read_of_a_batch_are_a_finding():
    first = bytearray(segment([(0, 1, ["a"])]))
    struct.pack_into(">i", first, 23, 2_000_000)
    struct.pack_into(">i", first, 57, 2_000_001)
    struct.pack_into(">I", first, 17, crc32c(bytes(first[21:])))

    (finding,) = read_segment(bytes(first), base_offset=0, file="0.log").findings

    assert "at most 1000000 of a batch are read" in finding.message


def test_a_run_without_zookeeper_s_log_is_unknown(tmp_path: Path):
    build = clean_snapshot(clean_run(tmp_path / "run"))

    def lose(run: RunDirectory) -> None:
        (run.path / "zookeeper/member-1/log.1").unlink()

    assert "there is no log of ZooKeeper" in unknown_of(judge(build.seal(before=lose)))
