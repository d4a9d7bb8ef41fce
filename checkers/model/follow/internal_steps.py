"""Internal steps: the machine's transitions that no observation shows."""

from collections.abc import Iterator
from dataclasses import replace

from kchaos.checkers.acts import FailLogDirectory, TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.broker import (
    control_handling,
    exchange,
    leader,
    log_start,
    process,
    tier,
)
from kchaos.checkers.model.broker import follower as following
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.controller import outboxes
from kchaos.checkers.model.follow import isr_requests
from kchaos.checkers.model.follow.internal_follower_steps import (
    at_follower,
    came_too_late,
    is_yet_to_repeat,
)
from kchaos.checkers.model.follow.internal_leader_steps import at_leader
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.matching import (
    NOT_HERE,
    errors_differ,
    files_differ,
    is_on,
    question_differs,
)
from kchaos.checkers.model.follow.observations import (
    NOT_LEADING,
    Asked,
    ClientAnswered,
    CopyBegun,
    FetchAsked,
    Number,
    Question,
    Reply,
)
from kchaos.checkers.model.follow.reachable import hears_of_leaders
from kchaos.checkers.model.settle.views import replicas_of
from kchaos.checkers.model.state.state import Broker, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import PartitionState, Produce
from kchaos.checkers.model.values.fetchers import leader_of
from kchaos.checkers.model.values.prediction import Copied, PredictedProduce
from kchaos.checkers.model.values.replica import Replica, Role
from kchaos.checkers.model.values.requests import (
    ControlRequest,
    Exchange,
    FetchAnswer,
    LeaderAndIsr,
    Received,
    Stage,
    StopReplica,
    UpdateMetadata,
)

_KNOWN_LATER = NOT_HERE | {ErrorCode.UNKNOWN_LEADER_EPOCH}
"""Answers of a broker about a partition that it is yet to lead, or to lead in the asked epoch."""
_SAID_OF_APPENDED = (
    ErrorCode.REQUEST_TIMED_OUT.name,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND.name,
)
"""Errors of a produce that a broker says only of what it has appended."""


def silent_steps(state: State, lookahead: Lookahead, index: int, decided: int) -> Iterator[World]:
    """Yield every step that may come before the next observation, likeliest first.

    Args:
        state: Before the step.
        lookahead: Of the record.
        index: How many observations were taken.
        decided: How many decisions were taken.
    """
    world = World(state)
    broker_ids = world.broker_ids()
    working = [
        broker_id
        for broker_id in broker_ids
        if (broker := world.broker(broker_id)) is not None and broker.is_working
    ]
    for broker_id in working:
        yield from _of_process(state, broker_id)
        if state(("control", broker_id)) is not None:
            yield from _control(state, broker_id, lookahead, index)
        yield from _learn(state, broker_id, lookahead, index)
    for leader_id in working:
        for broker_id in broker_ids:
            for source in world.sources(broker_id, leader_id):
                for request in world.exchanges(broker_id, source):
                    if request.is_at_leader and request.number is not None:
                        yield from at_leader(state, broker_id, source, request, lookahead, index)
    for broker_id in working:
        for source in world.leaders(broker_id):
            yield from at_follower(state, broker_id, source, lookahead, index, decided)
    yield from _produces(state, lookahead, index)
    yield from _copies(state)


def early_questions(state: State, lookahead: Lookahead, index: int) -> Iterator[World]:
    """Yield each request that may have been sent before the links saw it."""
    world = World(state)
    for broker_id in world.broker_ids():
        for source in world.leaders(broker_id):
            item = lookahead.next_of(broker_id, source, index)
            if not isinstance(item, Question) or _is_known(world, item):
                continue
            after = World(state)
            if not give_up_others(after, item, lookahead) and not ask(after, item, lookahead):
                yield after


