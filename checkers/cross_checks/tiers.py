"""Cross-check of tiers: tier.jsonl beside the actions, and snapshots beside each other."""

from collections.abc import Iterator

from kchaos.checkers.errors import CheckpointError
from kchaos.checkers.evidence.actions import TimedEvent
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.tier import TIER, TierReading, remote_at
from kchaos.checkers.formats.checkpoints import LOG_STARTS
from kchaos.checkers.model.values.events import TierRead
from kchaos.checkers.segments.tier import FINISHED, RemoteSegmentMetadata

_ALIKE = (
    *("operation", "broker", "topic", "partition", "manner", "source"),
    *("first_offset", "end_offset", "local_start_offset"),
)


def tier_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield readings that no act explains, and those missing.

    **Verifies**: that readings and TierRead actions are the same, one for one, and that a reading
    begins where it says, asks descending for each offset, and got no record twice; that what the
    metadata topic says of a segment whose copy has ended it says at all later snapshots; that no
    log begins later than at 0 which only its local part may have lost records of.
    **Does not verify**: what leaders said of the ends of their logs, for which steps waited.
    """
    acted: dict[str, TimedEvent] = {}
    for timed in evidence.actions:
        if isinstance(timed.event, TierRead):
            if timed.event.operation in acted:
                yield f"actions.jsonl has the reading {timed.event.operation!r} twice"
            acted[timed.event.operation] = timed
    read = {reading.operation: reading for reading in evidence.tier_readings}
    for name in sorted(acted.keys() ^ read.keys()):
        has, lacks = ("actions.jsonl", TIER) if name in acted else (TIER, "actions.jsonl")
        yield f"the reading {name!r} is in {has}, and not in {lacks}"
    for name in sorted(acted.keys() & read.keys()):
        reading, action = read[name], acted[name]
        if any(
            getattr(reading, field_name) != getattr(action.event, field_name)
            for field_name in _ALIKE
        ):
            yield f"{TIER} and actions.jsonl differ about the reading {name!r}"
        if reading.step != action.step:
            yield f"{TIER} has the reading {name!r} in step {reading.step}, not {action.step}"
        yield from _fetches(reading)
    if evidence.is_tiered:
        yield from _remote(evidence)
        yield from _log_starts(evidence)


def _fetches(reading: TierReading) -> Iterator[str]:
    asked = [fetch.offset for fetch in reading.fetches]
    wanted = list(range(reading.end_offset - 1, reading.first_offset - 1, -1))
    if reading.manner == "descending" and asked != wanted:
        yield f"{TIER}: reading {reading.operation!r} did not ask for each offset once, downwards"
    if reading.manner != "descending" and asked[:1] != wanted[-1:]:
        yield f"{TIER}: reading {reading.operation!r} does not begin at {reading.first_offset}"

    got = [record.offset for fetch in reading.fetches for record in fetch.records]
    if len(got) > len(set(got)):
        yield f"{TIER}: reading {reading.operation!r} got a record twice"
    if any(fetch.error_code and fetch.records for fetch in reading.fetches):
        yield f"{TIER}: reading {reading.operation!r} got records with an error"


def _remote(evidence: RunEvidence) -> Iterator[str]:
    """Yield copied segments that are gone, although nothing deletes from a judged tier."""
    before: dict[str, RemoteSegmentMetadata] = {}
    for snapshot in evidence.snapshots:
        now = {segment.segment_id: segment for segment in remote_at(evidence.files, snapshot)}
        for name, segment in before.items():
            if now.get(name) != segment:
                yield f"snapshot {snapshot.label!r} has lost the copied remote segment {name}"
        before = {name: segment for name, segment in now.items() if segment.state == FINISHED}


def _log_starts(evidence: RunEvidence) -> Iterator[str]:
    """Yield logs that do not begin where their remote part does."""
    for snapshot in evidence.snapshots:
        for broker in snapshot.brokers:
            try:
                starts = evidence.copied.log_starts(snapshot.label, broker)
            except CheckpointError:
                continue  # What is on disk there is judged by a rule of its own.
            for (topic, partition), start in starts.items():
                settings = evidence.settings
                is_kept = settings.is_tiered_topic(topic) and not settings.retains_less(topic)
                if start > 0 and is_kept:
                    yield (
                        f"snapshot {snapshot.label!r}: by broker {broker}'s {LOG_STARTS} "
                        f"{topic}-{partition} begins at {start}, and nothing may expire"
                    )
