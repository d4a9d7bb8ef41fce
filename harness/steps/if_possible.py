"""Steps for schedules whose writer cannot know what the cluster will be like when they are played.

`IfPossible` tries a step, and the gates here ask for what the cluster can still do, whatever is
dead, cut off or held at that moment.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kchaos.checkers.acts import TopicPartition
from kchaos.clusters.client import NoAnswer, NotSent
from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.waiting import await_until
from kchaos.faults.errors import FaultError
from kchaos.harness.errors import NotPossible
from kchaos.harness.gates import gates
from kchaos.harness.gates.able import able_brokers, able_followers, may_keep_back
from kchaos.harness.gates.replication import fetcher_failure
from kchaos.harness.play.play import Play

POSSIBLE_S = 15.0
"""How long a gate of this module waits unless it says otherwise, in seconds."""
NOT_NOW = (AwaitTimeout, NoAnswer, NotSent, FaultError, NotPossible)
"""What says that a step could not be done, or that its gate did not hold in time."""


class Performed(Protocol):
    """Any step."""

    def perform(self, play: Play) -> None:
        """Does it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IfPossible:
    """A step that may turn out to be impossible, or whose gate may never hold.

    That is an observation ("not-possible", with the reason and the seconds it took), and the
    scenario goes on. A broker that ends by itself, or a produce of which nobody can say in which
    leader epoch it was appended, still makes the run unknown.

    Attributes:
        do: The step.
    """

    do: Performed

    def perform(self, play: Play) -> None:
        """Performs the step, or says why it could not be performed."""
        started = time.monotonic()
        try:
            self.do.perform(play)
        except NOT_NOW as error:
            seconds = round(time.monotonic() - started, 3)
            name = type(self.do).__name__
            play.observed("not-possible", name=name, reason=str(error), seconds=seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitLeader:
    """Every partition has an able leader that has heard of it, or cannot have one.

    A leader that a cut or a hold may keep from the controller need not have heard of it, nor one
    that a former controller elected behind the present one's back. There cannot be one while the
    session of a leader that is not able lives, while no broker of its ISR is able (where unclean
    elections are allowed: none of its replicas), or while the controller is not able and its
    session lives.
    """

    timeout_s: float = POSSIBLE_S

    def perform(self, play: Play) -> None:
        """Returns once it is so; AwaitTimeout otherwise."""
        _await(play, "every partition to have a leader, or no way to one", self.timeout_s, _leader)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitInSync:
    """Every broker that can register has; every replica able to follow is in the partition's ISR.

    A replica whose fetcher has died, or that a cut or a hold may keep from the leader or the
    controller, is not able.
    """

    timeout_s: float = POSSIBLE_S

    def perform(self, play: Play) -> None:
        """Returns once it is so; AwaitTimeout otherwise."""
        _await(play, "every able replica to be in the ISR", self.timeout_s, _in_sync)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitLevel:
    """Every follower that is able to follow ends where its leader ends, on disk."""

    timeout_s: float = POSSIBLE_S

    def perform(self, play: Play) -> None:
        """Returns once it is so; AwaitTimeout otherwise."""
        _await(play, "every able follower to end where the leader ends", self.timeout_s, _level)


Lacks = Callable[["_Scene"], Iterator[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scene:
    """One partition at one moment, and who is able."""

    play: Play
    about: TopicPartition
    state: LeaderAndIsr
    replicas: Sequence[int]
    registered: frozenset[int]
    able: set[int]
    controller: int | None

    @property
    def name(self) -> str:
        return f"{self.about.topic}-{self.about.partition}"

    @property
    def leader(self) -> int:
        return self.state.leader

    @property
    def candidates(self) -> list[int]:
        """Able brokers that the controller may elect."""
        unclean = any(
            broker.properties.get("unclean.leader.election.enable") == "true"
            for broker in self.play.cluster.brokers.values()
        )
        among = self.replicas if unclean else self.state.isr
        return [broker for broker in among if broker in self.able]

    @property
    def is_news_to_controller(self) -> bool:
        """Whether a former controller wrote the state, and the present one does not know of it."""
        found = self.controller
        return found is not None and gates.is_news_to_controller(
            self.play, self.about, self.state, found
        )

    def followers(self) -> list[int]:
        """Able followers of an able leader that heard of it and whose fetchers live."""
        if self.leader not in self.able or self.is_kept_from_controller(self.leader):
            return []
        if self.is_news_to_controller:
            return []
        return [
            broker
            for broker in able_followers(self.play, self.replicas, self.leader, self.able)
            if not self.is_kept_from_controller(broker)
            and not fetcher_failure(self.play, broker, self.leader, self.about)
        ]

    def is_kept_from_controller(self, broker: int) -> bool:
        """Either way: what the controller decides, and what a leader asks of it."""
        other = self.controller
        return other is None or any(
            may_keep_back(self.play, *ends) for ends in ((other, broker), (broker, other))
        )


def _leader(scene: _Scene) -> Iterator[str]:
    if scene.leader in scene.able:
        if scene.is_kept_from_controller(scene.leader) or scene.is_news_to_controller:
            return
        if not gates.is_delivered(scene.play, scene.about, scene.leader, scene.state):
            yield f"broker {scene.leader} has not heard that it leads {scene.name}"
    elif scene.leader not in scene.registered and scene.candidates:
        yield f"{scene.name} has leader {scene.leader}, and could have one of {scene.candidates}"


def _in_sync(scene: _Scene) -> Iterator[str]:
    yield from _leader(scene)
    missing = [broker for broker in scene.followers() if broker not in scene.state.isr]
    if missing:
        yield f"{missing} are not in the ISR of {scene.name}: {scene.state}"


def _level(scene: _Scene) -> Iterator[str]:
    yield from _leader(scene)
    followers = scene.followers()
    if followers:
        end = gates.last_offset(scene.play, scene.leader, scene.about)
        for broker in followers:
            own = gates.last_offset(scene.play, broker, scene.about)
            if own != end:
                ends = f"{own + 1} on broker {broker}, at {end + 1} on the leader"
                yield f"{scene.name} ends at {ends}"


def _await(play: Play, what: str, timeout_s: float, lacks: Lacks) -> None:
    lacking: list[str] = []

    def holds() -> bool:
        lacking[:] = _unregistered(play) if lacks is _in_sync else []
        lacking.extend(one for scene in _scenes(play) for one in lacks(scene))
        return not lacking

    await_until(
        holds,
        timeout_s=timeout_s,
        waiting_for=what,
        last_seen=lambda: "; ".join(lacking),
        remedy="see the fetchers' and the controller's lines in brokers/N/server.log",
        abort=gates.no_exit(play),
    )


def _unregistered(play: Play) -> list[str]:
    """Brokers that run and reach ZooKeeper, and whose session has not come back yet."""
    missing = sorted(able_brokers(play, play.cluster.brokers) - play.cluster.metadata.registered())
    return [f"{missing} run, and are not registered"] if missing else []


def _scenes(play: Play) -> Iterator[_Scene]:
    metadata = play.cluster.metadata
    registered = metadata.registered()
    able = able_brokers(play, registered)
    elected = metadata.controller()
    if elected is not None and elected not in able:
        # Nobody decides anything until its session ends.
        return
    for topic in metadata.topics():
        for partition, replicas in metadata.assignment(topic).items():
            state = metadata.state(topic, partition)
            if state is not None:
                yield _Scene(
                    play=play,
                    about=TopicPartition(topic, partition),
                    state=state,
                    replicas=replicas,
                    registered=registered,
                    able=able,
                    controller=elected,
                )