def give_up_others(world: World, seen: Question, lookahead: Lookahead) -> str:
    """Let a thread that asks anew give up what it waited for; returns why it cannot, or ""."""
    waiting = exchange.awaited(world, seen.follower, seen.source)
    if waiting is None:
        return ""
    if waiting.stage is Stage.DELIVERED and not waiting.was_paused:
        if not lookahead.may_have_timed_out(waiting.number, seen):
            return "the fetcher has an answer to handle first"
        world.is_unlikely = not came_too_late(waiting, seen)
    if waiting.stage is not Stage.DELIVERED and is_on(waiting, seen):
        return is_taken(seen, waiting)
    if waiting.stage is Stage.DELIVERED:
        exchange.end(world, seen.follower, seen.source, waiting)
    else:
        given_up = replace(waiting, is_awaited=False)
        exchange.change(world, seen.follower, seen.source, waiting, given_up)
    exchange.end_session(world, seen.follower, seen.source, waiting)
    if world.thread(seen.follower, seen.source) is not None:
        # Before it asks anew it does what it can do without an answer.
        exchange.go_on_without_asking(world, seen.follower, seen.source)
    return ""


def is_taken(seen: Question | Reply, waiting: Exchange) -> str:
    """Return the sentence that a fetcher still waits on the connection of what was seen."""
    assert waiting.number is not None
    return (
        f"broker {seen.follower} waits for the answer to request {waiting.number[1]} of the same "
        f"connection"
    )


def ask(world: World, seen: Question, lookahead: Lookahead) -> str:
    """Let a fetcher thread send a request that was seen; returns why it cannot, or ""."""
    follower, source = seen.follower, seen.source
    broker, thread = world.broker(follower), world.thread(follower, source)
    if broker is None or thread is None:
        return f"broker {follower} has no fetcher for broker {seen.leader}"
    predicted = exchange.question(world, follower, source, seen.api)
    if predicted is not None and seen.api == FETCH:
        in_session = frozenset[TopicPartition]() if seen.is_full else thread.session or frozenset()
        wanted = (in_session | frozenset(seen.partitions)) - seen.forgotten
        sent = exchange.question(
            _with_session(world, follower, source, None if seen.is_full else in_session),
            follower,
            source,
            FETCH,
        )
        assert sent is not None
        kept = tuple(asked for asked in sent.asked if asked[0] in wanted)
        predicted = replace(sent, asked=kept)
    is_empty = seen.api == FETCH and not seen.partitions and not seen.is_full
    if predicted is None and is_empty and thread.reset is None:
        # It only tells the leader what has left the session.
        predicted = Exchange(api=FETCH, asked=())
    for partition, said in seen.partitions.items():
        differs = _begins_elsewhere(world, follower, partition, said)
        if differs:
            return differs
    if predicted is not None and seen.api != FETCH:
        left_out = lookahead.backing_off[seen.number] - frozenset(seen.partitions)
        kept = tuple(asked for asked in predicted.asked if asked[0] not in left_out)
        predicted = replace(predicted, asked=kept)
    differs = question_differs(thread, predicted, seen, lookahead.unchanged.get(seen.number, {}))
    if differs or predicted is None:
        return differs
    exchange.send(world, follower, source, replace(predicted, number=seen.number))
    return ""


def _begins_elsewhere(world: World, broker_id: int, partition: TopicPartition, said: Asked) -> str:
    """Let a follower's log begin where its Fetch says; returns why it cannot, or ""."""
    start = said.log_start_offset if isinstance(said, FetchAsked) else None
    replica = world.replica(broker_id, partition)
    if start is None or replica is None:
        return ""
    name = f"{partition.topic}-{partition.partition}"
    if start < replica.log.log_start_offset:
        return f"{name}: told log start {start}, possible was {replica.log.log_start_offset}"
    refused = log_start.why_not(world, broker_id, partition, start)
    if refused:
        return f"{name}: told log start {start}, possible was less: {refused}"
    log_start.move(world, broker_id, partition, start)
    return ""


