"""Invariants: what must hold in every state of the machine. Each returns what is wrong, or "".

**Verifies**: the strong ISR; that what was committed stays; that equal-looking logs are equal; that
a truncation comes to an end.
**Does not verify**: that anything happens at all: a partition that never gets a leader passes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise

from kchaos.checkers.model.broker import exchange, leader
from kchaos.checkers.model.broker.exchange import FETCH, OFFSET_FOR_LEADER_EPOCH
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.log import missing, unlike
from kchaos.checkers.model.values.prediction import PredictedBatch
from kchaos.checkers.model.values.replica import FetcherState, FetchState, Replica, Role
from kchaos.checkers.model.values.requests import Stage
from kchaos.studies.explore.bounds import PARTITION, PROMISED

Property = Callable[[World], str]


def strong_isr(world: World) -> str:
    """Check that ISR members have all records below any leader's high watermark, zombies too.

    As `StrongIsr` of the published specification (KafkaReplication.tla): for each replica that
    believes to lead, and each member of the ISR that ZooKeeper holds.
    """
    for leader_id, replica in _leaders(world):
        member = isr_member_unlike(world, replica)
        if member is not None:
            return (
                f"broker {member} is in the ISR and differs from leader {leader_id} below "
                f"that one's high watermark {replica.high_watermark}"
            )
    return ""


def kept(world: World) -> str:
    """Check that the leader has everything that was ever below a leader's high watermark.

    The machine must remember promises.
    """
    state = world.partition_state(PARTITION)
    assert state is not None
    if state.leader == -1:
        return ""
    replica = world.known_replica(state.leader, PARTITION)
    if replica.role is not Role.LEADER or replica.leader_epoch != state.leader_epoch:
        return ""
    gone = missing(replica.log, world.get(PROMISED) or ())
    if gone:
        return f"leader {state.leader} does not have what was committed at offset {min(gone)[0]}"
    return ""


def agreement(world: World) -> str:
    """Check that a follower with nothing more to fetch in its leader's epoch has its log."""
    for follower_id, leader_id in _following(world):
        asked = exchange.question(world, follower_id, leader_id, FETCH)
        if asked is None:
            continue
        answer = leader.read(world, leader_id, PARTITION, dict(asked.asked)[PARTITION])
        if answer.error or answer.batches or answer.diverging is not None:
            continue
        own = world.known_replica(follower_id, PARTITION).log.batches
        if own != world.known_replica(leader_id, PARTITION).log.batches:
            return f"broker {follower_id} is level with leader {leader_id} and differs from it"
    return ""


def truncation_ends(world: World) -> str:
    """Check that no response leaves everything about a follower in its leader's epoch as it is."""
    for follower_id, leader_id in _following(world):
        asked = exchange.question(world, follower_id, leader_id, OFFSET_FOR_LEADER_EPOCH)
        if asked is None:
            continue
        trial = World(world.get)
        sent = exchange.send(trial, follower_id, leader_id, asked)
        answered, _ = exchange.read(trial, follower_id, leader_id, sent)
        refused = any(answer.error for _, answer in answered.answers)
        if answered.stage is not Stage.ANSWERED or refused:
            continue
        if not exchange.handle(trial, follower_id, leader_id, answered):
            return f"broker {follower_id} asks leader {leader_id} where to truncate for ever"
    return ""


def one_format(world: World) -> str:
    """Check that every segment, or without rolls every log, has batches of one message format."""
    for broker_id in world.assignment(PARTITION):
        replica = world.replica(broker_id, PARTITION)
        for segment in replica.log.segments() if replica is not None else ():
            magics = sorted({batch.magic for batch in segment})
            if len(magics) > 1:
                return (
                    f"the segment of broker {broker_id} that begins at {segment[0].base_offset} "
                    f"has batches of magic {' and '.join(map(str, magics))}"
                )
    return ""


def formats_rise(world: World) -> str:
    """Check that no log has an older message format after a newer one."""
    for broker_id in world.assignment(PARTITION):
        replica = world.replica(broker_id, PARTITION)
        for batch, following in pairwise(replica.log.batches if replica is not None else ()):
            if following.magic < batch.magic:
                return (
                    f"broker {broker_id} has magic {following.magic} at {following.base_offset}, "
                    f"after magic {batch.magic}"
                )
    return ""


