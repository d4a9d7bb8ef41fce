"""A proposal of a document: a change that is laid over what releases do."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from kchaos.checkers.model.releases.generation import Generation
from kchaos.studies.explore.bounds import Extension, Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change that no release follows.

    Attributes:
        name: The document, and which of its proposals.
        source: Where the document says it.
        change: A generation to the same one with what the proposal replaces: what a broker does
            at a decision point of releases.
        extend: What a machine has besides releases to the same with what the proposal adds: other
            actions, and rules that need more than a generation knows.
    """

    name: str
    source: str
    change: Callable[[Generation], Generation] = lambda known: known
    extend: Callable[[Extension], Extension] = lambda known: known


@cache
def with_proposals(generation: Generation, *proposals: Proposal) -> Generation:
    """Return the generation with proposals laid over it, the later one over the one before.

    The same value for the same arguments: states are compared with the generations in them.
    """
    for proposal in proposals:
        generation = replace(
            proposal.change(generation),
            name=f"{generation.name} with {proposal.name}",
            rules=(*generation.rules, proposal.name),
        )
    return generation


def following(machine: Machine, *proposals: Proposal) -> Machine:
    """Return the machine whose brokers follow proposals besides their releases."""
    extension = machine.extension
    for proposal in proposals:
        extension = proposal.extend(extension)
    generations = {
        broker: with_proposals(generation, *proposals)
        for broker, generation in machine.generations.items()
    }
    return replace(machine, generations=generations, extension=extension)