def _with_session(
    world: World, follower: int, source: int, session: frozenset[TopicPartition] | None
) -> World:
    thread = world.thread(follower, source)
    assert thread is not None
    if thread.session == session:
        return world
    other = World(world.get)
    other.put(("thread", follower, source), replace(thread, session=session))
    return other


def _is_known(world: World, seen: Question) -> bool:
    return any(known.number == seen.number for known in world.exchanges(seen.follower, seen.source))


def _of_process(state: State, broker_id: int) -> Iterator[World]:
    """A broker hears of its own registration, writes its checkpoint, or finds a disk failed."""
    told = World(state)
    if outboxes.learn_epoch(told, broker_id):
        yield told
    written = World(state) if told.changes else told
    if process.write_checkpoint(written, broker_id):
        yield written
    failing: tuple[FailLogDirectory, ...] = state(("failing", broker_id)) or ()
    if failing:
        world = World(state)
        world.put(("failing", broker_id), failing[1:] or None)
        process.fail_log_directory(world, failing[0])
        yield world
    broker: Broker = state(("broker", broker_id))
    if broker.configuration.placed:  # Else it has one such file.
        unsure = World(state)
        is_dropped = process.write_checkpoint(unsure, broker_id, certain=False)
        if is_dropped and unsure.changes != written.changes:
            yield unsure


def _control(state: State, broker_id: int, lookahead: Lookahead, index: int) -> Iterator[World]:
    """A broker handles a part of a control request that it has.

    Requests of one connection are handled in order, those of several by several threads. A broker
    begins with the partitions that it is to lead (ReplicaManager.becomeLeaderOrFollower); in which
    order it takes them otherwise is its own matter.
    """
    received: tuple[Received, ...] = state(("control", broker_id))
    waiting = [part for part in received if part.errors is None]
    oldest: dict[int, Number] = {}
    for part in waiting:
        oldest.setdefault(part.number[0], part.number)
    for number in oldest.values():
        parts = [part for part in waiting if part.number == number]
        leading = [part for part in parts if _is_to_lead(part.request, broker_id)]
        first = parts[0]
        if not control_handling.may_handle(World(state), broker_id, first):
            continue
        last = len(parts) == 1
        yield from _handle(state, broker_id, leading or parts, last, lookahead, index)


def _handle(
    state: State,
    broker_id: int,
    parts: list[Received],
    is_last: bool,
    lookahead: Lookahead,
    index: int,
) -> Iterator[World]:
    for part in parts:
        seen = lookahead.control_answers.get(part.number)
        if seen is not None and seen.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
            # It failed on the way, as when the topic's configuration is asked of a ZooKeeper whose
            # session is over (ReplicaManager.becomeLeaderOrFollower): this part before it, or not.
            failed = ((None, "UNKNOWN_SERVER_ERROR"),)
            yield _handled(World(state), broker_id, part, failed)
            world = World(state)
            control_handling.handle(world, broker_id, part, is_last=is_last)
            yield _handled(world, broker_id, part, failed)
            continue
        world = World(state)
        errors = handle_control(world, broker_id, part, is_last=is_last)
        if seen is None or not errors_differ(errors, seen):
            # Who refuses says the same before and after it.
            is_refused = any(error for _, error in errors)
            is_early = not is_refused and _speaks_as_before(
                state, broker_id, part, lookahead, index
            )
            fetchless = _fetches_nothing(state, world, broker_id, part, is_last, lookahead, index)
            for after in (*fetchless, world):
                after.is_unlikely |= is_early or (
                    not is_refused and is_yet_to_repeat(state, after, broker_id, lookahead, index)
                )
                yield after


