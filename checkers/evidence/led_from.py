"""A leader's log when its leader epoch began: where it ended, and which epochs it had.

Four kinds of evidence say it. A leader epoch cache has each earlier epoch with its start offset,
and the end of the last is where the next begins. A broker's log says at which offset it starts to
lead (kafka.cluster.Partition.makeLeader, from 1.0 on). Answers at links have records of earlier
epochs, or where these end, and belong to the epoch that the follower named (KIP-320, from 2.1 on).
Where none of these is, as on 0.10.2, the last Fetch of a follower that is then told to lead says
how far its log went at least.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.links import LinkMessage
from kchaos.checkers.formats.partition_names import topic_partition
from kchaos.checkers.model.follow.observations import (
    ControlSent,
    EpochAnswered,
    EpochAsked,
    Fate,
    FetchAnswered,
    FetchAsked,
    PartitionAnswered,
    PartitionAsked,
    RequestSeen,
    ResponseSeen,
)

# From 2.8 on "Leader t-0 …", before "t-0 …"; followers say the same of the epoch that they follow.
_STARTS = re.compile(
    r"(?<!Follower )(?<!\S)(?P<partition>\S+-\d+)(?: with topic id \S+)? starts at [Ll]eader "
    r"[Ee]poch (?P<epoch>\d{1,10}) from offset (?P<offset>\d{1,18})"
)


@dataclass(frozen=True, slots=True, order=True)
class LedEpoch:
    """A leader epoch of a partition, and its leader."""

    partition: TopicPartition
    leader: int
    leader_epoch: int


def starts_said(server_logs: Mapping[int, Sequence[str]]) -> Mapping[LedEpoch, int]:
    """Return by term the lowest start offset that its leader's own log has.

    A broker that starts again in the epoch that it led says a later one.
    """
    starts: dict[LedEpoch, int] = {}
    for broker, lines in server_logs.items():
        for line in lines:
            said = _STARTS.search(line) if " starts at " in line else None
            named = topic_partition(said["partition"]) if said else None
            if said is not None and named is not None:
                term = LedEpoch(TopicPartition(*named), broker, int(said["epoch"]))
                offset = int(said["offset"])
                starts[term] = min(starts.get(term, offset), offset)
    return starts


def ends_answered(messages: Iterable[LinkMessage]) -> Mapping[LedEpoch, Mapping[int, int]]:
    """Return by term how far its leader's log had records of each earlier epoch, exclusive."""
    asked: dict[object, Mapping[TopicPartition, PartitionAsked]] = {}
    ends: dict[LedEpoch, dict[int, int]] = {}
    for message in messages:
        said = message.said
        if isinstance(said, RequestSeen):
            asked[said.number, said.api] = said.partitions
        elif isinstance(said, ResponseSeen) and said.fate is not Fate.FORGED:
            for partition, answer in said.partitions.items():
                question = asked.get((said.number, said.api), {}).get(partition)
                if not isinstance(question, FetchAsked | EpochAsked) or answer.error_code:
                    continue
                led_in = -1 if question.leader_epoch is None else question.leader_epoch
                for epoch, end in _ends(answer):
                    if epoch < led_in:
                        known = ends.setdefault(LedEpoch(partition, said.leader, led_in), {})
                        known[epoch] = max(known.get(epoch, 0), end)
    return ends


def reached_by_fetching(messages: Iterable[LinkMessage]) -> Mapping[LedEpoch, int]:
    """Return by term how far its leader's log went at least when it was told to lead, exclusive.

    A follower that is told to follow anew may truncate, and shows nothing until it fetches again.
    """
    fetched: dict[tuple[TopicPartition, int], int] = {}
    reached: dict[LedEpoch, int] = {}
    for said in (message.said for message in messages):
        if isinstance(said, RequestSeen):
            for partition, asked in said.partitions.items():
                if isinstance(asked, FetchAsked):
                    fetched[partition, said.follower] = asked.fetch_offset
        elif isinstance(said, ControlSent):
            for state in said.states:
                partition = TopicPartition(state.topic, state.partition)
                if state.leader != said.broker:
                    fetched.pop((partition, said.broker), None)
                elif (partition, said.broker) in fetched:
                    term = LedEpoch(partition, said.broker, state.leader_epoch)
                    reached.setdefault(term, fetched[partition, said.broker])
    return reached


def _ends(answer: PartitionAnswered) -> Iterator[tuple[int, int]]:
    if isinstance(answer, EpochAnswered) and answer.leader_epoch is not None:
        yield answer.leader_epoch, answer.end_offset
    elif isinstance(answer, FetchAnswered):
        if answer.diverging is not None:
            yield answer.diverging
        if answer.last_leader_epoch is not None and answer.last_offset is not None:
            yield answer.last_leader_epoch, answer.last_offset + 1


def ends_cached(
    caches: Iterable[Sequence[tuple[int, int]] | None], leader_epoch: int
) -> tuple[int | None, Mapping[int, int]]:
    """Return where the epoch starts by the first cache that has it, and the ends of earlier ones.

    Each cache has (leader epoch, start offset) entries, ascending.
    """
    for entries in caches:
        start = dict(entries or ()).get(leader_epoch)
        if entries is not None and start is not None:
            earlier = [entry for entry in entries if entry[0] <= leader_epoch]
            pairs = itertools.pairwise(earlier)
            return start, {epoch: end for (epoch, _), (_, end) in pairs}
    return None, {}
