"""Internal steps of a broker with a control request: no observation shows them."""

from collections.abc import Iterator
from dataclasses import dataclass

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.broker import control_handling, exchange
from kchaos.checkers.model.broker import follower as following
from kchaos.checkers.model.follow.internal_follower_steps import is_yet_to_repeat
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.matching import NOT_HERE, NOT_TOLD, errors_differ, request_of
from kchaos.checkers.model.follow.observations import FetchAsked, Number
from kchaos.checkers.model.state.state import State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.fetchers import leader_of
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.replica import Role
from kchaos.checkers.model.values.requests import (
    ControlRequest,
    FetchAnswer,
    LeaderAndIsr,
    Received,
    Stage,
    StopReplica,
    UpdateMetadata,
)

_KNOWN_LATER = NOT_HERE | {ErrorCode.UNKNOWN_LEADER_EPOCH}
"""Answers of a broker about a partition that it is yet to lead, or to lead in the asked epoch."""


@dataclass(frozen=True, slots=True)
class _ControlStep:
    """A part of a control request that a broker may handle next.

    Attributes:
        state: Before the step.
        broker_id: The broker that has it.
        part: The part itself.
        is_last: Whether it has no other part of the same request.
        lookahead: Of the record.
        index: How many observations were taken.
    """

    state: State
    broker_id: int
    part: Received
    is_last: bool
    lookahead: Lookahead
    index: int


def control_steps(
    state: State, broker_id: int, lookahead: Lookahead, index: int
) -> Iterator[World]:
    """Yield worlds in which a broker handles a part of a control request.

    Requests of one connection are handled in order, those of several by several threads. A broker
    begins with the partitions that it is to lead (ReplicaManager.becomeLeaderOrFollower); in which
    order it takes them otherwise is its own matter. Of a delta of the metadata log it takes over
    the brokers first, then deletions (BrokerMetadataPublisher.onMetadataUpdate and
    ReplicaManager.applyDelta, 3.3.2 and 4.1.2).

    Args:
        state: Before the step.
        broker_id: The broker that has it.
        lookahead: Of the record.
        index: How many observations were taken.
    """
    waiting = World(state).to_handle(broker_id)
    oldest: dict[int, Number] = {}
    for part in waiting:
        oldest.setdefault(part.number[0], part.number)
    for number in oldest.values():
        parts = [part for part in waiting if part.number == number]
        first = min(_place(part.request, broker_id) for part in parts)
        for part in parts:
            if _place(part.request, broker_id) == first:
                yield from _handle(
                    _ControlStep(state, broker_id, part, len(parts) == 1, lookahead, index)
                )
    broker = World(state).running(broker_id)
    if broker is not None and broker.generation.reads_metadata_log:
        yield from _published_together(state, broker_id, waiting, lookahead)


def _place(request: ControlRequest, broker_id: int) -> int:
    if isinstance(request, LeaderAndIsr):
        return 2 if _is_to_lead(request, broker_id) else 3
    return 0 if isinstance(request, UpdateMetadata) else 1


def _published_together(
    state: State, broker_id: int, waiting: list[Received], lookahead: Lookahead
) -> Iterator[World]:
    """Yield worlds in which a broker publishes two deltas of the metadata log as one.

    It loads what is committed together when it has published what it loaded before
    (KafkaRaftClient.ListenerContext.nextExpectedOffset and MetadataLoader.handleCommit, 4.1.2). A
    heartbeat that shows the first delta alone was sent between the two. The metadata cache has all
    of the new image before the first replica changes, and replicas change in no certain order
    (BrokerMetadataPublisher.onMetadataUpdate and ReplicaManager.applyLocalLeadersDelta, 3.3.2 and
    3.8.0): so a partition of the second delta may be led before one of the first.
    """
    numbers = list(dict.fromkeys(part.number for part in waiting))
    if len(numbers) < 2:
        return
    first, second = numbers[:2]
    shown = lookahead.control_answers.get(first)
    if shown is not None and shown.is_alone:
        return
    parts = [part for part in waiting if part.number in (first, second)]
    left = [part for part in World(state).received(broker_id) if part not in parts]
    world = World(state)
    world.put_received(broker_id, (*left, *_as_one(parts, second)))
    world.is_unlikely = True
    yield world


