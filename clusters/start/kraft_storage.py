"""The storage of a KRaft node, written as ``kafka-storage format`` does, without its JVM.

A node starts on a folder that has ``meta.properties``. The first active controller also reads the
feature levels of the new cluster, which are a small snapshot, ``bootstrap.checkpoint``: control
records around one batch of metadata records. The first voters of a dynamic quorum also have a
snapshot of the metadata log that names them. Sources: ``MetaProperties``, ``BootstrapDirectory``,
``Formatter``, ``RecordsSnapshotWriter``, ``SnapshotHeaderRecord.json``,
``SnapshotFooterRecord.json``, ``VotersRecord.json`` and ``FeatureLevelRecord.json`` of Kafka 3.9.
"""

import base64
import re
import struct
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from crc32c import crc32c

from kchaos.checkers.formats.checkpoints import parse_meta_properties
from kchaos.checkers.formats.fields import unsigned_varint, varint
from kchaos.clusters.errors import MachineError
from kchaos.clusters.start.configuration import properties_text

META_PROPERTIES = "meta.properties"
BOOTSTRAP = "bootstrap.checkpoint"
METADATA_FOLDER = "__cluster_metadata-0"
"""The folder of a node's copy of the metadata log, in its log.dir."""

_CONTROL = 0x20
_SNAPSHOT_HEADER, _SNAPSHOT_FOOTER = 3, 4
_KRAFT_VERSION, _VOTERS = 5, 6
_FIRST_VOTERS = "00000000000000000000-0000000000.checkpoint"
_FRAME_VERSION, _FEATURE_LEVEL = 1, 12
_CLUSTER_ID = re.compile(r"^cluster\.id=(.*)$", re.M)


def new_id() -> str:
    """Return an id of a cluster or a directory: a random UUID in 22 characters of base64."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # Kafka's command line takes a leading dash for an option, so Kafka makes none either.
        if not text.startswith("-"):
            return text


def format_storage(folder: Path, *, cluster_id: str, node_id: int) -> bool:
    """Make the folder a node's log.dir; return False for one that has been formatted before.

    Raises:
        MachineError: The folder belongs to another cluster.
    """
    file = folder / META_PROPERTIES
    if file.is_file():
        match = _CLUSTER_ID.search(file.read_text(encoding="utf-8"))
        if match is None or match[1].replace("\\", "") != cluster_id:
            raise MachineError(
                f"{file} is of cluster {match[1] if match else 'unknown'}, and node {node_id} is "
                f"of cluster {cluster_id}: give it another folder"
            )
        return False
    folder.mkdir(parents=True, exist_ok=True)
    said = {
        "version": "1",
        "cluster.id": cluster_id,
        "node.id": str(node_id),
        "directory.id": new_id(),
    }
    unfinished = file.with_name(f".{META_PROPERTIES}")
    unfinished.write_text(properties_text(said), encoding="utf-8")
    unfinished.replace(file)
    return True


def directory_id(folder: Path) -> str:
    """Return the id of a directory that has been formatted."""
    file = folder / META_PROPERTIES
    properties = parse_meta_properties(file.read_text(encoding="utf-8"), file=str(file))
    return properties["directory.id"]


def write_first_voters(folder: Path, voters: Mapping[int, tuple[str, str]], *, name: str) -> None:
    """Write the first voters of a dynamic quorum into the log.dir of one of them.

    Args:
        folder: The log.dir.
        voters: Directory id and address of each by its node id.
        name: Of the listener that has the address.
    """
    control = [
        (_control_key(_SNAPSHOT_HEADER), struct.pack(">hqb", 0, 0, 0)),
        (_control_key(_KRAFT_VERSION), struct.pack(">hhb", 0, 1, 0)),
        voters_record(voters, name=name),
    ]
    footer = (_control_key(_SNAPSHOT_FOOTER), struct.pack(">hb", 0, 0))
    written = record_batch(0, control, attributes=_CONTROL)
    written += record_batch(len(control), [footer], attributes=_CONTROL)
    log = folder / METADATA_FOLDER
    log.mkdir(exist_ok=True)
    (log / _FIRST_VOTERS).write_bytes(written)


def voters_record(
    voters: Mapping[int, tuple[str, str]], *, name: str
) -> tuple[bytes | None, bytes]:
    """Return the control record that names the voters, as its key and value."""
    value = struct.pack(">h", 0) + unsigned_varint(len(voters) + 1)
    for voter, (directory, address) in voters.items():
        host, _, port = address.rpartition(":")
        value += struct.pack(">i", voter) + base64.urlsafe_b64decode(f"{directory}==")
        value += unsigned_varint(2) + _text(name) + _text(host) + struct.pack(">H", int(port))
        # No tags of the endpoint; kraft.version from 0 to 1, and no tags of these and of the voter.
        value += b"\0" + struct.pack(">hh", 0, 1) + b"\0\0"
    return _control_key(_VOTERS), value + b"\0"


def write_bootstrap(folder: Path, features: Mapping[str, int], *, timestamp_ms: int) -> None:
    """Write the feature levels of a new cluster for a controller, which reads them once."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / BOOTSTRAP).write_bytes(bootstrap_checkpoint(features, timestamp_ms=timestamp_ms))


def bootstrap_checkpoint(features: Mapping[str, int], *, timestamp_ms: int) -> bytes:
    """Return a snapshot that has these feature levels, in the order given, and nothing else."""
    header = (_control_key(_SNAPSHOT_HEADER), struct.pack(">hqb", 0, 0, 0))
    levels = [(None, _feature_level(name, level)) for name, level in features.items()]
    footer = (_control_key(_SNAPSHOT_FOOTER), struct.pack(">hb", 0, 0))
    batches = ((_CONTROL, [header]), (0, levels), (_CONTROL, [footer]))
    written, offset = b"", 0
    for attributes, records in batches:
        written += record_batch(offset, records, attributes=attributes, timestamp_ms=timestamp_ms)
        offset += len(records)
    return written


def _control_key(kind: int) -> bytes:
    return struct.pack(">hh", 0, kind)


def _feature_level(name: str, level: int) -> bytes:
    frame = bytes((_FRAME_VERSION, _FEATURE_LEVEL, 0))
    return frame + _text(name) + struct.pack(">hb", level, 0)


def _text(text: str) -> bytes:
    return unsigned_varint(len(text.encode()) + 1) + text.encode()


def record_batch(
    base_offset: int,
    records: Sequence[tuple[bytes | None, bytes]],
    *,
    attributes: int = 0,
    leader_epoch: int = 0,
    timestamp_ms: int = 0,
) -> bytes:
    """Return a record batch of format 2 and no producer; a record is its key and its value."""
    body = b"".join(_encoded(index, key, value) for index, (key, value) in enumerate(records))
    last = len(records) - 1
    covered = struct.pack(
        ">hiqqqhii", attributes, last, timestamp_ms, timestamp_ms, -1, -1, -1, len(records)
    )
    covered += body
    rest = struct.pack(">ibI", leader_epoch, 2, crc32c(covered)) + covered
    return struct.pack(">qi", base_offset, len(rest)) + rest


def _encoded(offset_delta: int, key: bytes | None, value: bytes) -> bytes:
    inside = b"\0" + varint(0) + varint(offset_delta)
    inside += varint(-1) if key is None else varint(len(key)) + key
    inside += varint(len(value)) + value + varint(0)
    return varint(len(inside)) + inside
