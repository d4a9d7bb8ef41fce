"""Metadata logs of real KRaft clusters, and logs made by hand.

`tests/checkers/metadata_logs/RELEASE-CONTROLLERS.tar.gz` has what a run directory has of one
cluster with brokers 0 to 2, made on one machine by Kafka's own jars: the log of each node and its
meta.properties, and the release's definitions without their comments. `dump.txt` is what Kafka's
DumpLogSegments with --cluster-metadata-decoder printed of controller 100's log; that of 4.4.0,
whose tools are not published, was printed by 4.3.1's.

In each a topic t with one partition on three replicas was made, five records were written, a
follower was killed and started again, the leader was stopped in order and started again, and the
topic was deleted. In `4.1.2-3` the first of three controllers was killed before the leader stopped,
and started again. In `4.1.2-1s` snapshots were taken often.
"""

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kchaos.checkers.archives import extract
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.metadata import MetadataLogs
from kchaos.checkers.formats.metadata_records import MetadataRecord, RecordDefinitions
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.segments.reader import read_records, read_segment
from kchaos.clusters.start.kraft_storage import voters_record
from tests.support.segment_encoder import batch

FOLDER = Path(__file__).parents[1] / "checkers" / "metadata_logs"
CONTROL = 0x20
FIRST_SEGMENT = f"{0:020d}.log"


def unpack(name: str, folder: Path) -> Path:
    """Unpacks one of the stored logs; returns the folder that has `metadata/` and `dump.txt`."""
    with tarfile.open(FOLDER / f"{name}.tar.gz") as archive:
        extract(archive, folder)
    return folder


def logs_in(folder: Path) -> MetadataLogs:
    """The metadata logs of a folder that has `metadata/`."""
    return MetadataLogs(EvidenceFiles(RunDirectory(folder)), brokers=(0, 1, 2))


def metadata_batch(
    definitions: RecordDefinitions,
    base_offset: int,
    records: Sequence[tuple[str, int, Mapping[str, Any]]],
    *,
    leader_epoch: int = 1,
    timestamp: int = 1000,
) -> bytes:
    """One batch of metadata records: name, version and fields of each."""
    values = [
        definitions.encode(MetadataRecord(name=name, version=version, fields=fields))
        for name, version, fields in records
    ]
    pairs = [(None, value) for value in values]
    return batch(base_offset, pairs, leader_epoch=leader_epoch, timestamp=timestamp)


def rewritten(
    segment: bytes, definitions: RecordDefinitions, offset: int, fields: Mapping[str, Any]
) -> bytes:
    """A segment in which the record at an offset has other values in some of its fields."""
    content = b""
    for each in read_segment(segment, base_offset=0, file="the log").batches:
        if not each.base_offset <= offset <= each.last_offset:
            content += segment[each.position : each.position + each.size_bytes]
            continue
        found = read_records(segment, each)
        records = [definitions.decode(record.value or b"") for record in found]
        place = offset - each.base_offset
        changed = {**records[place].fields, **fields}
        records[place] = replace(records[place], fields=changed)
        content += metadata_batch(
            definitions,
            each.base_offset,
            [(record.name, record.version, record.fields) for record in records],
            leader_epoch=each.leader_epoch,
            timestamp=found[0].timestamp,
        )
    return content


def leader_change(
    base_offset: int,
    leader: int,
    voters: Sequence[int],
    *,
    leader_epoch: int = 1,
    timestamp: int = 1000,
) -> bytes:
    """The batch with which a leader of the quorum begins its epoch."""
    named = b"".join(voter.to_bytes(4, "big") + b"\0" for voter in voters)
    array = bytes([len(voters) + 1]) + named
    value = b"\0\0" + leader.to_bytes(4, "big") + array + array + b"\0"
    return batch(
        base_offset,
        [(b"\0\0\0\2", value)],
        leader_epoch=leader_epoch,
        attributes=CONTROL,
        timestamp=timestamp,
    )


def voters(base_offset: int, directories: Mapping[int, str], *, leader_epoch: int = 1) -> bytes:
    """The voters of a dynamic quorum by their directory ids, in a batch of its own (KIP-853)."""
    named = {voter: (directory, "127.0.0.1:9093") for voter, directory in directories.items()}
    record = voters_record(named, name="CONTROLLER")
    return batch(base_offset, [record], attributes=CONTROL, leader_epoch=leader_epoch)
