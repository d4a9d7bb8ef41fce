"""Requests of fetcher threads in flight, step by step: sent, arrived, read, answered, handled.

A thread, known by its source (`values.fetchers`), has one request in flight that it awaits. A
request that it gave up stays with the leader, which may still read its log for it: the answer
reaches nobody. Read from kafka.server.
ReplicaFetcherThread, ReplicaFetcherBlockingSend, ReplicaManager.fetchMessages and DelayedFetch,
1.1.1 and 2.8.2. What a thread asks after OFFSET_OUT_OF_RANGE, and when, is in `offset_reset`.
"""

from collections.abc import Collection, Sequence

from kchaos.checkers.acts import Hold, TopicPartition
from kchaos.checkers.model.broker import follower as following
from kchaos.checkers.model.broker import leader as leading
from kchaos.checkers.model.broker import offset_reset
from kchaos.checkers.model.state.state import Broker
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.epoch_cache import latest_epoch
from kchaos.checkers.model.values.fetchers import leader_of
from kchaos.checkers.model.values.prediction import EpochRound
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.replica import FetcherState, FetcherThread
from kchaos.checkers.model.values.requests import (
    Answer,
    EpochAnswer,
    Exchange,
    FetchAnswer,
    OffsetAnswer,
    PartitionRequest,
    Stage,
)

FETCH = "Fetch"
OFFSET_FOR_LEADER_EPOCH = "OffsetForLeaderEpoch"
LIST_OFFSETS = "ListOffsets"
NOT_TOLD = FetchAnswer(error="UNKNOWN_TOPIC_OR_PARTITION")
"""Answer about a partition that the leader's metadata cache does not have."""


def awaited(world: World, broker_id: int, source: int) -> Exchange | None:
    """Return the request that the thread waits for, None if it is free to send one."""
    for exchange in world.exchanges(broker_id, source):
        if exchange.is_awaited:
            return exchange
    return None


def end_session(world: World, broker_id: int, source: int, failed: Exchange) -> None:
    """End the thread's fetch session if what failed is a Fetch: the next one is full then.

    Source: FetchSessionHandler.handleError, called in ReplicaFetcherThread.fetchFromLeader alone,
    1.1.1, 2.2.2 and 2.8.2.
    """
    thread = world.thread(broker_id, source)
    if thread is not None and failed.api == FETCH:
        world.put_thread(broker_id, source, replace(thread, session=None))


def go_on_without_asking(world: World, broker_id: int, source: int) -> bool:
    """Let a thread that waits for nothing do what needs no question; return whether it did.

    It gives up what it asked with ListOffsets and got no answer to, or it truncates partitions.
    """
    broker, thread = world.broker(broker_id), world.thread(broker_id, source)
    assert broker is not None
    assert thread is not None
    if thread.reset is not None:
        if thread.reset.is_asked:
            give_up_reset(world, broker_id, source)
        return thread.reset.is_asked
    generation = broker.generation
    has_truncated = False
    for partition, fetch in thread.partitions:
        if fetch.state is not FetcherState.TRUNCATING:
            continue
        last_epoch = latest_epoch(world.known_replica(broker_id, partition).epochs.entries)
        if generation.epoch_request_version is None or not generation.asks_for_epoch(last_epoch):
            following.truncate_without_asking(world, broker_id, source, partition)
            has_truncated = True
    return has_truncated


def give_up_reset(world: World, broker_id: int, source: int) -> None:
    """Let a thread that is out of range go on without an answer to ListOffsets."""
    thread = world.thread(broker_id, source)
    assert thread is not None
    assert thread.reset is not None
    offset_reset.give_up(world, broker_id, source)
    _handle_answers(world, broker_id, source, thread.reset.rest)


def question(world: World, broker_id: int, source: int, api: str) -> Exchange | None:
    """Return the request that the thread would send now, None if it has nothing to ask."""
    broker, thread = world.broker(broker_id), world.thread(broker_id, source)
    if broker is None or thread is None or thread.is_dead or not broker.is_working:
        return None
    if thread.reset is not None or api == LIST_OFFSETS:
        if thread.reset is None or thread.reset.is_asked or api != LIST_OFFSETS:
            return None
        asks = offset_reset.asks(world, broker_id, thread, thread.reset)
        return Exchange(api=LIST_OFFSETS, asked=((thread.reset.partition, asks),))
    wanted = FetcherState.FETCHING if api == FETCH else FetcherState.TRUNCATING
    asked = tuple(
        (partition, _asked(world, broker_id, broker, thread, partition, api))
        for partition, fetch in thread.partitions
        if fetch.state is wanted
    )
    return Exchange(api=api, asked=asked) if asked else None


