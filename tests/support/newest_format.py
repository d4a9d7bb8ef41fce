"""Stored runs of format 3 as they are written since: what stands twice in them stands once."""

import json
from pathlib import Path
from typing import Any

from kchaos.checkers.run_directory import MANIFEST, RunDirectory

Line = dict[str, Any]
_MARKS = ("high-watermark", "high-watermark-kept", "high-watermark-forgotten")


def written_once(run: RunDirectory) -> RunDirectory:
    """Write the run anew in place: high watermarks and readings are no lines of actions.jsonl."""
    actions = _lines(run.path / "actions.jsonl")
    zxids = {_key(line): line["zxid"] for line in actions if _key(line)}
    observed = _lines(run.path / "observations.jsonl")
    for line in observed:
        if line["kind"] in _MARKS:
            broker = next(iter(line.get("seen") or line.get("brokers") or [line.get("broker")]))
            key = (line["step"], line["topic"], line["partition"], int(broker))
            line["zxid"] = zxids[key]
    _write(
        run.path / "observations.jsonl",
        [line for line in observed if line["kind"] != "high-watermarks-pinned"],
    )
    if (run.path / "tier.jsonl").exists():
        read = _lines(run.path / "tier.jsonl")
        for line in read:
            if line["kind"] == "read":
                line["zxid"] = zxids[line["operation"]]
        _write(run.path / "tier.jsonl", read)
    _write(run.path / "actions.jsonl", [line for line in actions if not _key(line)])
    (run.path / MANIFEST).unlink()
    run.write("run.json", run.read("run.json") | {"format": 4}, replace=True)
    run.seal()
    return run


def _key(line: Line) -> Any:
    """What tells an action that stands in another file too from all others; None for others."""
    action = line["action"]
    match action["event"]:
        case "HighWatermarkObserved":
            return line["step"], action["topic"], action["partition"], action["broker"]
        case "TierRead":
            return action["operation"]
        case _:
            return None


def _lines(file: Path) -> list[Line]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def _write(file: Path, lines: list[Line]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