def _fetches_nothing(
    state: State,
    handled: World,
    broker_id: int,
    part: Received,
    is_last: bool,
    lookahead: Lookahead,
    index: int,
) -> Iterator[World]:
    """A broker that is shut down in order fetches no partition of which it becomes a follower.

    It knows of its shutdown before it asks the controller for leave (isShuttingDown, of
    ReplicaManager.makeFollowers and KafkaServer.shutdown, 0.10.2.2, 1.1.1, 2.8.2 and 3.8.0). Who
    asks for the partition in that epoch before its process ends did not know of it.
    """
    if not isinstance(part.request, LeaderAndIsr) or not lookahead.is_shut_down(broker_id, index):
        return
    for told in part.request.states:
        partition = TopicPartition(told.topic, told.partition)
        source = handled.source(broker_id, told.leader, partition)
        before, thread = World(state).thread(broker_id, source), handled.thread(broker_id, source)
        fetch = None if thread is None else thread.fetch(partition)
        if fetch is None or (before is not None and before.fetch(partition) == fetch):
            continue
        epochs = lookahead.epochs_asked_until_end(broker_id, source, partition, index)
        # One may have been sent before; up to 2.0 nobody says the epoch.
        is_of_it = any(epoch is not None and epoch >= told.leader_epoch for epoch in epochs)
        if is_of_it or len(epochs) > 1:
            continue
        world = World(state)
        world.is_unlikely = bool(epochs)
        world.changes, world.notes = {**handled.changes}, [*handled.notes]
        following.leave_fetchers(world, broker_id, partition)
        if is_last:
            following.end_idle_threads(world, broker_id)
        yield world


def handle_control(
    world: World, broker_id: int, part: Received, *, is_last: bool
) -> control_handling.Errors:
    """Let a broker handle a part of a control request; returns what it answers."""
    errors = control_handling.handle(world, broker_id, part, is_last=is_last)
    _handled(world, broker_id, part, errors)
    return errors


def _handled(
    world: World, broker_id: int, part: Received, errors: control_handling.Errors
) -> World:
    received: tuple[Received, ...] = world.get(("control", broker_id)) or ()
    index = received.index(part)
    after = (*received[:index], replace(part, errors=errors), *received[index + 1 :])
    world.put(("control", broker_id), after)
    return world


def _is_to_lead(request: ControlRequest, broker_id: int) -> bool:
    return isinstance(request, LeaderAndIsr) and request.states[0].leader == broker_id


def _speaks_as_before(
    state: State, broker_id: int, part: Received, lookahead: Lookahead, index: int
) -> bool:
    """Tell whether a broker next says something that it does not say once it was told this.

    It answers that it does not lead what it is to lead, or asks in an older epoch. Most likely it
    handles the request after that.
    """
    request = part.request
    if isinstance(request, UpdateMetadata):
        return _is_told_too_early(state, broker_id, part.number, request.told, lookahead, index)
    if isinstance(request, StopReplica):
        partition = request.partition
        return _learns_more(state, broker_id, partition, lookahead, index) or _is_yet_to_append(
            state, broker_id, part.number, partition, lookahead, index
        )
    told = request.states[0]
    partition = TopicPartition(told.topic, told.partition)
    if _is_yet_to_append_in_its_epoch(state, broker_id, partition, lookahead, index):
        return True
    if not _is_to_lead(request, broker_id):
        return (
            _asks_as_before(state, broker_id, told, lookahead, index)
            or _asks_whom_it_leaves(state, broker_id, told, lookahead, index)
            or _is_still_answered(state, broker_id, part.number, told, lookahead, index)
            or _answers_as_before(state, broker_id, part.number, told, lookahead, index)
            or _is_yet_to_append(state, broker_id, part.number, partition, lookahead, index)
        )
    if _asks_whom_it_leaves(state, broker_id, told, lookahead, index):
        return True
    if _is_yet_to_learn(state, broker_id, part.number, partition, lookahead, index):
        return True
    answer = lookahead.next_answered_before(broker_id, partition, part.number, index)
    if answer is not None and answer[1] in _KNOWN_LATER:
        return _is_yet_to_be_read(state, answer[0], lookahead)
    # Two fetches that are under way may be read in another order than they are answered in.
    return any(
        epoch <= told.leader_epoch and _is_yet_to_be_read(state, number, lookahead)
        for number, epoch in lookahead.unknown_epochs_before(
            broker_id, partition, part.number, index
        )
    )


