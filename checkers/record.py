"""The record of one run in the model's words: what its links, clients and snapshots saw.

It chooses between the states that are possible (`checkers.model.follow.search`).
"""

from collections.abc import Iterator

from kchaos.checkers import acts
from kchaos.checkers.errors import CheckpointError, ModelError, SegmentError
from kchaos.checkers.evidence.actions import is_internal
from kchaos.checkers.evidence.decisions import recorded_decisions
from kchaos.checkers.evidence.given_settings import (
    room_in_answers_bytes,
    shortest_fetch_timeout_s,
    shortest_lag_s,
)
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.evidence.links import records_bytes
from kchaos.checkers.evidence.metadata_reading import metadata_taken_up
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model import predict
from kchaos.checkers.model.follow.apart import follow_run, without_topics
from kchaos.checkers.model.follow.observations import (
    METADATA_LOG,
    ClientAnswered,
    ControlAnswered,
    ControlSent,
    CopyBegun,
    CopyEnded,
    Files,
    Record,
    RequestSeen,
    ResponseSeen,
    Seen,
)
from kchaos.checkers.model.follow.search import PATIENCE
from kchaos.checkers.model.values import events
from kchaos.checkers.model.values.prediction import Prediction
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.segments.tier import FINISHED
from kchaos.checkers.verdict import NOT_PREDICTED

_COPYING_S = 0.25
_FROM_BEGIN = (acts.StartBroker, acts.ResumeBroker, acts.HealLink, acts.FailLogDirectory)
"""Acts that are at work before they are done."""
_OF_KRAFT = (
    events.PartitionState,
    events.TopicConfigured,
    events.TopicCreated,
    events.TopicDeleted,
    events.TopicIdentified,
)
"""Decisions that are followed with KRaft: of all others brokers hear by the metadata log alone."""


def predict_run(evidence: RunEvidence, *, patience: int = PATIENCE) -> Prediction:
    """Return what the model predicts of a run: by following its links, or without links by events.

    Without links, or where they saw no control request, nothing says in which order brokers worked,
    and after each event everything is taken to happen that can.

    Raises:
        ModelError: The timeline is impossible, or that of a KRaft cluster without links.
    """
    if evidence.is_kraft and evidence.links is None:
        raise ModelError(NOT_PREDICTED)
    record = None if evidence.links is None else record_of(evidence)
    if record is None or not (
        evidence.is_kraft or any(isinstance(item.what, ControlSent) for item in record.seen)
    ):
        timeline = tuple(timed.event for timed in evidence.events)
        return predict(timeline, decisions=recorded_decisions(evidence))
    return follow_run(record, patience=patience)


def record_of(evidence: RunEvidence) -> Record:
    """Return what was seen of a run, in its two orders."""
    decided = [
        events.Decided(what=timed.event, time=timed.time)
        for timed in evidence.events
        if isinstance(timed.event, _OF_KRAFT if evidence.is_kraft else events.Decision)
    ]
    links = list(_messages(evidence))
    if evidence.is_kraft:
        links = sorted([*links, *metadata_taken_up(evidence)], key=lambda item: item.time)
    seen = [*_actions(evidence, links), *links, *_answers(evidence), *_copied(evidence)]
    seen += [*_sent_by_others(evidence), *_markers(evidence)]
    seen += (
        Seen(what=moved, time=time, source=f"brokers/{moved.broker}/server.log")
        for time, moved in evidence.moved_replicas
        if not is_internal(moved.partition.topic)
    )
    # Sorting is stable: what has one time stays in the order of its file.
    seen.sort(key=lambda item: item.time)
    deleting = frozenset(
        partition.topic
        for partition in evidence.partitions
        if evidence.settings.retains_less(partition.topic)
    )
    record = Record(
        seen=tuple(seen),
        decided=tuple(decided),
        deleting=frozenset() if evidence.is_tiered else deleting,
        remote_deleted=evidence.remote_deleted if evidence.is_tiered else {},
        is_compacted="compact" in evidence.settings.default_cleanup_policy,
        lag_s=shortest_lag_s(evidence),
        fetch_timeout_s=shortest_fetch_timeout_s(evidence),
        behind={} if evidence.clients is None else evidence.clients.behind,
        decisions=None if evidence.is_kraft else recorded_decisions(evidence),
    )
    return without_topics(record, evidence.topics_left_out) if evidence.topics_left_out else record


