"""Log compaction: a cleaner removes records whose key comes again further on in the same log.

Which of them it has removed is observed. Read from kafka.log.Cleaner (doClean, buildOffsetMap,
cleanInto, shouldRetainRecord), 1.1.1, 2.0.1, 2.8.2 and 3.9.0: a batch of magic 2 keeps its offsets
when it loses records, and goes when it has none left.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ModelError
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import LogCleaned, Produce
from kchaos.checkers.model.values.log import records_of
from kchaos.checkers.model.values.prediction import PredictedBatch
from kchaos.checkers.model.values.shared import Shared
from kchaos.checkers.segments.batch import join_payload_digests, payload_digest


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedRecord:
    """One record that has a key; `payload` is `payload_digest` of it alone."""

    offset: int
    key: str
    payload: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedBatch:
    """A batch whose records have keys, as it was appended, or as a cleaner has left it."""

    batch: PredictedBatch
    records: tuple[KeyedRecord, ...]


def note_keys(world: World, request: Produce, batches: Sequence[PredictedBatch]) -> None:
    """Remember the keys of what a leader appends: batches have digests alone."""
    first = batches[0].base_offset
    records = [
        KeyedRecord(offset=first + index, key=key, payload=payload_digest([record]))
        for index, (key, record) in enumerate(
            zip(request.keys, records_of(request.records, request.keys), strict=True)
        )
    ]
    partition = TopicPartition(request.topic, request.partition)
    noted = [
        KeyedBatch(batch=batch, records=tuple(records[batch.base_offset - first :][: _span(batch)]))
        for batch in batches
    ]
    world.put(("keyed", partition), (*_known(world, partition), *noted))


def clean(world: World, event: LogCleaned) -> None:
    """Remove what is missing from the disk, as far as a cleaner may have removed it.

    A record without a key stays: Kafka removes those too, and calls them invalid.

    Raises:
        ModelError: The broker has no such replica or does not run, or a compressed wrapper of
            magic 0 or 1 has lost records, whose offsets change with that.
    """
    partition = TopicPartition(event.topic, event.partition)
    replica = world.replica(event.broker, partition)
    if replica is None or world.running(event.broker) is None:
        raise ModelError(f"broker {event.broker} runs no cleaner over a log of {event.topic}")
    known = {keyed.batch: keyed.records for keyed in _known(world, partition)}
    latest: dict[str, int] = {}
    for batch in replica.log.batches:
        for record in known.get(batch, ()):
            if record.offset < event.cleaned_until:
                latest[record.key] = max(record.offset, latest.get(record.key, -1))
    cleaned, thinned = [], []
    for batch in replica.log.batches:
        records = known.get(batch, ())
        left = tuple(record for record in records if not _is_gone(record, event, latest))
        if len(left) == len(records):
            cleaned.append(batch)
        elif left:
            thinned.append(_thinned(batch, left))
            cleaned.append(thinned[-1].batch)
    log = replace(replica.log, batches=Shared(cleaned))
    world.put_replica(event.broker, partition, replace(replica, log=log))
    if thinned:
        world.put(("keyed", partition), (*_known(world, partition), *thinned))


def _is_gone(record: KeyedRecord, event: LogCleaned, latest: dict[str, int]) -> bool:
    is_kept = any(first <= record.offset <= last for first, last in event.kept)
    return not is_kept and record.offset < latest.get(record.key, -1)


def _thinned(batch: PredictedBatch, left: tuple[KeyedRecord, ...]) -> KeyedBatch:
    if batch.magic < 2:
        raise ModelError(f"the wrapper at offset {batch.base_offset} was cleaned: use magic 2")
    payload = join_payload_digests((record.payload, 1) for record in left)
    return KeyedBatch(batch=replace(batch, payload=payload), records=left)


def _known(world: World, partition: TopicPartition) -> tuple[KeyedBatch, ...]:
    return world.get(("keyed", partition)) or ()


def _span(batch: PredictedBatch) -> int:
    return batch.last_offset - batch.base_offset + 1
