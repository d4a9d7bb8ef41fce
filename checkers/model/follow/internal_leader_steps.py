"""Internal steps of a leader with a fetcher's request: no observation shows them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.broker import exchange, leader, log_start, tier
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.follow.counted_in_part import left_uncounted, yet_to_read
from kchaos.checkers.model.follow.isr_requests import Asking
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.matching import NOT_TOLD, answers_as_seen
from kchaos.checkers.model.follow.observations import FetchAnswered, ResponseSeen
from kchaos.checkers.model.state.state import State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.fetchers import leader_of
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.replica import Replica, Role
from kchaos.checkers.model.values.requests import Exchange, FetchAnswer, Stage


class _LeaderStep(NamedTuple):
    """A request that a leader has, a state in which it goes on with that, and what it may do.

    Attributes:
        state: Before the step.
        follower: The broker that asked.
        source: Of the thread that asked (`values.fetchers`).
        request: The leader has it, and the links numbered it.
        lookahead: Of the record.
        taken: How many observations were taken.
        asking: Its choice when a follower has come far enough for the ISR, None before it is taken.
        withheld: Partitions of which it sends no records, since its quota is used up.
        is_likely: Whether only what is likely is asked for.
    """

    state: State
    follower: int
    source: int
    request: Exchange
    lookahead: Lookahead
    taken: int
    asking: Asking | None = None
    withheld: frozenset[TopicPartition] = frozenset()
    is_likely: bool = False

    @property
    def leader_id(self) -> int:
        """The broker that was asked."""
        return leader_of(self.source)

    @property
    def seen(self) -> ResponseSeen | None:
        """The answer that was seen at the links, if any."""
        number = self.request.number
        return None if number is None else self.lookahead.responses.get(number)

    def change(self, world: World, before: Exchange, after: Exchange) -> None:
        """Put a later stage of the request in the place of an earlier one."""
        exchange.change(world, self.follower, self.source, before, after)


def at_leader(
    state: State, follower: int, source: int, request: Exchange, lookahead: Lookahead, index: int
) -> Iterator[World]:
    """Yield worlds in which a leader reads its log for a request, or ends the wait of a Fetch.

    Its log may begin later by then, as far as later messages have that.

    Args:
        state: Before the step.
        follower: The broker that asked.
        source: Of the thread that asked (`values.fetchers`).
        request: The leader has it, and the links numbered it.
        lookahead: Of the record.
        index: How many observations were taken.
    """
    step = _LeaderStep(state, follower, source, request, lookahead, index)
    if request.stage is not Stage.WAITING or not _waits_on(step):
        yield from _in_each_manner(step)
    leader_id, moved = step.leader_id, World(state)
    for partition, _ in request.asked:
        begin_later(moved, leader_id, partition, lookahead, index)
    if moved.changes:
        for world in _in_each_manner(step._replace(state=state.changed(moved.changes))):
            world.changes = {**moved.changes, **world.changes}
            yield world


def likely_at_leader(
    state: State, follower: int, source: int, request: Exchange, lookahead: Lookahead, index: int
) -> Iterator[World]:
    """Yield worlds of `at_leader` without unlikely ones, and without a log that begins later.

    For the arguments see `at_leader`.
    """
    step = _LeaderStep(state, follower, source, request, lookahead, index, is_likely=True)
    if request.stage is not Stage.WAITING or not _waits_on(step):
        yield from _in_each_manner(step)


def _waits_on(step: _LeaderStep) -> bool:
    """Return whether a waiting Fetch cannot be answered as was seen before a log has changed.

    Its leader reads again as the wait ends, so the answer has the high watermark of then, and no
    batch beyond the log end offset.
    """
    get, leader_id, seen, waits = step.state.lookup, step.leader_id, step.seen, False
    if seen is None or seen.error_code:
        return False
    for partition, said in seen.partitions.items():
        if not isinstance(said, FetchAnswered) or said.error_code or said.diverging is not None:
            return False
        replica: Replica | None = get(("replica", leader_id, partition))
        waits = (
            waits
            or replica is None
            or said.high_watermark != replica.high_watermark
            or (said.last_offset is not None and said.last_offset >= replica.log.log_end_offset)
        )
    return waits


def begin_later(
    world: World, leader_id: int, partition: TopicPartition, lookahead: Lookahead, index: int
) -> None:
    """Let a leader's log begin where it is next seen to, if that is further on and possible."""
    replica = world.replica(leader_id, partition)
    if replica is None:
        return
    start = lookahead.begins_later(leader_id, partition, replica.log.log_start_offset, index)
    if start is not None and not log_start.why_not(world, leader_id, partition, start):
        log_start.move(world, leader_id, partition, start)


