"""Matching: a message of the machine beside the one that was seen."""

from collections.abc import Mapping, Sequence
from functools import cache

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model.broker import leader
from kchaos.checkers.model.broker.control_handling import OFFLINE_STOPPED
from kchaos.checkers.model.follow import observations
from kchaos.checkers.model.state.state import Broker
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.prediction import PredictedBatch
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.model.values.replica import FetcherThread, Replica
from kchaos.checkers.model.values.requests import (
    Answer,
    EpochAnswer,
    Exchange,
    FetchAnswer,
    OffsetAnswer,
    PartitionRequest,
)

NOT_TOLD = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""Answers of a broker about a partition, or topic id, that its metadata cache does not have."""
NOT_HERE = NOT_TOLD | {
    ErrorCode.NOT_LEADER_FOR_PARTITION,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.INCONSISTENT_TOPIC_ID,
}
"""Answers of a broker about a partition that it does not have, or does not lead."""
_CODES: Mapping[str, frozenset[int]] = {
    # What its metadata cache does not have, a broker does not look for: it says this alone
    # (KafkaApis.handleFetchRequest, 0.10.2.2, 1.1.1, 2.8.2, 3.1.2 and 3.8.0).
    "UNKNOWN_TOPIC_OR_PARTITION": NOT_TOLD | {ErrorCode.UNSUPPORTED_COMPRESSION_TYPE},
    # A broker without the replica says one or the other, by release and by what it has heard.
    # While it handles the LeaderAndIsr that names it, it has no epoch, and any is unknown.
    # 2.1 answers a Fetch below version 10 about a log that it does not have as if it could not read
    # the codec: no log is taken for one compressed with zstd (KafkaApis.maybeConvertFetchedData).
    leader.NOT_HOSTED: NOT_HERE
    | {ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE},
    "NOT_LEADER_FOR_PARTITION": NOT_HERE,
    # What is answered for an epoch that is known already changed between releases.
    OFFLINE_STOPPED: frozenset({ErrorCode.NONE, ErrorCode.KAFKA_STORAGE_ERROR}),
    "KNOWN_LEADER_EPOCH": frozenset({ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH}),
}
"""The codes that the model's errors may have; any other error has its own."""


@cache
def _codes(error: str) -> frozenset[int]:
    known = _CODES.get(error)
    return frozenset({ErrorCode[error or "NONE"]}) if known is None else known


def request_differs(
    thread: FetcherThread,
    predicted: Exchange | None,
    seen: observations.RequestSeen,
    unchanged: Mapping[TopicPartition, observations.FetchAsked],
) -> str:
    """Return how a request differs from what the thread would send, or "".

    Args:
        thread: The fetcher thread that sends it.
        predicted: The request that it would send; None if it would send none.
        seen: The request that it sent.
        unchanged: Partitions that an incremental Fetch asks for again by leaving them out.
    """
    if predicted is None:
        stands = {tuple(partition): str(fetch.state) for partition, fetch in thread.partitions}
        return f"no such request was expected; the fetcher's partitions: {stands or 'none'}"
    asked = dict(predicted.asked)
    for partition, said in seen.partitions.items():
        question = asked.get(partition)
        if question is None:
            return f"{_name(partition)} was asked for, which the fetcher does not do then"
        differs = _asked_differs(question, said)
        if differs:
            return f"{_name(partition)}: {differs}"
    for partition, question in predicted.asked:
        differs = _asked_differs(question, unchanged[partition]) if partition in unchanged else ""
        if differs:
            return f"{_name(partition)} was left out, so the fetcher {differs}"
    if not seen.partitions and seen.is_full:
        return "it names no partition"
    missing = set(asked) - set(seen.partitions)
    if seen.api != "Fetch" and missing:
        return f"it leaves {sorted(missing)} out"
    return ""


def _asked_differs(asked: PartitionRequest, said: observations.PartitionAsked) -> str:
    if isinstance(said, observations.OffsetAsked):
        if said.timestamp != asked.timestamp:
            return f"asked for timestamp {said.timestamp}, possible was {asked.timestamp}"
    elif isinstance(said, observations.EpochAsked):
        if said.requested_epoch != asked.requested_epoch:
            return f"asked for epoch {said.requested_epoch}, possible was {asked.requested_epoch}"
    else:
        if said.fetch_offset != asked.fetch_offset:
            return f"fetched from {said.fetch_offset}, possible was {asked.fetch_offset}"
        if said.topic_id and asked.topic_id not in ("", said.topic_id):
            return f"named topic id {said.topic_id}, possible was {asked.topic_id}"
        fetched = said.last_fetched_epoch
        if fetched is not None and fetched != asked.requested_epoch:
            return f"last fetched epoch {fetched}, possible was {asked.requested_epoch}"
    told = said.leader_epoch
    if told is not None and told >= 0 and told != asked.leader_epoch:
        return f"leader epoch {told}, possible was {asked.leader_epoch}"
    return ""