def _messages(evidence: RunEvidence) -> Iterator[Seen]:
    brokers, room_bytes = evidence.description.brokers, room_in_answers_bytes(evidence)
    for message in evidence.links or ():
        said = message.said
        if isinstance(said, RequestSeen | ResponseSeen) and message.target not in brokers:
            continue  # It is the Fetch of a broker that reads the metadata log.
        if isinstance(said, ResponseSeen) and said.is_whole:
            said = replace(said, has_room=records_bytes(message) <= room_bytes)
        if said is not None:
            yield Seen(what=said, time=message.wall_time_s, source=message.read_at)


def _actions(evidence: RunEvidence, links: list[Seen]) -> Iterator[Seen]:
    stopped: dict[int, float] = {}
    for timed in sorted(evidence.events, key=lambda timed: timed.time):
        event, time = timed.event, timed.time
        if isinstance(event, events.Decision):
            continue
        if isinstance(event, acts.StopBroker):
            stopped[event.broker] = time
        elif isinstance(event, _FROM_BEGIN) and timed.began is not None:
            time = timed.began
        if isinstance(event, acts.StartBroker):
            if evidence.is_kraft:
                event = evidence.metadata_logs.as_started(event)
            time = min(time, _first_sign(links, event.broker, stopped.get(event.broker, 0.0)))
        if isinstance(event, events.Snapshot):
            yield from _copies(evidence, event.label, time)
        yield Seen(what=event, time=time, zxid=timed.zxid, source=timed.read_at)


def _first_sign(links: list[Seen], broker: int, since: float) -> float:
    """Return the time of a process's first own message, or first answered one.

    The first brokers of a run are written down as started only when they are ready.
    """
    asked: dict[tuple[int, int], float] = {}
    before: set[tuple[int, int]] = set()
    for item in links:
        what = item.what
        if item.time < since:
            if isinstance(what, RequestSeen):
                before.add(what.number)
            continue
        # What a hold keeps may arrive when its sender has long been dead.
        if isinstance(what, RequestSeen) and what.follower == broker and what.number not in before:
            return item.time
        if isinstance(what, ControlSent) and what.broker == broker and what.api == METADATA_LOG:
            return item.time
        if isinstance(what, RequestSeen | ControlSent):
            asked.setdefault(what.number, item.time)
        is_own = (isinstance(what, ResponseSeen) and what.leader == broker) or (
            isinstance(what, ControlAnswered) and what.broker == broker
        )
        if isinstance(what, ResponseSeen | ControlAnswered) and is_own and what.number in asked:
            return asked[what.number]
    return float("inf")


def _sent_by_others(evidence: RunEvidence) -> Iterator[Seen]:
    """Yield the produces of clients other than kchaos's, as far as the model follows them."""
    for operation in evidence.operations:
        if _is_of_others(operation) and _is_followed(evidence, operation):
            produce = events.Produce(
                operation=operation.operation,
                broker=operation.broker,
                topic=operation.topic,
                partition=operation.partition,
                records=operation.payloads,
                acks=-1 if operation.acks == -1 else 1,
                codec=operation.codec,
                is_digested=True,
                producer=operation.producer,
            )
            yield Seen(what=produce, time=operation.invoked_at, source=operation.read_at)


def _markers(evidence: RunEvidence) -> Iterator[Seen]:
    """Yield the writes of transaction coordinators to partitions, with their outcomes.

    Their topics may be deleted by the end, as those of the records before the markers.
    """
    for marker in evidence.markers or ():
        if acts.TopicPartition(marker.topic, marker.partition) in evidence.unfollowed_clients:
            continue
        produce = events.Produce(
            operation=marker.operation,
            broker=marker.broker,
            topic=marker.topic,
            partition=marker.partition,
            records=(marker.payload,),
            acks=-1,
            is_digested=True,
            producer=marker.mark,
        )
        yield Seen(what=produce, time=marker.asked_at, source=marker.read_at)
        if marker.answered_at is not None:
            answered = ClientAnswered(
                operation=marker.operation,
                outcome=marker.outcome,
                base_offset=-1,
                error=marker.error,
            )
            yield Seen(what=answered, time=marker.answered_at, source=marker.answer_read_at)


