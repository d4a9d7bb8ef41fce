"""The finding that is explained, and the evidence about its partition."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.epoch_rounds import AskedRound
from kchaos.checkers.evidence.history import Operation
from kchaos.checkers.findings import Finding, Question
from kchaos.checkers.model.values import events
from kchaos.checkers.model.values.prediction import ReplicaMoment, Truncation
from kchaos.checkers.outcome import worst_first
from kchaos.checkers.segments.batch import Batch
from kchaos.harness.report.leadership import Decisions
from kchaos.harness.report.loading import Loaded
from kchaos.harness.report.moments import FaultSpan
from kchaos.harness.report.replicas import PartitionView, ReplicaView
from kchaos.harness.report.tier_drawing import RemoteView

MOST_OPERATIONS = 3
MOST_ROUNDS = 2
MOST_CUTS = 2
MOST_STEPS = 6
"""Most of each that a cause tells, and most sentences that it may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseStep:
    """One sentence of the cause.

    Attributes:
        time: When it happened, in seconds since 1970; None for a state that lasts.
        section: Id of the section of the page that shows it.
        brokers: The broker where it happened, or of a message its sender and its receiver.
        is_fatal: Whether it is the message or the decision by which the finding came about.
    """

    text: str
    section: str
    time: float | None = None
    brokers: tuple[int, ...] = ()
    is_fatal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One leader epoch of a partition, as it was decided."""

    time: float
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The evidence about the finding's partition.

    A topic of the same name that was deleted before is another one: what is told of it, with a time
    before `since`, is left out.

    Attributes:
        deleted: The deletion of an earlier topic of that name, the last one; None without one.
        states: The partition's states with their times, oldest first.
        replicas: Of the last snapshot.
        registered: The registrations of all brokers with their times, oldest first.
        unregistered: When each broker's registration ended for the last time, unless the broker
            registered again.
        remote: The partition's segments in the remote tier, in the last snapshot.
        controllers: The brokers that became controller with their times, oldest first.
    """

    loaded: Loaded
    finding: Finding
    deleted: events.TopicDeletion | None
    states: tuple[tuple[float, events.PartitionState], ...]
    replicas: tuple[ReplicaView, ...]
    rounds: tuple[AskedRound, ...]
    faults: Sequence[FaultSpan]
    decisions: Decisions
    registered: tuple[tuple[float, events.BrokerRegistered], ...]
    unregistered: Mapping[int, float]
    controllers: tuple[tuple[float, int], ...]
    remote: tuple[RemoteView, ...]

    @property
    def partition(self) -> TopicPartition:
        """The finding's."""
        return TopicPartition(self.finding.topic, self.finding.partition)

    @property
    def since(self) -> float:
        """When the topic of that name before it was deleted, in seconds since 1970."""
        return float("-inf") if self.deleted is None else self.deleted.time

    @property
    def operations(self) -> tuple[Operation, ...]:
        """Operations of clients on the partition, in the order of the history."""
        return tuple(
            each
            for each in self.loaded.evidence.operations
            if (each.topic, each.partition) == self.partition and each.invoked_at > self.since
        )

    @property
    def truncations(self) -> tuple[Truncation, ...]:
        """Truncations of the partition's replicas by the prediction; nothing without one.

        They have no times: where a topic of that name was deleted nobody knows whose they are.
        """
        return self.truncations_of_name if self.deleted is None else ()

    @property
    def truncations_of_name(self) -> tuple[Truncation, ...]:
        """The same, and those of a topic of that name before it."""
        cuts = () if self.loaded.prediction is None else self.loaded.prediction.truncations
        return tuple(cut for cut in cuts if (cut.topic, cut.partition) == self.partition)

    def replica_at(self, broker: int, time: float) -> ReplicaMoment | None:
        """Return a broker's replica at a time as the model explains the run, if it does."""
        own = [each for each in self._moments(broker) if each.time <= time]
        return own[-1] if own else None

    def cut_at(self, cut: Truncation) -> float | None:
        """Return when a truncation was made, or None if the model's explanation does not tell."""
        ends = (cut.log_end_offset_before, cut.target_offset)
        times = [
            after.time
            for before, after in pairwise(self._moments(cut.broker))
            if (before.log_end_offset, after.log_end_offset) == ends
        ]
        return times[-1] if times else None

    def follows_since(self, broker: int, time: float) -> float | None:
        """Return when a broker began to follow in the last leader epoch, not before a time."""
        own = [each for each in self._moments(broker) if each.time >= time]
        last = max((each.leader_epoch for each in own), default=-1)
        following = [each for each in own if (each.role, each.leader_epoch) == ("follower", last)]
        return following[0].time if following else None

    def _moments(self, broker: int) -> list[ReplicaMoment]:
        prediction = self.loaded.prediction
        return [
            each
            for each in (() if prediction is None else prediction.moments)
            if (each.topic, each.partition) == self.partition
            and each.broker == broker
            and each.time > self.since
        ]

    @property
    def terms(self) -> tuple[Term, ...]:
        """The leader epochs with a leader, each as it began."""
        begun: dict[int, Term] = {}
        for time, state in self.states:
            if state.leader >= 0 and state.leader_epoch not in begun:
                begun[state.leader_epoch] = Term(
                    time=time,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=tuple(state.isr),
                )
        return tuple(begun.values())

    def term(self, leader_epoch: int) -> Term | None:
        """Return the term of a leader epoch, or None if no evidence names its leader."""
        return next((each for each in self.terms if each.leader_epoch == leader_epoch), None)

    def covers(self, first: int, last: int) -> bool:
        """Return whether offsets, both inclusive, overlap those of the finding."""
        return first <= self.finding.last_offset and last >= self.finding.first_offset