def ask(world: World, broker_id: int, source: int) -> Exchange | None:
    """Let the thread send what it has to ask; return that as it stands then, None for nothing."""
    for api in (LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, FETCH):
        asked = question(world, broker_id, source, api)
        if asked is not None:
            return send(world, broker_id, source, asked)
    return None


def send(world: World, broker_id: int, source: int, exchange: Exchange) -> Exchange:
    """Put a request on its way; return it as it stands then."""
    kept = _holds(world, broker_id, leader_of(source), exchange, "request")
    sent = exchange if kept == exchange.holds else replace(exchange, holds=kept)
    world.put_exchanges(broker_id, source, (*world.exchanges(broker_id, source), sent))
    thread = world.thread(broker_id, source)
    if exchange.api == LIST_OFFSETS and thread is not None and thread.reset is not None:
        asked = replace(thread.reset, is_asked=True)
        world.put_thread(broker_id, source, replace(thread, reset=asked))
    return sent


def change(world: World, broker_id: int, source: int, before: Exchange, after: Exchange) -> None:
    """Let a request in flight stand otherwise."""
    exchanges = list(world.exchanges(broker_id, source))
    exchanges[exchanges.index(before)] = after
    world.put_exchanges(broker_id, source, tuple(exchanges))


def end(world: World, broker_id: int, source: int, exchange: Exchange) -> None:
    """Let a request in flight be over."""
    exchanges = list(world.exchanges(broker_id, source))
    exchanges.remove(exchange)
    world.put_exchanges(broker_id, source, tuple(exchanges))


def read(
    world: World,
    broker_id: int,
    source: int,
    exchange: Exchange,
    asks: leading.Ask | None = None,
    withheld: frozenset[TopicPartition] = frozenset(),
) -> tuple[Exchange, bool]:
    """Let the leader look at its log for a request that has arrived, and count what it says.

    For `withheld` see `look`.

    Returns:
        The request as it stands then, and whether the leader's own state changed.
    """
    looked = look(world, broker_id, source, exchange, withheld)
    return count(world, broker_id, source, looked, asks)


def answer(world: World, broker_id: int, source: int, exchange: Exchange) -> tuple[Exchange, bool]:
    """Let the leader do all that is left until its answer is made, without waiting for records.

    Returns:
        The request as it stands then, and whether the leader's own state changed.
    """
    changed = False
    if exchange.stage in (Stage.SENT, Stage.ARRIVED, Stage.READ):
        exchange = look(world, broker_id, source, exchange)
        exchange, changed = count(world, broker_id, source, exchange)
    if exchange.stage is Stage.WAITING:
        exchange = answer_waiting(world, broker_id, source, exchange)
    return exchange, changed


def look(
    world: World,
    broker_id: int,
    source: int,
    exchange: Exchange,
    withheld: frozenset[TopicPartition] = frozenset(),
    *,
    but: Collection[TopicPartition] = (),
) -> Exchange:
    """Let the leader look at its log for a request that has arrived, or for the rest of one.

    What it finds is fixed then, with the high watermark of before (KAFKA-7104). How far the
    follower is counts only after it (ReplicaManager.fetchMessages: readFromLocalLog, then
    updateFollowerLogReadResults), and others may come in between. Of `withheld`
    partitions it sends no records (`leader.may_throttle`). With `but` it is yet to look at these
    (`Generation.counts_before_next_read`).
    """
    leader, known = leader_of(source), dict(exchange.answers)
    answers: list[tuple[TopicPartition, Answer]] = []
    refused = exchange.refused
    if exchange.stage is not Stage.READ:
        refused |= not_told(world, leader, exchange)
    for partition, asked in exchange.asked:
        if partition in known:
            answers.append((partition, known[partition]))
        elif partition in but:
            continue
        elif partition in refused:
            answers.append((partition, NOT_TOLD))
        elif exchange.api == FETCH:
            fetched = leading.read(world, leader, partition, asked)
            answers.append((partition, _without_records(fetched, partition in withheld)))
        elif exchange.api == LIST_OFFSETS:
            answers.append((partition, leading.answer_offset(world, leader, partition, asked)))
        else:
            tells = _tells_epoch(world, broker_id, source)
            answer = leading.answer_epoch(world, leader, partition, asked, tells_epoch=tells)
            for forgery in world.forgeries():
                if (forgery.source, forgery.target) == (broker_id, leader):
                    answer = EpochAnswer(error=forgery.error)
            answers.append((partition, answer))
    after = replace(exchange, stage=Stage.READ, answers=tuple(answers), refused=refused)
    change(world, broker_id, source, exchange, after)
    return after


