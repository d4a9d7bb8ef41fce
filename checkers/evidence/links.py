"""links.jsonl: the messages between brokers, each in the model's words as far as it has some.

Messages about internal topics (`__…`) are left out of what is said, and so is what the links could
not read. The fields of a message's detail are named here and nowhere else.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.actions import is_internal
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.forms import check_message
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.formats.link_record import LinkRecord
from kchaos.checkers.json_form import NOT_WRITTEN
from kchaos.checkers.model.follow.observations import (
    ControlAnswered,
    ControlSent,
    EpochAnswered,
    EpochAsked,
    Fate,
    FetchAnswered,
    FetchAsked,
    IsrAnswered,
    IsrAsked,
    IsrWanted,
    Observation,
    OffsetAnswered,
    OffsetAsked,
    PartitionAnswered,
    PartitionAsked,
    RequestSeen,
    ResponseSeen,
)
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.requests import StopReplica

LINKS = "links.jsonl"
ARRIVED = ("passed", "released")
"""Fates of a message that went on."""
_Detail = Mapping[str, Any]
_FETCHERS = ("Fetch", "ListOffsets", "OffsetForLeaderEpoch")
_CONTROL = ("LeaderAndIsr", "UpdateMetadata", "StopReplica")
_NOT_WRITTEN = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
# After these a leader waits for a LeaderAndIsr, and asks for no ISR (handleAlterPartitionError of
# kafka.cluster.Partition, 2.7.2, 3.1.2 and 3.3.2).
_NEVER_WRITTEN = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
)
# LeaderAndIsr.LeaderDuringDelete
_WHILE_DELETED = -2
_FULL_FETCH_EPOCHS = (None, 0, -1)
# From 0.11 on, and before.
_FETCHER = re.compile(r"(?:broker-\d+-fetcher-|ReplicaFetcherThread-)(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMessage(LinkRecord):
    """A record as it was read, with what it says in the model's words; None if that is nothing."""

    said: Observation | None = field(default=None, metadata=NOT_WRITTEN)


def read_links(files: EvidenceFiles) -> tuple[LinkMessage, ...] | None:
    """Return the messages in the order in which they passed, or None without links.jsonl.

    Raises:
        ScenarioDataError: A message lacks a documented field.
    """
    if not files.has(LINKS):
        return None
    lines = _completed(files.lines(LinkMessage, LINKS))
    return tuple(_without_rebuilds(_with_meaning(files, line) for line in lines))


def _completed(lines: Iterable[LinkMessage]) -> list[LinkMessage]:
    """Return the messages, a large one with what links read of it while its rest passed."""
    messages: list[LinkMessage] = []
    open_at: dict[tuple[int, int], list[int]] = {}
    for line in lines:
        if line.api == "Fetch" and line.direction == "response":
            number = _number(line)
            if line.fate == "completed":
                for at in open_at.pop(number, ()):
                    messages[at] = replace(messages[at], detail=line.detail)
            elif line.detail is not None and line.detail.get("is_whole") is False:
                open_at.setdefault(number, []).append(len(messages))
        messages.append(line)
    return messages


def _without_rebuilds(messages: Iterable[LinkMessage]) -> Iterator[LinkMessage]:
    """Yield the messages but those with which a follower rebuilds from the remote tier.

    Sent to the remote tier (error 109), a fetcher thread asks its leader for offsets and for the
    end of an epoch before it fetches again: it truncates by none of that (TierStateMachine.start).
    """
    building: dict[tuple[int, int], frozenset[TopicPartition]] = {}
    passed: set[tuple[int, int]] = set()
    for message in messages:
        said = message.said
        if isinstance(said, RequestSeen | ResponseSeen):
            pair = (said.follower, said.source)
            if said.api == "Fetch":
                building[pair] = _sent_away(said)
            elif said.number in passed or (
                isinstance(said, RequestSeen) and said.partitions.keys() & building.get(pair, set())
            ):
                passed.add(said.number)
                message = replace(message, said=None)
        yield message