def _in_each_manner(step: _LeaderStep) -> Iterator[World]:
    """Yield worlds in which a leader goes on with each choice of its quota and of the ISR."""
    for withheld in _withheld(step):
        for declines in (False, True):
            asking = Asking(step.lookahead, step.taken, declines=declines)
            yield from _go_on(step._replace(asking=asking, withheld=withheld))
            if not asking.is_open:
                break


def _withheld(step: _LeaderStep) -> Iterable[frozenset[TopicPartition]]:
    """Return of which partitions a leader may send no records, likeliest first.

    The quota is asked of for each partition by itself, so it may be used up for some of them.
    """
    world = World(step.state)
    throttled = frozenset(
        partition
        for partition, _ in step.request.asked
        if leader.may_throttle(world, step.leader_id, partition, step.follower)
    )
    if not throttled:
        return (throttled,)
    said = {} if step.seen is None else step.seen.partitions
    carried = {
        partition
        for partition, answer in said.items()
        if isinstance(answer, FetchAnswered) and answer.last_offset is not None
    }
    return dict.fromkeys((frozenset[TopicPartition](), throttled - carried, throttled))


def _go_on(step: _LeaderStep) -> Iterator[World]:
    """Yield worlds in which a leader takes the next step towards the observed response."""
    seen = step.seen
    if seen is not None and seen.error_code in _BEFORE_THE_LOG:
        if _BEFORE_THE_LOG[seen.error_code](step):
            world = World(step.state)
            step.change(world, step.request, replace(step.request, stage=Stage.ANSWERED))
            yield world
    elif seen is not None and _has_failed(seen):
        yield from _failing(step)
    else:
        yield from _goes_to_the_log(step)


def _goes_to_the_log(step: _LeaderStep) -> Iterator[World]:
    """Yield worlds in which a leader reads its log and counts a request, or ends a Fetch's wait."""
    world, request, seen = World(step.state), step.request, step.seen
    if seen is not None and request.stage is not Stage.READ:
        tier_sends_away(world, step.leader_id, request, seen)
    if request.stage is Stage.ARRIVED and not request.refused:
        yield from _refused_first(step)
    if request.stage is Stage.ARRIVED and seen is not None:
        yield from _refused_while_told(step, seen)
    is_uncounted = request.stage in (Stage.ARRIVED, Stage.READ)
    if is_uncounted and request.api == FETCH and seen is not None and not step.is_likely:
        unread = yet_to_read(world, step.follower, step.source, request, seen, step.withheld)
        if unread:
            yield from _counted_in_part(step, unread)
    if is_uncounted:
        after, _ = exchange.read(
            world, step.follower, step.source, request, step.asking, step.withheld
        )
    else:
        after = exchange.answer_waiting(world, step.follower, step.source, request, step.withheld)
    if request.stage is Stage.WAITING and _would_be_seen(step, after):
        return
    if not _may_be_answered(step, world, after):
        return
    world.is_unlikely = is_uncounted and (
        _is_counted_later(step) or _waits_too_long(step, world, after)
    )
    yield world
    if after.stage is Stage.WAITING:
        yield from _at_once(step)
    if request.stage is Stage.ARRIVED and request.api == FETCH:
        # What others do may come between its look at the log and counting the follower's offset.
        looked = World(step.state)
        exchange.look(looked, step.follower, step.source, request, step.withheld)
        yield looked
    if is_uncounted and request.api == FETCH and not step.is_likely:
        yield from _counted_in_part(step)


def _waits_too_long(step: _LeaderStep, world: World, after: Exchange) -> bool:
    """Return whether a Fetch waits from now on that was answered with a lower high watermark."""
    if after.stage is not Stage.WAITING or step.seen is None or step.seen.error_code:
        return False
    return any(
        isinstance(answer, FetchAnswered)
        and not answer.error_code
        and answer.diverging is None
        and (replica := world.replica(step.leader_id, partition)) is not None
        and answer.high_watermark < replica.high_watermark
        for partition, answer in step.seen.partitions.items()
    )


def _counted_in_part(
    step: _LeaderStep, unread: frozenset[TopicPartition] = frozenset()
) -> Iterator[World]:
    """Yield worlds in which a leader counted some partitions of a Fetch, and others come between.

    It has not read `unread` ones by then.
    """
    before = World(step.state)
    looked = exchange.look(
        before, step.follower, step.source, step.request, step.withheld, but=unread
    )
    for left in left_uncounted(
        before, step.follower, step.source, looked, step.lookahead, step.taken
    ):
        yield _left(step, before, looked, left | unread)
    if unread:
        yield _left(step, before, looked, unread)