def one_round(world: World) -> str:
    """Check that no follower needs a second OffsetForLeaderEpoch to know where to truncate.

    Looked at where an answer is about to be handled.
    """
    for follower_id in world.assignment(PARTITION):
        for leader_id in world.leaders(follower_id):
            request = exchange.awaited(world, follower_id, leader_id)
            if request is None or request.api != OFFSET_FOR_LEADER_EPOCH:
                continue
            if request.stage is not Stage.ANSWERED or any(
                answer.error for _, answer in request.answers
            ):
                continue
            trial = World(world.get)
            was = _fetch(world, follower_id, leader_id)
            exchange.handle(trial, follower_id, leader_id, request)
            fetch = _fetch(trial, follower_id, leader_id)
            # An answer that comes too late changes nothing.
            if fetch not in (None, was) and fetch.state is FetcherState.TRUNCATING:
                return f"broker {follower_id} must ask leader {leader_id} a second time"
    return ""


def two_epochs(world: World) -> str:
    """Check that no follower names more than two epochs in one question that can name several."""
    for follower_id in world.assignment(PARTITION):
        for leader_id in world.leaders(follower_id):
            asked = exchange.question(world, follower_id, leader_id, OFFSET_FOR_LEADER_EPOCH)
            for _, request in asked.asked if asked is not None else ():
                if len(request.ends) > 2:
                    return f"broker {follower_id} names {len(request.ends)} epochs at once"
    return ""


PROPERTIES: Mapping[str, Property] = {
    "strong-isr": strong_isr,
    "kept": kept,
    "agreement": agreement,
    "truncation-ends": truncation_ends,
    "one-format": one_format,
    "formats-rise": formats_rise,
    "one-round": one_round,
    "two-epochs": two_epochs,
}


def isr_member_unlike(world: World, leader: Replica) -> int | None:
    """Return a member of the ISR that differs from a leader below that one's high watermark."""
    state = world.partition_state(PARTITION)
    assert state is not None
    committed = _below(leader, leader.high_watermark)
    for member in state.isr:
        if _below(world.known_replica(member, PARTITION), leader.high_watermark) != committed:
            return member
    return None


def unlike_leader(world: World, brokers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the brokers whose logs are not their leader's, and the first offset that differs."""
    state = world.partition_state(PARTITION)
    assert state is not None
    leading = world.known_replica(state.leader, PARTITION).log
    for broker_id in brokers:
        log = world.known_replica(broker_id, PARTITION).log
        if unequal := unlike(log, leading):
            yield broker_id, min(batch.base_offset for batch in unequal)
        elif log.log_end_offset != leading.log_end_offset:
            yield broker_id, min(log.log_end_offset, leading.log_end_offset)


def _leaders(world: World) -> Iterator[tuple[int, Replica]]:
    for broker_id in world.assignment(PARTITION):
        replica = world.replica(broker_id, PARTITION)
        if replica is not None and replica.role is Role.LEADER:
            yield broker_id, replica


def _fetch(world: World, follower_id: int, leader_id: int) -> FetchState | None:
    thread = world.thread(follower_id, leader_id)
    return None if thread is None else thread.fetch(PARTITION)


def _following(world: World) -> Iterator[tuple[int, int]]:
    """Yield followers with a leader that leads in the same epoch, when nothing is in flight."""
    for leader_id, replica in _leaders(world):
        for follower_id in world.assignment(PARTITION):
            if follower_id == leader_id or world.thread(follower_id, leader_id) is None:
                continue
            if exchange.awaited(world, follower_id, leader_id) is None:
                own = world.replica(follower_id, PARTITION)
                if own is not None and own.leader_epoch == replica.leader_epoch:
                    yield follower_id, leader_id


def _below(replica: Replica, offset: int) -> tuple[PredictedBatch, ...]:
    return tuple(batch for batch in replica.log.batches if batch.last_offset < offset)
