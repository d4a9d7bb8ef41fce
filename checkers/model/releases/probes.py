"""How a rule is found in Kafka's source: which file, which method, which identifiers.

`sources.toml` has one entry a rule. A probe is a regular expression of identifiers that one of a
few files must have, or must not have, at a release; several files are named where the class moved
or was rewritten in Java. Nothing of Kafka's code is kept.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kchaos.checkers.errors import ModelError

Texts = Mapping[str, str]
"""The files of one release that it has, by their path in Kafka's repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """What must be, or must not be, in one of the files.

    Attributes:
        files: Paths in Kafka's repository, the present place first.
        within: The line that begins a method or class, as a regular expression; the search goes on
            to the brace that closes it. The whole file when None.
        pattern: A regular expression, with ^ and $ at line ends and "." for any character.
        present: Whether the pattern must be found; if not, it must be nowhere in a file that
            exists, and the method that `within` names must exist.
    """

    files: tuple[str, ...]
    within: re.Pattern[str] | None
    pattern: re.Pattern[str]
    present: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEntry:
    """One rule as `sources.toml` has it.

    Attributes:
        name: As in `ranges.RANGES`.
        meaning: What the rule says, in a sentence or two.
        protocol: The inter-broker protocol from which on it applies, or None.
        probes: All must hold.
    """

    name: str
    meaning: str
    protocol: str | None
    probes: tuple[Probe, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
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


def read_entries(file: Path) -> tuple[RuleEntry, ...]:
    """Return the rules of a `sources.toml`.

    Raises:
        ModelError: An expression that cannot be read, a file that has no name, or a probe that
            does not say exactly one of present and absent.
    """
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    names: Mapping[str, list[str]] = document["files"]
    entries = []
    for rule in document["rule"]:
        try:
            probes = tuple(_probe(probe, names) for probe in rule["probe"])
        except (KeyError, re.error) as error:
            raise ModelError(f"{file.name}: the probes of {rule['name']}: {error!r}") from error
        entries.append(
            RuleEntry(
                name=rule["name"],
                meaning=rule["meaning"],
                protocol=rule.get("protocol"),
                probes=probes,
            )
        )
    return tuple(entries)


def _probe(probe: Mapping[str, str], names: Mapping[str, list[str]]) -> Probe:
    present, absent = probe.get("present"), probe.get("absent")
    if (present is None) == (absent is None):
        raise ModelError(f"the probe {dict(probe)} must say either present or absent")
    within = probe.get("within")
    return Probe(
        files=tuple(path for name in probe["file"].split() for path in names[name]),
        within=re.compile(within) if within else None,
        pattern=re.compile(present or absent or "", re.MULTILINE | re.DOTALL),
        present=present is not None,
    )


def find(entry: RuleEntry, texts: Texts) -> Place | None:
    """Return where the rule is in a release's files, or None where one of its probes fails."""
    places = [_look(probe, texts) for probe in entry.probes]
    return None if None in places else places[0]


def _look(probe: Probe, texts: Texts) -> Place | None:
    searched = None
    for path in probe.files:
        text = texts.get(path)
        if text is None:
            continue
        for start, end in _regions(text, probe.within):
            found = probe.pattern.search(text, start, end)
            if found and not probe.present:
                return None
            if found:
                return Place(path=path, line=text.count("\n", 0, found.start()) + 1)
            searched = searched or Place(path=path, line=text.count("\n", 0, start) + 1)
    return None if probe.present else searched


def _regions(text: str, within: re.Pattern[str] | None) -> list[tuple[int, int]]:
    """Return where the named methods begin and end; a method ends at its indentation's brace."""
    if within is None:
        return [(0, len(text))]
    regions = []
    for found in within.finditer(text):
        line_start = text.rfind("\n", 0, found.start()) + 1
        line = text[line_start : found.start() + 1]
        indentation = len(line) - len(line.lstrip())
        closing = re.compile(rf"^ {{{indentation}}}\}}", re.MULTILINE).search(text, found.end())
        regions.append((found.start(), closing.end() if closing else len(text)))
    return regions
