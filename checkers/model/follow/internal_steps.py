"""Internal steps of all kinds, likeliest first; those of no module of their own stand here."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kchaos.checkers.acts import FailLogDirectory, TopicPartition
from kchaos.checkers.model.broker import exchange, leader, log_start, process, tier
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.controller import outboxes
from kchaos.checkers.model.follow import isr_requests
from kchaos.checkers.model.follow.internal_control_steps import control_steps
from kchaos.checkers.model.follow.internal_follower_steps import at_follower, came_too_late
from kchaos.checkers.model.follow.internal_leader_steps import (
    at_leader,
    begin_later,
    likely_at_leader,
)
from kchaos.checkers.model.follow.internal_produce_steps import produce_steps
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.matching import files_differ, is_on, request_differs, request_of
from kchaos.checkers.model.follow.observations import (
    CopyBegun,
    FetchAsked,
    PartitionAsked,
    RequestSeen,
    ResponseSeen,
)
from kchaos.checkers.model.settle.views import replicas_of
from kchaos.checkers.model.state.state import Broker, Component, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.fetchers import leader_of, sources_of
from kchaos.checkers.model.values.prediction import Copied
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.replica import GrantedIsr, Replica, Role
from kchaos.checkers.model.values.requests import Exchange, Stage


def internal_steps(state: State, lookahead: Lookahead, index: int, decided: int) -> Iterator[World]:
    """Yield every step that may come before the next observation, likeliest first.

    Args:
        state: Before the step.
        lookahead: Of the record.
        index: How many observations were taken.
        decided: How many decisions were taken.
    """
    get = state.lookup
    broker_ids: tuple[int, ...] = get(("brokers",)) or ()
    working = [broker_id for broker_id in broker_ids if get(("broker", broker_id)).is_working]
    for broker_id in working:
        replicas = [
            (partition, get(("replica", broker_id, partition)))
            for partition in get(("partitions", broker_id)) or ()
        ]
        yield from _of_process(state, broker_id, replicas)
        if get(("control", broker_id)) is not None:
            yield from control_steps(state, broker_id, lookahead, index)
        yield from _learn(state, broker_id, replicas, lookahead, index)
    for leader_id in working:
        for follower, source in _followers(state, leader_id):
            for request in get(("exchanges", follower, source)) or ():
                if request.is_at_leader and request.number is not None:
                    yield from at_leader(state, follower, source, request, lookahead, index)
    for broker_id in working:
        for source in get(("leaders", broker_id)) or ():
            yield from at_follower(state, broker_id, source, lookahead, index, decided)
    yield from produce_steps(state, lookahead, index)
    yield from _copies(state)


Touched = tuple[Any, ...]
"""What a step has changed, so that another one may follow from it.

It is ("appended", leader, partition), ("asked", leader, follower, source) of a request, ("fetcher",
broker, source), or ("produces",): in this order they are looked at.
"""


def touched(state: State, changes: Mapping[Component, Any]) -> Iterator[Touched]:
    """Yield what changes have touched of writes and fetches, given the state after them."""
    may_write = False
    for component, value in changes.items():
        match component:
            case "exchanges" | "thread", broker_id, source:
                yield "asked", leader_of(source), broker_id, source
                yield "fetcher", broker_id, source
                if component[0] == "exchanges":
                    may_write |= any(request.stage in _DONE_AT_LEADER for request in value or ())
            case "replica", leader_id, _:
                for follower, source in _followers(state, leader_id):
                    yield "asked", leader_id, follower, source
            case "appended", _, _:
                yield component
            case ("sent",) | ("answer", _):
                may_write = True
    if may_write and state(("sent",)):
        yield ("produces",)


_DONE_AT_LEADER = (Stage.WAITING, Stage.ANSWERED)
"""A Fetch that has come to here stands in no produce's way any more."""


