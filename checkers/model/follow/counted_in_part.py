"""Fetches that are counted in part: what a leader may have left when others come in between.

A leader counts one partition after the other, each with that partition's lock alone
(ReplicaManager.updateFollowerLogReadResults, 0.10.2.2, 1.1.1 and 2.0.1; updateFollowerFetchState,
2.8.2; Partition.fetchRecords, 3.3.0 and 3.8.0). Which come first is not known. A partition whose
count shows to nobody is counted with the first ones, and what is left shows to somebody
(partial-order reduction).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.broker import exchange, leader
from kchaos.checkers.model.broker.exchange import FETCH
from kchaos.checkers.model.follow.lookahead import Lookahead
from kchaos.checkers.model.follow.matching import answer_as_seen
from kchaos.checkers.model.follow.observations import ResponseSeen
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.fetchers import leader_of
from kchaos.checkers.model.values.replica import Replica
from kchaos.checkers.model.values.requests import Exchange, FetchAnswer, Stage

_FEW = 3
"""Of so many partitions each part is tried; their number doubles with each partition more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Other:
    """A Fetch of another follower, with which the leader may go on before it has counted the rest.

    Attributes:
        before: Partitions of which it may be told the high watermark that they had before.
        after: Those of which it may be told the high watermark to which they are moved.
        joining: Those whose ISR it may join only before their high watermark is moved, for it asks
            from an offset below.
        waits: Whether the leader has counted it before, and it waits.
    """

    before: frozenset[TopicPartition]
    after: frozenset[TopicPartition]
    joining: frozenset[TopicPartition]
    waits: bool

    def may_come_between(self, left: frozenset[TopicPartition]) -> bool:
        """Return whether the leader may go on with it when just these are left to count."""
        told = self.before | self.after
        is_between = bool(told & left) and told & left <= self.before and told - left <= self.after
        return is_between or bool(self.joining & left)


def left_uncounted(
    world: World, follower: int, source: int, looked: Exchange, lookahead: Lookahead, index: int
) -> Iterator[frozenset[TopicPartition]]:
    """Yield what a leader may leave to count of a Fetch, the most partitions first.

    A search keeps unlikely steps on a stack, so it tries the last of these first. A leader waits
    for ZooKeeper with a partition whose ISR it makes larger, and anything may come then. Else it
    is another Fetch of a partition whose high watermark moves: one that came, one of which the
    leader has looked at its log, or one that waits (from 2.4.0 to 2.5.1 the thread that counts
    ends that wait itself, DelayedFetch.tryComplete). A Fetch that waits was counted before. It can
    only be told of the count, so the partitions that are counted move a high watermark too.

    Args:
        world: In which the leader has looked at its log for the Fetch.
        follower: Who asked.
        source: Of the thread that asked (`values.fetchers`).
        looked: The Fetch; some of it may have been counted before.
        lookahead: Of the record.
        index: How many observations were taken.
    """
    leader_id, asked = leader_of(source), dict(looked.asked)
    uncounted = [known for known, _ in looked.answers if known not in looked.counted]
    if len(uncounted) < 2:
        return
    moved = _moved(world, follower, leader_id, looked)
    waiting = {
        partition
        for partition in uncounted
        if leader.expands_isr(world, leader_id, partition, follower, asked[partition].fetch_offset)
    }
    others = [
        _other(world, other, thread, request, moved, lookahead, index)
        for other in world.broker_ids()
        if other != follower
        for thread in world.sources(other, leader_id)
        for request in world.exchanges(other, thread)
        if request.is_at_leader and request.api == FETCH
    ]
    for left in _parts(sorted({*moved, *waiting}), others):
        is_shown = bool(moved.keys() - left)
        if len(left) < len(uncounted) and (
            waiting & left
            or any(other.may_come_between(left) for other in others if is_shown or not other.waits)
        ):
            yield left


def _parts(
    shown: Sequence[TopicPartition], others: Sequence[_Other]
) -> Iterator[frozenset[TopicPartition]]:
    """Yield parts of some partitions, the largest first: all parts of a few partitions.

    A part for each set of many partitions would be too many. Of those the parts are all of them,
    what the answer to another Fetch leaves, and each partition alone.
    """
    if len(shown) <= _FEW:
        for size in range(len(shown), 0, -1):
            yield from map(frozenset, combinations(shown, size))
        return
    told = {other.before - other.after for other in others} - {frozenset()}
    parts = {frozenset(shown), *told, *(frozenset((partition,)) for partition in shown)}
    yield from sorted(parts, key=lambda part: (-len(part), sorted(part)))


