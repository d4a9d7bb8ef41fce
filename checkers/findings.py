"""Findings, and the names that they may carry."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from importlib.resources import files
from typing import Any


class Question(Enum):
    """Which of the two questions a finding answers."""

    SAFETY = "safety"
    CONFORMANCE = "conformance"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One entry of the taxonomy.

    Attributes:
        name: Stable; what findings carry.
        question: The question that it answers.
        meaning: One line for people.
        implies: Kinds that are true as well wherever this one is.
        needs_end: Whether it is known only of a cluster that was healed and came to rest.
        sentence: What happened, as a clause of a run's outcome; "" of a kind that is not about
            safety.
    """

    name: str
    question: Question
    meaning: str
    implies: tuple[str, ...] = ()
    needs_end: bool = True
    sentence: str = ""


UNAVAILABLE = "unavailable"
"""A bound of availability was passed: the run is not as expected, and its replicas may be safe."""


def _kinds() -> Iterator[Kind]:
    table = tomllib.loads(files(__package__).joinpath("findings.toml").read_text("utf-8"))
    for name, row in table.items():
        question, implies = Question(row.pop("question")), tuple(row.pop("implies", ()))
        yield Kind(name=name, question=question, implies=implies, **row)


KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _kinds()}
"""The kinds by name, as findings.toml has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing, with its evidence.

    Attributes:
        kind: A name in `KINDS`.
        topic: The topic, or "" for a finding about no partition.
        partition: The partition, or -1.
        brokers: Ids of the brokers concerned, ascending.
        first_offset: First offset concerned, inclusive; -1 if none.
        last_offset: Last offset concerned, inclusive; -1 if none.
        snapshot: Label of the snapshot in which it was seen, or "".
        message: One sentence for people.
        evidence: Plain JSON values: leader epochs, file positions, batch headers on both sides.
        fingerprint: The same for the same bug in another run (`checkers.fingerprint`); "" until
            the run as a whole is judged.
    """

    kind: str
    topic: str = ""
    partition: int = -1
    brokers: tuple[int, ...] = ()
    first_offset: int = -1
    last_offset: int = -1
    snapshot: str = ""
    message: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"finding kind {self.kind!r} is not in checkers.findings.KINDS")

    @property
    def question(self) -> Question:
        """The question that this finding answers."""
        return KINDS[self.kind].question
