"""Internal steps of a fetcher thread: no observation shows them."""

from collections.abc import Iterator
from typing import TypeGuard

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.broker import exchange, leader, tier, topic_settings
from kchaos.checkers.model.broker import follower as following
from kchaos.checkers.model.broker.exchange import FETCH, LIST_OFFSETS
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.matching import is_on
from kchaos.checkers.model.follow.observations import (
    EpochAsked,
    FetchAsked,
    RequestSeen,
    ResponseSeen,
)
from kchaos.checkers.model.state.state import State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.fetchers import leader_of
from kchaos.checkers.model.values.prediction import Truncation
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.replica import FetcherThread
from kchaos.checkers.model.values.requests import (
    MOVED_TO_TIER,
    EpochAnswer,
    Exchange,
    FetchAnswer,
    PartitionRequest,
    Stage,
)


def at_follower(
    state: State, broker_id: int, source: int, lookahead: Lookahead, index: int, decided: int
) -> Iterator[World]:
    """Yield worlds in which a fetcher handles a response, truncates, or asks as before."""
    world = World(state)
    waiting = exchange.awaited(world, broker_id, source)
    if waiting is not None and waiting.stage is not Stage.DELIVERED and waiting.api == FETCH:
        return
    thread = world.thread(broker_id, source)
    if thread is None or thread.is_dead:
        return
    if waiting is not None:
        yield from _waiting(state, broker_id, source, waiting, lookahead, index)
    elif exchange.go_on_without_asking(world, broker_id, source):
        yield world
    elif thread.reset is not None:
        leading = world.broker(leader_of(source))
        if leading is None or not leading.is_working:
            # Who has no connection is seen to ask for nothing.
            exchange.give_up_reset(world, broker_id, source)
            yield world
    else:
        yield from _asks_as_before(state, broker_id, source, thread, lookahead, index, decided)


def _waiting(
    state: State, broker_id: int, source: int, waiting: Exchange, lookahead: Lookahead, index: int
) -> Iterator[World]:
    """Yield worlds in which a fetcher handles the response that it waited for, or gives up."""
    if waiting.stage is not Stage.DELIVERED:
        if waiting.api == LIST_OFFSETS and state(("control", broker_id)) is not None:
            yield _given_up(state, broker_id, source, waiting)
        return
    handled = World(state)
    exchange.handle(handled, broker_id, source, waiting)
    item = lookahead.next_of(broker_id, source, index)
    handled.is_unlikely = came_too_late(waiting, item) or any(
        isinstance(answer, FetchAnswer)
        and bool(answer.batches)
        and _has_appended(state, handled, broker_id, partition)
        and lookahead.was_not_appended(broker_id, partition, answer.batches[0], index)
        for partition, answer in waiting.answers
    )
    handled.is_unlikely |= _learns_too_much(handled, broker_id, waiting, lookahead, index)
    yield handled
    yield from _rebuilt(state, broker_id, source, waiting)
    yield from _dropped(state, broker_id, source, waiting, item)
    is_killed = lookahead.is_killed_before_asking(broker_id, source, index)
    if is_killed or _is_copied(state, broker_id):
        yield from _half_handled(state, broker_id, source, waiting)
        yield from _half_truncated(state, broker_id, waiting, handled)


def _has_appended(state: State, after: World, broker_id: int, partition: TopicPartition) -> bool:
    """Return whether a step made a follower's log longer; it may have lost the partition before."""
    replica, then = World(state).replica(broker_id, partition), after.replica(broker_id, partition)
    if replica is None or then is None:
        return False
    return then.log.log_end_offset > replica.log.log_end_offset


def _learns_too_much(
    after: World, broker_id: int, asked: Exchange, lookahead: Lookahead, index: int
) -> bool:
    """Return whether a follower ends with a lower high watermark than it has after an answer.

    It was told to stop fetching before it handled that answer. The checkpoint of a broker that was
    killed tells nothing: it was written some time before.
    """
    if not lookahead.is_shut_down(broker_id, index):
        return False
    for partition, _ in asked.asked:
        replica = after.replica(broker_id, partition)
        last = lookahead.checkpointed_next(broker_id, partition, index)
        if replica is not None and last is not None and replica.high_watermark > last:
            return True
    return False