def likely_steps(
    state: State, lookahead: Lookahead, index: int, decided: int, what: Touched
) -> Iterator[World]:
    """Yield the likely ones of `internal_steps` with what was touched.

    For the other arguments see `internal_steps`.
    """
    match what:
        case "appended", leader_id, partition:
            if state(what):
                world = World(state)
                leader.settle_append(world, leader_id, partition)
                yield world
        case "asked", _, follower, source:
            for request in state(("exchanges", follower, source)) or ():
                if request.is_at_leader and request.number is not None:
                    yield from likely_at_leader(state, follower, source, request, lookahead, index)
        case "fetcher", broker_id, source:
            yield from at_follower(state, broker_id, source, lookahead, index, decided)
        case _:
            yield from produce_steps(state, lookahead, index, only_likely=True)


def _followers(state: State, leader_id: int) -> Iterator[tuple[int, int]]:
    """Yield followers that a leader may have, with the sources of their threads for it."""
    get = state.lookup
    for broker_id in get(("brokers",)) or ():
        if broker_id != leader_id:
            fetchers = get(("fetchers", broker_id))
            for source in (leader_id,) if fetchers is None else sources_of(leader_id, fetchers):
                yield broker_id, source


def early_requests(state: State, lookahead: Lookahead, index: int) -> Iterator[World]:
    """Yield each request that may have been sent before the links saw it."""
    world = World(state)
    for broker_id in world.broker_ids():
        for source in world.leaders(broker_id):
            item = lookahead.next_of(broker_id, source, index)
            if not isinstance(item, RequestSeen) or request_of(world, item) is not None:
                continue
            after = World(state)
            if not give_up_others(after, item, lookahead) and not ask(after, item, lookahead):
                yield after


def give_up_others(world: World, seen: RequestSeen, lookahead: Lookahead) -> str:
    """Let a thread that asks anew give up what it waited for; return why it cannot, or ""."""
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


def is_taken(seen: RequestSeen | ResponseSeen, waiting: Exchange) -> str:
    """Return the sentence that a fetcher still waits on the connection of what was seen."""
    assert waiting.number is not None
    return (
        f"broker {seen.follower} waits for the answer to request {waiting.number[1]} of the same "
        f"connection"
    )


def ask(world: World, seen: RequestSeen, lookahead: Lookahead) -> str:
    """Let a fetcher thread send a request that was seen; return why it cannot, or ""."""
    follower, source = seen.follower, seen.source
    broker, thread = world.broker(follower), world.thread(follower, source)
    if broker is None or thread is None:
        return f"broker {follower} has no fetcher for broker {seen.leader}"
    predicted = exchange.question(world, follower, source, seen.api)
    if predicted is not None and seen.api == FETCH:
        in_session = frozenset[TopicPartition]() if seen.is_full else thread.session or frozenset()
        # A topic that was made again is named with its new id, and forgotten with the one before.
        wanted = (in_session - seen.forgotten) | frozenset(seen.partitions)
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
    differs = request_differs(thread, predicted, seen, lookahead.unchanged.get(seen.number, {}))
    if differs or predicted is None:
        return differs
    sent = replace(predicted, number=seen.number, replica_epoch=seen.replica_epoch)
    exchange.send(world, follower, source, sent)
    return ""


def _begins_elsewhere(
    world: World, broker_id: int, partition: TopicPartition, said: PartitionAsked
) -> str:
    """Let a follower's log begin where its Fetch says; return why it cannot, or ""."""
    start = said.log_start_offset if isinstance(said, FetchAsked) else None
    replica = world.replica(broker_id, partition)
    if start is None or replica is None:
        return ""
    name = f"{partition.topic}-{partition.partition}"
    if start < replica.log.log_start_offset:
        return f"{name}: log start {start}, possible was {replica.log.log_start_offset}"
    refused = log_start.why_not(world, broker_id, partition, start)
    if refused:
        return f"{name}: log start {start}, possible was less: {refused}"
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