def _as_one(parts: list[Received], second: Number) -> Iterator[Received]:
    """Yield the parts of two deltas as parts of the second, which replaces some of the first."""
    news = [part.request for part in parts if isinstance(part.request, UpdateMetadata)]
    named = {_named(part.request) for part in parts if part.number == second}
    for part in parts:
        request = part.request
        if isinstance(request, UpdateMetadata):
            if part.number == second:
                told = frozenset().union(*(each.told for each in news)) - request.deleted
                gone = frozenset().union(*(each.deleted for each in news)) - request.told
                ids = {pair for each in news for pair in dict(each.topic_ids).items()}
                renamed = dict(request.topic_ids)
                kept = {(topic, renamed.get(topic, topic_id)) for topic, topic_id in ids}
                both = replace(request, told=told, deleted=gone, topic_ids=frozenset(kept))
                yield replace(part, request=both)
        elif (
            part.number == second
            or isinstance(request, StopReplica)
            or _named(request) not in named
        ):
            yield replace(part, number=second)


def _named(request: ControlRequest) -> TopicPartition | None:
    if isinstance(request, UpdateMetadata):
        return None
    if isinstance(request, StopReplica):
        return request.partition
    return TopicPartition(request.states[0].topic, request.states[0].partition)


def _handle(step: _ControlStep) -> Iterator[World]:
    state, broker_id, part = step.state, step.broker_id, step.part
    seen = step.lookahead.control_answers.get(part.number)
    world = World(state)
    if seen is not None and seen.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
        # It failed on the way, as when the topic's configuration is asked of a ZooKeeper whose
        # session is over (ReplicaManager.becomeLeaderOrFollower): this part before it, or not.
        failed = ((None, "UNKNOWN_SERVER_ERROR"),)
        if control_handling.handle(world, broker_id, part, is_last=step.is_last) is not None:
            yield _handled(World(state), broker_id, part, failed)
            yield _handled(world, broker_id, part, failed)
        return
    errors = handle_control(world, broker_id, part, is_last=step.is_last)
    if errors is None or (seen is not None and errors_differ(errors, seen)):
        return
    # A broker that refuses says the same before and after it.
    is_refused = any(error for _, error in errors)
    is_early = not is_refused and _speaks_as_before(step)
    for after in (*_fetches_nothing(step, world), world):
        after.is_unlikely |= is_early or (
            not is_refused and is_yet_to_repeat(state, after, broker_id, step.lookahead, step.index)
        )
        yield after


def _fetches_nothing(step: _ControlStep, handled: World) -> Iterator[World]:
    """Yield worlds in which a broker in controlled shutdown fetches no partition that it follows.

    With KRaft it fetches none in whose ISR it is not (isInControlledShutdown, of ReplicaManager
    .applyLocalFollowersDelta, 3.3.2 and 4.1.2). Up to 3.3.1 it may go on as before
    (`Generation.ignores_leaders_in_shutdown`).

    It knows of its shutdown before it asks the controller for leave (isShuttingDown, of
    ReplicaManager.makeFollowers and KafkaServer.shutdown, 0.10.2.2, 1.1.1, 2.8.2 and 3.8.0). Who
    asks for the partition in that epoch before its process ends did not know of it.
    """
    request, broker_id, lookahead = step.part.request, step.broker_id, step.lookahead
    if not isinstance(request, LeaderAndIsr) or not lookahead.is_shut_down(broker_id, step.index):
        return
    broker = World(step.state).broker(broker_id)
    assert broker is not None
    reads_log = broker.generation.reads_metadata_log
    for told in request.states:
        if broker.generation.ignores_leaders_in_shutdown and told.leader != broker_id:
            yield _handled(World(step.state), broker_id, step.part, ((None, ""),))
        if reads_log and (told.leader == broker_id or broker_id in told.isr):
            continue
        partition = TopicPartition(told.topic, told.partition)
        source = handled.source(broker_id, told.leader, partition)
        before = World(step.state).thread(broker_id, source)
        thread = handled.thread(broker_id, source)
        fetch = None if thread is None else thread.fetch(partition)
        is_as_before = before is not None and before.fetch(partition) == fetch
        if fetch is None or (is_as_before and not reads_log):
            continue
        epochs = lookahead.epochs_asked_until_end(broker_id, source, partition, step.index)
        # One may have been sent before; up to 2.0 nobody says the epoch.
        is_of_it = any(epoch is not None and epoch >= told.leader_epoch for epoch in epochs)
        if is_of_it or len(epochs) > 1:
            continue
        world = World(step.state)
        world.is_unlikely = bool(epochs)
        world.changes, world.notes = {**handled.changes}, [*handled.notes]
        following.leave_fetchers(world, broker_id, partition)
        if step.is_last:
            following.end_idle_threads(world, broker_id)
        yield world