def _asks_as_before(
    state: State,
    broker_id: int,
    source: int,
    thread: FetcherThread,
    lookahead: Lookahead,
    index: int,
    decided: int,
) -> Iterator[World]:
    """Yield worlds in which a fetcher repeats its last Fetch, which links do not record."""
    world = World(state)
    item = lookahead.next_of(broker_id, source, index)
    sent_before = {sent.number for sent in world.exchanges(broker_id, source)}
    # One that was sent before was given up, and its answer comes late.
    is_answered_next = _is_unseen(item, lookahead) and item.number not in sent_before
    if not is_answered_next and not lookahead.may_have_repeated(broker_id, source, index):
        return
    question = exchange.question(world, broker_id, source, FETCH)
    if question is None:
        return
    asked_now = tuple(
        (partition, asks)
        for partition, asks in question.asked
        if partition in (thread.session or ())
        or not topic_settings.is_throttled(world, broker_id, partition, "follower")
    )
    if len(asked_now) < len(question.asked):
        question = replace(question, asked=asked_now)
    if not _repeats(thread, question, lookahead, broker_id, source, index):
        return
    epoch = lookahead.replica_epoch(broker_id, source, index)
    question = replace(question, replica_epoch=epoch)
    if is_answered_next:
        assert isinstance(item, ResponseSeen)
        asked = World(state)
        sent = replace(question, number=item.number, stage=Stage.ARRIVED)
        exchange.send(asked, broker_id, source, sent)
        # It was asked a moment before it was answered, and so most likely after that.
        asked.is_unlikely = lookahead.is_told_before_answer(
            broker_id, source, question.asked, item, index
        )
        yield asked
        return
    for after in _idle_round(state, broker_id, source, question):
        # Its fetchers have most likely ended with its session.
        after.is_unlikely = (
            lookahead.has_closed(broker_id, index, decided)
            or _learns_too_much(after, broker_id, question, lookahead, index)
            or _is_of_older_epoch(world, source, question)
        )
        yield after


def _is_of_older_epoch(world: World, source: int, question: Exchange) -> bool:
    """Return whether a leader has begun with a newer leader epoch than a Fetch carries.

    That Fetch came most likely before. Counted in the new epoch, its follower would keep the high
    watermark back.
    """
    leader_id = leader_of(source)
    return any(
        asks.carries_leader_epoch
        and (replica := world.replica(leader_id, partition)) is not None
        and asks.leader_epoch < replica.leader_epoch
        for partition, asks in question.asked
    )


def came_too_late(waiting: Exchange, item: RequestSeen | ResponseSeen | None) -> bool:
    """Return whether a fetcher most likely never had an answer that a link passed on.

    It asks once more on a later connection what that answer would have told it.
    """
    if not isinstance(item, RequestSeen) or waiting.number is None or item.api != waiting.api:
        return False
    if item.number[0] <= waiting.number[0]:
        return False
    asked = dict(waiting.asked)
    for partition, answer in waiting.answers:
        match item.partitions.get(partition), answer:
            case EpochAsked(requested_epoch=epoch), EpochAnswer(error=""):
                if epoch == asked[partition].requested_epoch:
                    return True
            case FetchAsked(fetch_offset=offset, leader_epoch=epoch), FetchAnswer(batches=(_, *_)):
                is_told_anew = epoch not in (None, asked[partition].leader_epoch)
                if offset == asked[partition].fetch_offset and not is_told_anew:
                    return True
    return False