def _is_yet_to_be_read(state: State, number: Number, lookahead: Lookahead) -> bool:
    """Tell whether a leader has not looked at its log for a question."""
    question = lookahead.questions[number]
    waiting = _waiting(state, question)
    return waiting is None or (waiting.stage is Stage.ARRIVED and not waiting.refused)


def _learns_more(
    state: State, broker_id: int, partition: TopicPartition, lookahead: Lookahead, index: int
) -> bool:
    """Tell whether a follower that is to stop fetching ends with a later high watermark."""
    replica = World(state).replica(broker_id, partition)
    last = lookahead.checkpointed_next(broker_id, partition, index)
    return replica is not None and last is not None and replica.high_watermark < last


def _is_yet_to_learn(
    state: State,
    broker_id: int,
    number: Number,
    partition: TopicPartition,
    lookahead: Lookahead,
    index: int,
) -> bool:
    """Tell whether a follower that is to lead is told a later high watermark before it answers.

    It most likely took that, if it later tells a Fetch with records no less. A new leader knows no
    follower's end (Partition.makeLeader, 1.1.1), and looks at its log before it counts a Fetch.
    """
    world = World(state)
    replica = world.replica(broker_id, partition)
    first = lookahead.first_told(broker_id, partition, index)
    if replica is None or first is None or replica.role is not Role.FOLLOWER:
        return False
    return any(
        request.number is not None
        and replica.high_watermark
        < lookahead.told_before_answering(request.number, number, partition, index)
        <= first
        for source in world.leaders(broker_id)
        for request in world.exchanges(broker_id, source)
        if request.is_awaited
    )


def _asks_as_before(
    state: State, broker_id: int, told: PartitionState, lookahead: Lookahead, index: int
) -> bool:
    """Tell whether a follower's next Fetch is of an older leader epoch than it is told now.

    It was made before then. A partition that it does not name is fetched in the epoch in which the
    session has it. Who is told of no leader goes on in the older epoch
    (kafka.server.ReplicaManager.makeFollowers, 2.8.2), so that tells nothing.
    """
    if told.leader == -1:
        return False
    partition = TopicPartition(told.topic, told.partition)
    world = World(state)
    for source in world.leaders(broker_id):
        item = lookahead.next_fetch(broker_id, source, index)
        if item is None or _is_known(world, item):
            continue
        named = item.partitions.get(partition)
        asked = lookahead.unchanged[item.number].get(partition) if named is None else named
        epoch = asked.leader_epoch if isinstance(asked, FetchAsked) else None
        if epoch is not None and epoch < told.leader_epoch:
            return True
    return False


def _asks_whom_it_leaves(
    state: State, broker_id: int, told: PartitionState, lookahead: Lookahead, index: int
) -> bool:
    """Tell whether a follower's next Fetch still asks the leader that it is to leave now.

    Who is told of another leader takes the partition from the thread of the former one
    (kafka.server.ReplicaManager.makeFollowers and makeLeaders, 0.10.2.2, 1.1.1, 2.8.2 and 3.8.0).
    Who is told of no leader may go on, and so may who is told once more before it asks.
    """
    if told.leader == -1:
        return False
    partition = TopicPartition(told.topic, told.partition)
    world = World(state)
    received: tuple[Received, ...] = state(("control", broker_id)) or ()
    leaders = {
        each.leader
        for part in received
        if part.errors is None and isinstance(part.request, LeaderAndIsr)
        for each in part.request.states
        if (each.topic, each.partition) == partition
    }
    for source in world.leaders(broker_id):
        thread = world.thread(broker_id, source)
        if leader_of(source) in leaders or thread is None or thread.fetch(partition) is None:
            continue
        item = lookahead.fetches_before_told(broker_id, source, partition, index)
        if item is not None and not _is_known(world, item):
            return True
    return False