def _left(
    step: _LeaderStep, before: World, looked: Exchange, left: frozenset[TopicPartition]
) -> World:
    world = World(before.get)
    world.changes.update(before.changes)
    exchange.count(world, step.follower, step.source, looked, step.asking, but=left)
    world.is_unlikely = True
    return world


def _is_counted_later(step: _LeaderStep) -> bool:
    """Return whether a leader most likely counts a Fetch in the next leader epoch.

    It has looked at its log in this one. Nobody else would let the follower join the ISR there.
    """
    world = World(step.state)
    return any(
        (replica := world.replica(step.leader_id, partition)) is not None
        and step.lookahead.joins_in_next_epoch(
            step.follower, step.source, partition, replica.leader_epoch, step.taken
        )
        for partition, _ in step.request.asked
    )


def _is_in_session(step: _LeaderStep) -> bool:
    """Return whether a Fetch names a session, which its leader may have forgotten."""
    asked = step.request.asked
    return not asked or any(question.is_incremental for _, question in asked)


def _names_ids(step: _LeaderStep) -> bool:
    """Return whether a Fetch names its topics by ids, from version 13 on (KIP-516)."""
    number = step.request.number
    seen = None if number is None else step.lookahead.requests.get(number)
    return seen is not None and (seen.version or 0) >= 13