def is_yet_to_repeat(
    state: State, after: World, broker_id: int, lookahead: Lookahead, index: int
) -> bool:
    """Return whether a follower is yet to send a Fetch that it does not send after a step.

    Its answer comes next on that connection, and links recorded no question: it said nothing new.
    Once the fetcher has other partitions, or fetches from elsewhere, the links record its Fetch.
    """
    world = World(state)
    for source in world.leaders(broker_id):
        waiting = exchange.awaited(world, broker_id, source)
        # It may have been sent before the links saw it.
        at = index if waiting is None else lookahead.index_behind(waiting.number, index)
        answer = lookahead.next_unseen(broker_id, source, at)
        if answer is None or (waiting is not None and not is_on(waiting, answer)):
            continue
        if _would_repeat(world, broker_id, source, lookahead, at) and not _would_repeat(
            after, broker_id, source, lookahead, at
        ):
            return True
    return False


def _would_repeat(
    world: World, broker_id: int, source: int, lookahead: Lookahead, index: int
) -> bool:
    thread = world.thread(broker_id, source)
    question = None if thread is None else _next_fetch(world, broker_id, source)
    if thread is None or question is None:
        return False
    waiting = exchange.awaited(world, broker_id, source)
    if waiting is not None and waiting.api == FETCH and thread.session is not None:
        # Once that is answered the session has what it names.
        thread = replace(thread, session=frozenset(partition for partition, _ in waiting.asked))
    return all(
        lookahead.has_asked(broker_id, source, partition, index) for partition, _ in question.asked
    ) and _repeats(thread, question, lookahead, broker_id, source, index)


def _next_fetch(world: World, broker_id: int, source: int) -> Exchange | None:
    """Return what a fetcher asks next, once it has done what needs no question."""
    after = World(world.get)
    exchange.go_on_without_asking(after, broker_id, source)
    return exchange.question(after, broker_id, source, FETCH)


def _is_unseen(
    item: RequestSeen | ResponseSeen | None, lookahead: Lookahead
) -> TypeGuard[ResponseSeen]:
    """Return whether a message answers a Fetch that the links did not record."""
    return (
        isinstance(item, ResponseSeen)
        and item.api == FETCH
        and item.number not in lookahead.requests
    )


def _repeats(
    thread: FetcherThread,
    question: Exchange,
    lookahead: Lookahead,
    broker_id: int,
    source: int,
    index: int,
) -> bool:
    """Return whether a Fetch says nothing but what the one before said.

    Within a session it takes leave of what it does not ask for any more, which links record
    (FetchSessionHandler.Builder.build, 1.1.1, 2.8.2 and 3.8.0).
    """
    asked = frozenset(partition for partition, _ in question.asked)
    if thread.session is not None and not thread.session <= asked:
        return False
    return all(
        (thread.session is None or partition in thread.session)
        and lookahead.has_asked_so(broker_id, source, partition, index, asks)
        for partition, asks in question.asked
    )


def _given_up(state: State, broker_id: int, source: int, waiting: Exchange) -> World:
    """Return a world in which a fetcher gives up ListOffsets, so that a control request can go on.

    It would show by its next question, and after that request there may be none.
    """
    world = World(state)
    given_up = replace(waiting, is_awaited=False)
    exchange.change(world, broker_id, source, waiting, given_up)
    world.is_unlikely = True
    return world


def _dropped(
    state: State, broker_id: int, source: int, waiting: Exchange, item: object
) -> Iterator[World]:
    """Yield worlds in which a response arrives while a request removes and re-adds partitions.

    What it has of those is thrown away: `processFetchRequest` passes over partitions that the
    thread does not have, between `removeFetcherForPartitions` and `addFetcherForPartitions`
    (ReplicaManager.makeFollowers, 0.10.2.2 to 3.9). The next question tells: it takes leave of
    them, or asks from where the one before did.
    """
    if not isinstance(item, RequestSeen) or item.api != FETCH or waiting.api != FETCH:
        return
    taken = {
        TopicPartition(told.topic, told.partition) for told in World(state).to_be_told(broker_id)
    }
    asked = dict(waiting.asked)
    lost = {
        partition
        for partition in taken & asked.keys()
        if _is_asked_anew(item, partition, asked[partition])
    }
    kept = tuple(answer for answer in waiting.answers if answer[0] not in lost)
    if len(kept) < len(waiting.answers):
        world = World(state)
        rest = replace(waiting, answers=kept)
        exchange.change(world, broker_id, source, waiting, rest)
        exchange.handle(world, broker_id, source, rest)
        yield world