def _sent_away(said: RequestSeen | ResponseSeen) -> frozenset[TopicPartition]:
    if isinstance(said, RequestSeen):
        return frozenset()
    return frozenset(
        partition
        for partition, answer in said.partitions.items()
        if answer.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    )


def _with_meaning(files: EvidenceFiles, message: LinkMessage) -> LinkMessage:
    try:
        check_message(message.detail or {})
        said = _said(message)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ScenarioDataError(
            f"{files.place(message.read_at)} has a message without the documented fields: {error!r}"
        ) from error
    # The message was read just now, and nobody else has it yet.
    object.__setattr__(message, "said", said)
    return message


def _said(message: LinkMessage) -> Observation | None:
    detail, api, source, target = message.detail, message.api, message.source, message.target
    if detail is None or source is None or target is None or message.fate == "completed":
        return None
    is_request = message.direction == "request"
    if api in _FETCHERS:
        read = _request_seen if is_request else _response_seen
        return read(message, detail, source, target)
    if message.fate not in ARRIVED:
        return None
    if api in _CONTROL:
        told = _control_sent if is_request else _control_answered
        return told(message, detail, target)
    if api == "AlterPartition":
        return _isr_asked(detail, source) if is_request else _isr_answered(detail, source)
    return None


def _number(message: LinkMessage) -> tuple[int, int]:
    return message.connection, message.correlation_id


def _fate(message: LinkMessage) -> Fate:
    if message.fate in ARRIVED:
        return Fate.ARRIVES
    return {"abandoned": Fate.ABANDONED, "replaced": Fate.REPLACED, "forged": Fate.FORGED}.get(
        message.fate, Fate.WAITS
    )


def _entries(detail: _Detail, name: str = "partitions") -> Iterator[tuple[TopicPartition, _Detail]]:
    for entry in detail.get(name) or ():
        topic = entry.get("topic")
        if topic is not None and not is_internal(topic):
            yield TopicPartition(topic, entry["partition"]), entry


def partition_details(message: LinkMessage) -> Iterator[tuple[TopicPartition, Mapping[str, Any]]]:
    """Yield a message's content for each partition of a judged topic.

    Raises:
        ScenarioDataError: It does not name them in the documented way.
    """
    try:
        yield from list(_entries(message.detail or {}))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ScenarioDataError(
            f"{message.read_at} names its partitions in another way: {error!r}"
        ) from error


