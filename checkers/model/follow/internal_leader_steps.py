"""Internal steps of a leader with a fetcher's request: no observation shows them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.broker import exchange, leader, log_start, tier
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.follow.counted_in_part import left_uncounted, yet_to_read
from kchaos.checkers.model.follow.isr_requests import Asking
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.matching import (
    answers_as_seen,
)
from kchaos.checkers.model.follow.observations import FetchAnswered, Reply
from kchaos.checkers.model.state.state import State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.fetchers import leader_of
from kchaos.checkers.model.values.replica import Role
from kchaos.checkers.model.values.requests import (
    Exchange,
    FetchAnswer,
    LeaderAndIsr,
    Received,
    Stage,
)


def at_leader(
    state: State, follower: int, source: int, request: Exchange, lookahead: Lookahead, index: int
) -> Iterator[World]:
    """A leader looks at its log for a request, or ends the wait of a Fetch.

    Its log may begin later by then, as far as later messages have that.

    Args:
        state: Before the step.
        follower: Who asked.
        source: Of the thread that asked (`values.fetchers`).
        request: What the leader has, as the links numbered it.
        lookahead: Of the record.
        index: How many observations were taken.
    """
    yield from _at_leader(state, follower, source, request, lookahead, index)
    moved, leader_id = World(state), leader_of(source)
    for partition, _ in request.asked:
        replica = moved.replica(leader_id, partition)
        if replica is None:
            continue
        known = replica.log.log_start_offset
        start = lookahead.begins_later(leader_id, partition, known, index)
        if start is not None and not log_start.why_not(moved, leader_id, partition, start):
            log_start.move(moved, leader_id, partition, start)
    if moved.changes:
        for world in _at_leader(
            state.changed(moved.changes), follower, source, request, lookahead, index
        ):
            world.changes = {**moved.changes, **world.changes}
            yield world


def _at_leader(
    state: State, follower: int, source: int, request: Exchange, lookahead: Lookahead, index: int
) -> Iterator[World]:
    for withheld in _withheld(state, follower, source, request, lookahead):
        asking = Asking(lookahead, index)
        yield from _go_on(state, follower, source, request, lookahead, index, asking, withheld)
        if asking.is_open:
            asking = Asking(lookahead, index, declines=True)
            yield from _go_on(state, follower, source, request, lookahead, index, asking, withheld)


def _withheld(
    state: State, follower: int, source: int, request: Exchange, lookahead: Lookahead
) -> Iterable[frozenset[TopicPartition]]:
    """Return of which partitions a leader may send no records, likeliest first.

    The quota is asked of for each partition by itself, so it may be used up for some of them.
    """
    world, leader_id = World(state), leader_of(source)
    throttled = frozenset(
        partition
        for partition, _ in request.asked
        if leader.may_throttle(world, leader_id, partition, follower)
    )
    seen = None if request.number is None else lookahead.replies.get(request.number)
    said = {} if seen is None else seen.partitions
    carried = {
        partition
        for partition, answer in said.items()
        if isinstance(answer, FetchAnswered) and answer.last_offset is not None
    }
    return dict.fromkeys((frozenset[TopicPartition](), throttled - carried, throttled))


def _go_on(  # noqa: C901
    state: State,
    follower: int,
    source: int,
    request: Exchange,
    lookahead: Lookahead,
    index: int,
    asking: Asking,
    withheld: frozenset[TopicPartition],
) -> Iterator[World]:
    seen = None if request.number is None else lookahead.replies.get(request.number)
    world = World(state)
    if seen is not None and seen.error_code in _BEFORE_THE_LOG:
        if _BEFORE_THE_LOG[seen.error_code](request, lookahead):
            exchange.change(
                world, follower, source, request, replace(request, stage=Stage.ANSWERED)
            )
            yield world
        return
    if seen is not None and seen.error_code == ErrorCode.UNKNOWN_SERVER_ERROR:
        yield from _failing(state, follower, source, request)
        return
    if seen is not None and _failed(seen):
        yield from _failing(state, follower, source, request)
        return
    if seen is not None and request.stage is not Stage.READ:
        tier_sends_away(world, leader_of(source), request, seen)
    if request.stage is Stage.ARRIVED and not request.refused:
        yield from _refused_first(state, follower, source, request, seen)
    if request.stage is Stage.ARRIVED and seen is not None:
        yield from _refused_while_told(state, follower, source, request, seen)
    is_uncounted = request.stage in (Stage.ARRIVED, Stage.READ)
    if is_uncounted and request.api == FETCH and seen is not None:
        unread = yet_to_read(world, follower, source, request, seen, withheld)
        if unread:
            yield from _counted_in_part(
                state, follower, source, request, lookahead, index, asking, withheld, unread
            )
    if is_uncounted:
        after, _ = exchange.read(world, follower, source, request, asking, withheld)
    else:
        after = exchange.answer_waiting(world, follower, source, request, withheld)
    if request.stage is Stage.WAITING and _would_be_seen(follower, source, after, lookahead, index):
        return
    if not _may_be_answered(world, follower, source, request, after, seen, lookahead, index):
        return
    world.is_unlikely = is_uncounted and _is_counted_later(
        state, follower, source, request, lookahead, index
    )
    yield world
    if after.stage is Stage.WAITING:
        yield from _at_once(state, follower, source, request, lookahead, index, asking, withheld)
    if request.stage is Stage.ARRIVED and request.api == FETCH:
        # What others do may come between its look at the log and counting the follower's offset.
        looked = World(state)
        exchange.look(looked, follower, source, request, withheld)
        yield looked
    if is_uncounted and request.api == FETCH:
        yield from _counted_in_part(
            state, follower, source, request, lookahead, index, asking, withheld
        )


def _counted_in_part(
    state: State,
    follower: int,
    source: int,
    request: Exchange,
    lookahead: Lookahead,
    index: int,
    asking: Asking,
    withheld: frozenset[TopicPartition],
    unread: frozenset[TopicPartition] = frozenset(),
) -> Iterator[World]:
    """A leader has counted some partitions of a Fetch, and others come in between.

    It has not read `unread` ones by then.
    """
    before = World(state)
    looked = exchange.look(before, follower, source, request, withheld, but=unread)
    for left in left_uncounted(before, follower, source, looked, lookahead, index):
        yield _left(before, follower, source, looked, asking, left | unread)
    if unread:
        yield _left(before, follower, source, looked, asking, unread)


def _left(
    before: World,
    follower: int,
    source: int,
    looked: Exchange,
    asking: Asking,
    left: frozenset[TopicPartition],
) -> World:
    world = World(before.get)
    world.changes.update(before.changes)
    exchange.count(world, follower, source, looked, asking, but=left)
    world.is_unlikely = True
    return world


def _is_counted_later(
    state: State, follower: int, source: int, request: Exchange, lookahead: Lookahead, index: int
) -> bool:
    """Tell whether a leader most likely counts a Fetch in the next leader epoch.

    It has looked at its log in this one. Nobody else would let the follower join the ISR there.
    """
    world, leader_id = World(state), leader_of(source)
    return any(
        (replica := world.replica(leader_id, partition)) is not None
        and lookahead.joins_in_next_epoch(follower, source, partition, replica.leader_epoch, index)
        for partition, _ in request.asked
    )


def _is_in_session(request: Exchange, lookahead: Lookahead) -> bool:
    """Tell whether a Fetch names a session, which its leader may have forgotten."""
    return not request.asked or any(asked.is_incremental for _, asked in request.asked)


def _names_ids(request: Exchange, lookahead: Lookahead) -> bool:
    """Tell whether a Fetch names its topics by ids, from version 13 on (KIP-516)."""
    question = None if request.number is None else lookahead.questions.get(request.number)
    return question is not None and (question.version or 0) >= 13


_BEFORE_THE_LOG: Mapping[int, Callable[[Exchange, Lookahead], bool]] = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND: _is_in_session,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH: _is_in_session,
    ErrorCode.UNKNOWN_TOPIC_ID: _names_ids,
    ErrorCode.INCONSISTENT_TOPIC_ID: _names_ids,
    # The session was begun with ids, and this names topics; or the other way about.
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: _is_in_session,
}
"""Errors of a whole Fetch with which a leader does not get as far as its log: when they may come.

