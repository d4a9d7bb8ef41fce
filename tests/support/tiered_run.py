"""A run directory with one snapshot of a tiered partition, literal: what is local and remote."""

import json
from pathlib import Path
from typing import Any

from kchaos.checkers.run_directory import RunDirectory
from tests.support.run_builder import segment
from tests.support.segment_encoder import batch

STARTED = bytes.fromhex(
    "0100000274ce3d36176e3c489b88a7b33d793663400000000000732e65e8b0e84a018c57ddc4080e85930000000000"
    "00000003000000000000000500000000000001a200fe457a000001a200fe46f40300000001000000000000000300000"
    "00002000000000000000500000000fc000000"
)
FINISHED = bytes.fromhex(
    "0101000274ce3d36176e3c489b88a7b33d793663400000000000732e65e8b0e84a018c57ddc4080e85930000000000"
    "000001a200fe47c6000100"
)
SEGMENT_ID, TOPIC_ID = "cy5l6LDoSgGMV93ECA6Fkw", "zj02F248SJuIp7M9eTZjQA"
REMOTE_LOG = ((3, 1, 3), (4, 1, 4), (5, 2, 5))
LOCAL_LOG = ((6, 2, 6), (7, 4, 7))
CHAIN = ((0, 0), (1, 3), (2, 5))


def log_of(records: tuple[tuple[int, int, int], ...]) -> bytes:
    """One batch for each (offset, leader epoch, number of the message)."""
    return segment([(at, epoch, [f"message-{number:06d}-0"]) for at, epoch, number in records])


def checkpoint(entries: tuple[tuple[int, int], ...]) -> str:
    lines = [f"{epoch} {start}" for epoch, start in entries]
    return "\n".join(["0", str(len(lines)), *lines, ""])


def tiered_run(
    path: Path,
    *,
    label: str = "step-1",
    scenario: dict[str, Any] | None = None,
    local: tuple[tuple[int, int, int], ...] = LOCAL_LOG,
    told: tuple[bytes, ...] = (STARTED, FINISHED),
    is_stored: bool = True,
) -> RunDirectory:
    """Broker 0 leads t-0, broker 2 has the metadata topic; segment 3 to 5 is in the store."""
    run = RunDirectory.create(
        path,
        run={"started_at": 1.0, "brokers": {"0": {"release": "3.9.1"}, "2": {"release": "3.9.1"}}},
        scenario={"entry": "KIP-405-1", "cluster": {"tiered": True}, **(scenario or {})},
    )
    root = run.path / "snapshots" / label
    files: dict[str, bytes] = {
        "broker-0/t-0/00000000000000000006.log": log_of(local),
        "broker-0/t-0/leader-epoch-checkpoint": checkpoint((*CHAIN, (4, 7))).encode(),
        "broker-2/__remote_log_metadata-0/00000000000000000000.log": b"".join(
            batch(at, [(None, value)]) for at, value in enumerate(told)
        ),
    }
    if is_stored:
        name = f"remote/t-0-{TOPIC_ID}/{3:020d}-{SEGMENT_ID}"
        files[f"{name}.log"] = log_of(REMOTE_LOG)
        files[f"{name}.leader_epoch_checkpoint"] = checkpoint(CHAIN).encode()
    for file, content in files.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(content)
    snapshot = {
        "label": label,
        "time": 2.0,
        "zxid": 1,
        "is_final": False,
        "brokers": {"0": {}, "2": {}},
        "states": {"t-0": {"leader": 0, "leader_epoch": 4, "isr": [0]}},
    }
    (root / "snapshot.json").write_text(json.dumps(snapshot))
    return run
