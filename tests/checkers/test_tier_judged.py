"""Tiered runs of which something is not known: they are unknown, and say what."""

import json
from pathlib import Path

import pytest

from kchaos.checkers.judge import judge
from kchaos.checkers.run_directory import MANIFEST, RunDirectory
from tests.golden.stored import unpacked


def _without(run: RunDirectory, file: str, word: str) -> None:
    lines = (run.path / file).read_text().splitlines(keepends=True)
    kept = [line for line in lines if word not in json.dumps(json.loads(line))]
    assert len(kept) < len(lines)
    (run.path / file).write_text("".join(kept))


@pytest.mark.slow
def test_a_run_in_which_nobody_read_from_a_follower_in_sync_is_not_known_to_be_safe(
    tmp_path: Path,
) -> None:
    run = unpacked("tiered-3.9.1", tmp_path)
    assert judge(run).safe is True
    for file in ("actions.jsonl", "tier.jsonl"):
        _without(run, file, "end-t-0-broker-0-")
    (run.path / MANIFEST).unlink()
    run.seal()
    judged = judge(run)
    assert (judged.safe, judged.conforms) == (None, True)
    assert judged.unknown == "nobody has read the tiered log of t-0 from broker 0 at the end"