def handle_control(
    world: World, broker_id: int, part: Received, *, is_last: bool
) -> control_handling.Errors | None:
    """Let a broker handle a part of a control request, and keep the answer until it is seen.

    Returns it, or None where the broker must wait for a fetcher.
    """
    errors = control_handling.handle(world, broker_id, part, is_last=is_last)
    if errors is not None:
        _handled(world, broker_id, part, errors)
    return errors


def _handled(
    world: World, broker_id: int, part: Received, errors: control_handling.Errors
) -> World:
    received = world.received(broker_id)
    index = received.index(part)
    after = (*received[:index], replace(part, errors=errors), *received[index + 1 :])
    world.put_received(broker_id, after)
    return world


def _is_to_lead(request: ControlRequest, broker_id: int) -> bool:
    return isinstance(request, LeaderAndIsr) and request.states[0].leader == broker_id


def _speaks_as_before(step: _ControlStep) -> bool:
    """Return whether a broker next says something that it does not say once it was told this.

    It answers that it does not lead what it is to lead, or asks in an older epoch. Most likely it
    handles the request after that.
    """
    request = step.part.request
    if isinstance(request, UpdateMetadata):
        return _is_told_too_early(step, request.told)
    if isinstance(request, StopReplica):
        return _learns_more(step, request.partition) or _is_yet_to_append(step, request.partition)
    told = request.states[0]
    partition = TopicPartition(told.topic, told.partition)
    replica = World(step.state).replica(step.broker_id, partition)
    if replica is not None and replica.leader_epoch == told.leader_epoch:
        return False  # No term ends by it.
    if _is_yet_to_append_in_its_epoch(step, partition):
        return True
    if not _is_to_lead(request, step.broker_id):
        return (
            _asks_as_before(step, told)
            or _asks_whom_it_leaves(step, told)
            or _is_still_answered(step, told)
            or _answers_as_before(step, told)
            or _is_yet_to_append(step, partition)
            or (_steps_down(step, told) and _learns_more(step, partition))
        )
    if _asks_whom_it_leaves(step, told) or _is_yet_to_learn(step, partition):
        return True
    before = (step.broker_id, partition, step.part.number, step.index)
    answer = step.lookahead.next_answered_before(*before)
    if answer is not None and answer[1] in _KNOWN_LATER and _is_yet_to_be_read(step, answer[0]):
        return True
    # Requests that are under way may be read in another order than they are answered in.
    return any(
        (asked := request.partitions.get(partition)) is not None
        and asked.leader_epoch is not None
        and asked.leader_epoch <= told.leader_epoch
        and _is_yet_to_be_read(step, request.number)
        for request in step.lookahead.answered_before(*before, {ErrorCode.UNKNOWN_LEADER_EPOCH})
    )


def _is_yet_to_be_read(step: _ControlStep, number: Number) -> bool:
    """Return whether a leader has not looked at its log for a request."""
    waiting = request_of(World(step.state), step.lookahead.requests[number])
    return waiting is None or (waiting.stage is Stage.ARRIVED and not waiting.refused)


