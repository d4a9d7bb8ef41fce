"""Internal steps of a leader with a client's produce: no observation shows them."""

from collections.abc import Container, Iterator

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.broker import leader
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.matching import request_of
from kchaos.checkers.model.follow.observations import NOT_LEADING, ClientAnswered, Number
from kchaos.checkers.model.follow.reachable import hears_of_leaders
from kchaos.checkers.model.state.state import State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import Produce
from kchaos.checkers.model.values.prediction import PredictedProduce
from kchaos.checkers.model.values.replica import Role
from kchaos.checkers.model.values.requests import Stage

_SAID_OF_APPENDED = (
    ErrorCode.REQUEST_TIMED_OUT.name,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND.name,
)
"""Errors of a produce that a broker says only of what it has appended."""
_UNREAD = (Stage.SENT, Stage.ARRIVED)
_UNANSWERED = (*_UNREAD, Stage.WAITING)


def produce_steps(
    state: State, lookahead: Lookahead, index: int, *, only_likely: bool = False
) -> Iterator[World]:
    """Yield worlds in which a leader handles a client's produce with the observed outcome.

    Of each connection it reads the first request that it has not handled. One that it refuses may
    have no answer that anybody saw.

    Args:
        state: Before the step.
        lookahead: Of the record.
        index: How many observations were taken.
        only_likely: Whether a produce is left out that a Fetch most likely comes before.
    """
    first = state(("sent",)) or ()
    reads = [(first, request) for request in first]
    for sent, request in reads:
        world = World(state)
        broker = world.broker(request.broker)
        told = lookahead.client_answers.get(request.operation)
        if broker is None or not broker.is_working or _is_behind(request, state, lookahead):
            continue
        if told is not None and _goes_elsewhere(world, request, told):
            continue
        offset = told.base_offset if told is not None and told.outcome == "ok" else -1
        if (
            only_likely
            and offset >= 0
            and _is_read_before(state, request, offset, lookahead, index)
        ):
            continue
        # Whoever leads nothing refuses all that is behind it likewise.
        is_refused = told is None and not _leads(world, request.broker)
        left = lookahead.connections.without(
            sent, request.operation, index, with_unanswered=is_refused
        )
        following = [produce for produce in left if produce not in sent]
        if is_refused:
            reads += [(left, produce) for produce in following]
            continue
        world.put(("sent",), left or None)
        without = World(state)
        without.changes.update(world.changes)
        leader.produce(world, request, settles=False)
        unsettled = ("appended", request.broker, TopicPartition(request.topic, request.partition))
        if world.get(unsettled):
            world.put(unsettled, (*(state(unsettled) or ()), request.operation))
        outcome: PredictedProduce = world.get(("answer", request.operation))
        if _is_told(request, outcome, told):
            world.is_unlikely = (
                _is_of_another_epoch(world, request, outcome, lookahead, index)
                or _is_lost(world, request, outcome, lookahead, index)
                or _is_read_before(state, request, outcome.base_offset, lookahead, index)
            )
            yield world
            if told is None and following:
                without.is_unlikely = True
                yield without
        elif told is None or told.outcome != "ok":
            if told is not None and leader.refuse_unverified(without, request, told.error):
                yield without
            # It may be refused, and its answer is lost or comes later: the next one is read then.
            reads += [(left, produce) for produce in following]


def _leads(world: World, broker_id: int) -> bool:
    """Return whether a broker leads any partition."""
    replicas = (world.replica(broker_id, each) for each in world.partitions(broker_id))
    return any(replica is not None and replica.role is Role.LEADER for replica in replicas)


def _is_of_another_epoch(
    world: World, request: Produce, outcome: PredictedProduce, lookahead: Lookahead, index: int
) -> bool:
    """Return whether followers are given, where a batch would be, a batch of another leader epoch.

    A log may lose the batch before it is read, and get another one there: that counts only while
    the broker may hear of the other epoch before it answers. A broker that fetches from behind the
    batch before that has it.
    """
    partition = TopicPartition(request.topic, request.partition)
    epoch = lookahead.epoch_at(request.broker, partition, outcome.base_offset, index)
    replica = world.replica(request.broker, partition)
    return (
        epoch is not None
        and replica is not None
        and epoch != replica.leader_epoch
        and not lookahead.fetches_before_read(request.broker, partition, outcome.base_offset, index)
        and (
            hears_of_leaders(world, request.broker)
            or lookahead.is_told_before_answering(request.broker, request.operation, index)
        )
    )


