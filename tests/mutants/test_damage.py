"""Damage at random is told by a documented error or a broken seal, and crashes no checker."""

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers.cross_checks import disagreements
from kchaos.checkers.errors import CheckError
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.tier import stored_at
from kchaos.checkers.judge import about_the_run, judge
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from tests.golden.stored import KRAFT, unpacked
from tests.golden.test_kraft import LAST
from tests.support.examples import examples

pytestmark = pytest.mark.slow

_JSON = {
    "2.8.2": (
        *("run.json", "scenario.json", "outcome.json", "actions.jsonl", "history.jsonl"),
        *("observations.jsonl", "links.jsonl", "manifest.json", "snapshots/*/snapshot.json"),
    ),
    "points-2.8.2": ("hits.jsonl",),
    "tiered-3.9.1": ("tier.jsonl",),
    LAST: ("observations.jsonl", "actions.jsonl"),
}
_OTHERS = {
    "2.8.2": (
        *("snapshots/*/*/replication-offset-checkpoint", "snapshots/*/*/meta.properties"),
        *("snapshots/*/*/*/leader-epoch-checkpoint", "snapshots/*/*/*/partition.metadata"),
        *("snapshots/*/*/recovery-point-offset-checkpoint", "zookeeper/*/log.*"),
    ),
    "tiered-3.9.1": (
        *("snapshots/*/*/log-start-offset-checkpoint", "snapshots/*/remote/**/*.log"),
        "snapshots/*/*/__remote_log_metadata-0/*.log",
        "snapshots/*/remote/**/*.leader_epoch_checkpoint",
    ),
}
_INTERESTING = (b"\0", b"\xff", b"\x7f", b"\x80", b"[", b"{", b"-", b"9" * 30, b"NaN", b"..", b"/")
_OF_OTHER_TYPES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 7, 1.5, "", "x", "1"),
    *([], ["x"], [1], {}, {"x": 1}, [[]]),
)


def places(*tables: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    return [(run, name) for table in tables for run, names in table.items() for name in names]


def damaged(
    golden: str,
    pattern: str,
    folder: Path,
    number: int,
    damage: Callable[[bytes, random.Random], bytes],
) -> Iterator[RunDirectory]:
    """Yield a run with one file of a kind damaged, so many times."""
    run = RunDirectory(folder / "copy")
    shutil.copytree(unpacked(golden, folder, runs=KRAFT if golden == LAST else None).path, run.path)
    files = [file for file in sorted(run.path.glob(pattern)) if file.stat().st_size]
    draw = random.Random(pattern)
    for _ in range(number):
        file = draw.choice(files)
        content = file.read_bytes()
        file.write_bytes(damage(content, draw))
        yield run
        file.write_bytes(content)


def retyped(content: bytes, draw: random.Random) -> bytes:
    """The JSON object in a file, or in one of its lines, with one value of another type."""
    lines = content.split(b"\n")
    at = draw.choice([number for number, line in enumerate(lines) if line.startswith(b"{")])
    is_lines = all(line.startswith(b"{") for line in lines if line)
    value = json.loads(lines[at] if is_lines else content)
    holder, key = draw.choice([*_places(value)])
    others = [each for each in _OF_OTHER_TYPES if type(each) is not type(holder[key])]
    holder[key] = draw.choice(others)
    if not is_lines:
        return json.dumps(value).encode()
    return b"\n".join([*lines[:at], json.dumps(value).encode(), *lines[at + 1 :]])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yields each place in a JSON value where another one is."""
    for key in list(value) if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


def mutated(content: bytes, draw: random.Random) -> bytes:
    """The content with one to four small changes; never the same."""
    body = bytearray(content)
    while bytes(body) == content:
        for _ in range(draw.randint(1, 4)):
            at = draw.randrange(len(body) + 1)
            match draw.randrange(5):
                case 0 if at < len(body):
                    body[at] ^= 1 << draw.randrange(8)
                case 1:
                    body[at:at] = draw.choice(_INTERESTING)
                case 2:
                    del body[at : at + draw.randint(1, 40)]
                case 3:
                    other = draw.randrange(len(body) + 1)
                    body[at:at] = body[other : other + draw.randint(1, 60)]
                case _:
                    body[at : at + 8] = draw.randbytes(8)
    return bytes(body)


@pytest.mark.parametrize(("golden", "pattern"), places(_JSON))
def test_a_value_of_another_type_crashes_no_checker(golden: str, pattern: str, tmp_path: Path):
    for run in damaged(golden, pattern, tmp_path, examples(30), retyped):
        try:
            assert judge(RunDirectory.open(run.path)).crashes == ()
        except CheckError:
            continue  # A run that cannot be opened.


@pytest.mark.parametrize(("golden", "pattern"), places(_JSON, _OTHERS))
def test_damaged_bytes_are_refused_by_name_or_break_the_seal(
    golden: str, pattern: str, tmp_path: Path
):
    for run in damaged(golden, pattern, tmp_path, examples(15), mutated):
        try:
            evidence = RunEvidence(RunDirectory.open(run.path)).read()
            list(disagreements(evidence))
            list(about_the_run(evidence, None))
            for snapshot in evidence.snapshots:
                for broker, partition in evidence.copied.replicas(snapshot.label, snapshot.brokers):
                    evidence.copied.epoch_entries(snapshot.label, broker, partition)
                list(stored_at(evidence.files, snapshot))
            # Of the manifest itself white space may go.
            assert evidence.files.broken_seal() or pattern == MANIFEST
        except CheckError:
            continue