def _answers_as_before(
    state: State,
    broker_id: int,
    number: Number,
    told: PartitionState,
    lookahead: Lookahead,
    index: int,
) -> bool:
    """Tell whether a broker is yet to say, to a Fetch of an older epoch, that it knows of none.

    Up to 2.4 nobody is fenced within a fetch session.
    """
    partition = TopicPartition(told.topic, told.partition)
    answer = lookahead.next_answered_before(broker_id, partition, number, index)
    if answer is None or answer[1] not in NOT_HERE:
        return False
    question = lookahead.questions[answer[0]]
    asked = question.partitions.get(partition)
    epoch = asked.leader_epoch if isinstance(asked, FetchAsked) else None
    if not question.is_full or epoch is None or not 0 <= epoch < told.leader_epoch:
        return False
    waiting = _waiting(state, question)
    return waiting is None or waiting.stage in (Stage.ARRIVED, Stage.WAITING)


def _is_yet_to_append(
    state: State,
    broker_id: int,
    number: Number,
    partition: TopicPartition,
    lookahead: Lookahead,
    index: int,
) -> bool:
    """Tell whether a broker has something to append before it handles a control request.

    It next fetches from beyond the end of its log. As a leader it has a client's produce, or is
    sent one before it answers. As a follower it has an answer that is on its way, or that it has
    not handled.
    """
    world = World(state)
    replica = world.replica(broker_id, partition)
    if replica is None or not lookahead.fetches_beyond(
        broker_id, partition, replica.log.log_end_offset, index
    ):
        return False
    if replica.role is Role.LEADER:
        return lookahead.is_sent_before(broker_id, partition, number, index) or any(
            (produce.broker, produce.topic, produce.partition) == (broker_id, *partition)
            for produce in state(("sent",)) or ()
        )
    return any(
        answered == partition and isinstance(answer, FetchAnswer) and bool(answer.batches)
        for source in world.leaders(broker_id)
        if (waiting := exchange.awaited(world, broker_id, source)) is not None
        for answered, answer in waiting.answers
    )


def _is_yet_to_append_in_its_epoch(
    state: State, broker_id: int, partition: TopicPartition, lookahead: Lookahead, index: int
) -> bool:
    """Tell whether a leader next sends a batch from its log's end in the epoch that it is to leave.

    A client's produce comes first then, though it was sent after the request.
    """
    replica = World(state).replica(broker_id, partition)
    if replica is None or replica.role is not Role.LEADER:
        return False
    end = replica.log.log_end_offset
    return lookahead.epoch_at(broker_id, partition, end, index) == replica.leader_epoch


def _is_still_answered(
    state: State,
    broker_id: int,
    number: Number,
    told: PartitionState,
    lookahead: Lookahead,
    index: int,
) -> bool:
    """Tell whether a follower is yet to ask, unseen, the leader that it is to leave now.

    The answer is seen, and it names the partition: so it was asked before the follower left.
    """
    partition = TopicPartition(told.topic, told.partition)
    world = World(state)
    for source in world.leaders(broker_id):
        if leader_of(source) != told.leader:
            asked = {exchange.number for exchange in world.exchanges(broker_id, source)}
            unseen = lookahead.unseen_before(broker_id, source, partition, number, index)
            if any(question not in asked for question in unseen):
                return True
    return False


def _waiting(state: State, question: Question) -> Exchange | None:
    """Return the request that a question is, None if it was not sent yet or has ended."""
    requests = World(state).exchanges(question.follower, question.source)
    return next((request for request in requests if request.number == question.number), None)


