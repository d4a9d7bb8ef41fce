"""The time lines of a recorded run for KIP-501's solutions: one for each term of a leader that told
what it knew of its followers (`checkers.evidence.leader_view`)."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from kchaos.checkers.acts import StartBroker, StopBroker, TopicPartition
from kchaos.checkers.evidence.dropped import reported_follower
from kchaos.checkers.evidence.leader_view import FollowerSeen, LeaderView
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.formats.point_hit import FETCH_BEGUN, PointHit
from kchaos.checkers.model.releases.composition import generation_for
from kchaos.checkers.model.releases.rules.kip_537 import LAG, default_lag_s
from kchaos.checkers.model.releases.rules.two_looks import TWO_LOOKS
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.checkers.model.values.events import PartitionState
from kchaos.studies.documents.kip_501_courses import Fetch, TimeLine
from kchaos.studies.explore.in_sync import Follower

_PENDING = ("fetch-read", "log-read", FETCH_BEGUN)
"""Points behind ReplicaManager.fetchMessages: what is kept there is pending."""
_OFFSET = r"\((?:[\w-]{{22}}:)?{topic}-{partition},.*?(?:fetchOffset=|offset=|\[)(\d+)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderTerm:
    """A leader's term: when it began, its first ISR, and when another leader or epoch followed."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    began: float
    ended: float
    leaderless_at: float | None = None
    recorded: tuple[tuple[float, int, tuple[int, ...]], ...] = ()


def time_lines(
    evidence: RunEvidence, partition: TopicPartition
) -> Iterator[tuple[LeaderTerm, TimeLine]]:
    """Yield the partition's terms with checked ISRs, and time lines in seconds since the epoch."""
    ended = max((observation.time for observation in evidence.observed), default=math.inf)
    for term in _terms(evidence, partition, ended):
        views = [
            view
            for view in evidence.leader_views
            if (view.partition, view.leader) == (partition, term.leader) and term.began <= view.time
            if view.time < term.ended
        ]
        if any(view.is_check for view in views):
            yield term, _time_line(evidence, partition, term, views)


def _terms(evidence: RunEvidence, partition: TopicPartition, ended: float) -> Iterator[LeaderTerm]:
    now: LeaderTerm | None = None
    for timed in evidence.events:
        event, time = timed.event, timed.time
        if not isinstance(event, PartitionState) or (event.topic, event.partition) != partition:
            continue
        if now is not None and event.leader in (now.leader, -1):
            gone = time if event.leader < 0 and now.leaderless_at is None else now.leaderless_at
            back = event.leader >= 0 and now.leaderless_at is not None
            if event.leader < 0 or back or event.leader_epoch == now.leader_epoch:
                row = (time, event.leader, event.isr)
                now = replace(now, leaderless_at=gone, recorded=(*now.recorded, row))
                if not back:
                    continue
        if now is not None:
            yield replace(now, ended=time)
        now = LeaderTerm(
            leader=event.leader,
            leader_epoch=event.leader_epoch,
            isr=event.isr,
            began=time,
            ended=ended,
        )
    if now is not None:
        yield now


def _time_line(
    evidence: RunEvidence, partition: TopicPartition, term: LeaderTerm, views: Sequence[LeaderView]
) -> TimeLine:
    first = next(view for view in views if view.is_check)
    release = evidence.description.brokers[term.leader].judged_as
    version = parse_version(release)
    stated_ms = evidence.broker_properties.get(LAG)
    lag_s = default_lag_s(version) if stated_ms is None else int(stated_ms) / 1000
    looks_twice = TWO_LOOKS.releases.includes(version)
    dies_at = _dies_at(evidence, term)
    return TimeLine(
        leader=term.leader,
        assignment=evidence.assignment(partition),
        isr=_isr_at(term, first.time),
        lag_s=lag_s,
        known={follower.follower: _follower(follower) for follower in first.followers},
        fetches=tuple(_fetches(evidence, partition, term, views, first.time)),
        log_ends=tuple(_log_ends(evidence, partition, term, views)),
        checks=tuple(_looks(views, lag_s, looks_twice=looks_twice)),
        began=first.time,
        ended=term.ended,
        dies_at=dies_at,
        back_at=term.ended if dies_at is not None and term.leaderless_at is not None else None,
        down=dict(_down(evidence, partition, term)),
        min_insync_replicas=evidence.min_insync_replicas(partition, term.leader),
        level_is_in_sync=not generation_for(release).falls_out_of_isr(1, 1),
    )


def _isr_at(term: LeaderTerm, time: float) -> tuple[int, ...]:
    isr = term.isr
    for at, _, then in term.recorded:
        isr = then if at <= time else isr
    return isr


def _follower(view: FollowerSeen) -> Follower:
    return Follower(
        log_end_offset=view.log_end_offset,
        leader_log_end_offset=view.leader_log_end_offset or 0,
        fetched_at=view.last_fetch_at or 0.0,
        caught_up_at=view.last_caught_up_at,
    )