def _steps_down(step: _ControlStep, told: PartitionState) -> bool:
    """Return whether a broker that has read that there is no leader neither leads nor follows."""
    broker = World(step.state).broker(step.broker_id)
    return told.leader == -1 and broker is not None and broker.generation.reads_metadata_log


def _learns_more(step: _ControlStep, partition: TopicPartition) -> bool:
    """Return whether a replica that is to stop ends with a later high watermark."""
    replica = World(step.state).replica(step.broker_id, partition)
    last = step.lookahead.checkpointed_next(step.broker_id, partition, step.index)
    return replica is not None and last is not None and replica.high_watermark < last


def _is_yet_to_learn(step: _ControlStep, partition: TopicPartition) -> bool:
    """Return whether a follower that is to lead is told a later high watermark before it answers.

    It most likely took that, if it later tells a Fetch with records no less. A new leader knows no
    follower's end (Partition.makeLeader, 1.1.1), and looks at its log before it counts a Fetch.
    """
    world, lookahead = World(step.state), step.lookahead
    replica = world.replica(step.broker_id, partition)
    first = lookahead.first_told(step.broker_id, partition, step.index)
    if replica is None or first is None or replica.role is not Role.FOLLOWER:
        return False
    return any(
        request.number is not None
        and replica.high_watermark
        < lookahead.told_before_answering(request.number, step.part.number, partition, step.index)
        <= first
        for source in world.leaders(step.broker_id)
        for request in world.exchanges(step.broker_id, source)
        if request.is_awaited
    )


def _asks_as_before(step: _ControlStep, told: PartitionState) -> bool:
    """Return whether a follower's next Fetch is of an older leader epoch than it is told now.

    It was made before then. A partition that it does not name is fetched in the epoch in which the
    session has it; one that the session does not have is not fetched from that leader yet. A broker
    that is told of no leader goes on in the older epoch (kafka.server.ReplicaManager.makeFollowers,
    2.8.2), so that tells nothing.
    """
    if told.leader == -1:
        return False
    partition = TopicPartition(told.topic, told.partition)
    world = World(step.state)
    for source in world.leaders(step.broker_id):
        item = step.lookahead.next_fetch(step.broker_id, source, step.index)
        if item is None or request_of(world, item) is not None:
            continue
        named = item.partitions.get(partition)
        asked = step.lookahead.unchanged[item.number].get(partition) if named is None else named
        epoch = asked.leader_epoch if isinstance(asked, FetchAsked) else None
        if epoch is not None and epoch < told.leader_epoch:
            return True
        is_new = asked is None and leader_of(source) == told.leader
        if (
            is_new
            and step.lookahead.is_sent_before_answer(item, step.part.number)
            and not _leaves_out_for_a_while(step, source, partition)
        ):
            return True
    return False


def _leaves_out_for_a_while(step: _ControlStep, source: int, partition: TopicPartition) -> bool:
    """Return whether a fetcher may leave out what it follows, since that was refused before.

    It backs off then (AbstractFetcherThread.delayPartitions, 3.3.2 and 3.8.0). With ZooKeeper the
    links show by when it follows; with KRaft they show no answer to a delta.
    """
    broker = World(step.state).broker(step.broker_id)
    return (
        broker is not None
        and broker.generation.reads_metadata_log
        and step.lookahead.has_asked(step.broker_id, source, partition, step.index)
    )


def _asks_whom_it_leaves(step: _ControlStep, told: PartitionState) -> bool:
    """Return whether a follower's next Fetch still asks the leader that it is to leave now.

    A broker that is told of another leader takes the partition from the thread of the former one
    (kafka.server.ReplicaManager.makeFollowers and makeLeaders, 0.10.2.2, 1.1.1, 2.8.2 and 3.8.0).
    A broker that is told of no leader may go on. So may a broker that is told once more before it
    asks.
    """
    if told.leader == -1:
        return False
    partition = TopicPartition(told.topic, told.partition)
    world, broker_id = World(step.state), step.broker_id
    leaders = {
        each.leader
        for each in world.to_be_told(broker_id)
        if (each.topic, each.partition) == partition
    }
    for source in world.leaders(broker_id):
        thread = world.thread(broker_id, source)
        if leader_of(source) in leaders or thread is None or thread.fetch(partition) is None:
            continue
        item = step.lookahead.fetches_before_told(broker_id, source, partition, step.index)
        if item is not None and request_of(world, item) is None:
            return True
    return False


