"""KIP-501's solutions for the machine: what keeps a follower in the ISR, and who leads after it."""

from dataclasses import replace

from kchaos.checkers.model.explore.in_sync import Solution, reaches_earlier_end
from kchaos.harness.documents.proposal import Proposal

PENDING_READS = Proposal(
    name="KIP-501's text: a pending fetch keeps a follower",
    source="KIP-501, solution 1",
    change=lambda known: replace(
        known, proposed=replace(known.proposed, keeps_who_waits=reaches_earlier_end)
    ),
)
CAUGHT_UP_NOW = Proposal(
    name="KIP-501's text: caught up when counted",
    source="KIP-501, solution 1",
    change=lambda known: replace(
        known, proposed=replace(known.proposed, catches_up_when_counted=True)
    ),
)
SLOW_LEADER_GIVES_UP = Proposal(
    name="KIP-501's text: a slow leader gives up",
    source="KIP-501, solution 2",
    change=lambda known: replace(known, proposed=replace(known.proposed, gives_up_when_slow=True)),
)
ISR_ORDER = Proposal(
    name="KIP-501's text: elections by the order of the ISR",
    source="KIP-501, solution 2, as it takes controllers to elect",
    change=lambda known: replace(known, proposed=replace(known.proposed, elects_by_isr=True)),
)


def parts_of(solution: Solution) -> tuple[Proposal, ...]:
    """Return the proposals that a solution consists of."""
    parts = (
        (PENDING_READS, solution.keeps_who_waits),
        (CAUGHT_UP_NOW, solution.caught_up_now),
        (SLOW_LEADER_GIVES_UP, solution.gives_up_after_s is not None),
    )
    return tuple(proposal for proposal, is_part in parts if is_part)
