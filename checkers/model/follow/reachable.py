"""Dead ends: states from which an answer that was seen cannot come any more.

A search goes on from them last: what they lead to is only of use where nothing explains a run.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.broker import exchange, leader
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.matching import NOT_TOLD, answer_as_seen, answers_as_seen
from kchaos.checkers.model.follow.observations import FetchAnswered, ResponseSeen
from kchaos.checkers.model.state.state import Component, State
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.fetchers import leader_of
from kchaos.checkers.model.values.replica import Role
from kchaos.checkers.model.values.requests import (
    Answer,
    Exchange,
    PartitionRequest,
    Stage,
    UpdateMetadata,
)

_NOT_KNOWN = NOT_TOLD | {ErrorCode.INCONSISTENT_TOPIC_ID}


def is_out_of_reach(
    state: State, changes: Mapping[Component, Any], lookahead: Lookahead, index: int
) -> bool:
    """Return whether a step led to a state in which a leader cannot answer any more as was seen.

    Args:
        state: After the step.
        changes: Of the step; only what it changed is looked at.
        lookahead: Of the record.
        index: Of the first observation that is not seen yet.
    """
    world = World(state)
    for follower, _, leader_id, request in _touched(world, changes):
        if _is_missed(world, follower, leader_id, request, lookahead, index):
            return True
    return False


def grows_too_early(
    before: State, changes: Mapping[Component, Any], lookahead: Lookahead, index: int
) -> bool:
    """Return whether a leader's ISR grows while its next answer is that too few are in it.

    Args:
        before: The state before the step.
        changes: Of the step.
        lookahead: Of the record.
        index: Of the first observation that is not seen yet.
    """
    for component, replica in changes.items():
        had = before(component) if component[0] == "replica" and replica is not None else None
        if had is None or had.role is not Role.LEADER or not {*had.isr} < {*replica.isr}:
            continue
        _, broker_id, partition = component
        if lookahead.refuses_next(broker_id, partition, had.leader_epoch, index):
            return True
    return False


def never_answered(
    state: State, changes: Mapping[Component, Any], lookahead: Lookahead, index: int
) -> str:
    """Return why a Fetch can be answered no more, as was seen or unseen, or "".

    A partition that a leader has refused, it does not read again: it answers with that error.

    A later message on its connection tells that it was answered: a fetcher has one request in
    flight on a connection, and closes it where that fails (`matching.is_on`). The links
    record an answer with records, and one with another high watermark than the one before it had.
    A leader's log and high watermark only grow while it leads: Partition.makeLeader moves the high
    watermark up alone, and only makeFollower truncates (0.10.2.2, 1.1.1, 2.8.2 and 3.8.0). So from
    a state in which the answer would be recorded none leads to one in which it would not be, unless
    the leader is told of another leader, or to stop its replica, before that later message.

    For the arguments see `is_out_of_reach`.
    """
    world = World(state)
    for follower, source, leader_id, request in _touched(world, changes):
        why = _refuses_what_is_answered(request, lookahead) or _is_stuck(
            world, follower, source, leader_id, request, lookahead, index
        )
        if why:
            return why
    return ""


def _touched(
    world: World, changes: Mapping[Component, Any]
) -> Iterator[tuple[int, int, int, Exchange]]:
    """Yield the requests that changes are about: (follower, source, leader, request)."""
    for component, value in changes.items():
        if component[0] == "exchanges":
            _, follower, source = component
            for request in value or ():
                yield follower, source, leader_of(source), request
        elif component[0] == "replica":
            leader_id = component[1]
            for follower in world.broker_ids():
                for source in world.sources(follower, leader_id):
                    for request in world.exchanges(follower, source):
                        yield follower, source, leader_id, request


def _refuses_what_is_answered(request: Exchange, lookahead: Lookahead) -> str:
    """Return how a Fetch's answer differs by a partition that its leader has refused, or "".

    A leader refuses unknown partitions when the request arrives (KafkaApis.handleFetchRequest), and
    an error that it read ends the wait (ReplicaManager.fetchMessages, 1.1.1, 2.8.2 and 3.8.0).
    """
    seen = None if request.number is None else lookahead.responses.get(request.number)
    if seen is None or seen.error_code or not request.is_at_leader or request.api != FETCH:
        return ""
    refused: dict[TopicPartition, Answer] = dict.fromkeys(request.refused, exchange.NOT_TOLD)
    refused.update({known: answer for known, answer in request.answers if answer.error})
    differing = (answer_as_seen(known, answer, seen)[1] for known, answer in refused.items())
    return next(filter(None, differing), "")


def _is_stuck(
    world: World,
    follower: int,
    source: int,
    leader_id: int,
    request: Exchange,
    lookahead: Lookahead,
    index: int,
) -> str:
    number = request.number
    if number is None or number in lookahead.responses or not request.is_awaited:
        return ""
    if request.api != FETCH or not _is_yet_to_answer(world, leader_id, request):
        return ""
    if not lookahead.goes_on(number) or _is_told_more(world, leader_id):
        return ""
    version = lookahead.requests[number].version
    for partition, asked in request.asked:
        replica = world.replica(leader_id, partition)
        if replica is None or replica.role is not Role.LEADER or partition in request.refused:
            continue
        now = leader.read(world, leader_id, partition, asked)
        if now.error or now.diverging is not None:
            continue
        # Below what was told before it may yet grow to just that.
        told = lookahead.told_before(number, follower, source, partition, index)
        is_news = (
            partition in lookahead.requests[number].partitions
            and lookahead.begins_session(number, follower, source, index)
            if told is None
            else now.high_watermark > told.high_watermark
            or _moves(world, follower, leader_id, partition, request, told, lookahead, index)
        )
        # From version 3 on one batch is sent, however large (KIP-74).
        has_records = bool(now.batches) and version is not None and version >= 3
        is_throttled = leader.may_throttle(world, leader_id, partition, follower)
        if not is_news and (not has_records or is_throttled):
            continue
        if lookahead.leads_until_later(leader_id, partition, number, index):
            above = -1 if told is None else told.high_watermark
            high_watermark = f"a high watermark above {above}" if above >= 0 else "a high watermark"
            news = high_watermark if is_news else "records"
            return (
                f"broker {leader_id} would have sent broker {follower} {news} of {partition.topic}-"
                f"{partition.partition} in answer to request {number[1]}, and no answer was seen"
            )
    return ""


def _is_yet_to_answer(world: World, leader_id: int, request: Exchange) -> bool:
    """Return whether a leader makes its answer to a Fetch of what it has from now on.

    What it has looked at already may be what it had before, but for a Fetch that found nothing: it
    waits, and the leader looks once more (DelayedFetch.onComplete, 0.10.2.2, 1.1.1, 2.8.2 and
    3.8.0). From 2.4.0 to 2.5.1 it need not wait.
    """
    if request.stage is Stage.READ:
        broker = world.broker(leader_id)
        answers = (answer for partition, answer in request.answers)
        return (
            broker is not None
            and not broker.generation.answers_nothing_at_once
            and all(map(exchange.says_nothing, answers))
        )
    return request.stage in (Stage.ARRIVED, Stage.WAITING)


def _moves(
    world: World,
    follower: int,
    leader_id: int,
    partition: TopicPartition,
    request: Exchange,
    told: FetchAnswered,
    lookahead: Lookahead,
    index: int,
) -> bool:
    """Return whether a Fetch, whenever counted, moves the high watermark beyond the reported one.

    Of a partition that was counted before nothing more is counted: who kept it back then may have
    been too slow since, and the high watermark moves at the next occasion (`wait_no_longer`).
    A leader counts a Fetch before it waits with it (ReplicaManager.fetchMessages, 0.10.2.2 and
    1.1.1: updateFollowerLogReadResults; 2.8.2 and 3.8.0: updateFollowerFetchState), and moves the
    high watermark then to the smallest end of the ISR and of who has caught up
    (Partition.maybeIncrementLeaderHW, same releases). From 2.4.0 to 2.5.1 a Fetch may be answered
    with what was read before, and from 3.7.0 on the ISR must be large enough.
    """
    broker, replica = world.broker(leader_id), world.known_replica(leader_id, partition)
    view, asked = replica.view(follower), dict(request.asked)[partition]
    above, number = told.high_watermark, request.number
    if broker is None or view is None or number is None or request.stage is Stage.WAITING:
        return False
    if partition in request.counted:
        return False
    generation = broker.generation
    if generation.answers_nothing_at_once or not leader.moves_with_any_isr(
        world, leader_id, partition
    ):
        return False
    if min(asked.fetch_offset, replica.log.log_end_offset) <= above:
        return False
    if not generation.advances_after_fetch(view.log_end_offset, asked.fetch_offset):
        return False
    later = lookahead.later(number)
    if later is None:
        return False
    is_told = any(True for _ in lookahead.told_until(leader_id, partition, index, later))
    if is_told and not lookahead.decisions.is_always_assigned(partition, follower):
        return False
    return not any(
        _may_keep_back(world, other, leader_id, partition, above, lookahead, index, later)
        for other in {*world.broker_ids(), *dict(replica.views)} - {leader_id, follower}
    )


def _may_keep_back(
    world: World,
    other: int,
    leader_id: int,
    partition: TopicPartition,
    above: int,
    lookahead: Lookahead,
    index: int,
    later: int,
) -> bool:
    """Return whether a follower may keep the high watermark at an offset until a Fetch is counted.

    It is in the ISR, or joins it from the high watermark on, or has caught up: its Fetch reached
    the leader's end, or that of its Fetch before (Partition.maybeExpandIsr and
    Replica.updateLogReadResult, 0.10.2.2, 1.1.1 and 2.8.2; Replica.updateFetchState, 3.8.0). A
    Fetch that fails may make its end unknown (KAFKA-8400).
    """
    replica = world.known_replica(leader_id, partition)
    view = replica.view(other)
    changing = world.get(("isr change", leader_id, partition))
    isr = {*replica.isr, *replica.maximal_isr, *(() if changing is None else changing.isr)}
    # It may count the Fetch before or after it begins with another epoch, as the leader it is.
    for state in lookahead.told_until(leader_id, partition, index, later):
        isr.update(state.isr)
    end, needed = -1, replica.high_watermark
    if view is not None:
        end, needed = view.log_end_offset, min(needed, view.last_leader_end_offset)
    if other in isr or (view is not None and (view.is_caught_up or view.may_join_isr)):
        if end <= above:
            return True
        needed = -1  # It may fetch from before that again, as after a restart.
    to_come = [*lookahead.fetches_until(other, leader_id, partition, index, later)]
    in_flight = [
        (request, asked.fetch_offset)
        for source in world.sources(other, leader_id)
        for request in world.exchanges(other, source)
        for named, asked in request.asked
        if named == partition and request.api == FETCH
    ]
    broker = world.broker(leader_id)
    if needed < 0 and broker is not None and broker.generation.forgets_end_of_refused:
        numbers = [*(number for number, _ in to_come), *(known.number for known, _ in in_flight)]
        if any(number and lookahead.is_refused(number, partition) for number in numbers):
            return True
    return any(needed <= said.fetch_offset <= above for _, said in to_come) or any(
        # What was read before may have been the leader's end then.
        offset <= above and (offset >= needed or request.stage is Stage.READ)
        for request, offset in in_flight
    )


def _is_missed(
    world: World, follower: int, leader_id: int, request: Exchange, lookahead: Lookahead, index: int
) -> bool:
    seen = None if request.number is None else lookahead.responses.get(request.number)
    if seen is None or seen.error_code or not request.is_at_leader or request.refused:
        return False
    if _is_in_other_epoch(world, leader_id, request, seen):
        return True
    if hears_of_leaders(world, leader_id):
        return False
    if request.stage is Stage.READ and not answers_as_seen(request, seen)[1]:
        return False
    # What was read is answered as it was then, if the rest was not read yet.
    read = dict(request.answers) if len(request.answers) < len(request.asked) else {}
    return any(
        _has_passed(world, follower, leader_id, partition, asked, said)
        for partition, asked in request.asked
        if partition not in read
        for said in [seen.partitions.get(partition)]
        if isinstance(said, FetchAnswered)
        # What is there now may be deleted before the leader answers.
        if not said.error_code or lookahead.keeps_until(seen.number, leader_id, partition, index)
    )


def _is_in_other_epoch(world: World, leader_id: int, request: Exchange, seen: ResponseSeen) -> bool:
    """Return whether a leader has come to an epoch in which it does not answer as was seen.

    A replica's leader epochs only grow (Partition.checkCurrentLeaderEpoch, 2.1.0 and 3.8.0): it
    refuses a Fetch of an older one from now on, and knows the one that it was seen not to know.
    """
    broker = world.broker(leader_id)
    if broker is None or request.stage not in (Stage.ARRIVED, Stage.WAITING):
        return False
    for partition, asked in request.asked:
        said, replica = seen.partitions.get(partition), world.replica(leader_id, partition)
        code = ErrorCode.NONE if said is None else said.error_code
        is_known = replica is not None and replica.leader_epoch >= asked.leader_epoch
        if code == ErrorCode.UNKNOWN_LEADER_EPOCH and is_known:
            return True
        refused = leader.refusal(broker, replica, asked)
        if not code and request.api == FETCH and refused == "FENCED_LEADER_EPOCH":
            return True
    return False


def hears_of_leaders(world: World, broker_id: int) -> bool:
    """Return whether a broker has been sent a LeaderAndIsr that it has not handled yet."""
    return bool(world.to_be_told(broker_id))


def _is_told_more(world: World, broker_id: int) -> bool:
    """Return whether a broker has a LeaderAndIsr or a StopReplica that it has not handled yet."""
    waiting = world.to_handle(broker_id)
    return any(not isinstance(part.request, UpdateMetadata) for part in waiting)


def _has_passed(
    world: World,
    follower: int,
    leader_id: int,
    partition: TopicPartition,
    asked: PartitionRequest,
    said: FetchAnswered,
) -> bool:
    """Return whether the leader's log, high watermark and knowledge are already past this point."""
    replica = world.replica(leader_id, partition)
    if replica is None or replica.role is not Role.LEADER:
        return False
    now = leader.read(world, leader_id, partition, asked)
    if now.error or now.diverging is not None:
        return False
    if said.error_code:
        broker = world.broker(leader_id)
        is_told = broker is None or broker.told is None or partition in broker.told
        return said.error_code in _NOT_KNOWN and is_told
    if said.diverging is not None:
        return False
    if said.high_watermark < now.high_watermark:
        return True
    is_throttled = leader.may_throttle(world, leader_id, partition, follower)
    return said.last_offset is None and bool(now.batches) and not is_throttled