def _is_of_others(operation: Operation) -> bool:
    return bool(operation.client) and operation.function == "produce"


def _is_followed(evidence: RunEvidence, operation: Operation) -> bool:
    partition = acts.TopicPartition(operation.topic, operation.partition)
    return not operation.client or partition not in evidence.unfollowed_clients


def _answers(evidence: RunEvidence) -> Iterator[Seen]:
    """Yield the responses to produces, while the links record their causes.

    That ends with the last snapshot. Clients that are not kchaos's own are answered until brokers
    stop.
    """
    end = max((taken.copied_until for taken in evidence.snapshots), default=float("inf"))
    for operation in evidence.operations:
        if (
            operation.function == "produce"
            and not operation.is_refused_probe
            and operation.ended_at is not None
            and not (operation.client and operation.ended_at > end)
            and not is_internal(operation.topic)
            and _is_followed(evidence, operation)
        ):
            answered = ClientAnswered(
                operation=operation.operation,
                outcome=operation.outcome,
                base_offset=operation.base_offset,
                error=operation.error if operation.error_code else "",
            )
            yield Seen(what=answered, time=operation.ended_at, source=operation.read_at)


def _copied(evidence: RunEvidence) -> Iterator[Seen]:
    """Yield the copies to the remote tier, when a broker reports their begin or end.

    A broker's time is cut to milliseconds; what let it begin came before.
    """
    for number, remote_event in enumerate(evidence.remote_events):
        if not remote_event.is_copy or is_internal(remote_event.record.topic):
            continue
        copied = events.RemoteCopy(
            partition=remote_event.partition,
            segment_id=remote_event.record.segment_id,
            broker=remote_event.record.broker,
            is_finished=remote_event.record.state == FINISHED,
            start_offset=remote_event.segment.start_offset,
            end_offset=remote_event.segment.end_offset,
            leader_epochs=remote_event.segment.leader_epochs,
        )
        time = (remote_event.record.time_ms + 1) / 1000
        yield Seen(what=copied, time=time, source=f"remote metadata, record {number}")


def _copies(evidence: RunEvidence, label: str, time: float) -> Iterator[Seen]:
    """Yield each broker's copies, between the begin and the end of its last reading.

    A snapshot that does not say them was taken in the moments before `time`.
    """
    snapshot = next((taken for taken in evidence.snapshots if taken.label == label), None)
    for broker, seen in (snapshot.brokers if snapshot is not None else {}).items():
        copies = [
            (partition, _files(evidence, label, broker, partition))
            for partition in evidence.partitions
        ]
        files = tuple(
            (partition, files_of_replica)
            for partition, files_of_replica in copies
            if files_of_replica is not None
        )
        source = f"snapshots/{label}/broker-{broker}"
        begun = time - _COPYING_S if seen.read_from is None else seen.read_from
        ended = time if seen.read_until is None else seen.read_until
        copied = CopyBegun(label=label, broker=broker, files=files)
        yield Seen(what=copied, time=begun, source=source)
        yield Seen(what=CopyEnded(label=label, broker=broker), time=ended, source=source)


def _files(
    evidence: RunEvidence, label: str, broker: int, partition: acts.TopicPartition
) -> Files | None:
    try:
        contents = evidence.copied.contents(label, broker, partition)
    except SegmentError:
        return None  # The rules say so; it cannot choose between states.
    if contents is None:
        return None
    try:
        topic_id = evidence.copied.topic_id(label, broker, partition)
    except CheckpointError:
        topic_id = ""  # `cross_checks.copies` says so.
    return Files(
        batches=tuple(
            (batch.base_offset, batch.last_offset, batch.leader_epoch, batch.magic)
            for batch in contents.batches
        ),
        epoch_entries=evidence.copied.epoch_entries(label, broker, partition),
        local_start=_local_start(evidence, label, broker, partition),
        topic_id=topic_id,
        payloads=tuple(batch.payload for batch in contents.batches),
    )


def _local_start(
    evidence: RunEvidence, label: str, broker: int, partition: acts.TopicPartition
) -> int | None:
    """Return the base offset of the first segment on a disk."""
    files = evidence.copied.segments(label, broker, partition)
    return int(files[0].stem) if files else None
