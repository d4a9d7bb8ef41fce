"""Every rule of the room `rules`, of its modules and its table, in the order of composition."""

import pkgutil
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from importlib import import_module
from importlib.resources import files
from types import MappingProxyType
from typing import Any

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.releases import rules
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.versions import ReleaseRange

_DECISION_POINTS = frozenset(field.name for field in fields(Generation))


def in_order(unordered: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return rules by their first release and name, but each behind those that it comes `after`.

    Raises:
        ModelError: Two rules of one name, or a rule that comes after itself or after none that
            there is.
    """
    waiting = sorted(unordered, key=lambda rule: (rule.releases.since.first, rule.name))
    placed: dict[str, Rule] = {}
    while waiting:
        rule = next((rule for rule in waiting if placed.keys() >= {*rule.after}), None)
        if rule is None:
            told = "; ".join(f"{rule.name} after {', '.join(rule.after)}" for rule in waiting)
            raise ModelError(f"these rules have no order: {told}")
        if rule.name in placed:
            raise ModelError(f"two rules are named {rule.name!r}")
        waiting.remove(rule)
        placed[rule.name] = rule
    return tuple(placed.values())


def _listed() -> Iterable[Rule]:
    """Return the rules of the room, each once: some of its modules import rules of each other."""
    modules = [
        import_module(f"{rules.__name__}.{module.name}")
        for module in pkgutil.iter_modules(rules.__path__)
    ]
    values = [value for module in modules for value in vars(module).values()]
    written = {id(value): value for value in values if isinstance(value, Rule)}
    table = tomllib.loads(files(rules).joinpath("table.toml").read_text("utf-8"))
    return (*written.values(), *(_of_row(name, row) for name, row in table.items()))


def _of_row(name: str, row: dict[str, Any]) -> Rule:
    """Return the rule of a row of the table."""
    sets = row.pop("sets", None)
    if sets is not None and (unknown := sets.keys() - _DECISION_POINTS):
        raise ModelError(f"the rule {name!r} sets {min(unknown)}, which is no decision point")
    lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
    change = None if sets is None else lambda known: replace(known, **sets)
    return Rule(name=name, change=change, **row | lists)


EVERY_RULE: tuple[Rule, ...] = in_order(_listed())
"""All, also those that are only looked up in Kafka's source; the later one wins."""

RULES: tuple[Rule, ...] = tuple(rule for rule in EVERY_RULE if rule.change is not None)
"""Those that a generation is composed of."""

RANGES: Mapping[str, ReleaseRange] = MappingProxyType(
    {rule.name: rule.releases for rule in EVERY_RULE}
)
"""Which releases have which rule, by its name."""
