import enum
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest

from kchaos.studies.explorer import RuleError
from kchaos.studies.explorer.fingerprints import fingerprint

ROOT = Path(__file__).parents[3]


class Role(enum.Enum):
    LEADER = 1
    FOLLOWER = 2


class Pair(NamedTuple):
    first: int
    second: int


@dataclass(frozen=True)
class Batch:
    offset: int
    note: str = field(default="", compare=False)


@dataclass(frozen=True)
class Hole:
    offset: int


@pytest.mark.slow
def test_every_process_gives_the_same_fingerprint():
    code = (
        "from kchaos.studies.explorer.fingerprints import fingerprint;"
        "print(fingerprint(('log', 1), (frozenset({'a', 'b', 'c'}), None, -1, b'x')))"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    expected = fingerprint(("log", 1), (frozenset({"c", "b", "a"}), None, -1, b"x"))
    assert printed == {f"{expected}\n"}


@pytest.mark.parametrize(
    ("value", "other"), [(True, 1), (Pair(1, 2), (1, 2)), (Batch(1, "a"), Batch(1, "b"))]
)
def test_equal_values_have_equal_fingerprints(value: object, other: object):
    assert value == other
    assert fingerprint("component", value) == fingerprint("component", other)


def test_different_values_have_different_fingerprints():
    values = [
        None, -1, -2, 0, 1, "1", b"1", (1,), ((1,),), (1, 2), (12,), ("1", "2"), ("12",), (),
        frozenset(), frozenset({1}), frozenset({1, 2}), Role.LEADER, Role.FOLLOWER, Batch(1),
        Batch(2), Hole(1), "LEADER",
    ]  # fmt: skip
    assert len({fingerprint("component", value) for value in values}) == len(values)
    assert fingerprint("a", 1) != fingerprint("b", 1)


def test_a_fingerprint_has_60_bits():
    fingerprints = [fingerprint("component", value) for value in range(1000)]
    assert all(0 <= each < 2**60 for each in fingerprints)
    assert max(fingerprints) > 2**59


def test_what_is_not_immutable_has_no_fingerprint():
    with pytest.raises(RuleError, match="is a list, which has no fingerprint"):
        fingerprint("component", (1, [2]))