def _is_lost(
    world: World, request: Produce, outcome: PredictedProduce, lookahead: Lookahead, index: int
) -> bool:
    """Return whether a produce may never have been read: nobody answered it, no snapshot has it."""
    partition = TopicPartition(request.topic, request.partition)
    replica = world.replica(request.broker, partition)
    told = lookahead.client_answers.get(request.operation)
    is_unanswered = told is None or (
        (told.outcome == "info" or told.error in NOT_LEADING)
        and told.error not in _SAID_OF_APPENDED
    )
    if not is_unanswered or replica is None:
        return False
    if replica.log.batches and not lookahead.is_copied(partition, replica.log.batches[-1]):
        return True
    # A follower that led before fetches from the end of what it has, and asks for the epoch of the
    # last record.
    offset, leader_epoch = outcome.base_offset, replica.leader_epoch
    if (
        lookahead.fetches_beyond(request.broker, partition, offset, index)
        or lookahead.epoch_asked_next(request.broker, partition, index) == leader_epoch
    ):
        return False
    return _is_elsewhere(
        lookahead.copied_end(partition, offset, leader_epoch),
        offset + len(request.records),
        is_read=lookahead.epoch_at(request.broker, partition, offset, index) == leader_epoch,
    )


def _is_read_before(
    state: State, request: Produce, offset: int, lookahead: Lookahead, index: int
) -> bool:
    """Return whether a leader is yet to answer a Fetch that would find what it appends now.

    Or it is yet to count two Fetches that only wait for it: with the batch, both have a high
    watermark up to it, and counting the first one moves none (Partition.maybeIncrementLeaderHW).
    """
    partition = TopicPartition(request.topic, request.partition)
    world = World(state)
    empty = lookahead.empty_answers(request.broker, partition, offset, request.operation, index)
    if any(_is_in(world, lookahead, number, _UNANSWERED) for number in empty):
        return True
    replica = world.replica(request.broker, partition)
    if replica is None or replica.high_watermark >= offset:
        return False
    waited = lookahead.waited_for(request.broker, partition, offset, index)
    return sum(_is_in(world, lookahead, number, _UNREAD) for number in waited) > 1


def _is_in(world: World, lookahead: Lookahead, number: Number, stages: Container[Stage]) -> bool:
    seen = lookahead.requests.get(number)
    waiting = None if seen is None else request_of(world, seen)
    return waiting is None or waiting.stage in stages


def _is_behind(request: Produce, state: State, lookahead: Lookahead) -> bool:
    """Return whether a request before on its connection is yet to be acknowledged.

    Until a broker has answered a request it reads no other of that connection
    (kafka.network.SocketServer mutes the channel, 0.10.2.2, 1.1.1 and 2.8.2).
    """
    for operation in lookahead.connections.behind(request.operation):
        outcome: PredictedProduce | None = state(("answer", operation))
        if outcome is not None and outcome.acknowledged is not True:
            return True
    return False


def _goes_elsewhere(world: World, request: Produce, told: ClientAnswered) -> bool:
    """Return whether a produce was acknowledged at another offset than its leader's log end.

    Of a batch with a producer id that may be since the leader had it already.
    """
    if told.outcome != "ok" or told.base_offset < 0 or request.producer is not None:
        return False
    replica = world.replica(request.broker, TopicPartition(request.topic, request.partition))
    return replica is not None and replica.log.log_end_offset != told.base_offset


def _is_elsewhere(copied: int | None, end: int, *, is_read: bool) -> bool:
    """Return whether the produce's offsets hold another batch, or none, in every observation."""
    return not is_read if copied is None else copied > end


def _is_told(request: Produce, outcome: PredictedProduce, told: ClientAnswered | None) -> bool:
    is_appended = outcome.base_offset >= 0
    if told is None:
        return is_appended
    if told.outcome == "ok":
        # A marker's answer names no offset.
        is_there = told.base_offset < 0 or outcome.base_offset == told.base_offset
        return is_appended and is_there
    if told.outcome == "fail":
        # It may have been appended all the same: a high watermark that cannot be moved comes later,
        # and so does another leader, while acks=all is waited for.
        is_deposed_later = is_appended and request.acks == -1 and told.error in NOT_LEADING
        return is_deposed_later or (bool(told.error) and outcome.error == told.error)
    return is_appended or (bool(told.error) and outcome.error == told.error)
