"""Acts of brokers that only the lines of their server.log tell."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from kchaos.checkers.acts import StartBroker, TopicPartition
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.formats.partition_names import topic_partition
from kchaos.checkers.model.values.events import ReplicaMoved

ServerLogs = Mapping[int, Sequence[str]]
"""The lines of each broker's server.log, by its id."""

_LOG_TIME = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")
_MOVED = "successfully replaced with the future replica for "
_MOVED_REPLICA = re.compile(rf"{_MOVED}(?P<partition>\S+)")
_ZONE_STEP_S = 900.0
# kafka.log.Log (UnifiedLog from 3.0 on), maybeIncrementLogStartOffset.
_DELETED_RECORDS = re.compile(
    r"\[\w*Log partition=(?P<partition>\S+-\d+), dir=.*\] Increment(?:ing|ed) log start offset to "
    r"(?P<offset>\d{1,18})(?: \(| due to client delete records request)"
)


def deleted_until(logs: ServerLogs) -> Mapping[TopicPartition, int]:
    """Return by partition the offset below which a client had records deleted (DeleteRecords).

    Leaders say so in their logs, from 1.0 on; until 2.5 without the reason.
    """
    offsets: dict[TopicPartition, int] = {}
    for lines in logs.values():
        for line in lines:
            said = _DELETED_RECORDS.search(line) if "log start offset to" in line else None
            named = topic_partition(said["partition"]) if said else None
            if said is not None and named is not None:
                key = TopicPartition(*named)
                offsets[key] = max(offsets.get(key, 0), int(said["offset"]))
    return offsets


def moved_replicas(
    logs: ServerLogs, events: Sequence[TimedEvent]
) -> tuple[tuple[float, ReplicaMoved], ...]:
    """Return replicas that brokers moved to another log directory, with the times.

    A log's times have no zone. Its first line is of the broker's first start, so the zone is
    the one, in steps of a quarter of an hour, in which both agree.
    """
    started: dict[int, float] = {}
    for timed in events:
        if isinstance(timed.event, StartBroker):
            began = timed.time if timed.began is None else timed.began
            started.setdefault(timed.event.broker, began)
    moved = []
    for broker, lines in logs.items():
        zone_s: float | None = None
        for line in lines if broker in started else ():
            time = log_time(line) if zone_s is None or _MOVED in line else None
            if time is None:
                continue
            if zone_s is None:
                zone_s = round((time - started[broker]) / _ZONE_STEP_S) * _ZONE_STEP_S
            named = _MOVED_REPLICA.search(line)
            partition = topic_partition(named["partition"]) if named else None
            if partition is not None:
                what = ReplicaMoved(broker=broker, partition=TopicPartition(*partition))
                moved.append((time - zone_s, what))
    return tuple(moved)


def log_time(line: str) -> float | None:
    """Return the time of a broker's log line, in seconds since the epoch if its zone were UTC."""
    said = _LOG_TIME.search(line)
    if said is None:
        return None
    return datetime.strptime(said[1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp()