def _is_told_too_early(
    state: State,
    broker_id: int,
    number: Number,
    told: frozenset[TopicPartition],
    lookahead: Lookahead,
    index: int,
) -> bool:
    """Tell whether a broker is yet to refuse a fetch of a partition that it now hears of."""
    broker = World(state).broker(broker_id)
    known = None if broker is None else broker.told
    for partition in told - known if known is not None else ():
        for question in lookahead.refused_before(broker_id, partition, number, index):
            waiting = _waiting(state, question)
            if waiting is None or partition not in waiting.refused:
                return True
    return False


def _learn(state: State, broker_id: int, lookahead: Lookahead, index: int) -> Iterator[World]:
    """A leader moves its high watermark after an append, asks for an ISR, or learns of one.

    It also waits no longer for who has lagged too long outside the ISR.
    """
    broker: Broker = state(("broker", broker_id))
    asks = broker.generation.asks_controller_for_isr and lookahead.shows_isr_answers
    get = state.lookup
    for partition in get(("partitions", broker_id)) or ():
        if get(("appended", broker_id, partition)):
            world = World(state)
            leader.settle_append(world, broker_id, partition)
            yield world
        if get(("isr refused", broker_id, partition)):
            world = World(state)
            world.put(("isr refused", broker_id, partition), None)
            leader.give_up_isr(world, broker_id, partition)
            yield world
        replica: Replica = get(("replica", broker_id, partition))
        if replica.role is Role.LEADER:
            yield from _of_followers(state, broker, partition, replica, lookahead, index)
        if get(("isr change", broker_id, partition)) is None:
            continue
        world = World(state)
        if asks:
            if get(("isr answer", broker_id, partition)) is None:
                continue
            world.put(("isr answer", broker_id, partition), None)
        leader.learn_isr(world, broker_id, partition)
        yield world


def _of_followers(
    state: State,
    broker: Broker,
    partition: TopicPartition,
    replica: Replica,
    lookahead: Lookahead,
    index: int,
) -> Iterator[World]:
    """A leader waits no longer for a follower outside the ISR, or asks for one in it."""
    broker_id = broker.configuration.broker
    for follower in leader.awaited_outside_isr(broker, replica):
        if lookahead.may_lag_too_long(follower, broker_id, partition, index):
            world = World(state)
            leader.wait_no_longer(world, broker_id, partition, follower)
            world.is_unlikely = True
            yield world
    seen = lookahead.next_isr_asked(broker_id, partition, replica.leader_epoch, index)
    if seen is not None:
        yield from isr_requests.asked_by_a_repeated_fetch(
            state, broker_id, partition, replica, seen, lookahead, index
        )


def copy_differs(world: World, seen: CopyBegun) -> str:
    """Return how the files of a broker differ from those that were copied, or ""."""
    broker = world.broker(seen.broker)
    for partition, files in seen.files:
        replica = world.replica(seen.broker, partition)
        differs = files_differ(broker, replica, files)
        if differs:
            name = f"{partition.topic}-{partition.partition}"
            return f"broker {seen.broker} held of {name} {differs}"
    return ""


def _copies(state: State) -> Iterator[World]:
    """A broker's files are what the snapshot has of them."""
    labels = state(("copying",))
    if not labels:
        return
    for broker_id in World(state).broker_ids():
        for component in (("copying", label, broker_id) for label in labels):
            seen = state(component)
            world = World(state)
            if seen is not None and _lost_local(world, seen) and not copy_differs(world, seen):
                world.put(component, None)
                now = world.state(state) if len(world.changes) > 1 else state
                world.notes.append(Copied(seen.label, broker_id, replicas_of(now, broker_id)))
                yield world


def _lost_local(world: World, seen: CopyBegun) -> bool:
    """Let tiered logs have lost what is not among a broker's files; tells whether they may have."""
    return all(
        files.local_start is None
        or world.replica(seen.broker, partition) is None
        or tier.lose_local(world, seen.broker, partition, files.local_start)
        or log_start.begins_on_disk(world, seen.broker, partition, files.local_start)
        for partition, files in seen.files
    )


