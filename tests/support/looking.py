"""Values that the cases look for in a run directory."""

import re
from collections.abc import Iterator
from typing import Any

from kchaos.checkers.formats.checkpoints import (
    LEADER_EPOCHS,
    parse_leader_epoch_checkpoint,
    parse_offset_checkpoint,
)
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.segments.directory import read_partition
from kchaos.checkers.segments.reader import read_records


def number(release: str) -> tuple[int, ...]:
    """The release as a tuple that compares by age."""
    return tuple(int(part) for part in release.split("."))


def log_lines(run: RunDirectory, broker: int, pattern: str) -> list[str]:
    """The lines of a broker's server.log in which the expression is found."""
    text = (run.path / f"brokers/{broker}/server.log").read_text(errors="replace")
    return [line for line in text.splitlines() if re.search(pattern, line)]


def messages(
    run: RunDirectory, api: str, source: int | None = None, target: int | None = None, **wanted: Any
) -> Iterator[dict[str, Any]]:
    """Lines of links.jsonl of this API (Kafka's spelling), with all the wanted fields."""
    for line in run.read_lines("links.jsonl"):
        if line["api"] != api or source not in (None, line["source"]):
            continue
        if target in (None, line["target"]) and wanted.items() <= line.items():
            yield line


def of_partition(line: dict[str, Any], topic: str = "t", partition: int = 0) -> dict[str, Any]:
    """What a message says of one partition; empty if it does not name it."""
    for entry in (line["detail"] or {}).get("partitions", ()):
        if (entry.get("topic"), entry.get("partition")) == (topic, partition):
            return dict(entry)
    return {}


def high_watermark(run: RunDirectory, snapshot: str, broker: int) -> int | None:
    """The high watermark of t-0 in a snapshot's checkpoint."""
    name = f"snapshots/{snapshot}/broker-{broker}/replication-offset-checkpoint"
    offsets = parse_offset_checkpoint((run.path / name).read_text(), file=name)
    return offsets.get(("t", 0))


def observations(run: RunDirectory, kind: str) -> list[dict[str, Any]]:
    """The observations of one kind, oldest first."""
    return [line for line in run.read_lines("observations.jsonl") if line["kind"] == kind]


def actions(run: RunDirectory, event: str) -> list[dict[str, Any]]:
    """The model's actions of one kind, oldest first."""
    told = [line["action"] for line in run.read_lines("actions.jsonl")]
    return [action for action in told if action["event"] == event]


def answer(run: RunDirectory, operation: str) -> dict[str, Any]:
    """The last line of the history about an operation."""
    return [line for line in run.read_lines("history.jsonl") if line["operation"] == operation][-1]


def values(run: RunDirectory, snapshot: str, broker: int) -> list[str]:
    """The values of t-0's records in a snapshot, in the order of their offsets."""
    folder = run.path / f"snapshots/{snapshot}/broker-{broker}/t-0"
    collected: list[str] = []
    for batch in read_partition(folder, decode_records=False).batches:
        data = (folder / batch.file).read_bytes()
        collected.extend((record.value or b"").decode() for record in read_records(data, batch))
    return collected


def leader_epochs(run: RunDirectory, snapshot: str, broker: int) -> list[tuple[int, int]]:
    """t-0's leader-epoch-checkpoint in a snapshot: (leader epoch, start offset) of each entry."""
    file = run.path / f"snapshots/{snapshot}/broker-{broker}/t-0/{LEADER_EPOCHS}"
    entries = parse_leader_epoch_checkpoint(file.read_text(), file=file.name)
    return [(entry.leader_epoch, entry.start_offset) for entry in entries]