def _answers_as_before(step: _ControlStep, told: PartitionState) -> bool:
    """Return whether a broker is yet to say, to a Fetch of an older epoch, that it knows of none.

    Up to 2.4 nobody is fenced within a fetch session.
    """
    partition, lookahead = TopicPartition(told.topic, told.partition), step.lookahead
    answer = lookahead.next_answered_before(step.broker_id, partition, step.part.number, step.index)
    if answer is None or answer[1] not in NOT_HERE:
        return False
    request = lookahead.requests[answer[0]]
    asked = request.partitions.get(partition)
    epoch = asked.leader_epoch if isinstance(asked, FetchAsked) else None
    if not request.is_full or epoch is None or not 0 <= epoch < told.leader_epoch:
        return False
    waiting = request_of(World(step.state), request)
    return waiting is None or waiting.stage in (Stage.ARRIVED, Stage.WAITING)


def _is_yet_to_append(step: _ControlStep, partition: TopicPartition) -> bool:
    """Return whether a broker has something to append before it handles a control request.

    It next fetches from beyond the end of its log. As a leader it has a client's produce, or is
    sent one before it answers. As a follower it has an answer that is on its way, or that it has
    not handled.
    """
    world, broker_id, lookahead = World(step.state), step.broker_id, step.lookahead
    replica = world.replica(broker_id, partition)
    if replica is None or not lookahead.fetches_beyond(
        broker_id, partition, replica.log.log_end_offset, step.index
    ):
        return False
    if replica.role is Role.LEADER:
        return lookahead.is_sent_before(broker_id, partition, step.part.number, step.index) or any(
            (produce.broker, produce.topic, produce.partition) == (broker_id, *partition)
            for produce in lookahead.connections.waiting(step.state(("sent",)) or (), step.index)
        )
    return any(
        answered == partition and isinstance(answer, FetchAnswer) and bool(answer.batches)
        for source in world.leaders(broker_id)
        if (waiting := exchange.awaited(world, broker_id, source)) is not None
        for answered, answer in waiting.answers
    )


def _is_yet_to_append_in_its_epoch(step: _ControlStep, partition: TopicPartition) -> bool:
    """Return whether a leader next sends a batch from its log's end in the epoch that it leaves.

    A client's produce comes first then, though it was sent after the request.
    """
    replica = World(step.state).replica(step.broker_id, partition)
    if replica is None or replica.role is not Role.LEADER:
        return False
    end = replica.log.log_end_offset
    epoch = step.lookahead.epoch_at(step.broker_id, partition, end, step.index)
    return epoch == replica.leader_epoch


def _is_still_answered(step: _ControlStep, told: PartitionState) -> bool:
    """Return whether a follower is yet to ask, unseen, the leader that it is to leave now.

    The answer is seen, and it names the partition: so it was asked before the follower left.
    """
    partition = TopicPartition(told.topic, told.partition)
    world = World(step.state)
    for source in world.leaders(step.broker_id):
        if leader_of(source) != told.leader:
            asked = {request.number for request in world.exchanges(step.broker_id, source)}
            unseen = step.lookahead.unseen_before(
                step.broker_id, source, partition, step.part.number, step.index
            )
            if any(number not in asked for number in unseen):
                return True
    return False


def _is_told_too_early(step: _ControlStep, told: frozenset[TopicPartition]) -> bool:
    """Return whether a broker is yet to refuse a fetch of a partition that it now hears of."""
    world = World(step.state)
    broker = world.broker(step.broker_id)
    known = None if broker is None else broker.told
    for partition in told - known if known is not None else ():
        for request in step.lookahead.answered_before(
            step.broker_id, partition, step.part.number, step.index, NOT_TOLD
        ):
            waiting = request_of(world, request)
            if waiting is None or partition not in waiting.refused:
                return True
    return False