def _looks(views: Sequence[LeaderView], lag_s: float, *, looks_twice: bool) -> Iterator[float]:
    """Yield the times at which the leader checked the ISR and would have changed it.

    From 2.5 on it looks under the lock for reading, and if somebody lags, once more under the lock
    for writing, for which it may have to wait: only that one counts.
    """
    first = None
    for view in views:
        if not view.is_check:
            continue
        lagging = any(
            follower.log_end_offset != view.log_end_offset
            and view.time - follower.last_caught_up_at > lag_s
            for follower in view.followers
        )
        is_first = looks_twice and lagging and first is None
        first = view.time if is_first else None
        if not is_first:
            yield view.time


def _fetches(
    evidence: RunEvidence,
    partition: TopicPartition,
    term: LeaderTerm,
    views: Sequence[LeaderView],
    since: float,
) -> Iterator[Fetch]:
    """Yield counted fetches, and those that the leader kept without counting them."""
    kept = _kept(evidence.hits, partition, term)
    for view in views:
        for follower in view.followers if not view.is_check and view.time > since else ():
            if follower.last_fetch_at is None:
                continue
            came = follower.last_fetch_at
            for hit, released in list(kept):
                if int(hit.reader) == follower.follower and released <= view.time:
                    came = min(came, hit.time) if hit.point in _PENDING else came
                    kept.remove((hit, released))
            yield Fetch(
                follower=follower.follower,
                offset=follower.log_end_offset,
                pending_from=came,
                read_at=follower.last_fetch_at,
                counted_at=view.time,
            )
    for hit, released in kept:
        if hit.point in _PENDING:
            yield Fetch(
                follower=int(hit.reader),
                offset=_offset(hit, partition),
                pending_from=hit.time,
                read_at=released,
                counted_at=math.inf,
            )


def _kept(
    hits: Sequence[PointHit], partition: TopicPartition, term: LeaderTerm
) -> list[tuple[PointHit, float]]:
    """Return the fetches about the partition that the leader kept, and until when.

    One that the leader only told of it kept until it counted that follower, or began anew for it.
    """
    kept: dict[int, tuple[PointHit, float]] = {}
    begun: dict[int, int] = {}
    for hit in hits:
        if hit.broker != term.leader:
            continue
        follower = reported_follower(hit)
        if follower is not None and term.began <= hit.time < term.ended:
            before = begun.pop(follower, None)
            if before is not None:
                kept[before] = (kept[before][0], hit.time)
            if hit.point == FETCH_BEGUN and _offset(hit, partition) >= 0:
                begun[follower], kept[hit.number] = hit.number, (hit, math.inf)
        if not hit.reader.isdecimal():
            continue
        if hit.fate in ("held", "delayed") and term.began <= hit.time < term.ended:
            if _offset(hit, partition) >= 0:
                kept[hit.number] = (hit, math.inf)
        elif hit.fate == "released" and hit.number in kept:
            kept[hit.number] = (kept[hit.number][0], hit.time)
    return list(kept.values())


def _offset(hit: PointHit, partition: TopicPartition) -> int:
    """Return the fetch's offset in the partition, -1 if it does not name it."""
    named = _OFFSET.format(topic=re.escape(partition.topic), partition=partition.partition)
    match = re.search(named, hit.seen)
    return int(match[1]) if match else -1


def _log_ends(
    evidence: RunEvidence, partition: TopicPartition, term: LeaderTerm, views: Sequence[LeaderView]
) -> Iterator[tuple[float, int]]:
    for view in views:
        if view.log_end_offset is not None:
            yield view.time, view.log_end_offset
        for follower in () if view.is_check else view.followers:
            if follower.last_fetch_at is not None and follower.leader_log_end_offset is not None:
                yield follower.last_fetch_at, follower.leader_log_end_offset
    for operation in evidence.operations:
        is_own = (operation.topic, operation.partition) == partition
        if is_own and operation.broker == term.leader and operation.base_offset >= 0:
            end = operation.base_offset + len(operation.payloads)
            if operation.ended_at is not None and operation.acks == 1:
                yield operation.ended_at, end


def _dies_at(evidence: RunEvidence, term: LeaderTerm) -> float | None:
    for timed in evidence.events:
        is_there = term.began <= timed.time <= term.ended
        if isinstance(timed.event, StopBroker) and timed.event.broker == term.leader and is_there:
            return timed.time
    return None


def _down(
    evidence: RunEvidence, partition: TopicPartition, term: LeaderTerm
) -> Iterator[tuple[int, float]]:
    """Yield the followers that stopped in the term and did not start again in it."""
    stopped: dict[int, float] = {}
    for timed in evidence.events:
        event = timed.event
        if isinstance(event, StopBroker) and term.began <= timed.time < term.ended:
            stopped[event.broker] = timed.time
        elif isinstance(event, StartBroker):
            stopped.pop(event.broker, None)
    for broker in evidence.assignment(partition):
        if broker in stopped and broker != term.leader:
            yield broker, stopped[broker]
