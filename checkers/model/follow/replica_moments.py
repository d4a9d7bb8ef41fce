"""Each replica as it was from moment to moment, by the states of a run's explanation.

**Verifies**: nothing; it is for people, who look at a run in time.
**Does not verify**: moments of which the run shows nothing have the time of what was seen before.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.follow.observations import Seen
from kchaos.checkers.model.state.state import Component
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import Decided
from kchaos.checkers.model.values.log import Log
from kchaos.checkers.model.values.prediction import PredictedBatch, ReplicaMoment
from kchaos.checkers.model.values.replica import Replica

_Span = tuple[int, int, int]
_MOST = 400
"""More moments of one replica are thinned; what is more than a longer log stays."""


class _Was(NamedTuple):
    """A replica from a time on, and whether its broker's process ran."""

    time: float
    replica: Replica
    is_running: bool

    @property
    def role(self) -> str:
        """The role that its process believes to have; "down" without one."""
        return str(self.replica.role) if self.is_running else "down"

    @property
    def shape(self) -> tuple[object, ...]:
        """All but the log and its high watermark."""
        return self.role, self.replica.leader_epoch, self.replica.entries

    def is_like(self, other: "_Was") -> bool:
        """Return whether the other one looks the same on a page."""
        one, two = self.replica, other.replica
        return (self.shape, one.high_watermark) == (other.shape, two.high_watermark) and (
            one.log is two.log or one.log == two.log
        )


def replica_moments(
    steps: Iterable[tuple[Seen | Decided | None, Mapping[Component, Any]]],
) -> tuple[ReplicaMoment, ...]:
    """Return each replica whenever it changed, in the order of the explanation.

    A step is what of the record was taken, and the components that were changed.

    Changes at one time are one moment. Where one replica has very many, those stay in which more
    changed than the end of the log and the high watermark, and some of the others.
    """
    seen: dict[tuple[int, TopicPartition], list[_Was]] = {}
    time = None
    components: dict[Component, Any] = {}
    world = World(components.get)
    for item, changed in steps:
        time = time if item is None else item.time
        components.update(changed)
        if time is None:
            continue
        for broker_id, partition in sorted(_changed(world, changed)):
            replica = world.replica(broker_id, partition)
            if replica is not None:
                is_running = world.running(broker_id) is not None
                _note(seen.setdefault((broker_id, partition), []), time, replica, is_running)
    moments = (
        _moment(broker_id, partition, was)
        for (broker_id, partition), of_replica in seen.items()
        for was in _thinned(of_replica)
    )
    return tuple(sorted(moments, key=lambda moment: moment.time))


def _changed(
    world: World, changed: Mapping[Component, Any]
) -> Iterator[tuple[int, TopicPartition]]:
    """Yield the replicas that may look otherwise since these components have changed."""
    for component in changed:
        if component[0] == "replica":
            yield component[1:]
        elif component[0] == "broker":
            for partition in world.partitions(component[1]):
                yield component[1], partition


def _note(of_replica: list[_Was], time: float, replica: Replica, is_running: bool) -> None:
    last = of_replica[-1] if of_replica else None
    if last is not None and last.replica is replica and last.is_running == is_running:
        return
    was = _Was(time, replica, is_running)
    if last is not None and last.is_like(was):
        return
    if last is not None and last.time == time:
        of_replica.pop()
    of_replica.append(was)


def _moment(broker_id: int, partition: TopicPartition, was: _Was) -> ReplicaMoment:
    replica = was.replica
    return ReplicaMoment(
        time=was.time,
        broker=broker_id,
        topic=partition.topic,
        partition=partition.partition,
        spans=_spans(replica.log),
        epoch_entries=tuple((entry.epoch, entry.start_offset) for entry in replica.entries),
        log_end_offset=replica.log.log_end_offset,
        high_watermark=replica.high_watermark,
        role=was.role,
        leader_epoch=replica.leader_epoch,
    )


def _spans(log: Log) -> tuple[_Span, ...]:
    """Return first and last offset and leader epoch of batches, joined where nothing is between."""
    if log.local_start_offset:
        return reduce(_with_batch, log.local_batches(), ())
    return log.batches.fold("spans", (), _with_batch)


def _with_batch(spans: tuple[_Span, ...], batch: PredictedBatch) -> tuple[_Span, ...]:
    if spans and spans[-1][1:] == (batch.base_offset - 1, batch.leader_epoch):
        return (*spans[:-1], (spans[-1][0], batch.last_offset, batch.leader_epoch))
    return (*spans, (batch.base_offset, batch.last_offset, batch.leader_epoch))


def _thinned(seen: Sequence[_Was]) -> Iterator[_Was]:
    every = -(-len(seen) // _MOST)
    for index, was in enumerate(seen):
        before = seen[index - 1] if index else was
        is_shorter = was.replica.log.log_end_offset < before.replica.log.log_end_offset
        is_kept = was.shape != before.shape or is_shorter
        if is_kept or index % every == 0 or index == len(seen) - 1:
            yield was