Source: kafka.server.FetchManager.newContext. Any other comes of what a leader does when it counts
the fetch: `exchange.count` predicts it, or it failed (`_failing`).
"""


def tier_sends_away(world: World, leader_id: int, request: Exchange, seen: Reply) -> None:
    """Let a leader's local log begin behind what it was asked for, if it is seen to say so.

    Only its answer tells that it has deleted local segments of a tiered log.
    """
    for partition, asked in request.asked:
        said = seen.partitions.get(partition)
        if said is not None and said.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            replica = world.replica(leader_id, partition)
            if replica is not None and asked.fetch_offset >= tier.local_start(replica):
                tier.lose_local(world, leader_id, partition, asked.fetch_offset + 1)


def _refused_first(
    state: State, follower: int, source: int, request: Exchange, seen: Reply | None
) -> Iterator[World]:
    """A leader refuses a partition that it has not been told of, and hears of it right then."""
    world = World(state)
    unknown = exchange.not_told(world, source, request)
    said = {} if seen is None else seen.partitions
    refused = frozenset(
        partition for partition in unknown if partition in said and said[partition].error_code
    )
    if refused:
        exchange.change(world, follower, source, request, replace(request, refused=refused))
        yield world


def _refused_while_told(
    state: State, follower: int, source: int, request: Exchange, seen: Reply
) -> Iterator[World]:
    """A leader refuses a partition while it handles the LeaderAndIsr that it begins or ends with.

    It has taken over one half of it: the leader epoch, or who leads (KAFKA-9579).
    """
    world, leader_id = World(state), leader_of(source)
    broker = world.broker(leader_id)
    if broker is None or request.api != FETCH or not broker.generation.may_refuse_while_told:
        return
    refused = {
        partition
        for partition, asked in request.asked
        if (said := seen.partitions.get(partition)) is not None
        and said.error_code == ErrorCode.NOT_LEADER_FOR_PARTITION
        and asked.leader_epoch in epochs_half_told(world, leader_id, partition)
    }
    if not refused:
        return
    looked = exchange.look(world, follower, source, request)
    answers = tuple(
        (partition, FetchAnswer(error=leader.NOT_LEADER) if partition in refused else answer)
        for partition, answer in looked.answers
    )
    half_told = replace(looked, answers=answers)
    exchange.change(world, follower, source, looked, half_told)
    after, _ = exchange.count(world, follower, source, half_told)
    answers, differs = answers_as_seen(after, seen)
    if not differs:
        exchange.change(world, follower, source, after, replace(after, answers=answers))
        yield world


def epochs_half_told(world: World, broker_id: int, partition: TopicPartition) -> set[int]:
    """Return the leader epochs that a broker is about to begin to lead in, or to end.

    It takes over only newer ones, and one that leads on leads all the while
    (ReplicaManager.becomeLeaderOrFollower and Partition.makeLeader, 3.6.0).
    """
    replica = world.replica(broker_id, partition)
    known = -1 if replica is None else replica.leader_epoch
    received: tuple[Received, ...] = world.get(("control", broker_id)) or ()
    told = [
        state
        for part in received
        if part.errors is None and isinstance(part.request, LeaderAndIsr)
        for state in part.request.states
        if (state.topic, state.partition) == partition and state.leader_epoch > known
    ]
    if replica is not None and replica.role is Role.LEADER:
        return {known} if any(state.leader != broker_id for state in told) else set()
    return {state.leader_epoch for state in told if state.leader == broker_id}


def _at_once(
    state: State,
    follower: int,
    source: int,
    request: Exchange,
    lookahead: Lookahead,
    index: int,
    asking: Asking,
    withheld: frozenset[TopicPartition],
) -> Iterator[World]:
    """A Fetch that finds nothing is answered with the high watermark of that moment.

    A release may do so, and each does where the same Fetch finds records of an internal topic. It
    may have been told before, then the links do not record the answer.
    """
    world = World(state)
    broker = world.broker(leader_of(source))
    seen = None if request.number is None else lookahead.replies.get(request.number)
    finds_others = seen is not None and seen.answers_others
    if broker is None or not (broker.generation.answers_nothing_at_once or finds_others):
        return
    looked = exchange.look(world, follower, source, request, withheld)
    waiting, _ = exchange.count(world, follower, source, looked, asking)
    answered = replace(waiting, stage=Stage.ANSWERED, answers=looked.answers)
    if seen is None:
        is_told = not _would_be_seen(follower, source, answered, lookahead, index)
        if is_told and request.is_awaited:
            told = exchange.without_told(world, follower, source, answered)
            exchange.change(world, follower, source, waiting, told)
            exchange.handle(world, follower, source, told)
            yield world
        return
    answers, differs = answers_as_seen(answered, seen)
    if not differs:
        told = replace(answered, answers=answers)
        exchange.change(world, follower, source, waiting, told)
        yield world


def _may_be_answered(
    world: World,
    follower: int,
    source: int,
    before: Exchange,
    after: Exchange,
    seen: Reply | None,
    lookahead: Lookahead,
    index: int,
) -> bool:
    """Tell whether what a leader made of a request fits what was seen; it ends what nobody saw."""
    if after.stage is Stage.WAITING:
        return seen is None or not _would_be_known(source, after, seen, lookahead, index)
    if seen is not None or after.error:
        answers, differs = ((), "") if seen is None else answers_as_seen(after, seen)
        if not differs:
            exchange.change(world, follower, source, after, replace(after, answers=answers))
        return not differs
    if _is_new(after):
        # No answer was seen to leave: it is still there, or the links were asked no more.
        return after.number is None or not lookahead.goes_on(after.number)
    if before.stage is Stage.WAITING and after.is_awaited:
        # The links do not record an answer that says nothing new.
        told = exchange.without_told(world, follower, source, after)
        exchange.change(world, follower, source, after, told)
        exchange.handle(world, follower, source, told)
        return True
    return False


def _would_be_known(
    source: int, waiting: Exchange, seen: Reply, lookahead: Lookahead, index: int
) -> bool:
    """Tell whether a Fetch that waits asks for what its answer says that the leader does not know.

    A leader refuses such a partition as the Fetch comes, unless it loses the replica meanwhile.
    """
    return any(
        said.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        and partition not in waiting.refused
        and lookahead.keeps_until(seen.number, leader_of(source), partition, index)
        for partition, said in seen.partitions.items()
    )


def _would_be_seen(
    follower: int, source: int, answered: Exchange, lookahead: Lookahead, index: int
) -> bool:
    """Tell whether an answer that nobody saw would be news to the links by its high watermark."""
    number = answered.number
    if number is None or number in lookahead.replies or _is_new(answered):
        return False
    return any(
        lookahead.would_be_seen(
            number, follower, source, partition, said.high_watermark, said.log_start_offset, index
        )
        for partition, said in answered.answers
        if isinstance(said, FetchAnswer)
    )


def _failed(seen: Reply) -> bool:
    return any(
        answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR for answer in seen.partitions.values()
    )


def _failing(state: State, follower: int, source: int, request: Exchange) -> Iterator[World]:
    """A Fetch fails in the leader after its read, before or after the follower's offset counted.

    Up to 2.6 handling a Fetch may end in a write to ZooKeeper that fails, or find a replica that no
    LeaderAndIsr has named yet (kafka.cluster.Partition.maybeExpandIsr, updateReplicaLogReadResult).
    """
    failed = tuple(
        (partition, FetchAnswer(error="UNKNOWN_SERVER_ERROR")) for partition, _ in request.asked
    )
    for counts in (True, False):
        world = World(state)
        before = request
        if counts and request.stage is Stage.ARRIVED:
            before, _ = exchange.read(world, follower, source, request)
        answered = replace(before, stage=Stage.ANSWERED, answers=failed)
        exchange.change(world, follower, source, before, answered)
        yield world


def _is_new(request: Exchange) -> bool:
    return any(
        not isinstance(answer, FetchAnswer) or answer.error or answer.batches or answer.diverging
        for _, answer in request.answers
    )