def not_told(world: World, source: int, exchange: Exchange) -> frozenset[TopicPartition]:
    """Return the partitions of a Fetch that the leader's metadata cache does not have.

    They are refused when the request arrives, one by one, and the others are read
    (kafka.server.KafkaApis.handleFetchRequest).
    """
    broker = world.broker(leader_of(source))
    if broker is None or broker.told is None or exchange.api != FETCH:
        return frozenset()
    unknown = frozenset(partition for partition, _ in exchange.asked) - broker.told
    return unknown | unnamed(world, source, exchange, in_session=False)


def unnamed(
    world: World, source: int, exchange: Exchange, *, in_session: bool
) -> frozenset[TopicPartition]:
    """Return the partitions of a Fetch whose topic id the leader's metadata cache does not have.

    Within a fetch session a leader may know the name from before (FetchSession.CachedPartition.
    maybeResolveUnknownName, 3.1.2 and 3.8.0).

    Args:
        world: The transition.
        source: Of the thread that asks (`values.fetchers`).
        exchange: What it asks.
        in_session: Whether partitions are meant that a fetch session has, or the others.
    """
    broker = world.broker(leader_of(source))
    if broker is None or broker.topic_ids is None or exchange.api != FETCH:
        return frozenset()
    return frozenset(
        partition
        for partition, asked in exchange.asked
        if asked.topic_id
        and asked.is_incremental is in_session
        and (partition.topic, asked.topic_id) not in broker.topic_ids
    )


def count(
    world: World,
    broker_id: int,
    source: int,
    exchange: Exchange,
    asks: leading.Ask | None = None,
    *,
    but: Collection[TopicPartition] = (),
) -> tuple[Exchange, bool]:
    """Let the leader note how far the follower is, after it has looked at its log.

    The answer is made then, unless a Fetch found nothing and no error: it waits, and its answer is
    made by `answer_waiting` from what there is at the end of that. For `asks` see
    `leader.update_view`. With `but` these are left, and so is the answer: the rest is counted.

    Returns:
        The request as it stands then, and whether the leader's own state changed.
    """
    leader = leader_of(source)
    answering = world.broker(leader)
    assert answering is not None
    asked = dict(exchange.asked)
    changed = False
    answers: list[tuple[TopicPartition, Answer]] = []
    for partition, answer in exchange.answers:
        if partition in but or partition in exchange.counted:
            answers.append((partition, answer))
            continue
        if (
            isinstance(answer, FetchAnswer)
            and not answer.error
            and leading.refuses_replica_epoch(answering, broker_id, exchange.replica_epoch)
        ):
            answer = FetchAnswer(error=leading.NOT_LEADER)
        elif isinstance(answer, FetchAnswer) and answering.generation.counts_fetch(answer):
            offset = asked[partition].fetch_offset
            before = _high_watermark(world, leader, partition)
            fails = leading.counting_fails(world, leader, partition, broker_id, offset)
            changed |= leading.update_view(
                world,
                leader,
                partition,
                broker_id,
                offset,
                asks,
                replica_epoch=exchange.replica_epoch,
            )
            if fails:
                failed = replace(
                    exchange, stage=Stage.ANSWERED, answers=(), error=leading.OUT_OF_RANGE
                )
                change(world, broker_id, source, exchange, failed)
                return failed, True
            moved = _high_watermark(world, leader, partition)
            if moved != before and answering.generation.answers_with_moved_high_watermark:
                answer = replace(answer, high_watermark=moved)
        elif _forgets_end(exchange, partition, answer, answering):
            changed |= leading.forget_end(world, leader, partition, broker_id)
        answers.append((partition, answer))
    if but:
        counted = frozenset(partition for partition, _ in answers).difference(but)
        after = replace(exchange, answers=tuple(answers), counted=counted)
    else:
        after = _answered_or_waiting(exchange, answers)
    change(world, broker_id, source, exchange, after)
    return after, changed


def _forgets_end(
    exchange: Exchange, partition: TopicPartition, answer: Answer, answering: Broker
) -> bool:
    """Return whether a leader forgets where the follower ends, since it answers with an error."""
    is_refused_now = isinstance(answer, FetchAnswer) and bool(answer.error)
    is_read = partition not in exchange.refused
    return is_refused_now and is_read and answering.generation.forgets_end_of_refused


