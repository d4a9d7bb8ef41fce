"""The storage of a KRaft node, beside what Kafka's own tool writes."""

import re
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from kchaos.checkers.formats.batches import BATCH_HEADER, entries
from kchaos.clusters.errors import MachineError
from kchaos.clusters.kafka.distribution import java_of, resolve
from kchaos.clusters.releases import release_of
from kchaos.clusters.start.configuration import properties_text
from kchaos.clusters.start.kraft_storage import (
    BOOTSTRAP,
    META_PROPERTIES,
    METADATA_FOLDER,
    bootstrap_checkpoint,
    directory_id,
    format_storage,
    new_id,
    write_first_voters,
)

CLUSTER, OTHER = "rRQpnIO3SGmJ0iREQGJu_A", "dPqzXBF9R62RFACGSg5c-Q"
# A snapshot's header has the time at which the tool ran.
_HEADER = re.compile(rb"(\x08\0\0\0\x03\x16\0\0).{8}", re.S)


def test_a_folder_is_formatted_once_and_keeps_its_identity(tmp_path: Path):
    format_storage(tmp_path / "data", cluster_id=CLUSTER, node_id=2)
    first = (tmp_path / "data" / META_PROPERTIES).read_text()
    assert f"cluster.id={CLUSTER}\n" in first
    assert "node.id=2\nversion=1\n" in first
    format_storage(tmp_path / "data", cluster_id=CLUSTER, node_id=2)
    assert (tmp_path / "data" / META_PROPERTIES).read_text() == first


def test_a_folder_of_another_cluster_is_refused(tmp_path: Path):
    format_storage(tmp_path, cluster_id=OTHER, node_id=2)
    with pytest.raises(MachineError, match=f"is of cluster {OTHER}, and node 2 is of .*{CLUSTER}"):
        format_storage(tmp_path, cluster_id=CLUSTER, node_id=2)


def test_ids_have_the_length_of_kafkas_and_no_dash_in_front():
    ids = [new_id() for _ in range(500)]
    assert {len(each) for each in ids} == {22}
    assert len(set(ids)) == 500
    assert not any(each.startswith("-") for each in ids)


def test_the_bootstrap_has_its_levels_between_a_header_and_a_footer():
    written = bootstrap_checkpoint({"metadata.version": 27}, timestamp_ms=5)
    batches = [*entries(memoryview(written), len(written))]
    assert [(batch.offset, batch.last_offset, batch.leader_epoch) for batch in batches] == [
        (0, 0, 0),
        (1, 1, 0),
        (2, 2, 0),
    ]
    assert b"\x01\x0c\x00\x11metadata.version\x00\x1b\x00" in written


@pytest.mark.cluster
@pytest.mark.parametrize("release", ["3.9.1", "4.1.2"])
def test_the_bootstrap_is_the_one_that_kafka_storage_writes(release: str, tmp_path: Path):
    """Its three batches bear the time at which each was written: that is taken from the tool."""
    format_by_kafka(release, tmp_path, {"controller.quorum.voters": "100@127.0.0.1:9093"})
    theirs = (tmp_path / "data" / BOOTSTRAP).read_bytes()

    levels = {name: level for name, level in release_of(release).feature_levels.items() if level}
    assert_equal(bootstrap_checkpoint(levels, timestamp_ms=0), theirs)


@pytest.mark.cluster
@pytest.mark.parametrize("release", ["3.9.1", "4.1.2"])
def test_the_first_voters_are_named_as_kafka_storage_does(release: str, tmp_path: Path):
    servers = {"controller.quorum.bootstrap.servers": "127.0.0.1:9093"}
    format_by_kafka(release, tmp_path, servers, "--standalone")
    checkpoint = Path(METADATA_FOLDER) / "00000000000000000000-0000000000.checkpoint"
    theirs = (tmp_path / "data" / checkpoint).read_bytes()

    voters = {100: (directory_id(tmp_path / "data"), "127.0.0.1:9093")}
    write_first_voters(tmp_path, voters, name="CONTROLLER")
    ours = (tmp_path / checkpoint).read_bytes()
    assert_equal(*(_HEADER.sub(rb"\1" + bytes(8), read) for read in (ours, theirs)))
    levels = {name: level for name, level in release_of(release).feature_levels.items() if level}
    bootstrap = bootstrap_checkpoint(levels, timestamp_ms=0)
    assert_equal(bootstrap, (tmp_path / "data" / BOOTSTRAP).read_bytes())


def format_by_kafka(release: str, tmp_path: Path, quorum: Mapping[str, str], *more: str) -> None:
    said = {
        "process.roles": "controller",
        "node.id": "100",
        "controller.listener.names": "CONTROLLER",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
        **quorum,
        "log.dir": str(tmp_path / "data"),
    }
    (tmp_path / "server.properties").write_text(properties_text(said))
    distribution = resolve(release)
    command = [
        *(str(java_of(distribution) / "bin" / "java"), "-cp"),
        ":".join(map(str, distribution.class_path)),
        *("kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER),
        *("--config", str(tmp_path / "server.properties"), *more),
    ]
    subprocess.run(command, check=True, capture_output=True)


def assert_equal(ours: bytes, theirs: bytes) -> None:
    assert len(ours) == len(theirs)
    assert values_of(ours) == values_of(theirs)
    assert headers_of(ours) == headers_of(theirs)


def headers_of(checkpoint: bytes) -> list[tuple[int, ...]]:
    """The fields of each batch's header; without its times, and the CRC that covers them."""
    entries_read = entries(memoryview(checkpoint), len(checkpoint))
    fields = [BATCH_HEADER.unpack_from(checkpoint, batch.position) for batch in entries_read]
    return [(*each[:4], *each[5:7], *each[9:]) for each in fields]


def values_of(checkpoint: bytes) -> list[list[bytes]]:
    """The records of each batch as they are, sorted: the tool's own order is that of a hash map."""
    collected = []
    for batch in entries(memoryview(checkpoint), len(checkpoint)):
        body = checkpoint[batch.position + BATCH_HEADER.size : batch.position + batch.size_bytes]
        records = []
        while body:
            size = 1 + (body[0] >> 1)
            assert not body[0] & 1
            # Length, attributes, time and offset in front: the offset follows the order.
            records.append(struct.pack(">B", body[0]) + body[4:size])
            body = body[size:]
        collected.append(sorted(records))
    return collected