def answers_as_seen(
    exchange: Exchange, seen: observations.ResponseSeen
) -> tuple[tuple[tuple[TopicPartition, Answer], ...], str]:
    """Return the answers as they reached the follower, and how they differ from what was seen.

    A read stops where a request's size does, so fewer batches than there are may be answered. What
    an incremental Fetch answer leaves out has nothing new.
    """
    if seen.error_code not in _codes(exchange.error):
        return (), f"error {seen.error_code} of all, possible was {exchange.error or 'none'}"
    if exchange.error:
        return (), ""
    kept: list[tuple[TopicPartition, Answer]] = []
    for partition, answer in exchange.answers:
        told, differs = answer_as_seen(partition, answer, seen)
        if differs:
            return (), differs
        if told is not None:
            kept.append((partition, told))
    unknown = set(seen.partitions) - {partition for partition, _ in exchange.answers}
    if unknown:
        return (), f"an answer for {sorted(map(_name, unknown))}, which was not asked for"
    if any(answer.error for _, answer in kept):
        # A follower that is out of range handles what comes first, and then asks.
        order = list(seen.partitions)
        kept.sort(key=lambda item: order.index(item[0]))
    return tuple(kept), ""


def answer_as_seen(
    partition: TopicPartition, answer: Answer, seen: observations.ResponseSeen
) -> tuple[Answer | None, str]:
    """Return the answer for one partition as it reached the follower, and how it differs, or "".

    None is what an answer leaves out. For the rest see `answers_as_seen`.
    """
    said, differs = seen.partitions.get(partition), ""
    if said is None:
        if seen.api != "Fetch":
            return None, f"no answer for {_name(partition)}"
        if isinstance(answer, FetchAnswer) and (
            answer.error or (answer.batches and not _is_full(partition, seen))
        ):
            return None, f"nothing for {_name(partition)}, possible was {_told(answer)}"
        return None, ""
    told: Answer | None = None
    if isinstance(said, observations.FetchAnswered) and isinstance(answer, FetchAnswer):
        told = shortened = _as_far_as(answer, said)
        if said.last_offset is None and _is_full(partition, seen):
            told = shortened = replace(answer, batches=())
        differs = _fetch_differs(shortened, said)
    elif isinstance(said, observations.EpochAnswered) and isinstance(answer, EpochAnswer):
        told, differs = answer, _epoch_differs(answer, said)
    elif isinstance(said, observations.OffsetAnswered) and isinstance(answer, OffsetAnswer):
        told, differs = answer, _offset_differs(answer, said)
    return told, f"{_name(partition)}: {differs}" if differs else ""


def errors_differ(
    errors: tuple[tuple[TopicPartition | None, str], ...], seen: observations.ControlAnswered
) -> str:
    """Return how a broker's answer to the controller differs from what was seen, or ""."""
    for partition, error in errors:
        code = seen.error_code if partition is None else seen.errors.get(partition)
        if code is not None and code not in _codes(error):
            of_partition = "" if partition is None else f" for {_name(partition)}"
            return f"error {code}{of_partition}, possible was {error or 'none'}"
    return ""


def files_differ(broker: Broker | None, replica: Replica | None, seen: observations.Files) -> str:
    """Return how files differ from a replica, or ""; without a replica there should be none."""
    if broker is None or replica is None:
        return f"{len(seen.batches)} batches, possible was no replica" if seen.batches else ""
    batches = tuple(map(_header, local_batches(replica, seen)))
    if batches != seen.batches:
        first = _first_difference(seen.batches, batches)
        return f"batches {_ranges(seen.batches, first)}, possible was {_ranges(batches, first)}"
    if seen.topic_id and replica.topic_id not in ("", seen.topic_id):
        return f"topic id {seen.topic_id}, possible was {replica.topic_id}"
    file_entries = seen.epoch_entries or ()
    if not broker.generation.file_may_hold(file_entries, replica.entries):
        entries = [tuple(entry) for entry in replica.entries]
        return f"leader epochs {list(file_entries)}, possible was {entries}"
    return ""


def local_batches(replica: Replica, seen: observations.Files) -> tuple[PredictedBatch, ...]:
    """Return the batches that lie on the local disk, from the first segment on."""
    return tuple(
        batch
        for batch in replica.log.local_batches()
        if batch.base_offset >= (seen.local_start or 0)
    )


def _is_full(partition: TopicPartition, seen: observations.ResponseSeen) -> bool:
    """Return whether an answer may have had no room left for a partition's records.

    The first records of an answer come whatever its limits are, and others only within them
    (ReplicaManager.readFromLocalLog, 1.1.1, 2.8.2 and 3.8.0).
    """
    return not seen.has_room and (
        seen.carries_others
        or any(
            isinstance(said, observations.FetchAnswered) and said.last_offset is not None
            for other, said in seen.partitions.items()
            if other != partition
        )
    )


def _as_far_as(answer: FetchAnswer, said: observations.FetchAnswered) -> FetchAnswer:
    if said.last_offset is None or not answer.batches:
        return answer
    batches = tuple(batch for batch in answer.batches if batch.last_offset <= said.last_offset)
    return replace(answer, batches=batches)