def _of_process(
    state: State, broker_id: int, replicas: Sequence[tuple[TopicPartition, Replica]]
) -> Iterator[World]:
    """Yield worlds in which a broker registers, writes its checkpoint, or loses a disk."""
    get = state.lookup
    if get(("new epoch", broker_id)) is not None:
        told = World(state)
        outboxes.learn_epoch(told, broker_id)
        yield told
    broker: Broker = get(("broker", broker_id))
    # A replica that no LeaderAndIsr has named is not in the next checkpoint file.
    may_drop = broker.checkpoints and not all(replica.is_hosted for _, replica in replicas)
    written = World(state)
    if may_drop and process.write_checkpoint(written, broker_id):
        yield written
    failing: tuple[FailLogDirectory, ...] = get(("failing", broker_id)) or ()
    if failing:
        world = World(state)
        world.put(("failing", broker_id), failing[1:] or None)
        process.fail_log_directory(world, failing[0])
        yield world
    if may_drop and broker.configuration.placed:  # Else it has one such file.
        unsure = World(state)
        is_dropped = process.write_checkpoint(unsure, broker_id, certain=False)
        if is_dropped and unsure.changes != written.changes:
            yield unsure


def _learn(
    state: State,
    broker_id: int,
    replicas: Sequence[tuple[TopicPartition, Replica]],
    lookahead: Lookahead,
    index: int,
) -> Iterator[World]:
    """Yield worlds in which a leader moves its high watermark, asks for an ISR, or learns of one.

    It also waits no longer for who has lagged too long outside the ISR.
    """
    broker: Broker = state(("broker", broker_id))
    asks = broker.generation.asks_controller_for_isr and lookahead.shows_isr_answers
    get, awaits = state.lookup, state.awaits
    for partition, replica in replicas:
        leads = replica.role is Role.LEADER
        if not awaits:
            if leads:
                yield from _of_followers(state, broker, partition, replica, lookahead, index)
            continue
        if get(("appended", broker_id, partition)):
            world = World(state)
            leader.settle_append(world, broker_id, partition)
            yield world
        if get(("isr refused", broker_id, partition)):
            world = World(state)
            world.put(("isr refused", broker_id, partition), None)
            leader.give_up_isr(world, broker_id, partition)
            yield world
        if leads:
            yield from _of_followers(state, broker, partition, replica, lookahead, index)
            if get(("asked to delete", partition)) is not None:
                yield from _deletes(state, broker_id, partition, lookahead, index)
        if isinstance(get(("isr answer", broker_id, partition)), GrantedIsr):
            world = World(state)
            leader.take_granted_isr(world, broker_id, partition)
            yield world
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
    """Yield worlds in which a leader stops waiting for a follower, or asks for it in the ISR."""
    broker_id = broker.configuration.broker
    wanted = state(("isr wanted", broker_id, partition))
    for follower in leader.awaited_outside_isr(broker, replica, wanted):
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


def _deletes(
    state: State, broker_id: int, partition: TopicPartition, lookahead: Lookahead, index: int
) -> Iterator[World]:
    """Yield worlds in which a leader deleted records, which is seen once it leads no more.

    It moves at once, and then waits for the followers (Partition.deleteRecordsOnLeader and
    ReplicaManager.deleteRecords, 1.1.1, 2.0.1, 2.4.1 and 3.8.0): a follower that is cut off learns
    nothing of it.
    """
    world = World(state)
    begin_later(world, broker_id, partition, lookahead, index)
    if world.changes:
        yield world


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
    """Yield worlds in which a broker's files are those of the snapshot."""
    copying = state(("copying",)) or ()
    for broker_id, label in copying:
        seen = state(("copying", label, broker_id))
        world = World(state)
        if _lost_local(world, seen) and not copy_differs(world, seen):
            now = world.state(state) if world.changes else state
            left = tuple(each for each in copying if each != (broker_id, label))
            world.put(("copying",), left or None)
            world.put(("copying", label, broker_id), None)
            world.notes.append(Copied(label, broker_id, replicas_of(now, broker_id)))
            yield world


def _lost_local(world: World, seen: CopyBegun) -> bool:
    """Let tiered logs lose offsets that a broker's files lack; return whether they may have."""
    return all(
        files.local_start is None
        or world.replica(seen.broker, partition) is None
        or tier.lose_local(world, seen.broker, partition, files.local_start)
        or log_start.begins_on_disk(world, seen.broker, partition, files.local_start)
        for partition, files in seen.files
    )