def _produces(state: State, lookahead: Lookahead, index: int) -> Iterator[World]:
    """A leader handles a client's produce, with the outcome that the client was told."""
    for request in state(("sent",)) or ():
        world = World(state)
        broker = world.broker(request.broker)
        if broker is None or not broker.is_working or _is_behind(request, state, lookahead):
            continue
        left = tuple(produce for produce in state(("sent",)) if produce != request)
        world.put(("sent",), left or None)
        leader.produce(world, request, settles=False)
        unsettled = ("appended", request.broker, TopicPartition(request.topic, request.partition))
        if world.get(unsettled):
            world.put(unsettled, (*(state(unsettled) or ()), request.operation))
        outcome: PredictedProduce = world.get(("answer", request.operation))
        told = lookahead.client_answers.get(request.operation)
        if _is_told(request, outcome, told):
            partition = TopicPartition(request.topic, request.partition)
            epoch = lookahead.epoch_at(request.broker, partition, outcome.base_offset, index)
            replica = world.replica(request.broker, partition)
            # A log may lose the batch before it is read, and get another one there: that counts
            # only while the broker may hear of the other epoch before it answers.
            is_of_another_epoch = (
                epoch is not None
                and replica is not None
                and epoch != replica.leader_epoch
                and (
                    hears_of_leaders(world, request.broker)
                    or lookahead.is_told_before_answering(request.broker, request.operation, index)
                )
            )
            # What nobody answered and no snapshot has may never have been read.
            is_lost = (
                (told is None or told.outcome == "info" or told.error in NOT_LEADING)
                and (told is None or told.error not in _SAID_OF_APPENDED)
                and replica is not None
                # Who led and follows now fetches from the end of what it has, and asks for the
                # epoch of the last record.
                and not lookahead.fetches_beyond(
                    request.broker, partition, outcome.base_offset, index
                )
                and lookahead.epoch_asked_next(request.broker, partition, index)
                != replica.leader_epoch
                and _is_elsewhere(
                    lookahead.copied_end(partition, outcome.base_offset, replica.leader_epoch),
                    outcome.base_offset + len(request.records),
                    is_read=epoch == replica.leader_epoch,
                )
            )
            world.is_unlikely = (
                is_of_another_epoch
                or is_lost
                or _is_read_before(state, request, outcome.base_offset, lookahead, index)
            )
            yield world
        elif told is not None:
            refused = World(state)
            refused.put(("sent",), left or None)
            if leader.refuse_unverified(refused, request, told.error):
                yield refused


def _is_read_before(
    state: State, request: Produce, offset: int, lookahead: Lookahead, index: int
) -> bool:
    """Tell whether a leader is yet to answer a Fetch that would find what it appends now."""
    partition = TopicPartition(request.topic, request.partition)
    return any(
        waiting is None or waiting.stage in (Stage.SENT, Stage.ARRIVED, Stage.WAITING)
        for number in lookahead.empty_answers(
            request.broker, partition, offset, request.operation, index
        )
        for waiting in [_waiting(state, lookahead.questions[number])]
    )


def _is_behind(request: Produce, state: State, lookahead: Lookahead) -> bool:
    """Tell whether the request before on its connection is yet to be acknowledged.

    Until a broker has answered a request it reads no other of that connection
    (kafka.network.SocketServer mutes the channel, 0.10.2.2, 1.1.1 and 2.8.2).
    """
    for operation in lookahead.behind.get(request.operation, ()):
        told = lookahead.client_answers.get(operation)
        outcome: PredictedProduce | None = state(("answer", operation))
        is_to_come = outcome is not None and outcome.acknowledged is not True
        if is_to_come and told is not None and told.outcome == "ok":
            return True
    return False


def _is_elsewhere(copied: int | None, end: int, *, is_read: bool) -> bool:
    """Tell whether what is seen where a produce would be is no batch of it, or nothing is seen."""
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
