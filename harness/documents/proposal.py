"""A proposal of a document: a change that is laid over what a broker of some release does."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from kchaos.checkers.model.releases.generation import Generation


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A change that no release follows.

    Attributes:
        name: The document, and which of its proposals.
        source: Where the document says it.
        change: A generation to the same one with what the proposal replaces.
    """

    name: str
    source: str
    change: Callable[[Generation], Generation]


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