def story_of(
    loaded: Loaded,
    finding: Finding,
    view: PartitionView,
    *,
    decisions: Decisions,
    rounds: Sequence[AskedRound],
    faults: Sequence[FaultSpan],
) -> Story:
    """Return the evidence about a finding's partition, of which `view` is the last snapshot."""
    partition = (finding.topic, finding.partition)
    states = tuple(
        (timed.time, state)
        for timed, state in decisions.states
        if (state.topic, state.partition) == partition
    )
    deleted = _deleted_before(loaded, finding, states)
    since = float("-inf") if deleted is None else deleted.time
    return Story(
        loaded=loaded,
        finding=finding,
        deleted=deleted,
        states=tuple((time, state) for time, state in states if time > since),
        replicas=view.replicas,
        rounds=tuple(
            each
            for each in rounds
            if (each.topic, each.partition) == partition and (each.time or since) >= since
        ),
        faults=faults,
        decisions=decisions,
        registered=tuple(
            (timed.time, timed.event)
            for timed in decisions.events
            if isinstance(timed.event, events.BrokerRegistered)
        ),
        unregistered=_unregistered(decisions),
        controllers=tuple(
            (timed.time, timed.event.broker)
            for timed in decisions.events
            if isinstance(timed.event, events.ControllerElected)
        ),
        remote=view.remote,
    )


def _deleted_before(
    loaded: Loaded, finding: Finding, states: Sequence[tuple[float, events.PartitionState]]
) -> events.TopicDeletion | None:
    """Return the last deletion of the topic's name before the finding's topic was created.

    A finding about an earlier snapshot is about the topic that there was then.
    """
    taken = {snapshot.label: snapshot.time for snapshot in loaded.evidence.snapshots}
    until = taken.get(finding.snapshot, float("inf"))
    made = [time for time, _state in states if time <= until]
    before = [
        deletion
        for deletion in loaded.evidence.deletions.get(finding.topic, ())
        if any(time > deletion.time for time in made)
    ]
    return before[-1] if before else None


def _unregistered(decisions: Decisions) -> Mapping[int, float]:
    ended: dict[int, float] = {}
    for timed in decisions.events:
        if isinstance(timed.event, events.BrokerUnregistered):
            ended[timed.event.broker] = timed.time
        elif isinstance(timed.event, events.BrokerRegistered):
            ended.pop(timed.event.broker, None)
    return ended


def worst_of(loaded: Loaded) -> Finding | None:
    """Return the safety finding that the report begins with, or None."""
    unsafe = [each for each in loaded.findings if each.question is Question.SAFETY]
    return worst_first(unsafe)[0] if unsafe else None


def own_term(done: Operation, story: Story) -> Term | None:
    """Return the last leader epoch that the operation's broker led until the operation ended."""
    ended = done.ended_at or done.invoked_at
    own = [term for term in story.terms if term.leader == done.broker and term.time <= ended]
    return own[-1] if own else None


def batches_of(replica: ReplicaView) -> tuple[Batch, ...]:
    """Return the replica's batches on disk; none without a directory."""
    return () if replica.on_disk is None else replica.on_disk.batches
