"""Runs as somebody may send them to do harm, or as an odd tool writes them: one thing in each."""

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from tests.support.kafka_6361_runs import kafka_6361

Damage = Callable[[Path], None]
_REPLICA = "snapshots/final/broker-0/t-0"
_SEGMENT = f"{_REPLICA}/00000000000000000000.log"


def _json(name: str, **changes: Any) -> Damage:
    def damage(run: Path) -> None:
        value = json.loads((run / name).read_text())
        (run / name).write_text(json.dumps(value | changes))

    return damage


def _cluster(**changes: Any) -> Damage:
    def damage(run: Path) -> None:
        cluster = json.loads((run / "scenario.json").read_text())["cluster"]
        _json("scenario.json", cluster=cluster | changes)(run)

    return damage


def _first_line(name: str, **changes: Any) -> Damage:
    def damage(run: Path) -> None:
        first, *others = (run / name).read_text().splitlines()
        line = json.dumps(json.loads(first) | changes)
        (run / name).write_text("\n".join([line, *others, ""]))

    return damage


def _text(name: str, content: bytes) -> Damage:
    def damage(run: Path) -> None:
        (run / name).write_bytes(content)

    return damage


def _folder(name: str) -> Damage:
    def damage(run: Path) -> None:
        shutil.copytree(run / _REPLICA, run / "snapshots/final/broker-0" / name)
        subject = run / "snapshots/final/snapshot.json"
        snapshot = json.loads(subject.read_text())
        snapshot["brokers"]["0"]["files"] += len(list((run / _REPLICA).iterdir()))
        subject.write_text(json.dumps(snapshot))

    return damage


def _greatest_offset(run: Path) -> None:
    content = (run / _SEGMENT).read_bytes()
    (run / _SEGMENT).write_bytes(struct.pack(">q", 2**63 - 1) + content[8:])


def _odd_file(run: Path) -> None:
    (run / os.fsdecode(b"snapshots/final/broker-0/t-0/\xff\x1b[2J.log")).write_bytes(b"x")


def _pattern_without_end(run: Path) -> None:
    witness = {"log": {"broker": 1, "pattern": "(a+)+$"}}
    expectation = {"safe": True, "findings": [], "witness": [witness]}
    _json("scenario.json", expectation=expectation)(run)
    (run / "brokers/1/server.log").write_text("a" * 60 + "b\n")


def _a_link(run: Path) -> None:
    (run / "outcome.json").unlink()
    (run / "outcome.json").symlink_to("/etc/hostname")


BEFORE_THE_SEAL: dict[str, Damage] = {
    "seed-that-is-a-text": _json("run.json", seed="x"),
    "broker-that-is-a-number": _cluster(brokers=[1.5, {}]),
    "step-that-tries-a-number": _json("scenario.json", steps=[{"step": "IfPossible", "do": 7}]),
    "entry-with-escapes": _json("run.json", entry="\x1b]0;owned\x07\u202e"),
    "time-that-is-a-text": _json("outcome.json", seconds="soon"),
    "greatest-number": _first_line("history.jsonl", time=10**400),
    "nested-json": _text("outcome.json", b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "not-a-number": _text("outcome.json", b'{"finished": true, "seconds": NaN}'),
    "no-text": _text("actions.jsonl", b"\xff\xfe\x00"),
    "partition-99999999999": _folder("t-99999999999"),
    "partition-00": _folder("t-00"),
    "partition-that-climbs": _folder("..-0"),
    "greatest-offset": _greatest_offset,
    "file-without-a-name": _odd_file,
    "pattern-without-end": _pattern_without_end,
}
AFTER_THE_SEAL: dict[str, Damage] = {
    "log-that-is-a-link": _a_link,
    "log-that-is-a-pipe": lambda run: os.mkfifo(run / "more.log"),
    "log-that-is-a-device": lambda run: (run / "more.log").symlink_to("/dev/zero"),
    "judgements-elsewhere": lambda run: (run / "judgements").symlink_to(run.parent),
    "path-that-climbs": lambda run: _json(
        MANIFEST, files={"../../etc/hostname": {"size_bytes": 1, "sha256": "0" * 64}}
    )(run),
    "path-from-the-root": lambda run: _json(
        MANIFEST, files={"/etc/hostname": {"size_bytes": 1, "sha256": "0" * 64}}
    )(run),
}


def hostile_runs(folder: Path, *, but: str = "") -> list[Path]:
    """Makes each, but one, in a folder of its name; returns their paths."""
    made = []
    for name, damage in {**BEFORE_THE_SEAL, **AFTER_THE_SEAL}.items():
        if name == but:
            continue
        run = kafka_6361(folder / name, "n20", "2.0.1").path
        if name in BEFORE_THE_SEAL:
            (run / MANIFEST).unlink()
            damage(run)
            RunDirectory(run).seal()
        else:
            damage(run)
        made.append(run)
    return made