def _answered_or_waiting(
    exchange: Exchange, answers: Sequence[tuple[TopicPartition, Answer]]
) -> Exchange:
    """Return a Fetch that was counted: with its answer, or in purgatory without one."""
    read = [answer for partition, answer in answers if partition not in exchange.refused]
    # Without anything to read there is nothing to wait for, but for a fetch that names nothing.
    if all(map(says_nothing, read)) and (bool(read) or not exchange.refused):
        return replace(exchange, stage=Stage.WAITING, answers=(), counted=frozenset())
    return replace(exchange, stage=Stage.ANSWERED, answers=tuple(answers), counted=frozenset())


def _without_records(answer: FetchAnswer, is_withheld: bool) -> FetchAnswer:
    return replace(answer, batches=()) if is_withheld and answer.batches else answer


def answer_waiting(
    world: World,
    broker_id: int,
    source: int,
    exchange: Exchange,
    withheld: frozenset[TopicPartition] = frozenset(),
) -> Exchange:
    """Let the leader end the wait of a Fetch: it reads again (DelayedFetch.onComplete).

    For `withheld` see `look`.
    """
    leader = leader_of(source)
    answers = []
    for partition, asked in exchange.asked:
        if partition in exchange.refused:
            answers.append((partition, NOT_TOLD))
        else:
            fetched = leading.read(world, leader, partition, asked)
            answers.append((partition, _without_records(fetched, partition in withheld)))
    after = replace(exchange, stage=Stage.ANSWERED, answers=tuple(answers))
    change(world, broker_id, source, exchange, after)
    return after


def read_as_in_epoch(
    world: World, broker_id: int, source: int, partition: TopicPartition, leader_epoch: int
) -> FetchAnswer:
    """Return what the leader answers to a Fetch of one partition that names that leader epoch."""
    broker, thread = world.broker(broker_id), world.thread(broker_id, source)
    assert broker is not None
    assert thread is not None
    asked = _asked(world, broker_id, broker, thread, partition, FETCH)
    asked = replace(asked, leader_epoch=leader_epoch)
    return leading.read(world, leader_of(source), partition, asked)


def hold_answer(world: World, broker_id: int, source: int, exchange: Exchange) -> Exchange:
    """Let the holds that are about an answer keep it; return it as it stands then."""
    kept = _holds(world, broker_id, leader_of(source), exchange, "response")
    if kept == exchange.holds:
        return exchange
    after = replace(exchange, holds=kept)
    change(world, broker_id, source, exchange, after)
    return after


def answer_is_held(world: World, broker_id: int, source: int, exchange: Exchange) -> bool:
    """Return whether a hold will keep the answer of a request."""
    return bool(_holds(world, broker_id, leader_of(source), exchange, "response"))


def without_told(world: World, broker_id: int, source: int, exchange: Exchange) -> Exchange:
    """Return an answer that says nothing new without what a fetch session leaves out of it."""
    broker, thread = world.broker(broker_id), world.thread(broker_id, source)
    if broker is None or thread is None or not broker.generation.tells_high_watermark_once:
        return exchange
    told = thread.session or frozenset()
    left = tuple(answer for answer in exchange.answers if answer[0] not in told)
    return replace(exchange, answers=left)


def handle(world: World, broker_id: int, source: int, exchange: Exchange) -> bool:
    """Let the follower handle an answer; return whether that changed anything."""
    end(world, broker_id, source, exchange)
    if exchange.error:
        end_session(world, broker_id, source, exchange)
        return False
    thread = world.thread(broker_id, source)
    if exchange.api == LIST_OFFSETS:
        if thread is None or thread.reset is None or not exchange.answers:
            return False
        ((_, answer),) = exchange.answers
        moved = offset_reset.handle_answer(world, broker_id, source, answer)
        return _handle_answers(world, broker_id, source, thread.reset.rest) or moved
    asked = dict(exchange.asked)
    answers = tuple((partition, asked[partition], answer) for partition, answer in exchange.answers)
    changed = _handle_answers(world, broker_id, source, answers)
    thread = world.thread(broker_id, source)
    session = frozenset(asked)
    if exchange.api == FETCH and thread is not None and thread.session != session:
        world.put_thread(broker_id, source, replace(thread, session=session))
    return changed