def yet_to_read(
    world: World,
    follower: int,
    source: int,
    request: Exchange,
    seen: ResponseSeen,
    withheld: frozenset[TopicPartition],
) -> frozenset[TopicPartition]:
    """Return what a leader is yet to read of a Fetch, since it would not answer it as was seen.

    From KAFKA-13837 on it counts what it has read before it reads on. That shows only where a high
    watermark has moved, or where the leader asks for a larger ISR: else it may as well read all of
    them later.
    """
    leader_id = leader_of(source)
    broker = world.broker(leader_id)
    if broker is None or not broker.generation.counts_before_next_read or seen.error_code:
        return frozenset()
    asked_of = [world.replica(leader_id, partition) for partition, _ in request.asked]
    if not any(_may_move(known) or (known and follower not in known.isr) for known in asked_of):
        return frozenset()
    after = World(world.get)
    looked = exchange.look(after, follower, source, request, withheld)
    yet = frozenset(
        partition
        for partition, answer in looked.answers
        if partition not in dict(request.answers) and answer_as_seen(partition, answer, seen)[1]
    )
    if not yet:
        return yet
    if _moved(after, follower, leader_id, looked).keys() - yet or any(
        _joins(after, follower, leader_id, known, asked.fetch_offset, looked.replica_epoch)
        for known, asked in looked.asked
        if known not in yet
    ):
        return yet
    return frozenset()


def _joins(
    world: World,
    follower: int,
    leader_id: int,
    partition: TopicPartition,
    offset: int,
    replica_epoch: int,
) -> bool:
    """Return whether the leader has a larger ISR, or asks for it, as it counts a partition."""
    if leader.expands_isr(world, leader_id, partition, follower, offset):
        return True
    counted = World(world.get)
    leader.update_view(counted, leader_id, partition, follower, offset, replica_epoch=replica_epoch)
    replica = counted.replica(leader_id, partition)
    return replica is not None and leader.may_ask_for(counted, leader_id, partition, follower)


def _moved(
    world: World, follower: int, leader_id: int, looked: Exchange
) -> Mapping[TopicPartition, int]:
    """Return to which high watermarks a Fetch moves partitions as it is counted."""
    broker, asked = world.broker(leader_id), dict(looked.asked)
    moved: dict[TopicPartition, int] = {}
    for partition, answer in looked.answers:
        before = world.replica(leader_id, partition)
        if broker is None or before is None or partition in looked.counted:
            continue
        if not _may_move(before):
            continue
        if not isinstance(answer, FetchAnswer) or not broker.generation.counts_fetch(answer):
            continue
        counted = World(world.get)
        offset = asked[partition].fetch_offset
        leader.update_view(
            counted, leader_id, partition, follower, offset, replica_epoch=looked.replica_epoch
        )
        after = counted.known_replica(leader_id, partition)
        if after.high_watermark != before.high_watermark:
            moved[partition] = after.high_watermark
    return moved


def _may_move(replica: Replica | None) -> bool:
    return replica is not None and replica.high_watermark < replica.log.log_end_offset


def _other(
    world: World,
    follower: int,
    source: int,
    request: Exchange,
    moved: Mapping[TopicPartition, int],
    lookahead: Lookahead,
    index: int,
) -> _Other:
    before, after, joining = set(), set(), set()
    for partition, asked in request.asked:
        if partition not in moved:
            continue
        told = lookahead.high_watermark_to_tell(request.number, follower, source, partition, index)
        if told is None or told < moved[partition]:
            before.add(partition)
        if told is None or told >= moved[partition]:
            after.add(partition)
        is_outside = follower not in world.known_replica(leader_of(source), partition).isr
        is_counted = request.stage is Stage.WAITING or partition in request.counted
        if is_outside and not is_counted and asked.fetch_offset < moved[partition]:
            joining.add(partition)
    return _Other(
        before=frozenset(before),
        after=frozenset(after),
        joining=frozenset(joining),
        waits=request.stage is Stage.WAITING,
    )
