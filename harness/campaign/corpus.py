"""Schedules that came to a new or a rare decision point, in a file that nights share.

What a run covers are its decision points, its occasions, and the rules of the model that decided
something. A night draws mutants of these schedules, most of those whose points fewest runs came to.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from kchaos.checkers.json_form import ShapeError, from_json
from kchaos.checkers.run_line import RunLine
from kchaos.harness.errors import ScenarioError, UsageError
from kchaos.harness.run.scenario import Scenario

VERSION = 1
"""Of the file's form; a file of another version is refused."""
MUTANTS = 0.7
"""Part of a night's schedules that are mutants, once there is something to mutate."""
FIRST_RUNS = 10
"""Runs of a Kafka and mode that are drawn anew: mutants of one or two schedules show little."""
_RARE = 0.05
_FEWEST = 2
"""A point is rare that so few runs, or that part of them, came to."""
_MOST_KEPT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A schedule that is mutated.

    Attributes:
        kafka: The release or path that it was drawn for; only the same one's nights mutate it.
        mode: "zookeeper" or "kraft".
        points: What its run covered.
        scenario: As `Scenario.to_json` writes it, without a planted bug and settings of one's own.
    """

    kafka: str
    mode: str
    mix: str
    points: tuple[str, ...]
    scenario: Mapping[str, Any]

    @property
    def is_of(self) -> tuple[str, str]:
        """Kafka and mode: points of one say nothing about another."""
        return self.kafka, self.mode


@dataclass(frozen=True, slots=True, kw_only=True)
class Covered:
    """How many runs of a Kafka and mode there were, and how many came to each point."""

    kafka: str
    mode: str
    runs: int
    points: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Content of the file."""

    covered: tuple[Covered, ...] = ()
    kept: tuple[Kept, ...] = ()

    def counts(self, kafka: str, mode: str) -> Covered:
        """Return what the runs of a Kafka and mode covered."""
        none = Covered(kafka=kafka, mode=mode, runs=0, points={})
        return next((c for c in self.covered if (c.kafka, c.mode) == (kafka, mode)), none)

    def with_run(self, kept: Kept) -> "Corpus":
        """Return the corpus after one more run, with its schedule if that came to a rare point."""
        before = self.counts(*kept.is_of)
        rare = max(_FEWEST, _RARE * before.runs)
        has_rare = any(before.points.get(point, 0) < rare for point in kept.points)
        points = dict(before.points)
        for point in kept.points:
            points[point] = points.get(point, 0) + 1
        now = Covered(kafka=kept.kafka, mode=kept.mode, runs=before.runs + 1, points=points)
        corpus = Corpus(
            covered=(*(each for each in self.covered if each != before), now),
            kept=(*self.kept, kept) if has_rare else self.kept,
        )
        return corpus._pruned(kept)

    def _pruned(self, newest: Kept) -> "Corpus":
        """Leave out the schedule whose rarest point is the most common, if there are too many."""
        of_it = [each for each in self.kept if each.is_of == newest.is_of]
        if len(of_it) <= _MOST_KEPT:
            return self
        common = max(of_it, key=self._rarest)
        return Corpus(covered=self.covered, kept=tuple(x for x in self.kept if x is not common))

    def _rarest(self, kept: Kept) -> int:
        points = self.counts(*kept.is_of).points
        return min((points.get(point, 1) for point in kept.points), default=1)

    def parents(
        self, seed: int, kafka: str, mode: str, mixes: Sequence[str]
    ) -> tuple[str, Scenario, Scenario] | None:
        """Return the mix and both parents of a seed's mutant; None for a schedule drawn anew.

        The same seed and corpus give the same ones. A schedule is the more likely, the fewer runs
        came to its rarest point; the second parent has the mix of the first.

        Raises:
            UsageError: A schedule of the corpus is none that this kchaos reads.
        """
        chance = Random(f"parents {seed} {kafka} {mode}")
        there = [each for each in self.kept if each.is_of == (kafka, mode) and each.mix in mixes]
        has_begun = self.counts(kafka, mode).runs >= FIRST_RUNS
        if not (there and has_begun) or chance.random() >= MUTANTS:
            return None
        (first,) = chance.choices(there, [1 / self._rarest(each) for each in there])
        other = chance.choice([each for each in there if each.mix == first.mix])
        return first.mix, _scenario(first), _scenario(other)


def coverage_of(line: RunLine) -> tuple[str, ...]:
    """Return what a run covers: decision points, occasions and rules that decided something."""
    rules = (line.rules or {}).get("asked", ())
    return (
        *line.points,
        *(f"occasion: {kind}" for kind in line.occasions),
        *(f"rule: {rule}" for rule in rules),
    )


def name_of(parents: Sequence[Scenario]) -> str:
    """Return eight digits that tell the parents of a mutant from others."""
    said = json.dumps([parent.to_json() for parent in parents], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:8]


def read_corpus(path: Path) -> Corpus:
    """Return the corpus in a file; an empty one if there is none.

    Raises:
        UsageError: The file is no corpus, or of another version.
    """
    if not path.exists():
        return Corpus()
    remedy = "name another file with --corpus, or delete it"
    try:
        read = json.loads(path.read_text("utf-8"))
        version = read.pop("version") if isinstance(read, dict) and "version" in read else None
        if version not in (None, VERSION):
            raise UsageError(
                f"{path} is a corpus of version {version}, and this kchaos reads {VERSION}: "
                f"{remedy}"
            )
        if version is None:
            raise ShapeError("it has no version")
        return from_json(Corpus, read)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as a corpus: {error}; {remedy}") from error


def add_run(path: Path, kept: Kept) -> Corpus:
    """Add a run to the corpus in a file, which other nights may do at the same time; return it.

    Raises:
        UsageError: As of `read_corpus`.
        OSError: The file cannot be written.
    """
    with _locked(path):
        corpus = read_corpus(path).with_run(kept)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(json.dumps({"version": VERSION} | asdict(corpus)) + "\n", "utf-8")
        temporary.rename(path)
    return corpus


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path.parent, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _scenario(kept: Kept) -> Scenario:
    try:
        return Scenario.from_json(kept.scenario)
    except ScenarioError as error:
        raise UsageError(
            f"the corpus has a schedule for {kept.kafka} that this kchaos does not read: {error}; "
            "name another file with --corpus"
        ) from error
