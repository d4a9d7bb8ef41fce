"""Common part of the faults that are one rule with a name at the links."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

from kchaos.checkers.acts import Act
from kchaos.faults.api import Journal
from kchaos.faults.view import ClusterView, name_in_use, unable, unlinked


class NamedRule(Protocol):
    """Between which brokers the rule acts, and what it is called."""

    @property
    def name(self) -> str:
        """Names it for whatever ends it."""

    @property
    def source(self) -> int | None:
        """The broker or KRaft controller that asks, or None for any."""

    @property
    def target(self) -> int | None:
        """The broker or KRaft controller that answers, or None for any."""


_Rule = TypeVar("_Rule")


def why_no_rule(view: ClusterView, rule: NamedRule) -> str:
    """Return why there can be no such rule: no broker or links, or the name is in use."""
    return (
        unable(view, rule.source, or_controller=True)
        or unable(view, rule.target, or_controller=True)
        or unlinked(view)
        or name_in_use(view, rule.name)
    )


@contextlib.contextmanager
def installed(
    journal: Journal,
    act: Act,
    *,
    install: Callable[[], _Rule],
    undo: Callable[[_Rule], object],
    heal: Callable[[_Rule], object],
) -> Iterator[_Rule]:
    """Install a rule; heal it on leaving.

    `undo` removes the rule silently and may run twice, even after a failure of the journal; `heal`
    removes it as an act.
    """
    with contextlib.ExitStack() as healing:
        with journal.acting(act):
            rule = install()
            healing.callback(undo, rule)
        healing.callback(heal, rule)
        yield rule