def records_bytes(message: LinkMessage) -> float:
    """Return the size of all records in an answer to a Fetch, infinite where that is not known."""
    entries = (message.detail or {}).get("partitions") or ()
    return sum(float(entry.get("records_size_bytes", inf)) for entry in entries)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A broker's message to a KRaft controller, whether it arrived or not.

    Attributes:
        metadata_offset: Up to where the broker has read the metadata log, inclusive.
        time: When the link had it, in seconds since the epoch.
    """

    broker_epoch: int
    metadata_offset: int
    time: float


def heartbeats(messages: Iterable[LinkMessage]) -> Mapping[int, Sequence[Heartbeat]]:
    """Return each broker's heartbeats in order, without forged ones.

    Raises:
        ScenarioDataError: One does not say what it should.
    """
    sent: dict[int, list[Heartbeat]] = {}
    for message in messages:
        is_heartbeat = message.api == "BrokerHeartbeat" and message.direction == "request"
        # What a hold lets go on was recorded before, when it came.
        is_new = message.fate not in ("released", "forged", "abandoned")
        if not is_heartbeat or not is_new or message.source is None or message.detail is None:
            continue
        try:
            heartbeat = Heartbeat(
                broker_epoch=message.detail["broker_epoch"],
                metadata_offset=message.detail["current_metadata_offset"],
                time=message.wall_time_s,
            )
        except KeyError as error:
            raise ScenarioDataError(f"{message.read_at} is a heartbeat without {error}") from error
        sent.setdefault(message.source, []).append(heartbeat)
    return sent


def _request_seen(
    message: LinkMessage, detail: _Detail, source: int, target: int
) -> RequestSeen | None:
    asked: dict[TopicPartition, PartitionAsked] = {}
    for partition, entry in _entries(detail):
        epoch = entry.get("current_leader_epoch")
        if message.api == "Fetch":
            asked[partition] = FetchAsked(
                fetch_offset=entry["fetch_offset"],
                leader_epoch=epoch,
                last_fetched_epoch=entry.get("last_fetched_epoch"),
                log_start_offset=_start(entry),
                topic_id=entry.get("topic_id", ""),
            )
        elif message.api == "ListOffsets":
            asked[partition] = OffsetAsked(timestamp=entry["timestamp"], leader_epoch=epoch)
        else:
            asked[partition] = EpochAsked(requested_epoch=entry["leader_epoch"], leader_epoch=epoch)
    is_full = detail.get("session_epoch") in _FULL_FETCH_EPOCHS
    if not asked and is_full:
        return None  # It is about internal topics alone.
    return RequestSeen(
        number=_number(message),
        fate=_fate(message),
        api=message.api or "",
        follower=source,
        leader=target,
        partitions=asked,
        is_full=is_full,
        forgotten=frozenset(partition for partition, _ in _entries(detail, "forgotten")),
        version=message.api_version,
        fetcher=_fetcher(message),
        replica_epoch=detail.get("replica_epoch", -1),
    )


def _response_seen(
    message: LinkMessage, detail: _Detail, source: int, target: int
) -> ResponseSeen | None:
    answered: dict[TopicPartition, PartitionAnswered] = {}
    for partition, entry in _entries(detail):
        if message.api == "Fetch":
            answered[partition] = _fetch_answered(entry)
        elif message.api == "ListOffsets":
            answered[partition] = _offset_answered(entry)
        else:
            answered[partition] = EpochAnswered(
                error_code=entry["error_code"],
                leader_epoch=entry.get("leader_epoch"),
                end_offset=entry["end_offset"],
            )
    if not answered and message.api == "ListOffsets":
        return None  # It is about internal topics.
    is_fetch = message.api == "Fetch"
    others = [*map(_fetch_answered, filter(_is_internal, detail["partitions"] if is_fetch else ()))]
    return ResponseSeen(
        number=_number(message),
        fate=_fate(message),
        api=message.api or "",
        follower=source,
        leader=target,
        partitions=answered,
        error_code=detail.get("error_code") or 0,
        answers_others=any(answer.has_news for answer in others),
        carries_others=any(answer.last_offset is not None for answer in others),
        fetcher=_fetcher(message),
        is_whole=detail.get("is_whole", True),
    )


def _is_internal(entry: _Detail) -> bool:
    topic = entry.get("topic")
    return topic is not None and is_internal(topic)


def _fetcher(message: LinkMessage) -> int:
    """Return the number of the fetcher thread, which the connection's client id names."""
    named = _FETCHER.match(message.client_id or "")
    return 0 if named is None else int(named[1])


def _start(entry: _Detail) -> int | None:
    # -1 stands for none: in an old version, and beside an error.
    start = entry.get("log_start_offset")
    return None if start is None or start < 0 else int(start)


def _offset_answered(entry: _Detail) -> OffsetAnswered:
    # Version 0 has a list, and its first offset counts (earliestOrLatestOffset).
    offsets = entry["offsets"] if "offsets" in entry else [entry["offset"]]
    return OffsetAnswered(
        error_code=entry["error_code"], offset=int(offsets[0]) if offsets else None
    )


def _fetch_answered(entry: _Detail) -> FetchAnswered:
    diverging = entry.get("diverging_epoch")
    # The schema's default is an end offset of -1: nothing diverges.
    if diverging is not None and diverging["end_offset"] < 0:
        diverging = None
    return FetchAnswered(
        error_code=entry["error_code"],
        high_watermark=entry["high_watermark"],
        base_offset=entry.get("base_offset"),
        last_offset=entry.get("last_offset"),
        first_leader_epoch=entry.get("first_leader_epoch"),
        last_leader_epoch=entry.get("last_leader_epoch"),
        diverging=None if diverging is None else (diverging["epoch"], diverging["end_offset"]),
        log_start_offset=_start(entry),
        rest=tuple((int(base), int(last), epoch) for base, last, epoch in entry.get("rest", ())),
    )