def _handle_answers(
    world: World,
    broker_id: int,
    source: int,
    answers: tuple[tuple[TopicPartition, PartitionRequest, Answer], ...],
) -> bool:
    """Handle one partition after the other, up to one that is out of range: the rest waits."""
    changed = False
    for index, (partition, asked, answer) in enumerate(answers):
        broker, thread = world.broker(broker_id), world.thread(broker_id, source)
        if broker is None or not broker.is_running or thread is None or thread.is_dead:
            break
        if thread.reset is not None:
            waiting = replace(thread.reset, rest=answers[index:])
            world.put_thread(broker_id, source, replace(thread, reset=waiting))
            break
        if isinstance(answer, FetchAnswer):
            moved = following.handle_fetch_answer(
                world, broker_id, source, partition, asked, answer
            )
        elif isinstance(answer, EpochAnswer):
            moved = following.handle_epoch_answer(
                world, broker_id, source, partition, asked, answer
            )
        changed = moved or changed
    return changed


def rounds(world: World, broker_id: int, source: int, exchange: Exchange) -> list[EpochRound]:
    """Return what an answer says about leader epochs."""
    epoch_rounds = []
    asked = dict(exchange.asked)
    for partition, answer in exchange.answers:
        if answer.error or isinstance(answer, OffsetAnswer):
            continue
        end_of_epoch = answer.end if isinstance(answer, EpochAnswer) else answer.diverging
        if end_of_epoch is None:
            continue
        by_fetch = isinstance(answer, FetchAnswer)
        tells = by_fetch or _tells_epoch(world, broker_id, source)
        epoch_rounds.append(
            EpochRound(
                follower=broker_id,
                leader=leader_of(source),
                topic=partition.topic,
                partition=partition.partition,
                requested_epoch=asked[partition].requested_epoch,
                answered_epoch=end_of_epoch.epoch if tells else None,
                end_offset=end_of_epoch.end_offset,
                by_fetch=by_fetch,
            )
        )
    return epoch_rounds


def _high_watermark(world: World, leader: int, partition: TopicPartition) -> int:
    replica = world.replica(leader, partition)
    return -1 if replica is None else replica.high_watermark


def says_nothing(answer: Answer) -> bool:
    """Return whether an answer to a Fetch has neither records nor an error to tell."""
    return (
        isinstance(answer, FetchAnswer)
        and not answer.error
        and not answer.batches
        and answer.diverging is None
    )


def _asked(
    world: World,
    broker_id: int,
    broker: Broker,
    thread: FetcherThread,
    partition: TopicPartition,
    api: str,
) -> PartitionRequest:
    generation = broker.generation
    fetch = thread.fetch(partition)
    assert fetch is not None
    replica = world.known_replica(broker_id, partition)
    if api == FETCH:
        return PartitionRequest(
            leader_epoch=fetch.leader_epoch,
            carries_leader_epoch=generation.sends_leader_epoch,
            fetch_offset=fetch.fetch_offset,
            requested_epoch=generation.last_fetched_epoch(fetch, replica.entries),
            is_incremental=thread.session is not None,
            topic_id=fetch.topic_id if generation.sends_topic_id else "",
        )
    question = generation.proposed.epoch_question(replica, fetch)
    return PartitionRequest(
        leader_epoch=fetch.leader_epoch,
        carries_leader_epoch=(generation.epoch_request_version or 0) >= 2,
        fetch_offset=fetch.fetch_offset,
        requested_epoch=question.epoch,
        ends=question.ends,
    )


def _tells_epoch(world: World, broker_id: int, source: int) -> bool:
    """Return whether an answer between the two names its epoch (OffsetForLeaderEpoch v1)."""
    asking, answering = world.broker(broker_id), world.broker(leader_of(source))
    if asking is None or answering is None:
        return False
    return answering.generation.tells_epoch(asking.generation.epoch_request_version or 0)


def _holds(
    world: World, source: int, target: int, exchange: Exchange, direction: str
) -> tuple[str, ...]:
    return tuple(
        hold.name
        for hold in world.holding(exchange.api, source, target, direction)
        if any(_concerns(hold, partition, asked) for partition, asked in exchange.asked)
    )


def _concerns(hold: Hold, partition: TopicPartition, asked: PartitionRequest) -> bool:
    return (
        hold.topic in (None, partition.topic)
        and hold.partition in (None, partition.partition)
        and (hold.fetch_offset_at_least is None or asked.fetch_offset >= hold.fetch_offset_at_least)
    )
