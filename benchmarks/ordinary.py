"""Following an ordinary run of 3 brokers and 10 partitions: how many states, and how long.

Run `.venv/bin/python -m benchmarks.ordinary`. The stored runs of `tests/golden/runs` have three
brokers and one partition of two replicas. Each observation, action and decision about that one is
taken once for each of ten partitions that fare alike, and the whole is followed. Brokers that
played ten partitions would not have them fare alike quite, so this is the least that one takes.

Printed for each release are how many observations and decisions there are, the states that were
looked at, and the fewest seconds of CPU of some rounds. `--partitions` takes another number.
"""

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from kchaos.checkers.acts import StopBroker, TopicPartition
from kchaos.checkers.model import follow
from kchaos.checkers.model.follow.observations import ClientAnswered, CopyBegun, Record
from kchaos.checkers.model.values.events import (
    HighWatermarkObserved,
    PartitionState,
    Produce,
    TopicCreated,
)
from tests.golden.stored import RELEASES, recorded

_AIM_S = 0.5
_ZXIDS = ("zxid", "czxid", "broker_epoch")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="Following runs of ten partitions.")
    parser.add_argument("releases", nargs="*", help="of tests/golden/runs; default: all")
    parser.add_argument("--partitions", type=int, default=10, help="default 10")
    parser.add_argument("--rounds", type=int, default=3, help="how often to follow each; default 3")
    given = parser.parse_args()
    print(f"{'release':10} {'items':>6} {'states':>7} {'s':>6}")
    slow = 0
    for release in given.releases or RELEASES:
        record = recorded(release)
        wide = with_partitions(record, given.partitions)
        seconds: list[float] = []
        for _ in range(given.rounds):
            begin = time.process_time()
            prediction = follow(wide)
            seconds.append(time.process_time() - begin)
        if prediction.limit or prediction.emptied_by is not None:
            raise SystemExit(f"{release}: {prediction.limit or prediction.emptied_by}")
        slow += min(seconds) >= _AIM_S
        items = len(wide.seen) + len(wide.decided)
        print(f"{release:10} {items:6} {prediction.states:7} {min(seconds):6.2f}", flush=True)
    print(f"{slow} take {_AIM_S} s or longer")


def with_partitions(record: Record, count: int) -> Record:
    """Return a record in which so many partitions fare as the only one does."""
    seen = [
        replace(each, zxid=each.zxid if each.zxid < 0 else (each.zxid + 1) * count - 1)
        for item in record.seen
        for each in _items(item, count)
    ]
    decided = [each for item in record.decided for each in _items(item, count)]
    return replace(record, seen=tuple(seen), decided=tuple(decided))


def _items(item: Any, count: int) -> Iterator[Any]:
    """Yield what is seen or decided of each partition, or once of all."""
    what = item.what
    match what:
        case Produce() | ClientAnswered() | HighWatermarkObserved() | PartitionState():
            for number in range(count):
                yield replace(item, what=_of(what, number, count))
        case TopicCreated():
            assignment = what.assignment * count
            yield replace(item, what=replace(_wide(what, count), assignment=assignment))
        case StopBroker() if what.checkpointed is not None:
            checkpointed = tuple(
                (topic, number, high_watermark)
                for topic, _, high_watermark in what.checkpointed
                for number in range(count)
            )
            yield replace(item, what=replace(what, checkpointed=checkpointed))
        case CopyBegun():
            files = tuple(
                (partition._replace(partition=number), of_one)
                for partition, of_one in what.files
                for number in range(count)
            )
            yield replace(item, what=replace(what, files=files))
        case _:
            yield replace(item, what=_wide(what, count))


def _of(what: Any, partition: int, count: int) -> Any:
    """Return what is seen or decided of one partition."""
    changes: dict[str, Any] = {}
    for field in fields(what):
        value = getattr(what, field.name)
        if field.name == "partition":
            changes[field.name] = partition
        elif field.name == "operation":
            changes[field.name] = f"{value}-{partition}"
        elif field.name in _ZXIDS and value >= 0:
            changes[field.name] = value * count + partition
    return replace(what, **changes)


def _wide(what: Any, count: int) -> Any:
    """Return a message or an action that is about all partitions at once."""
    if not is_dataclass(what):
        return what
    changes: dict[str, Any] = {}
    for field in fields(what):
        value = getattr(what, field.name)
        if field.name in _ZXIDS and value is not None and value >= 0:
            changes[field.name] = value * count
        elif isinstance(value, Mapping):
            changes[field.name] = {
                copied: each for key, each in value.items() for copied in _each(key, count)
            }
        elif isinstance(value, frozenset):
            changes[field.name] = frozenset(each for item in value for each in _each(item, count))
        elif field.name == "states":
            changes[field.name] = tuple(
                _of(state, partition, count) for state in value for partition in range(count)
            )
    return replace(what, **changes)  # type: ignore[type-var]


def _each(value: Any, count: int) -> list[Any]:
    if not isinstance(value, TopicPartition):
        return [value]
    return [value._replace(partition=partition) for partition in range(count)]


if __name__ == "__main__":
    main()
