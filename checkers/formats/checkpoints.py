"""The small text files that a broker keeps beside its segments."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from kchaos.checkers.errors import CheckpointError

HIGH_WATERMARKS = "replication-offset-checkpoint"
"""Name of the offset checkpoint that holds high watermarks."""
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_MOST_DIGITS = 18
"""More would not always fit 64 bits."""
LOG_STARTS = "log-start-offset-checkpoint"
"""Name of the offset checkpoint that holds log start offsets, where they are not a segment's."""
RECOVERY_POINTS = "recovery-point-offset-checkpoint"
"""Name of the offset checkpoint that says up to where logs were flushed."""
CLEANED = "cleaner-offset-checkpoint"
"""Name of the offset checkpoint that says up to where compacted logs were cleaned."""
LEADER_EPOCHS = "leader-epoch-checkpoint"
"""Name of a partition's leader epoch checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochEntry:
    """One line of `leader-epoch-checkpoint`: `leader_epoch` began at `start_offset`, inclusive."""

    leader_epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadataFile:
    """Content of `partition.metadata` (2.8 and later): its version and the topic's base64 id."""

    version: int
    topic_id: str


def parse_leader_epoch_checkpoint(text: str, *, file: str) -> tuple[EpochEntry, ...]:
    """Return the entries of a `leader-epoch-checkpoint`, in file order (0.11 and later).

    A file that was made and not written yet is empty, and has no entries.

    Raises `CheckpointError`, with `file` and the line, for anything but version 0, a count, and
    that many lines of epoch and start offset. Whether epochs and offsets increase is not judged
    here: an old cache that does not is evidence (see `checkers.segments.directory`).
    """
    return tuple(
        EpochEntry(
            leader_epoch=_number(fields[0], file=file, line=line, what="leader epoch"),
            start_offset=_number(fields[1], file=file, line=line, what="start offset"),
        )
        for line, fields in _entries(text, file=file, fields_per_line=2)
    )


def parse_offset_checkpoint(text: str, *, file: str) -> dict[tuple[str, int], int]:
    """Return the offset of each topic and partition in an offset checkpoint.

    The files `replication-offset-checkpoint` (high watermarks), `recovery-point-offset-checkpoint`,
    `log-start-offset-checkpoint` and `cleaner-offset-checkpoint` of a log directory share this
    form, with version 0. One that was made and not written yet is empty, and has no entries.

    Raises `CheckpointError`, with `file` and the line, for any other form, and for a partition that
    is named twice.
    """
    offsets: dict[tuple[str, int], int] = {}
    for line, (topic, partition, offset) in _entries(text, file=file, fields_per_line=3):
        name = (topic, _number(partition, file=file, line=line, what="partition"))
        if name in offsets:
            raise CheckpointError(f"{file}, line {line}: {topic}-{partition} is there twice")
        offsets[name] = _number(offset, file=file, line=line, what="offset")
    return offsets


def joined_offsets(
    directories: Iterable[tuple[Mapping[tuple[str, int], int], Container[str]]],
) -> dict[tuple[str, int], int]:
    """Return what one checkpoint file says in all log directories of a broker.

    That one counts in which a partition's replica lies, whether it names it or not: no broker reads
    another (kafka.cluster.Partition, 1.1.1 and 2.8.2). Where it lies in none, any may name it.

    Args:
        directories: Of each the offsets in the file, and the names of the folders that lie there.
    """
    joined: dict[tuple[str, int], int] = {}
    read = tuple(directories)
    for offsets, names in read:
        for (topic, partition), offset in offsets.items():
            name = f"{topic}-{partition}"
            if name in names or not any(name in others for _, others in read):
                joined[topic, partition] = offset
    return joined


def parse_meta_properties(text: str, *, file: str) -> Mapping[str, str]:
    """Return the properties of a log directory's `meta.properties`: version, broker.id, ….

    Raises `CheckpointError`, with `file` and the line, for a line without "=", and for a file
    without a version or without the number of a broker (`broker.id`, or `node.id` in version 1).
    """
    properties = parse_properties(text, file=file)
    if "version" not in properties:
        raise CheckpointError(f"{file}: no line gives the version; the file is torn or not Kafka's")
    if "broker.id" not in properties and "node.id" not in properties:
        raise CheckpointError(f"{file}: neither broker.id nor node.id is there; the file is torn")
    return properties


def parse_properties(text: str, *, file: str) -> Mapping[str, str]:
    """Return what a properties file says, as Kafka and kchaos write them: a line for each.

    Raises `CheckpointError`, with `file` and the line, for a line without "=".
    """
    properties: dict[str, str] = {}
    for line, content in enumerate(text.splitlines(), start=1):
        stripped = content.strip()
        if not stripped or stripped[0] in "#!":
            continue
        name, separator, value = stripped.partition("=")
        if not separator:
            raise CheckpointError(f"{file}, line {line}: {content!r} is not name=value")
        properties[name.strip()] = _ESCAPED.sub(_unescaped, value.strip())
    return properties


def _unescaped(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else match[2]


def parse_partition_metadata(text: str, *, file: str) -> PartitionMetadataFile:
    """Return what a `partition.metadata` says (Kafka's PartitionMetadataFile, 2.8 and later).

    Raises `CheckpointError`, with `file` and the line, for any other form.
    """
    values: dict[str, str] = {}
    for line, content in enumerate(text.splitlines(), start=1):
        name, separator, value = content.partition(": ")
        if not separator or not value.strip():
            raise CheckpointError(f"{file}, line {line}: {content!r} is not 'name: value'")
        values[name] = value.strip()
    for name in ("version", "topic_id"):
        if name not in values:
            raise CheckpointError(f"{file}: the line of {name} is missing; the file is torn")
    version = _number(values["version"], file=file, line=1, what="version")
    return PartitionMetadataFile(version=version, topic_id=values["topic_id"])


def _entries(text: str, *, file: str, fields_per_line: int) -> Iterator[tuple[int, list[str]]]:
    if not text:
        # A broker makes the file empty when it first names it, and reads it back as no entries
        # (OffsetCheckpoint in 0.10.2, CheckpointFile since 0.11).
        return
    lines = text.splitlines()
    if len(lines) < 2:
        raise CheckpointError(f"{file}, line {len(lines) + 1}: the version or the count is missing")
    version = _number(lines[0], file=file, line=1, what="version")
    if version != 0:
        raise CheckpointError(f"{file}, line 1: version {version} is not known, only version 0 is")
    count = _number(lines[1], file=file, line=2, what="count")
    entries = lines[2:]
    if len(entries) != count:
        raise CheckpointError(
            f"{file}, line 2: {count} entries are announced and {len(entries)} are there"
        )
    for line, content in enumerate(entries, start=3):
        fields = content.split()
        if len(fields) != fields_per_line:
            raise CheckpointError(
                f"{file}, line {line}: {content!r} has {len(fields)} fields, not {fields_per_line}"
            )
        yield line, fields


def _number(text: str, *, file: str, line: int, what: str) -> int:
    stripped = text.strip()
    digits = stripped[1:] if stripped.startswith("-") else stripped
    # Only these: int() would also take underscores and digits of other scripts.
    if not (digits.isascii() and digits.isdigit()) or len(digits) > _MOST_DIGITS:
        raise CheckpointError(f"{file}, line {line}: the {what} {text!r} is not a number")
    return int(stripped)
