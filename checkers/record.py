"""The record of one run in the model's words: what its links, clients and snapshots saw.

What is read here chooses between the states that are possible (`checkers.model.follow`). Messages
about internal topics (`__…`) are left out, and so is what the links could not read.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from checkers.errors import ScenarioDataError
from checkers.history import ARRIVED, LINK_LOG, link_records
from checkers.model import follow, predict
from checkers.model.events import (
    Decision,
    HealLink,
    PartitionState,
    ResumeBroker,
    Snapshot,
    StartBroker,
    StopBroker,
    TopicPartition,
)
from checkers.model.observations import (
    ClientAnswered,
    ControlAnswered,
    ControlSent,
    CopyBegun,
    CopyEnded,
    Decided,
    EpochAnswered,
    EpochAsked,
    Fate,
    FetchAnswered,
    FetchAsked,
    Files,
    IsrAnswered,
    IsrAsked,
    Observation,
    Question,
    Record,
    Reply,
    Seen,
)
from checkers.model.prediction import Prediction
from checkers.run_evidence import replica_directory
from checkers.run_facts import RunFacts, partitions
from checkers.segments.directory import read_partition
from checkers.segments.errors import SegmentError
from checkers.timeline import is_internal

_Detail = Mapping[str, Any]
_FETCHERS = {"FETCH": "Fetch", "OFFSET_FOR_LEADER_EPOCH": "OffsetForLeaderEpoch"}
_CONTROL = {
    "LEADER_AND_ISR": "LeaderAndIsr",
    "UPDATE_METADATA": "UpdateMetadata",
    "STOP_REPLICA": "StopReplica",
}
_COPYING_S = 0.25
_FULL_FETCH_EPOCHS = (None, 0, -1)


def predict_run(facts: RunFacts) -> Prediction:
    """Return what the model predicts of a run: by following its links, or without links by events.

    Without links, or where they saw no control request, nothing says in which order brokers worked,
    and after each event everything is taken to happen that can.

    Raises:
        ModelError: The timeline is impossible.
        ScenarioDataError: A message at the links lacks a documented field.
    """
    record = None if facts.rounds is None else record_of(facts)
    if record is None or not any(isinstance(item.what, ControlSent) for item in record.seen):
        return predict(tuple(timed.event for timed in facts.events))
    return follow(record)


def record_of(facts: RunFacts) -> Record:
    """Return what was seen of a run, in its two orders.

    Raises:
        ScenarioDataError: A message at the links lacks a documented field.
    """
    decided = [
        Decided(what=timed.event, time=timed.time)
        for timed in facts.events
        if isinstance(timed.event, Decision)
    ]
    links = list(_messages(facts))
    seen = [*_actions(facts, links), *links, *_answers(facts)]
    # Sorting is stable: what has one time stays in the order of its file.
    seen.sort(key=lambda item: item.time)
    return Record(seen=tuple(seen), decided=tuple(decided))


def _actions(facts: RunFacts, links: list[Seen]) -> Iterator[Seen]:
    stopped: dict[int, float] = {}
    for timed in sorted(facts.events, key=lambda timed: timed.time):
        event, time = timed.event, timed.time
        if isinstance(event, Decision):
            continue
        if isinstance(event, StopBroker):
            stopped[event.broker] = time
        elif isinstance(event, StartBroker | ResumeBroker | HealLink) and timed.began is not None:
            time = timed.began
        if isinstance(event, StartBroker):
            time = min(time, _first_sign(links, event.broker, stopped.get(event.broker, 0.0)))
        if isinstance(event, Snapshot):
            yield from _copies(facts, event.label, time)
        yield Seen(what=event, time=time, zxid=timed.zxid, source="actions.jsonl")


def _first_sign(links: list[Seen], broker: int, since: float) -> float:
    """When a process was first sent what it then answered, or asked something itself.

    The first brokers of a run, and every broker in older runs, are written down as started only
    when they are ready.
    """
    asked: dict[tuple[int, int], float] = {}
    before: set[tuple[int, int]] = set()
    for item in links:
        what = item.what
        if item.time < since:
            if isinstance(what, Question):
                before.add(what.number)
            continue
        # What a hold keeps may arrive when its sender has long been dead.
        if isinstance(what, Question) and what.follower == broker and what.number not in before:
            return item.time
        if isinstance(what, Question | ControlSent):
            asked.setdefault(what.number, item.time)
        is_own = (isinstance(what, Reply) and what.leader == broker) or (
            isinstance(what, ControlAnswered) and what.broker == broker
        )
        if isinstance(what, Reply | ControlAnswered) and is_own and what.number in asked:
            return asked[what.number]
    return float("inf")


def _answers(facts: RunFacts) -> Iterator[Seen]:
    for one in facts.operations:
        if one.function == "produce" and one.ended_at is not None and not is_internal(one.topic):
            answered = ClientAnswered(
                operation=one.operation,
                outcome=one.outcome,
                base_offset=one.base_offset,
                error=one.error if one.error_code else "",
            )
            yield Seen(what=answered, time=one.ended_at, source="history.jsonl")


def _copies(facts: RunFacts, label: str, time: float) -> Iterator[Seen]:
    """What was copied of each broker, between the times at which its last reading began and ended.

    A snapshot that does not say them was taken in the moments before `time`.
    """
    snapshot = next((one for one in facts.snapshots if one["label"] == label), None)
    for broker, seen in (snapshot["brokers"] if snapshot is not None else {}).items():
        files = []
        for about in partitions(facts):
            directory = replica_directory(facts.run, label, int(broker), about)
            found = _files(directory) if directory.is_dir() else None
            if found is not None:
                files.append((about, found))
        begun = CopyBegun(label=label, broker=int(broker), files=tuple(files))
        ended = CopyEnded(label=label, broker=int(broker))
        source = f"snapshots/{label}/broker-{broker}"
        yield Seen(what=begun, time=seen.get("read_from", time - _COPYING_S), source=source)
        yield Seen(what=ended, time=seen.get("read_until", time), source=source)


def _files(directory: Any) -> Files | None:
    try:
        contents = read_partition(directory)
    except SegmentError:
        return None  # The rules say so; it cannot choose between states.
    entries = contents.epoch_entries
    return Files(
        batches=tuple(
            (one.base_offset, one.last_offset, one.leader_epoch, one.magic)
            for one in contents.batches
        ),
        epoch_entries=None
        if entries is None
        else tuple((entry.leader_epoch, entry.start_offset) for entry in entries),
    )


def _messages(facts: RunFacts) -> Iterator[Seen]:
    for number, record in enumerate(link_records(facts.run), start=1):
        try:
            found = _message(record)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ScenarioDataError(
                f"{facts.run.path / LINK_LOG}:{number} has a message without the documented "
                f"fields: {error!r}"
            ) from error
        if found is not None:
            yield Seen(what=found, time=record["wall_time_s"], source=f"{LINK_LOG}:{number}")


def _message(record: _Detail) -> Observation | None:
    detail, api = record["detail"], record["api"]
    source, target = record["source"], record["target"]
    if detail is None or source is None or target is None:
        return None
    is_request = record["direction"] == "request"
    if api in _FETCHERS:
        return _question(record) if is_request else _reply(record)
    if record["fate"] not in ARRIVED:
        return None
    if api in _CONTROL:
        return _control_sent(record) if is_request else _control_answered(record)
    if api == "ALTER_PARTITION":
        return _isr_asked(record) if is_request else _isr_answered(record)
    return None


def _number(record: _Detail) -> tuple[int, int]:
    return record["connection"], record["correlation_id"]


def _fate(record: _Detail) -> Fate:
    if record["fate"] in ARRIVED:
        return Fate.ARRIVES
    return Fate.ABANDONED if record["fate"] == "abandoned" else Fate.WAITS


def _entries(detail: _Detail, name: str = "partitions") -> Iterator[tuple[TopicPartition, _Detail]]:
    for entry in detail.get(name) or ():
        topic = entry.get("topic")
        if topic is not None and not is_internal(topic):
            yield TopicPartition(topic, entry["partition"]), entry


def _question(record: _Detail) -> Question | None:
    detail = record["detail"]
    asked: dict[TopicPartition, FetchAsked | EpochAsked] = {}
    for about, entry in _entries(detail):
        epoch = entry.get("current_leader_epoch")
        if record["api"] == "FETCH":
            asked[about] = FetchAsked(
                fetch_offset=entry["fetch_offset"],
                leader_epoch=epoch,
                last_fetched_epoch=entry.get("last_fetched_epoch"),
            )
        else:
            asked[about] = EpochAsked(requested_epoch=entry["leader_epoch"], leader_epoch=epoch)
    is_full = detail.get("session_epoch") in _FULL_FETCH_EPOCHS
    if not asked and is_full:
        return None  # It is about internal topics alone.
    return Question(
        number=_number(record),
        fate=_fate(record),
        api=_FETCHERS[record["api"]],
        follower=record["source"],
        leader=record["target"],
        partitions=asked,
        is_full=is_full,
        forgotten=frozenset(about for about, _ in _entries(detail, "forgotten")),
        version=record.get("api_version"),
    )


def _reply(record: _Detail) -> Reply:
    answered: dict[TopicPartition, FetchAnswered | EpochAnswered] = {}
    for about, entry in _entries(record["detail"]):
        if record["api"] == "FETCH":
            answered[about] = _fetch_answered(entry)
        else:
            answered[about] = EpochAnswered(
                error_code=entry["error_code"],
                leader_epoch=entry.get("leader_epoch"),
                end_offset=entry["end_offset"],
            )
    return Reply(
        number=_number(record),
        fate=_fate(record),
        api=_FETCHERS[record["api"]],
        follower=record["source"],
        leader=record["target"],
        partitions=answered,
        error_code=record["detail"].get("error_code") or 0,
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
    )


def _control_sent(record: _Detail) -> ControlSent:
    detail = record["detail"]
    api = _CONTROL[record["api"]]
    states: tuple[PartitionState, ...] = ()
    stopped: tuple[tuple[TopicPartition, bool], ...] = ()
    if api == "LeaderAndIsr":
        states = tuple(_state(about, entry) for about, entry in _entries(detail))
    elif api == "StopReplica":
        deletes = bool(detail.get("delete_partitions"))
        stopped = tuple(
            (about, bool(entry.get("delete_partition", deletes)))
            for about, entry in _entries(detail)
        )
    live = detail.get("live_brokers")
    return ControlSent(
        number=_number(record),
        api=api,
        controller=detail["controller_id"],
        controller_epoch=detail["controller_epoch"],
        broker=record["target"],
        broker_epoch=detail.get("broker_epoch", -1),
        states=states,
        live=None if live is None else frozenset(map(_broker_id, live)),
        told=frozenset(about for about, _ in _entries(detail)),
        stopped=stopped,
    )


def _broker_id(live: int | _Detail) -> int:
    return live if isinstance(live, int) else int(live["id"])


def _state(about: TopicPartition, entry: _Detail) -> PartitionState:
    return PartitionState(
        topic=about.topic,
        partition=about.partition,
        leader=entry["leader"],
        leader_epoch=entry["leader_epoch"],
        isr=tuple(entry["isr"]),
        controller_epoch=entry["controller_epoch"],
        version=entry.get("partition_epoch", -1),
    )


def _control_answered(record: _Detail) -> ControlAnswered:
    detail = record["detail"]
    return ControlAnswered(
        number=_number(record),
        api=_CONTROL[record["api"]],
        broker=record["target"],
        error_code=detail.get("error_code") or 0,
        errors={about: entry.get("error_code") or 0 for about, entry in _entries(detail)},
    )


def _isr_asked(record: _Detail) -> IsrAsked:
    isrs = {}
    for about, entry in _entries(record["detail"]):
        new = entry.get("new_isr") or entry.get("new_isr_with_epochs") or ()
        isrs[about] = tuple(one if isinstance(one, int) else int(one["broker_id"]) for one in new)
    return IsrAsked(leader=record["source"], isrs=isrs)


def _isr_answered(record: _Detail) -> IsrAnswered:
    isrs = {
        about: tuple(entry["isr"])
        for about, entry in _entries(record["detail"])
        if not entry.get("error_code")
    }
    return IsrAnswered(leader=record["source"], isrs=isrs)