def _control_sent(message: LinkMessage, detail: _Detail, target: int) -> ControlSent:
    api = message.api or ""
    states: tuple[PartitionState, ...] = ()
    left_out: frozenset[TopicPartition] = frozenset()
    new: frozenset[TopicPartition] = frozenset()
    stopped: tuple[StopReplica, ...] = ()
    if api == "LeaderAndIsr":
        states = tuple(_state(partition, entry) for partition, entry in _entries(detail))
        left_out = frozenset(
            partition
            for partition, entry in _entries(detail)
            if target not in entry.get("replicas", (target,))
        )
        # Version 0 says nothing of it, and its brokers have no log directories that fail.
        new = frozenset(
            partition for partition, entry in _entries(detail) if entry.get("is_new", True)
        )
    elif api == "StopReplica":
        deletes = bool(detail.get("delete_partitions"))
        stopped = tuple(
            StopReplica(
                partition=partition,
                deletes=bool(entry.get("delete_partition", deletes)),
                leader_epoch=entry.get("leader_epoch", -1),
            )
            for partition, entry in _entries(detail)
        )
    live = detail.get("live_brokers")
    return ControlSent(
        number=_number(message),
        api=api,
        controller=detail["controller_id"],
        controller_epoch=detail["controller_epoch"],
        broker=target,
        broker_epoch=detail.get("broker_epoch", -1),
        states=states,
        left_out=left_out,
        new=new,
        live=None if live is None else frozenset(map(_broker_id, live)),
        told=frozenset(partition for partition, _ in _entries(detail)),
        deleted=frozenset(
            partition
            for partition, entry in _entries(detail)
            if entry.get("leader") == _WHILE_DELETED
        ),
        topic_ids={
            partition.topic: entry["topic_id"]
            for partition, entry in _entries(detail)
            if entry.get("topic_id")
        },
        stopped=stopped,
    )


def _broker_id(live: int | _Detail) -> int:
    return live if isinstance(live, int) else int(live["id"])


def _state(partition: TopicPartition, entry: _Detail) -> PartitionState:
    return PartitionState(
        topic=partition.topic,
        partition=partition.partition,
        leader=entry["leader"],
        leader_epoch=entry["leader_epoch"],
        isr=tuple(entry["isr"]),
        controller_epoch=entry["controller_epoch"],
        version=entry.get("partition_epoch", -1),
    )


def _control_answered(message: LinkMessage, detail: _Detail, target: int) -> ControlAnswered:
    return ControlAnswered(
        number=_number(message),
        api=message.api or "",
        broker=target,
        error_code=detail.get("error_code") or 0,
        errors={partition: entry.get("error_code") or 0 for partition, entry in _entries(detail)},
    )


def _isr_asked(detail: _Detail, source: int) -> IsrAsked:
    isrs = {}
    for partition, entry in _entries(detail):
        new = entry.get("new_isr") or entry.get("new_isr_with_epochs") or ()
        isr = tuple(
            member if isinstance(member, int) else int(member["broker_id"]) for member in new
        )
        isrs[partition] = IsrWanted(leader_epoch=entry["leader_epoch"], isr=isr)
    return IsrAsked(leader=source, isrs=isrs)


def _isr_answered(detail: _Detail, source: int) -> IsrAnswered:
    isrs, versions = {}, {}
    refused, failed = set[TopicPartition](), set[TopicPartition]()
    for partition, entry in _entries(detail):
        code = entry.get("error_code") or 0
        if not code:
            isrs[partition] = tuple(entry["isr"])
            versions[partition] = entry.get("partition_epoch", -1)
        elif code in _NOT_WRITTEN:
            refused.add(partition)
        elif code not in _NEVER_WRITTEN:
            failed.add(partition)
    return IsrAnswered(
        leader=source,
        isrs=isrs,
        versions=versions,
        refused=frozenset(refused),
        failed=frozenset(failed),
    )
