"""Footprints: a step's result is kept by what it read, so that it runs once for each.

A step is a function over a `World` that reads through it alone and depends on nothing else but its
arguments. What it read first, what then, and what came of it is a tree; a value is recognised by
being the same object, for which every value that a step puts is kept once.
"""

from typing import Any

from kchaos.checkers.model.settle.rounds import Step
from kchaos.checkers.model.state.state import Component
from kchaos.checkers.model.state.world import Reads, World


class _End:
    """End of a step: changes, notes, and the value that it returned."""

    __slots__ = ("changes", "notes", "result")

    def __init__(self, changes: dict[Component, Any], notes: list[Any], result: bool) -> None:
        self.changes = changes
        self.notes = notes
        self.result = result


class _Branch:
    """A component that is read next, and what follows by the identity of its value."""

    __slots__ = ("component", "kept", "nodes")

    def __init__(self, component: Component) -> None:
        self.component = component
        self.nodes: dict[int, _Branch | _End] = {}
        # An identity is a value's own only while the value lives.
        self.kept: list[Any] = []


class Footprints:
    """Performs steps for `settle`, and remembers them.

    Attributes:
        runs: How often a step has run.
    """

    def __init__(self) -> None:
        self.runs = 0
        self._roots: dict[Any, _Branch | _End] = {}
        self._values: dict[Any, Any] = {}

    def value(self, value: Any) -> Any:
        """Return the one object that stands for all values equal to this."""
        return self._values.setdefault(value, value)

    def perform(self, world: World, step: Step, *arguments: Any) -> bool:
        """Do in this world what the step does, and return what it returns."""
        key = (step, *arguments)
        node = self._roots.get(key)
        while isinstance(node, _Branch):
            node = node.nodes.get(id(world.get(node.component)))
        if node is None:
            return self._run(world, key)
        world.changes.update(node.changes)
        world.notes += node.notes
        return node.result

    def _run(self, world: World, key: Any) -> bool:
        self.runs += 1
        step, *arguments = key
        read = Reads(world.get)
        trial = World(read.__getitem__)
        result: bool = step(trial, *arguments)
        changes = {component: self.value(value) for component, value in trial.changes.items()}
        self._remember(key, list(read.items()), _End(changes, trial.notes, result))
        world.changes.update(changes)
        world.notes += trial.notes
        return result

    def _remember(self, key: Any, reads: list[tuple[Component, Any]], end: _End) -> None:
        nodes: dict[Any, _Branch | _End] = self._roots
        place: Any = key
        for component, value in reads:
            node = nodes.setdefault(place, _Branch(component))
            assert isinstance(node, _Branch), "a step reads the same for the same values"
            assert node.component == component, "a step reads in the same order for the same values"
            node.kept.append(value)
            nodes, place = node.nodes, id(value)
        nodes[place] = end
