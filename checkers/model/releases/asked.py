"""Rule coverage of a run: the rules whose decision points were asked while it was followed."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields

from kchaos.checkers.model.releases.generation import Generation


@dataclass(slots=True)
class RulesAsked:
    """Rules that were asked while somebody watched.

    Attributes:
        in_force: Rules that a broker of the run goes by at some decision point.
        rules: Those of them that decided something there.
    """

    in_force: set[str] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)
    _watched: dict[Generation, Generation] = field(default_factory=dict)

    def watched(self, generation: Generation, owners: Mapping[str, str]) -> Generation:
        """Return the generation with a record of each decision point whose rule is asked.

        `owners` has the rule of each decision point.
        """
        if generation not in self._watched:
            self.in_force.update(owners.values())
            self._watched[generation] = _watched(generation, owners, self.rules)
        return self._watched[generation]


_ASKED: ContextVar[RulesAsked | None] = ContextVar("kchaos_rules_asked", default=None)


@contextmanager
def watching_rules() -> Iterator[RulesAsked]:
    """Record the rules that are asked in the block; generations composed before it do not."""
    asked = RulesAsked()
    token = _ASKED.set(asked)
    try:
        yield asked
    finally:
        _ASKED.reset(token)


def who_watches() -> RulesAsked | None:
    """Return the note of asked rules that is kept now, None where there is none."""
    return _ASKED.get()


class _Watched(Generation):
    __slots__ = ("_owners", "_rules")

    def __getattribute__(self, name: str) -> object:
        owner = object.__getattribute__(self, "_owners").get(name)
        if owner is not None:
            object.__getattribute__(self, "_rules").add(owner)
        return object.__getattribute__(self, name)


def _watched(generation: Generation, owners: Mapping[str, str], rules: set[str]) -> Generation:
    made = object.__new__(_Watched)
    object.__setattr__(made, "_owners", owners)
    object.__setattr__(made, "_rules", rules)
    for declared in fields(generation):
        object.__setattr__(made, declared.name, getattr(generation, declared.name))
    return made
