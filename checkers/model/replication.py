"""Fetch rounds: who asks whom, what a hold keeps back, until nothing changes any more."""

from dataclasses import replace

from checkers.errors import ModelError
from checkers.model import controller, follower, leader
from checkers.model.epoch_cache import UNDEFINED_EPOCH, EpochEnd, latest_epoch
from checkers.model.events import Hold, TopicPartition
from checkers.model.prediction import EpochRound
from checkers.model.state import (
    Answer,
    Asked,
    Broker,
    Cluster,
    EpochAnswer,
    FetchAnswer,
    FetcherState,
    FetcherThread,
    InFlight,
)

FETCH = "Fetch"
OFFSET_FOR_LEADER_EPOCH = "OffsetForLeaderEpoch"

_ROUNDS_LIMIT = 10_000
"""A guard against an endless loop in the model itself; real timelines need some dozens."""


def settle(cluster: Cluster) -> None:
    """Let controller and fetchers work, in a fixed order, until nothing changes.

    A truncation that never completes (KAFKA-10706) repeats itself without a change, so it ends the
    rounds too, and its partition stays "truncating".

    Raises:
        ModelError: The rounds do not end.
    """
    for _ in range(_ROUNDS_LIMIT):
        changed = controller.deliver(cluster)
        for broker_id in sorted(cluster.brokers):
            broker = cluster.brokers[broker_id]
            for leader_id in sorted(broker.threads):
                thread = broker.threads.get(leader_id)
                if thread is not None and broker.is_running and not broker.is_paused:
                    changed = _work(cluster, broker, leader_id, thread) or changed
        if not changed:
            return
    raise ModelError(f"followers still change after {_ROUNDS_LIMIT} rounds; this is the model's")


def release(cluster: Cluster, name: str) -> None:
    """Let pass what a hold kept back."""
    cluster.holds.pop(name, None)
    for outbox in cluster.outboxes.values():
        outbox.held_by.discard(name)
    for broker_id in sorted(cluster.brokers):
        broker = cluster.brokers[broker_id]
        for leader_id, thread in sorted(broker.threads.items()):
            if thread.in_flight is not None:
                thread.in_flight.holds.discard(name)
                if not thread.in_flight.holds:
                    _resume(cluster, broker, leader_id, thread)


def _work(cluster: Cluster, broker: Broker, leader_id: int, thread: FetcherThread) -> bool:
    """Do one round of a fetcher thread's doWork: truncate, then fetch."""
    if thread.is_dead or thread.in_flight is not None:
        return False
    changed = _truncate_without_asking(cluster, broker, thread)
    asked = _asked(broker, thread, FetcherState.TRUNCATING)
    if asked:
        changed = _send(cluster, broker, leader_id, thread, OFFSET_FOR_LEADER_EPOCH, asked) or (
            changed
        )
    if thread.is_dead or thread.in_flight is not None:
        return True
    asked = _asked(broker, thread, FetcherState.FETCHING)
    if asked:
        changed = _send(cluster, broker, leader_id, thread, FETCH, asked) or changed
    return changed


def _truncate_without_asking(cluster: Cluster, broker: Broker, thread: FetcherThread) -> bool:
    generation = broker.generation
    changed = False
    for partition, fetch in sorted(thread.partitions.items()):
        if fetch.state is not FetcherState.TRUNCATING:
            continue
        has_epoch = latest_epoch(broker.replicas[partition].entries) != UNDEFINED_EPOCH
        if generation.epoch_request_version is None or not (
            has_epoch or generation.asks_without_epoch
        ):
            follower.truncate_without_asking(cluster, broker, partition, fetch)
            changed = True
    return changed


def _asked(
    broker: Broker, thread: FetcherThread, state: FetcherState
) -> dict[TopicPartition, Asked]:
    generation = broker.generation
    by_fetch = state is FetcherState.FETCHING
    carries_epoch = (
        generation.sends_leader_epoch if by_fetch else (generation.epoch_request_version or 0) >= 2
    )
    with_epoch = not by_fetch or generation.truncates_on_fetch
    return {
        partition: Asked(
            leader_epoch=fetch.leader_epoch,
            carries_leader_epoch=carries_epoch,
            fetch_offset=fetch.fetch_offset,
            requested_epoch=(
                latest_epoch(broker.replicas[partition].entries) if with_epoch else UNDEFINED_EPOCH
            ),
        )
        for partition, fetch in sorted(thread.partitions.items())
        if fetch.state is state
    }


