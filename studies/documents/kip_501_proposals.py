"""KIP-501's solutions for the machine: what keeps a follower in the ISR, and who leads after it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from kchaos.checkers.model.controller import decisions
from kchaos.checkers.model.state.world import World
from kchaos.studies.documents.kip_501_solutions import Solution, counted_now
from kchaos.studies.documents.proposal import Proposal
from kchaos.studies.explore import controller
from kchaos.studies.explore.bounds import PARTITION, Extension, Machine, ProposedAction
from kchaos.studies.explore.in_sync import reaches_earlier_end
from kchaos.studies.explore.isr_changes import true_leader


@dataclass(frozen=True, slots=True, kw_only=True)
class Relinquish(ProposedAction):
    """A leader that is slow to read for a follower gives up its leadership."""

    leader: int

    def __str__(self) -> str:
        return f"leader {self.leader} is slow to read and gives up its leadership"


def pending_offsets(world: World, leader: int, follower: int) -> Iterator[int]:
    """Yield where the fetches begin that a leader has of a follower and has not answered."""
    for request in world.exchanges(follower, leader):
        if request.api == "Fetch" and request.is_at_leader:
            yield from (
                asked.fetch_offset for partition, asked in request.asked if partition == PARTITION
            )


def keep_pending(world: World, leader: int, follower: int) -> bool:
    """Return whether a fetch of the follower that the leader has keeps it in the ISR."""
    view = world.known_replica(leader, PARTITION).view(follower)
    return view is not None and any(
        reaches_earlier_end(offset, view.last_leader_end_offset)
        for offset in pending_offsets(world, leader, follower)
    )


def give_up(_machine: Machine, broker: int) -> Iterator[Relinquish]:
    """Yield a leader's end of its leadership."""
    yield Relinquish(leader=broker)


def relinquish(world: World, machine: Machine, action: Relinquish) -> bool:
    """Let a leader give up whose read for a follower takes too long.

    That is longer than follower.fetch.process.time.max.ms. The leader is last in the ISR that it
    asks for. Controllers elect by the order of the assignment
    (PartitionStateMachine.offlinePartitionLeaderElection), which may be the same leader again.
    """
    return _is_slow(world, machine, action.leader) and _elect(
        world, machine, world.assignment(PARTITION)
    )


def relinquish_by_isr(world: World, machine: Machine, action: Relinquish) -> bool:
    """Do the same where the order of the ISR decides, which the leader is last in.

    No release elects so.
    """
    others = (broker for broker in world.assignment(PARTITION) if broker != action.leader)
    return _is_slow(world, machine, action.leader) and _elect(
        world, machine, (*others, action.leader)
    )


def _is_slow(world: World, machine: Machine, leader: int) -> bool:
    """Return whether a leader has a fetch that keeps a follower in the ISR."""
    state = controller.known_state(world)
    if state.leader != leader or true_leader(world, PARTITION) is None:
        return False
    return any(
        machine.extension.keeps(world, leader, member) for member in state.isr if member != leader
    )


def _elect(world: World, machine: Machine, order: tuple[int, ...]) -> bool:
    context = replace(controller.context_of_newest(world, machine), assignment=order)
    elected = decisions.elect_for_offline(context, controller.leader_and_isr(world))
    return elected is not None and controller.decide_next(world, machine, elected)


def _giving_up(known: Extension, effect: Callable[[World, Machine, Relinquish], bool]) -> Extension:
    """Return the extension in which this comes of a leader that gives up."""
    return replace(known, effects={**known.effects, Relinquish: effect})


PENDING_READS = Proposal(
    name="KIP-501's text: a pending fetch keeps a follower",
    source="KIP-501, solution 1",
    extend=lambda known: replace(known, keeps=keep_pending),
)
CAUGHT_UP_NOW = Proposal(
    name="KIP-501's text: caught up when counted",
    source="KIP-501, solution 1",
    extend=lambda known: replace(known, counted=counted_now),
)
SLOW_LEADER_GIVES_UP = Proposal(
    name="KIP-501's text: a slow leader gives up",
    source="KIP-501, solution 2",
    extend=lambda known: _giving_up(replace(known, actions_of=give_up), relinquish),
)
ISR_ORDER = Proposal(
    name="KIP-501's text: elections by the order of the ISR",
    source="KIP-501, solution 2, as it takes controllers to elect",
    extend=lambda known: _giving_up(known, relinquish_by_isr),
)


def parts_of(solution: Solution) -> tuple[Proposal, ...]:
    """Return the proposals that a solution consists of."""
    parts = (
        (PENDING_READS, solution.keeps_who_waits),
        (CAUGHT_UP_NOW, solution.caught_up_now),
        (SLOW_LEADER_GIVES_UP, solution.gives_up_after_s is not None),
    )
    return tuple(proposal for proposal, is_part in parts if is_part)
