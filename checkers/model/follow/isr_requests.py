"""The fetch that made a leader ask its controller for another ISR (KIP-497).

A leader asks while it handles a follower's fetch, and counts that follower from then on. The links
see the request when it reaches the controller, which may be much later, and they do not record a
fetch that repeats the one before. So the next request that they saw says which fetch led to it.
Read from kafka.cluster.Partition (`maybeExpandIsr`, `sendAlterIsrRequest`) and
kafka.server.AlterIsrManager, 2.7.0, 2.8.2, 3.0.2, 3.1.0 and 3.6.2.
"""

from collections.abc import Iterator

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.broker import leader
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.observations import IsrAsked, IsrWanted
from kchaos.checkers.model.state.state import State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.replica import Replica, WantedIsr


class Asking:
    """A leader's choice when a follower that it fetches for has come far enough for the ISR.

    Attributes:
        is_open: Whether it may as well have asked for nobody, since no request was seen that says
            what it asked for.
    """

    def __init__(self, lookahead: Lookahead, index: int, *, declines: bool = False) -> None:
        self.is_open = False
        self._lookahead = lookahead
        self._index = index
        self._declines = declines

    def __call__(
        self, world: World, leader_id: int, partition: TopicPartition, follower: int
    ) -> None:
        """Let the leader ask for the follower, unless it waits for the answer about another."""
        replica = world.known_replica(leader_id, partition)
        seen = _next(self._lookahead, self._index, leader_id, partition, replica)
        if not _is_free(world, leader_id, partition, seen):
            return
        wanted = {*replica.isr, follower}
        if seen is not None and seen != wanted:
            return
        # One whom the leader finds slow may be on the way out, and an earlier request unsent.
        others = set(replica.isr) - {leader_id}
        is_late = bool(world.get(("isr unanswered", leader_id, partition)))
        if is_late or (seen is None and others):
            self.is_open = True
            if self._declines:
                return
        leader.want_isr(world, leader_id, partition, wanted)


def asked_by_a_repeated_fetch(
    state: State,
    leader_id: int,
    partition: TopicPartition,
    replica: Replica,
    seen: frozenset[int],
    lookahead: Lookahead,
    index: int,
) -> Iterator[World]:
    """Yield worlds in which a leader expands the ISR after a repeated Fetch that no link records.

    It did not ask when that came first: another answer was awaited, or it had not heard that the
    follower lives. If the links tell of a fetch that comes before the request, that one more likely
    led to it.

    Args:
        state: Before the step.
        leader_id: Who leads.
        partition: Which one.
        replica: The leader's own.
        seen: The ISR that it is next seen to ask for.
        lookahead: Of the record.
        index: How many observations were taken.
    """
    world = World(state)
    if _is_free(world, leader_id, partition, seen) and _may_want(
        world, leader_id, partition, replica, seen
    ):
        (follower,) = seen - set(replica.isr)
        if not lookahead.may_have_repeated(
            follower, world.source(follower, leader_id, partition), index
        ):
            return
        leader.want_isr(world, leader_id, partition, seen)
        world.is_unlikely = lookahead.fetches_before_isr_asked(
            follower, leader_id, partition, replica.leader_epoch, index
        )
        yield world


def take_request(world: World, seen: IsrAsked) -> str:
    """Let a leader's request arrive; return why it cannot have been made, or "".

    A request waits while there is no controller, and says the leader epoch in which it was made. A
    leader that begins a new epoch counts the ISR that it is told, and what it asked for before
    counts no more (kafka.cluster.Partition.makeLeader).
    """
    for partition, wanted in seen.isrs.items():
        replica = world.replica(seen.leader, partition)
        if replica is None or replica.leader != seen.leader:
            continue
        if 0 <= replica.leader_epoch < wanted.leader_epoch:
            return (
                f"broker {seen.leader} has not heard of leader epoch {wanted.leader_epoch} yet, "
                "in which it asked for an ISR"
            )
        if replica.leader_epoch == wanted.leader_epoch:
            reason = _arrived(world, seen.leader, partition, replica, wanted)
            if reason:
                return reason
    return ""


def _arrived(
    world: World, leader_id: int, partition: TopicPartition, replica: Replica, asked: IsrWanted
) -> str:
    isr = frozenset(asked.isr)
    wanted: WantedIsr | None = world.get(("isr wanted", leader_id, partition))
    if isr == frozenset(replica.isr):
        return ""  # It is sent again, and what came of it is known.
    if wanted is None or isr != frozenset(wanted.isr):
        # A larger one it asked for while it handled a fetch, recorded or not.
        is_smaller = isr < frozenset(replica.isr)
        if not is_smaller or not _is_free(world, leader_id, partition, isr):
            awaited = "" if wanted is None else f" and waits for {list(wanted.isr)}"
            return (
                f"broker {leader_id} asked for the ISR {sorted(isr)} of {partition.topic}-"
                f"{partition.partition}, although it has {list(replica.isr)}{awaited}"
            )
        leader.want_isr(world, leader_id, partition, isr)
        wanted = world.get(("isr wanted", leader_id, partition))
        assert wanted is not None
    world.put(("isr wanted", leader_id, partition), replace(wanted, is_asked=True))
    world.put(("isr unanswered", leader_id, partition), None)
    return ""


def _next(
    lookahead: Lookahead, index: int, leader_id: int, partition: TopicPartition, replica: Replica
) -> frozenset[int] | None:
    return lookahead.next_isr_asked(leader_id, partition, replica.leader_epoch, index)


def _is_free(
    world: World, leader_id: int, partition: TopicPartition, seen: frozenset[int] | None
) -> bool:
    """Return whether a leader may ask: it waits for no answer, or did and asks for something else.

    Where it asks for something else next, it has got an answer that the model does not follow.
    """
    wanted: WantedIsr | None = world.get(("isr wanted", leader_id, partition))
    if wanted is None:
        return True
    return wanted.is_asked and seen is not None and seen != frozenset(wanted.isr)


def _may_want(
    world: World, leader_id: int, partition: TopicPartition, replica: Replica, isr: frozenset[int]
) -> bool:
    """Return whether an ISR is the leader's with one follower more that it may ask for now."""
    joined = isr - set(replica.isr)
    if len(joined) != 1 or not isr > set(replica.isr):
        return False
    (follower,) = joined
    return leader.may_ask_for(world, leader_id, partition, follower)
