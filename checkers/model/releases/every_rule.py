"""Every rule of the room `rules`, of its modules and its table, in the order of composition."""

import pkgutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from importlib.resources import files
from types import MappingProxyType

from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.releases import rules
from kchaos.checkers.model.releases.rule import Rule
from kchaos.checkers.model.releases.versions import ReleaseRange


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
    return (*written.values(), *_without_change())


def _without_change() -> Iterator[Rule]:
    table = tomllib.loads(files(rules).joinpath("without_change.toml").read_text("utf-8"))
    for name, row in table.items():
        lists = {key: tuple(value) for key, value in row.items() if isinstance(value, list)}
        yield Rule(name=name, **row | lists)


EVERY_RULE: tuple[Rule, ...] = in_order(_listed())
"""All, also those that are only looked up in Kafka's source; the later one wins."""

RULES: tuple[Rule, ...] = tuple(rule for rule in EVERY_RULE if rule.change is not None)
"""Those that a generation is composed of."""

RANGES: Mapping[str, ReleaseRange] = MappingProxyType(
    {rule.name: rule.releases for rule in EVERY_RULE}
)
"""Which releases have which rule, by its name."""