def _send(
    cluster: Cluster,
    broker: Broker,
    leader_id: int,
    thread: FetcherThread,
    api: str,
    asked: dict[TopicPartition, Asked],
) -> bool:
    if not cluster.passes(broker.broker, leader_id):
        return False
    request = InFlight(api=api, holds=set(), asked=asked)
    request.holds = _holds(cluster, broker.broker, leader_id, request, "request")
    if request.holds:
        thread.in_flight = request
        return True
    return _answer(cluster, broker, leader_id, thread, request)


def _answer(
    cluster: Cluster, broker: Broker, leader_id: int, thread: FetcherThread, request: InFlight
) -> bool:
    answers, changed = _handled_by_leader(cluster, broker, leader_id, request)
    request.answers = answers
    if not cluster.passes(leader_id, broker.broker):
        return changed
    request.holds = _holds(cluster, broker.broker, leader_id, request, "response")
    if request.holds:
        _record_rounds(cluster, broker, leader_id, request, is_new=True)
        thread.in_flight = request
        return True
    moved = _handled_by_follower(cluster, broker, thread, request)
    _record_rounds(cluster, broker, leader_id, request, is_new=moved)
    return moved or changed


def _resume(cluster: Cluster, broker: Broker, leader_id: int, thread: FetcherThread) -> None:
    request, thread.in_flight = thread.in_flight, None
    if request is None:
        return
    if request.answers is None:
        if cluster.passes(broker.broker, leader_id):
            _answer(cluster, broker, leader_id, thread, request)
    elif cluster.passes(leader_id, broker.broker):
        _handled_by_follower(cluster, broker, thread, request)


def _handled_by_leader(
    cluster: Cluster, broker: Broker, leader_id: int, request: InFlight
) -> tuple[dict[TopicPartition, Answer], bool]:
    target = cluster.brokers[leader_id]
    answers: dict[TopicPartition, Answer] = {}
    changed = False
    for partition, asked in request.asked.items():
        if request.api == FETCH:
            answers[partition], moved = leader.answer_fetch(
                cluster, target, partition, broker.broker, asked
            )
            changed = moved or changed
        else:
            answer = leader.answer_epoch(target, partition, asked)
            if not _tells_epoch(broker, target):
                answer = replace(answer, end=EpochEnd(UNDEFINED_EPOCH, answer.end.end_offset))
            answers[partition] = answer
    return answers, changed


def _handled_by_follower(
    cluster: Cluster, broker: Broker, thread: FetcherThread, request: InFlight
) -> bool:
    changed = False
    for partition, answer in (request.answers or {}).items():
        asked = request.asked[partition]
        if thread.is_dead or not broker.is_running:
            break
        if isinstance(answer, FetchAnswer):
            moved = follower.handle_fetch_answer(cluster, broker, thread, partition, asked, answer)
        else:
            moved = follower.handle_epoch_answer(cluster, broker, thread, partition, asked, answer)
        changed = moved or changed
    return changed


def _record_rounds(
    cluster: Cluster, broker: Broker, leader_id: int, request: InFlight, *, is_new: bool
) -> None:
    """Record what was answered; a repetition that changes nothing is recorded once."""
    for partition, answer in (request.answers or {}).items():
        end = answer.end if isinstance(answer, EpochAnswer) else answer.diverging
        if answer.error or end is None:
            continue
        by_fetch = isinstance(answer, FetchAnswer)
        tells_epoch = by_fetch or _tells_epoch(broker, cluster.brokers[leader_id])
        answered = EpochRound(
            follower=broker.broker,
            leader=leader_id,
            topic=partition.topic,
            partition=partition.partition,
            requested_epoch=request.asked[partition].requested_epoch,
            answered_epoch=end.epoch if tells_epoch else None,
            end_offset=end.end_offset,
            by_fetch=by_fetch,
        )
        if is_new or answered not in cluster.rounds[-1:]:
            cluster.rounds.append(answered)


def _tells_epoch(asking: Broker, answering: Broker) -> bool:
    """Tell whether an answer between the two names its epoch (OffsetForLeaderEpoch v1)."""
    version = asking.generation.epoch_request_version or 0
    return version >= 1 and answering.generation.answers_with_epoch


def _holds(
    cluster: Cluster, source: int, target: int, request: InFlight, direction: str
) -> set[str]:
    return {
        hold.name
        for hold in cluster.holds.values()
        if hold.api == request.api
        and hold.direction == direction
        and hold.source in (None, source)
        and hold.target in (None, target)
        and any(_concerns(hold, partition, asked) for partition, asked in request.asked.items())
    }


def _concerns(hold: Hold, partition: TopicPartition, asked: Asked) -> bool:
    return (
        hold.topic in (None, partition.topic)
        and hold.partition in (None, partition.partition)
        and (hold.fetch_offset_at_least is None or asked.fetch_offset >= hold.fetch_offset_at_least)
    )
