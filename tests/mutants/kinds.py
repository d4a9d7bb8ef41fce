"""The register of kinds of changes to evidence; each kind is a function beside its name."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.mutants.run_copy import RunCopy

Mutate = Callable[[RunCopy], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of change.

    Attributes:
        name: Area and change, such as "bytes: payload".
        mutate: Makes the change and says where; raises `NotApplicableError` if nothing is there.
        is_harmless: Whether the evidence says the same afterwards, so that no alarm may come.
    """

    name: str
    mutate: Mutate
    is_harmless: bool = False

    @property
    def area(self) -> str:
        """What kind of evidence is changed."""
        return self.name.partition(":")[0]


KINDS: dict[str, Kind] = {}


def kind(name: str, *, harmless: bool = False) -> Callable[[Mutate], Mutate]:
    """Register a function as a kind of change."""

    def register(mutate: Mutate) -> Mutate:
        add(name, mutate, harmless=harmless)
        return mutate

    return register


def add(name: str, mutate: Mutate, *, harmless: bool = False) -> None:
    """Register a kind of change."""
    if name in KINDS:
        raise ValueError(f"two kinds are named {name!r}")
    KINDS[name] = Kind(name=name, mutate=mutate, is_harmless=harmless)
