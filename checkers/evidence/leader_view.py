"""A leader's view of its followers, from two points of its code (hits.jsonl).

No bean and no log line of any release tells it: 2.4 and later log it at TRACE when it is reset,
and only the shrink line of 3.x names the caught-up time. So the agent reads the fields of
kafka.cluster.Replica where the leader counts a follower's fetch, and where it looks which
followers are in sync (0.10.2.2, 2.0.1, 2.4.1, 2.8.2 and 3.9.0).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.formats.point_hit import FETCH_COUNTED, ISR_CHECK, PointHit

_NOW = re.compile(r"now=(\d+) ")
_REPLICA = re.compile(r"(?:Replica\(replicaId=|ReplicaId: )(\d+)[,;].*?(?=Replica\(|ReplicaId: |$)")
_NAMED = re.compile(r"(\w+)(?:=|: )([\w.-]+)")
_CHECK = re.compile(r"now=\d+ partition=(\S+)-(\d+) logEndOffset=(\d+) (.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerSeen:
    """A leader's knowledge of one follower; times are its own clock's, in seconds since the epoch.

    Attributes:
        last_fetch_at: When it last took up a fetch of this follower; None if it never did since it
            leads, or where the release does not say.
        last_caught_up_at: The latest time at which, by the leader's account, the follower had all
            that the leader's log had; 0.0 if never.
        log_end_offset: The offset of its last fetch, -1 if there was none.
        leader_log_end_offset: The leader's own when it took up that fetch.
    """

    follower: int
    last_fetch_at: float | None
    last_caught_up_at: float
    log_end_offset: int = -1
    leader_log_end_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderView:
    """A leader's knowledge of followers of one partition at one moment.

    Attributes:
        time: Of the leader's clock, in seconds since the epoch.
        is_check: Whether it looked who is in sync; otherwise it has just counted a fetch.
        followers: All of them at a check, by id; else the one that fetched.
        log_end_offset: The leader's, at a check.
        read_at: File and line.
    """

    time: float
    leader: int
    partition: TopicPartition
    is_check: bool
    followers: tuple[FollowerSeen, ...]
    log_end_offset: int | None = None
    read_at: str = ""


def leader_views(hits: Iterable[PointHit], *, with_resets: bool = False) -> Iterator[LeaderView]:
    """Yield the reports of leaders, in order.

    From 2.4 on a new leader resets its followers by the method that counts a fetch: those are left
    out without `with_resets`.

    Up to 2.3 a check tells the caught-up time alone; the rest is what the leader told when it last
    counted a fetch of that follower.

    Raises:
        ScenarioDataError: What was told there has another shape.
    """
    counted: dict[tuple[int, TopicPartition, int], FollowerSeen] = {}
    for hit in hits:
        if hit.fate != "told" or hit.point not in (FETCH_COUNTED, ISR_CHECK):
            continue
        view = _check(hit) if hit.point == ISR_CHECK else _counted(hit)
        if view.is_check:
            yield _completed(view, counted)
            continue
        (follower,) = view.followers
        is_reset = follower.last_fetch_at is None
        if not is_reset:
            counted[(view.leader, view.partition, follower.follower)] = follower
        if with_resets or not is_reset:
            yield view


def _completed(
    view: LeaderView, counted: dict[tuple[int, TopicPartition, int], FollowerSeen]
) -> LeaderView:
    """Return the check with the values that older releases report only with a counted fetch."""
    followers = []
    for follower in view.followers:
        before = counted.get((view.leader, view.partition, follower.follower))
        if follower.last_fetch_at is None and before is not None:
            follower = FollowerSeen(
                follower=follower.follower,
                last_fetch_at=before.last_fetch_at,
                last_caught_up_at=follower.last_caught_up_at,
                log_end_offset=before.log_end_offset,
                leader_log_end_offset=before.leader_log_end_offset,
            )
        followers.append(follower)
    return LeaderView(
        time=view.time,
        leader=view.leader,
        partition=view.partition,
        is_check=True,
        followers=tuple(followers),
        log_end_offset=view.log_end_offset,
        read_at=view.read_at,
    )


def _counted(hit: PointHit) -> LeaderView:
    fields = dict(_NAMED.findall(hit.seen))
    if not {"topic", "partition", "lastFetchTimeMs"} <= fields.keys():
        raise _another_shape(hit)
    followers = tuple(_followers(hit, hit.seen))
    if len(followers) != 1:
        raise _another_shape(hit)
    return LeaderView(
        time=_now(hit),
        leader=hit.broker,
        partition=TopicPartition(fields["topic"], _number(hit, fields["partition"])),
        is_check=False,
        followers=followers,
        read_at=hit.read_at,
    )


def _check(hit: PointHit) -> LeaderView:
    match = _CHECK.fullmatch(hit.seen)
    if match is None:
        raise _another_shape(hit)
    topic, partition, end, replicas = match.groups()
    # Up to 2.3 the leader's own replica is among them.
    followers = (
        follower for follower in _followers(hit, replicas) if follower.follower != hit.broker
    )
    return LeaderView(
        time=_now(hit),
        leader=hit.broker,
        partition=TopicPartition(topic, int(partition)),
        is_check=True,
        followers=tuple(sorted(followers, key=lambda follower: follower.follower)),
        log_end_offset=int(end),
        read_at=hit.read_at,
    )


def _followers(hit: PointHit, text: str) -> Iterator[FollowerSeen]:
    for match in _REPLICA.finditer(text):
        fields = dict(_NAMED.findall(match[0]))
        if "lastCaughtUpTimeMs" not in fields:
            raise _another_shape(hit)
        fetched = _number(hit, fields.get("lastFetchTimeMs", "0"))
        at_leader = fields.get("lastFetchLeaderLogEndOffset")
        yield FollowerSeen(
            follower=int(match[1]),
            last_fetch_at=fetched / 1000 if fetched > 0 else None,
            last_caught_up_at=_number(hit, fields["lastCaughtUpTimeMs"]) / 1000,
            log_end_offset=_number(hit, fields.get("logEndOffset", "-1")),
            leader_log_end_offset=None if at_leader is None else _number(hit, at_leader),
        )


def _now(hit: PointHit) -> float:
    match = _NOW.match(hit.seen)
    if match is None:
        raise _another_shape(hit)
    return int(match[1]) / 1000


def _number(hit: PointHit, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _another_shape(hit) from None


def _another_shape(hit: PointHit) -> ScenarioDataError:
    return ScenarioDataError(
        f"{hit.read_at}: what was seen at {hit.point} has another shape: {hit.seen[:200]!r}"
    )
