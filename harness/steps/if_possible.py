"""Steps for schedules whose writer cannot know what the cluster will be like when they are played.

`IfPossible` tries a step, and the gates here ask for what the cluster can still do, whatever is
dead, cut off or held at that moment.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from kchaos.checkers import observations
from kchaos.clusters.errors import AwaitTimeout, MetadataRefused, MetadataUnavailable
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.errors import FaultError
from kchaos.harness.errors import NotPossible, ScenarioError
from kchaos.harness.gates import gates
from kchaos.harness.gates.cluster_look import ClusterLook, PartitionLook, look_at
from kchaos.harness.play.play import Play

POSSIBLE_S = 15.0
"""Seconds that a gate of this module waits unless it says otherwise."""
NOT_NOW = (
    *(AwaitTimeout, NoAnswer, NotSent, FaultError, NotPossible),
    *(MetadataRefused, MetadataUnavailable),
)
"""Errors of a step that could not be done, or whose gate did not hold in time."""


class Performed(Protocol):
    """Any step."""

    def perform(self, play: Play) -> None:
        """Perform the step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IfPossible:
    """A step that may turn out to be impossible, or whose gate may never hold.

    That is an observation ("not-possible", with the reason and the seconds it took), and the
    scenario goes on. A broker that ends by itself still makes the run unknown. So does a produce
    of which nobody can say in which leader epoch it was appended.

    Attributes:
        do: The step; no other `IfPossible`.
    """

    do: Performed

    def __post_init__(self) -> None:
        """Refuse an inner one, since readers of steps look one level deep.

        Raises:
            ScenarioError: There is one.
        """
        if isinstance(self.do, IfPossible):
            raise ScenarioError("an IfPossible within an IfPossible: leave one of them out")

    def perform(self, play: Play) -> None:
        """Perform the step, or record why it is not possible."""
        started = time.monotonic()
        play.why_not = ""
        try:
            self.do.perform(play)
        except NOT_NOW as error:
            play.why_not = str(error)
            seconds = round(time.monotonic() - started, 3)
            name = type(self.do).__name__
            play.observed(
                observations.StepNotPossible(name=name, reason=str(error), seconds=seconds)
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitLeader:
    """Every partition has an able leader that has heard of it, or cannot have one.

    A leader that a cut or a hold may keep from the controller need not have heard of it. Neither
    need one that a former controller elected behind the present one's back. There cannot be a
    leader in three cases: the session of a leader that is not able lives; no broker of the ISR is
    able (where unclean elections are allowed: none of the replicas); or the controller is not able
    and its session lives.
    """

    timeout_s: float = POSSIBLE_S

    def perform(self, play: Play) -> None:
        """Wait until it is so, or raise AwaitTimeout."""
        _await(play, "every partition to have a leader, or no way to one", self.timeout_s, _leader)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitInSync:
    """Every broker that can register has; every replica able to follow is in the partition's ISR.

    A replica whose fetcher has died, or that a cut or a hold may keep from the leader or the
    controller, is not able.
    """

    timeout_s: float = POSSIBLE_S

    def perform(self, play: Play) -> None:
        """Wait until it is so, or raise AwaitTimeout."""
        _await(play, "every able replica to be in the ISR", self.timeout_s, _in_sync)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitLevel:
    """Every follower that is able to follow ends where its leader ends, on disk."""

    timeout_s: float = POSSIBLE_S

    def perform(self, play: Play) -> None:
        """Wait until it is so, or raise AwaitTimeout."""
        _await(play, "every able follower to end where the leader ends", self.timeout_s, _level)


Lacks = Callable[[PartitionLook], Iterator[str]]


def _candidates(partition: PartitionLook) -> list[int]:
    """Return the able brokers that the controller may elect."""
    look = partition.cluster
    unclean = any(
        broker.properties.get("unclean.leader.election.enable") == "true"
        for broker in look.play.cluster.brokers.values()
    )
    among = partition.replicas if unclean else partition.state.isr
    return [broker for broker in among if broker in look.able]


def _is_kept_from_controller(look: ClusterLook, broker: int) -> bool:
    """Return whether the controller's decisions or the leader's requests are held."""
    other = look.controller
    return other is None or look.keeps_back(other, broker) or look.keeps_back(broker, other)


def _followers(partition: PartitionLook) -> list[int]:
    """Return able followers with running fetchers of an able, informed leader."""
    look, leader = partition.cluster, partition.leader
    if leader not in look.able or _is_kept_from_controller(look, leader):
        return []
    if partition.is_news_to_controller:
        return []
    return [
        broker
        for broker in partition.replicas
        if broker in look.able
        and broker != leader
        and not look.keeps_back(broker, leader)
        and not _is_kept_from_controller(look, broker)
        and not partition.failure(broker)
    ]


def _leader(partition: PartitionLook) -> Iterator[str]:
    look, leader = partition.cluster, partition.leader
    if leader in look.able:
        if _is_kept_from_controller(look, leader) or partition.is_news_to_controller:
            return
        if not partition.has_heard(leader):
            yield f"broker {leader} has not heard that it leads {partition.name}"
    elif leader not in look.registered and (candidates := _candidates(partition)):
        yield f"{partition.name} has leader {leader}, and could have one of {candidates}"


def _in_sync(partition: PartitionLook) -> Iterator[str]:
    yield from _leader(partition)
    missing = [broker for broker in _followers(partition) if broker not in partition.state.isr]
    if missing:
        yield f"{missing} are not in the ISR of {partition.name}: {partition.state}"


def _level(partition: PartitionLook) -> Iterator[str]:
    yield from _leader(partition)
    yield from partition.uneven(_followers(partition))


def _await(play: Play, what: str, timeout_s: float, lacks: Lacks) -> None:
    lacking: list[str] = []

    def holds() -> bool:
        with play.cluster.metadata.one_look():
            return not look_again()

    def look_again() -> list[str]:
        look = look_at(play)
        lacking[:] = _unregistered(look) if lacks is _in_sync else []
        if look.will_elect_controller:
            lacking.append(f"controller {look.controller} cannot decide, and another one can lead")
        # Nobody decides anything while the controller cannot: until its session ends, or until a
        # quorum has another leader.
        if look.controller is None or look.can_decide:
            lacking.extend(lack for partition in look.partitions() for lack in lacks(partition))
        return lacking

    await_until(
        holds,
        timeout_s=timeout_s,
        waiting_for=what,
        last_seen=lambda: "; ".join(lacking),
        remedy="see the fetchers' and the controller's lines in brokers/N/server.log",
        abort=gates.no_exit(play),
    )


def _unregistered(look: ClusterLook) -> list[str]:
    """Return brokers that run and reach ZooKeeper or the controller, and are yet to register.

    A live broker that was unregistered (KRaft) never comes back.
    """
    metadata = look.play.cluster.metadata
    missing = sorted(
        broker
        for broker in look.answering - look.registered
        if not look.is_off_metadata(broker) and not metadata.is_forgotten(broker)
    )
    return [f"{missing} run, and are not registered"] if missing else []