_BEFORE_THE_LOG: Mapping[int, Callable[[_LeaderStep], bool]] = {
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


def tier_sends_away(world: World, leader_id: int, request: Exchange, seen: ResponseSeen) -> None:
    """Let a leader's local log begin behind what it was asked for, if it is seen to say so.

    Only its answer tells that it has deleted local segments of a tiered log.
    """
    for partition, asked in request.asked:
        said = seen.partitions.get(partition)
        if said is not None and said.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE:
            replica = world.replica(leader_id, partition)
            if replica is not None and asked.fetch_offset >= tier.local_start(replica):
                tier.lose_local(world, leader_id, partition, asked.fetch_offset + 1)


def _refused_first(step: _LeaderStep) -> Iterator[World]:
    """Yield worlds in which a leader refuses an unknown partition and learns of it right then."""
    world = World(step.state)
    unknown = exchange.not_told(world, step.source, step.request)
    unknown |= exchange.unnamed(world, step.source, step.request, in_session=True)
    said = {} if step.seen is None else step.seen.partitions
    refused = frozenset(
        partition
        for partition in unknown
        if partition in said and said[partition].error_code in NOT_TOLD
    )
    if refused:
        step.change(world, step.request, replace(step.request, refused=refused))
        yield world


def _refused_while_told(step: _LeaderStep, seen: ResponseSeen) -> Iterator[World]:
    """Yield worlds in which a leader refuses a partition while it handles its LeaderAndIsr.

    It has taken over one half of it: the leader epoch, or who leads (KAFKA-9579).
    """
    world, leader_id = World(step.state), step.leader_id
    broker = world.broker(leader_id)
    is_fetch = step.request.api == FETCH
    if broker is None or not is_fetch or not broker.generation.may_refuse_while_told:
        return
    refused = {
        partition
        for partition, asked in step.request.asked
        if (said := seen.partitions.get(partition)) is not None
        and said.error_code == ErrorCode.NOT_LEADER_FOR_PARTITION
        and asked.leader_epoch in epochs_half_told(world, leader_id, partition)
    }
    if not refused:
        return
    looked = exchange.look(world, step.follower, step.source, step.request)
    answers = tuple(
        (partition, FetchAnswer(error=leader.NOT_LEADER) if partition in refused else answer)
        for partition, answer in looked.answers
    )
    half_told = replace(looked, answers=answers)
    step.change(world, looked, half_told)
    after, _ = exchange.count(world, step.follower, step.source, half_told)
    answers, differs = answers_as_seen(after, seen)
    if not differs:
        step.change(world, after, replace(after, answers=answers))
        yield world


def epochs_half_told(world: World, broker_id: int, partition: TopicPartition) -> set[int]:
    """Return the leader epochs that a broker is about to begin to lead in, or to end.

    It takes over only newer ones, and one that leads on leads all the while
    (ReplicaManager.becomeLeaderOrFollower and Partition.makeLeader, 3.6.0).
    """
    replica = world.replica(broker_id, partition)
    known = -1 if replica is None else replica.leader_epoch
    told = [
        state
        for state in world.to_be_told(broker_id)
        if (state.topic, state.partition) == partition and state.leader_epoch > known
    ]
    if replica is not None and replica.role is Role.LEADER:
        return {known} if any(state.leader != broker_id for state in told) else set()
    return {state.leader_epoch for state in told if state.leader == broker_id}


def _at_once(step: _LeaderStep) -> Iterator[World]:
    """Yield worlds in which an empty Fetch is answered with the current high watermark.

    A release may do so, and each does where the same Fetch finds records of an internal topic. It
    may have been told before, then the links do not record the answer.
    """
    world, seen = World(step.state), step.seen
    broker = world.broker(step.leader_id)
    finds_others = seen is not None and seen.answers_others
    if broker is None or not (broker.generation.answers_nothing_at_once or finds_others):
        return
    looked = exchange.look(world, step.follower, step.source, step.request, step.withheld)
    waiting, _ = exchange.count(world, step.follower, step.source, looked, step.asking)
    answered = replace(waiting, stage=Stage.ANSWERED, answers=looked.answers)
    if seen is None:
        if step.request.is_awaited and not _would_be_seen(step, answered):
            _tell_unseen(step, world, waiting, answered)
            yield world
        return
    answers, differs = answers_as_seen(answered, seen)
    if not differs:
        step.change(world, waiting, replace(answered, answers=answers))
        yield world


def _tell_unseen(step: _LeaderStep, world: World, before: Exchange, answered: Exchange) -> None:
    """Have the follower take an answer that says nothing new, which the links do not record."""
    told = exchange.without_told(world, step.follower, step.source, answered)
    step.change(world, before, told)
    exchange.handle(world, step.follower, step.source, told)


def _may_be_answered(step: _LeaderStep, world: World, after: Exchange) -> bool:
    """Return whether a leader's response fits the observed one; end a request without one."""
    seen = step.seen
    if after.stage is Stage.WAITING:
        return seen is None or not _would_be_known(step, after, seen)
    if seen is not None or after.error:
        answers, differs = ((), "") if seen is None else answers_as_seen(after, seen)
        if not differs:
            step.change(world, after, replace(after, answers=answers))
        return not differs
    if _is_new(after):
        # No answer was seen to leave: it is still there, or the links were asked no more.
        return after.number is None or not step.lookahead.goes_on(after.number)
    if step.request.stage is Stage.WAITING and after.is_awaited:
        _tell_unseen(step, world, after, after)
        return True
    return False


def _would_be_known(step: _LeaderStep, waiting: Exchange, seen: ResponseSeen) -> bool:
    """Return whether a waiting Fetch names a partition that its response calls unknown.

    A leader refuses such a partition as the Fetch comes, unless it loses the replica meanwhile.
    """
    return any(
        said.error_code in NOT_TOLD
        and partition not in waiting.refused
        and step.lookahead.keeps_until(seen.number, step.leader_id, partition, step.taken)
        for partition, said in seen.partitions.items()
    )


def _would_be_seen(step: _LeaderStep, answered: Exchange) -> bool:
    """Return whether an answer that nobody saw would be news to the links by its high watermark."""
    number = answered.number
    if number is None or number in step.lookahead.responses or _is_new(answered):
        return False
    return any(
        step.lookahead.would_be_seen(
            number,
            step.follower,
            step.source,
            partition,
            said.high_watermark,
            said.log_start_offset,
            step.taken,
        )
        for partition, said in answered.answers
        if isinstance(said, FetchAnswer)
    )


def _has_failed(seen: ResponseSeen) -> bool:
    """Return whether a Fetch, or its part about a partition, failed in the leader."""
    errors = (seen.error_code, *(answer.error_code for answer in seen.partitions.values()))
    return ErrorCode.UNKNOWN_SERVER_ERROR in errors


def _failing(step: _LeaderStep) -> Iterator[World]:
    """Yield worlds in which a Fetch fails after its read, before or after its offset counted.

    Up to 2.6 handling a Fetch may end in a write to ZooKeeper that fails, or find a replica that no
    LeaderAndIsr has named yet (kafka.cluster.Partition.maybeExpandIsr, updateReplicaLogReadResult).
    """
    failed = tuple(
        (partition, FetchAnswer(error="UNKNOWN_SERVER_ERROR"))
        for partition, _ in step.request.asked
    )
    for counts in (True, False):
        world = World(step.state)
        before = step.request
        if counts and before.stage is Stage.ARRIVED:
            before, _ = exchange.read(world, step.follower, step.source, before)
        step.change(world, before, replace(before, stage=Stage.ANSWERED, answers=failed))
        yield world


def _is_new(request: Exchange) -> bool:
    return any(
        not isinstance(answer, FetchAnswer) or answer.error or answer.batches or answer.diverging
        for _, answer in request.answers
    )
