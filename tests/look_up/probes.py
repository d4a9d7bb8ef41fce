"""Probes: how a rule is found in Kafka's source, by file, method and identifiers.

A probe is a regular expression of identifiers that one of a few files must have, or must not have,
at a release; several files are named where the class moved or was rewritten in Java. Nothing of
Kafka's code is kept.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kchaos.checkers.errors import ModelError

Texts = Mapping[str, str]
"""The files of one release that it has, by their path in Kafka's repository."""


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


KAFKA_FILES: Mapping[str, Sequence[str]] = _table("kafka_files.toml")
"""The files of Kafka in which probes look, by name: their paths in Kafka's repository, the present
place first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A pattern that must be, or must not be, in one of the files.

    Attributes:
        file: Names in `KAFKA_FILES`, separated by spaces.
        within: The line that begins a method or class, as a regular expression; the search goes on
            to the brace that closes it. The whole file when None.
        present: A regular expression that must be found, with ^ and $ at line ends and "." for any
            character.
        absent: The same, and it must be nowhere in a file that exists; the method that `within`
            names must exist.

    Raises:
        ModelError: A file that has no name, or not exactly one of present and absent.
    """

    file: str
    within: str | None = None
    present: str | None = None
    absent: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be looked up."""
        unknown = [name for name in self.file.split() if name not in KAFKA_FILES]
        if unknown or not self.file:
            raise ModelError(f"{self} looks in no file of Kafka that is known: {unknown}")
        if (self.present is None) == (self.absent is None):
            raise ModelError(f"{self} must say either present or absent")

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths in Kafka's repository, in the order in which they are searched."""
        return tuple(path for name in self.file.split() for path in KAFKA_FILES[name])


PROBES: Mapping[str, Sequence[Probe]] = {
    rule: tuple(Probe(**row) for row in rows) for rule, rows in _table("probes.toml").items()
}
"""The probes of each rule, by its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """Where a rule was found: a path in Kafka's repository and a line, counted from 1."""

    path: str
    line: int

    @property
    def file(self) -> str:
        """Such as "Partition.scala"."""
        return self.path.rpartition("/")[2]

    def __str__(self) -> str:
        """Return such as "Partition.scala:1151"."""
        return f"{self.file}:{self.line}"


def find(probes: Iterable[Probe], texts: Texts) -> SourceLine | None:
    """Return where a rule is in a release's files, or None where one of its probes fails.

    Raises:
        ModelError: A probe's expression cannot be read.
    """
    places = [_look(probe, texts) for probe in probes]
    return None if None in places else places[0]


def _look(probe: Probe, texts: Texts) -> SourceLine | None:
    wanted = _compiled(probe.present or probe.absent or "")
    within = _compiled(probe.within) if probe.within else None
    searched = None
    for path in probe.paths:
        text = texts.get(path)
        if text is None:
            continue
        for start, end in _regions(text, within):
            match = wanted.search(text, start, end)
            if match and probe.present is None:
                return None
            if match:
                return SourceLine(path=path, line=text.count("\n", 0, match.start()) + 1)
            searched = searched or SourceLine(path=path, line=text.count("\n", 0, start) + 1)
    return None if probe.present is not None else searched


@cache
def _compiled(expression: str) -> re.Pattern[str]:
    try:
        return re.compile(expression, re.MULTILINE | re.DOTALL)
    except re.error as error:
        raise ModelError(f"the probe {expression!r} cannot be read: {error}") from error


def _regions(text: str, within: re.Pattern[str] | None) -> list[tuple[int, int]]:
    """Return where the named methods begin and end; a method ends at its indentation's brace."""
    if within is None:
        return [(0, len(text))]
    regions = []
    for match in within.finditer(text):
        line_start = text.rfind("\n", 0, match.start()) + 1
        line = text[line_start : match.start() + 1]
        indentation = len(line) - len(line.lstrip())
        closing = re.compile(rf"^ {{{indentation}}}\}}", re.MULTILINE).search(text, match.end())
        regions.append((match.start(), closing.end() if closing else len(text)))
    return regions