def _is_asked_anew(item: RequestSeen, partition: TopicPartition, before: PartitionRequest) -> bool:
    anew = item.partitions.get(partition)
    if partition in item.forgotten:
        return True
    return isinstance(anew, FetchAsked) and anew.fetch_offset == before.fetch_offset


def _rebuilt(state: State, broker_id: int, source: int, waiting: Exchange) -> Iterator[World]:
    """Yield worlds in which a follower has built its missing part from the remote tier.

    It asks its leader where to begin and reads from the tier within this one step; where it then
    fetches from tells which segment it built on. That it fails, and tries again, is the other way.
    """
    for partition, answer in waiting.answers:
        if not isinstance(answer, FetchAnswer) or answer.error != MOVED_TO_TIER:
            continue
        for segment in tier.rebuilds(World(state), leader_of(source), partition):
            world = World(state)
            exchange.handle(world, broker_id, source, waiting)
            if tier.rebuild(world, broker_id, source, partition, segment):
                yield world


def _half_handled(state: State, broker_id: int, source: int, waiting: Exchange) -> Iterator[World]:
    """Yield worlds in which a follower noted some fetched epochs and has yet to write batches."""
    for partition, answer in waiting.answers:
        if not isinstance(answer, FetchAnswer):
            continue
        for count in range(answer.noted + 1, len(answer.batches) + 1):
            world = World(state)
            more = answer.batches[answer.noted : count]
            if following.note_epochs(world, broker_id, source, partition, more):
                noted = replace(answer, noted=count)
                answers = tuple(
                    (answered, noted if answered == partition else told)
                    for answered, told in waiting.answers
                )
                after = replace(waiting, answers=answers)
                exchange.change(world, broker_id, source, waiting, after)
                yield world


def _half_truncated(
    state: State, broker_id: int, waiting: Exchange, handled: World
) -> Iterator[World]:
    """Yield worlds in which a follower has truncated its log, but not yet its epoch cache.

    The cache's file is written after the log's, and a process that is killed in between leaves it
    so (kafka.log.Log.truncateTo, 0.11.0.2 to 3.6.2).

    `handled` is the world after the whole response.
    """
    for partition, _ in waiting.answers:
        before = World(state).known_replica(broker_id, partition)
        after = handled.known_replica(broker_id, partition)
        cut = [
            note
            for note in handled.notes
            if isinstance(note, Truncation)
            and (note.broker, note.topic, note.partition)
            == (broker_id, partition.topic, partition.partition)
        ]
        if cut and before.entries != after.entries:
            world = World(state)
            world.put_replica(broker_id, partition, replace(before, log=after.log))
            world.put(("shortened", broker_id, partition), True)
            world.notes += cut
            yield world


def _is_copied(state: State, broker_id: int) -> bool:
    return any(copying == broker_id for copying, _ in state(("copying",)) or ())


def _idle_round(state: State, broker_id: int, source: int, question: Exchange) -> Iterator[World]:
    """Yield worlds after a Fetch and a response without news, which links do not record."""
    world, leader_id = World(state), leader_of(source)
    if not (world.passes(broker_id, leader_id) and world.passes(leader_id, broker_id)):
        return
    if exchange.not_told(world, source, question):
        return
    changed = False
    for partition, asked in question.asked:
        answer = leader.read(world, leader_id, partition, asked)
        replica = world.known_replica(broker_id, partition)
        if answer.batches and leader.may_throttle(world, leader_id, partition, broker_id):
            answer = replace(answer, batches=())
        if answer.error or answer.batches or answer.diverging is not None:
            return
        if min(replica.log.log_end_offset, answer.high_watermark) != replica.high_watermark:
            return
        if answer.log_start_offset > replica.log.log_start_offset:
            return
        offset = asked.fetch_offset
        changed = leader.update_view(world, leader_id, partition, broker_id, offset) or changed
        changed = (
            following.handle_fetch_answer(world, broker_id, source, partition, asked, answer)
            or changed
        )
    if changed:
        yield world