def _fetch_differs(answer: FetchAnswer, said: observations.FetchAnswered) -> str:
    if said.error_code not in _codes(answer.error):
        return f"error {said.error_code}, possible was {_told(answer)}"
    if answer.error:
        return ""
    diverging = None if answer.diverging is None else tuple(answer.diverging)
    if said.diverging != diverging:
        return f"diverging epoch {said.diverging}, possible was {diverging}"
    if answer.diverging is not None:
        return ""
    if said.log_start_offset not in (None, answer.log_start_offset):
        return f"log start {said.log_start_offset}, possible was {answer.log_start_offset}"
    if said.high_watermark != answer.high_watermark:
        return f"high watermark {said.high_watermark}, possible was {_told(answer)}"
    ends = (answer.batches[0], answer.batches[-1]) if answer.batches else None
    if ends is None:
        if said.last_offset is None:
            return ""
        return f"records up to {said.last_offset}, possible was an answer without records"
    if said.last_offset != ends[1].last_offset or said.base_offset not in _bases(ends[0]):
        return (
            f"records {said.base_offset} to {said.last_offset}, possible was "
            f"{ends[0].base_offset} to {ends[1].last_offset}"
        )
    # What a leader sends of the rest, it reads while it sends (`follow.observed_steps`).
    last_epoch = None if said.rest else said.last_leader_epoch
    for told, batch in zip((said.first_leader_epoch, last_epoch), ends, strict=True):
        if told is not None and batch.magic >= 2 and told != batch.leader_epoch:
            return f"records of leader epoch {told}, possible was {batch.leader_epoch}"
    return ""


def _bases(batch: PredictedBatch) -> tuple[int, ...]:
    # A compressed wrapper of magic 0 or 1 shows the offset of its last record.
    return (batch.base_offset,) if batch.magic >= 2 else (batch.base_offset, batch.last_offset)


def _epoch_differs(answer: EpochAnswer, said: observations.EpochAnswered) -> str:
    if said.error_code not in _codes(answer.error):
        return f"error {said.error_code}, possible was {answer.error or 'none'}"
    if answer.error:
        return ""
    epoch = answer.end.epoch if said.leader_epoch is None else said.leader_epoch
    if (epoch, said.end_offset) != tuple(answer.end):
        return (
            f"answered ({said.leader_epoch}, {said.end_offset}), possible was "
            f"({answer.end.epoch}, {answer.end.end_offset})"
        )
    return ""


def _offset_differs(answer: OffsetAnswer, said: observations.OffsetAnswered) -> str:
    if said.error_code not in _codes(answer.error):
        return f"error {said.error_code}, possible was {answer.error or 'none'}"
    if not answer.error and said.offset != answer.offset:
        return f"answered offset {said.offset}, possible was {answer.offset}"
    return ""


def _told(answer: FetchAnswer) -> str:
    if answer.error:
        return answer.error
    if answer.diverging is not None:
        return f"diverging epoch {tuple(answer.diverging)}"
    records = "no records"
    if answer.batches:
        records = f"records {answer.batches[0].base_offset} to {answer.batches[-1].last_offset}"
    return f"{records}, high watermark {answer.high_watermark}"


def _header(batch: PredictedBatch) -> tuple[int, int, int, int]:
    return batch.base_offset, batch.last_offset, batch.leader_epoch, batch.magic


_Header = tuple[int, int, int, int]


def _first_difference(seen: Sequence[_Header], possible: Sequence[_Header]) -> int:
    pairs = enumerate(zip(seen, possible, strict=False))
    differing = (place for place, (header, other) in pairs if header != other)
    return next(differing, min(len(seen), len(possible)))


def _ranges(batches: Sequence[_Header], first: int, most: int = 6) -> str:
    """Return the batches from a place on, and the one before it, in words."""
    shown = range(max(first - 1, 0), len(batches))[:most]
    words = ["…"] if first > 1 else []
    for base, last, epoch, magic in (batches[place] for place in shown):
        words.append(f"{base}-{last} of epoch {epoch}" + ("" if magic == 2 else f", magic {magic}"))
    if shown.stop < len(batches):
        words.append(f"… {batches[-1][0]}-{batches[-1][1]}")
    return ", ".join(words) or "none"


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}-{partition.partition}"


def request_of(
    world: World, seen: observations.RequestSeen | observations.ResponseSeen
) -> Exchange | None:
    """Return the request of a message that was seen, or None: it is not sent yet, or has ended."""
    requests = world.exchanges(seen.follower, seen.source)
    return next((request for request in requests if request.number == seen.number), None)


def is_on(waiting: Exchange, seen: observations.RequestSeen | observations.ResponseSeen) -> bool:
    """Return whether an earlier request waits on the connection of a message that was seen.

    A fetcher has one request in flight, and gives it up only with the connection: `sendRequest` of
    kafka.server.ReplicaFetcherThread (0.10.2.2), of ReplicaFetcherBlockingSend (0.11.0.0, 1.1.1 and
    2.8.2) and of BrokerBlockingSender (3.8.0) closes it after any error.
    """
    number = waiting.number
    return number is not None and number[0] == seen.number[0] and number[1] < seen.number[1]
