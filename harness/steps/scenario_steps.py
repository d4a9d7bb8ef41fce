"""Steps: frozen values, each with a real side, a gate and, through the journal, model actions.

A step is performed on the cluster and returns when its gate holds; what it does is written down
as the model's actions while it is done. Every step has a JSON form: its class name under "step",
its fields beside it, a fault inside it under "fault".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.faults.api import Fault
from kchaos.faults.configuration.configure_topic import refused_by_brokers
from kchaos.harness.errors import ScenarioError
from kchaos.harness.gates import gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.gates.quiet import await_quiet, await_quiet_without_links
from kchaos.harness.play.collect import take_snapshot
from kchaos.harness.play.play import Play
from kchaos.harness.steps.admin import AddPartitions as AddPartitions
from kchaos.harness.steps.admin import CancelReassignment as CancelReassignment
from kchaos.harness.steps.admin import ElectUncleanly as ElectUncleanly
from kchaos.harness.steps.admin import MoveReplica as MoveReplica
from kchaos.harness.steps.admin import Reassign as Reassign
from kchaos.harness.steps.admin import ReorderReplicas as ReorderReplicas
from kchaos.harness.steps.admin import await_created
from kchaos.harness.steps.asking import AskAs as AskAs
from kchaos.harness.steps.asking import ConsumeFrom as ConsumeFrom
from kchaos.harness.steps.cleaning import AwaitCleaned as AwaitCleaned
from kchaos.harness.steps.clients import AwaitAnswer as AwaitAnswer
from kchaos.harness.steps.clients import Produce as Produce
from kchaos.harness.steps.clients import Read as Read
from kchaos.harness.steps.clients import WriteUntil as WriteUntil
from kchaos.harness.steps.free_clients import LetClientsRun as LetClientsRun
from kchaos.harness.steps.free_clients import StartClients as StartClients
from kchaos.harness.steps.free_clients import StartWorkload as StartWorkload
from kchaos.harness.steps.free_clients import StopClients as StopClients
from kchaos.harness.steps.if_possible import AwaitInSync as AwaitInSync
from kchaos.harness.steps.if_possible import AwaitLeader as AwaitLeader
from kchaos.harness.steps.if_possible import AwaitLevel as AwaitLevel
from kchaos.harness.steps.if_possible import IfPossible as IfPossible
from kchaos.harness.steps.log_start import AwaitLogStart as AwaitLogStart
from kchaos.harness.steps.log_start import DeleteRecords as DeleteRecords
from kchaos.harness.steps.metadata import WriteWhereTold as WriteWhereTold
from kchaos.harness.steps.migration import AwaitMigration as AwaitMigration
from kchaos.harness.steps.migration import DeprovisionControllers as DeprovisionControllers
from kchaos.harness.steps.migration import ProvisionControllers as ProvisionControllers
from kchaos.harness.steps.observing import AwaitDecision as AwaitDecision
from kchaos.harness.steps.observing import AwaitFetches as AwaitFetches
from kchaos.harness.steps.observing import (
    AwaitHighWatermarkForgotten as AwaitHighWatermarkForgotten,
)
from kchaos.harness.steps.observing import AwaitHighWatermarkKept as AwaitHighWatermarkKept
from kchaos.harness.steps.observing import AwaitLog as AwaitLog
from kchaos.harness.steps.observing import AwaitMessage as AwaitMessage
from kchaos.harness.steps.observing import AwaitMetadataRead as AwaitMetadataRead
from kchaos.harness.steps.observing import AwaitMetadataSnapshots as AwaitMetadataSnapshots
from kchaos.harness.steps.observing import AwaitPoint as AwaitPoint
from kchaos.harness.steps.observing import AwaitThrottled as AwaitThrottled
from kchaos.harness.steps.observing import SetLogLevel as SetLogLevel
from kchaos.harness.steps.raw_requests import FetchAs as FetchAs
from kchaos.harness.steps.tier import AwaitLocalStart as AwaitLocalStart
from kchaos.harness.steps.tier import AwaitOffsets as AwaitOffsets
from kchaos.harness.steps.tier import AwaitTiered as AwaitTiered
from kchaos.harness.steps.tier_reading import TierRead as TierRead
from kchaos.harness.steps.tier_reading import read_before
from kchaos.harness.steps.topics import DeleteTopic as DeleteTopic
from kchaos.harness.steps.transactions import LetTransactionTimeOut as LetTransactionTimeOut
from kchaos.harness.steps.transactions import WriteAcrossTimeout as WriteAcrossTimeout
from kchaos.harness.steps.transactions import WriteAfterAbort as WriteAfterAbort
from kchaos.harness.steps.transactions import WriteWhenTimedOut as WriteWhenTimedOut


class Step(Protocol):
    """One step; its class is a frozen dataclass."""

    def perform(self, play: Play) -> None:
        """Perform the step, and wait until its gate holds.

        Raises:
            AwaitTimeout: The gate did not hold in time.
            ClusterError, FaultError: It could not be done.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Tell:
    """Says in plain words what happens next. Nothing is done."""

    text: str

    def perform(self, play: Play) -> None:
        """Print the text."""
        play.say(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """A topic with a written assignment, as `kafka-topics --replica-assignment` makes it.

    Attributes:
        assignment: Replica ids per partition, preferred replica first.
        configuration: The topic's own configuration as (name, value).
    """

    topic: str
    assignment: tuple[tuple[int, ...], ...]
    configuration: tuple[tuple[str, str], ...] = ()
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Create the topic; wait until every live replica knows of it and fetches.

        Raises:
            ScenarioError: A broker does not know a setting; nothing was asked for.
        """
        refused = refused_by_brokers(play.cluster.brokers, dict(self.configuration))
        if refused:
            raise ScenarioError(f"topic {self.topic}: {refused}")
        play.cluster.metadata.create_topic(self.topic, self.assignment, dict(self.configuration))
        for partition, replicas in enumerate(self.assignment):
            await_created(play, TopicPartition(self.topic, partition), replicas, self.timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inject:
    """A fault, and the name under which it is healed; whatever still acts is healed at the end."""

    name: str
    fault: Fault

    def perform(self, play: Play) -> None:
        """Inject the fault; wait until its effect is observed.

        Before local or remote segments are let go of, tiered logs are read (`read_before`).
        """
        read_before(play, self.fault)
        play.faults.inject(self.name, self.fault)
        await_quiet_without_links(play)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heal:
    """Lifts the fault of that name."""

    name: str

    def perform(self, play: Play) -> None:
        """Heal the fault; wait until the recovery is observed, if there is anything to heal.

        Raises:
            NotPossible: No fault of that name acts, nor could one not be injected.
        """
        if self.name in play.faults.left_out:
            reason = f"the fault {self.name!r} could not be injected"
            play.observed(observations.StepNotPossible(name="Heal", reason=reason, seconds=0.0))
            return
        play.faults.heal(self.name)
        await_quiet_without_links(play)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitState:
    """The partition's leader, its ISR, or both, as the controller decided.

    When there is a leader and its process runs, the gate is also that it has heard of it.

    Attributes:
        leader_epoch: The least that it may be; None for any.
    """

    topic: str
    partition: int
    leader: int | None = None
    isr: tuple[int, ...] | None = None
    leader_epoch: int | None = None
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until the metadata agree."""
        partition = TopicPartition(self.topic, self.partition)
        state = gates.await_state(
            play,
            partition,
            leader=self.leader,
            isr=self.isr,
            leader_epoch=self.leader_epoch,
            timeout_s=self.timeout_s,
        )
        leader = play.cluster.brokers.get(state.leader)
        if leader is not None and leader.is_running:
            gates.await_delivered(play, partition, leader.id, state, timeout_s=self.timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitReplicated:
    """These brokers' logs end at an offset (exclusive), on disk."""

    topic: str
    partition: int
    brokers: tuple[int, ...]
    log_end_offset: int
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until every disk holds the records up to that offset."""
        partition = TopicPartition(self.topic, self.partition)
        gates.await_log_end(
            play, partition, self.brokers, self.log_end_offset, timeout_s=self.timeout_s
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitHighWatermark:
    """These brokers have checkpointed exactly this high watermark."""

    topic: str
    partition: int
    brokers: tuple[int, ...]
    high_watermark: int
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until every checkpoint file has it."""
        partition = TopicPartition(self.topic, self.partition)
        gates.await_high_watermark(
            play, partition, self.brokers, self.high_watermark, timeout_s=self.timeout_s
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitFollowing:
    """A replica has handled the LeaderAndIsr that makes it the leader's follower.

    Seen at the link: the controller's request that names the leader with the epoch that was
    decided, and the replica's answer to it.
    """

    topic: str
    partition: int
    follower: int
    leader: int
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until the response has passed."""
        partition = TopicPartition(self.topic, self.partition)
        state = gates.await_state(play, partition, leader=self.leader, timeout_s=self.timeout_s)
        gates.await_delivered(play, partition, self.follower, state, timeout_s=self.timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitCutOff:
    """A fetcher on one broker has asked another, and a cut has kept the request back."""

    source: int
    target: int
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until the link shows it."""
        gates.await_cut_off(play, self.source, self.target, timeout_s=self.timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitHeld:
    """A hold keeps back at least so many messages."""

    name: str
    count: int = 1
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until they are held."""
        gates.await_held(play, self.name, self.count, timeout_s=self.timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeSnapshot:
    """Every broker's partition directories are copied now, before anything else happens."""

    label: str

    def perform(self, play: Play) -> None:
        """Wait until live copies agree twice."""
        await_quiet_without_links(play, level=True)
        take_snapshot(play, self.label, is_final=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitQuiet:
    """The effects of the acts so far are over, as far as nothing keeps them back.

    Attributes:
        level: Also that every follower's log ends where its leader's does.
        untold: Brokers of which the model says that nobody tells their process anything, since the
            controller has missed their bounce (KIP-380). Nothing is awaited of them.
    """

    level: bool = False
    untold: tuple[int, ...] = ()

    def perform(self, play: Play) -> None:
        """Wait until the cluster is quiet; record an overdue activity as "not-quiet"."""
        await_quiet(play, level=self.level, uninformed=self.untold)


STEPS: Mapping[str, type[Any]] = {
    name: value
    for name, value in list(globals().items())
    if hasattr(value, "perform") and value is not Step
}
"""Every step that is defined or imported here, by its name, as scenario.json has it."""
