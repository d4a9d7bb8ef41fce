"""Cross-check of followers of tiered logs: how they begin, beside the leaders' own epochs.

A leader that sends a follower to the tier is asked where its local log begins, in which epoch, and
where the epoch before that one ended: by that the follower finds the remote segment to build upon.
When it has, it asks where the leader's log ends (kafka.server.TierStateMachine.start and
fetchEarlierEpochEndOffset, 3.6.2 and 3.9.0).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.links import ARRIVED, LinkMessage, partition_details
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model.values.events import PartitionState

_FETCH, _LISTS, _ENDS = "Fetch", "ListOffsets", "OffsetForLeaderEpoch"
_EARLIEST_LOCAL, _LATEST = -4, -1
_Entry = Mapping[str, Any]


def rebuilding_disagreements(evidence: RunEvidence) -> Iterator[str]:
    """Yield impossible requests and responses of a follower that builds from the remote tier.

    **Verifies**: that a follower asks for the end of the epoch before the one in which its leader's
    local log begins; that the answer follows from the leader's epochs, where a snapshot shows them
    and nobody else led in between; that a follower which got an error did not go on.
    **Does not verify**: the answer of a leader of whose epochs there is no such snapshot.

    Raises:
        ScenarioDataError: A message lacks a documented field.
    """
    if evidence.links is None or not evidence.is_tiered:
        return
    pairs: dict[tuple[int, int, TopicPartition], _Rebuilding] = {}
    for message in evidence.links:
        source, target = message.source, message.target
        if source is None or target is None or message.fate not in ARRIVED:
            continue
        for partition, entry in partition_details(message):
            rebuilding = pairs.setdefault(
                (source, target, partition), _Rebuilding(target, partition)
            )
            if message.direction == "request":
                yield from rebuilding.asks(message, entry)
            else:
                yield from rebuilding.is_answered(evidence, message, entry)


@dataclass(slots=True)
class _Rebuilding:
    """State of a rebuild: what follower and leader have said of one partition by now.

    Attributes:
        listed: The timestamp that was asked for last.
        first_epoch: The epoch in which the leader's local log begins, -1 while nobody said.
        asked: The epoch that was asked for and the leader epoch that was told, by question.
        failed: Where the end of an epoch was answered with an error, "" if it was not.
    """

    leader: int
    partition: TopicPartition
    listed: int = 0
    first_epoch: int = -1
    asked: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    failed: str = ""

    def asks(self, message: LinkMessage, entry: _Entry) -> Iterator[str]:
        if message.api == _FETCH:
            self.first_epoch, self.failed = -1, ""
        elif message.api == _LISTS:
            self.listed = _number(message, entry, "timestamp")
            if self.listed == _LATEST and self.failed:
                yield f"{message.read_at} goes on after {self.failed} was an error"
        elif message.api == _ENDS and message.said is None:
            epoch = _number(message, entry, "leader_epoch")
            number = (message.connection, message.correlation_id)
            self.asked[number] = (epoch, _number(message, entry, "current_leader_epoch"))
            if self.first_epoch >= 0 and epoch != self.first_epoch - 1:
                yield (
                    f"{message.read_at} asks for the end of epoch {epoch}, and its leader's local "
                    f"log begins in epoch {self.first_epoch}"
                )

    def is_answered(
        self, evidence: RunEvidence, message: LinkMessage, entry: _Entry
    ) -> Iterator[str]:
        if message.api == _LISTS and self.listed == _EARLIEST_LOCAL:
            self.first_epoch = _number(message, entry, "leader_epoch")
        asked = self.asked.pop((message.connection, message.correlation_id), None)
        if message.api != _ENDS or asked is None:
            return
        if entry.get("error_code"):
            self.failed = message.read_at
            return
        told = (entry.get("leader_epoch"), entry.get("end_offset"))
        for snapshot in evidence.snapshots:
            state = snapshot.state(self.partition)
            if state is None or not self._led(evidence, asked[1], state.leader_epoch):
                continue
            entries = evidence.copied.epoch_entries(snapshot.label, self.leader, self.partition)
            wanted = _end_of(entries or (), asked[0])
            if wanted is not None and told != wanted:
                yield (
                    f"{message.read_at} answers epoch {told[0]}, which ends at {told[1]}; by its "
                    f"leader's epochs in snapshot {snapshot.label!r} it is {wanted[0]}, which ends "
                    f"at {wanted[1]}"
                )
                return

    def _led(self, evidence: RunEvidence, epoch: int, other: int) -> bool:
        """Return whether the broker alone led from one leader epoch to the other."""
        epochs = range(min(epoch, other), max(epoch, other) + 1)
        leaders = {
            state.leader
            for timed in evidence.decisions
            if isinstance(state := timed.event, PartitionState)
            and (state.topic, state.partition) == self.partition
            and state.leader_epoch in epochs
        }
        return leaders == {self.leader}


def _number(message: LinkMessage, entry: _Entry, name: str) -> int:
    value = entry.get(name)
    if not isinstance(value, int):
        raise ScenarioDataError(f"{message.read_at}: {name} is {value!r}, which is no number")
    return value


def _end_of(entries: Sequence[tuple[int, int]], requested: int) -> tuple[int, int] | None:
    """Return LeaderEpochFileCache.endOffsetFor of the epoch before a leader's."""
    starts = dict(entries)
    if requested + 1 not in starts:
        return None
    earlier = [epoch for epoch, _ in entries if epoch <= requested]
    return (earlier[-1] if earlier else requested), starts[requested + 1]
