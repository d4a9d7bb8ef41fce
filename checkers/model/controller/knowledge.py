"""Knowledge of a controller when it decided, as far as a run tells of it.

Read from kafka.controller.KafkaController (onControllerFailover, onBrokerFailure),
PartitionStateMachine and ControlledShutdownLeaderSelector, 0.10.2.2, 1.1.1, 2.8.2 and 3.6.2.

What a controller knows of a broker lags behind ZooKeeper, by as long as it likes:

- a broker that was registered when the controller began and has been ever since is one that it
  knows; one that came or returned later it may not know yet;
- a broker that was away before the controller began is one that it does not know to live; of one
  that went away later it may not have heard, unless it has written since that the broker is out;
- an answer of a broker whose log directory failed may wait while the controller is elected again;
- a former controller may still write, with its own controller epoch;
- a broker that was told to stop in order is out for the controller while its process still runs.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.controller.decisions import ControllerContext, IsrOfPreferred, IsrWithout
from kchaos.checkers.model.state.world import own_unclean_election
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    Decided,
    PartitionState,
    TopicConfigured,
    TopicCreated,
    TopicDeletion,
)

Replicas = tuple[int, ...]
"""Brokers that hold a partition, the preferred one first."""
CLOCKS_S = 0.05
"""Seconds by which times of ZooKeeper and of acts may be apart."""


class ControllerRelease(NamedTuple):
    """Rules of a release about controllers; each is of `Generation`."""

    isr_without: IsrWithout
    isr_of_preferred: IsrOfPreferred
    elects_all_again: bool
    removes_offline_at_start: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDecisions:
    """All decisions of a run, and what else bears on those who wrote them. Times are in seconds.

    Attributes:
        decided: In the order of ZooKeeper's log, internal topics included.
        epochs: Controller epoch to the broker that took it and the zxid at which it did.
        clean_stops: Broker to the times at which it was told to stop in order.
        offline: From when until when the log directory of a replica had failed, at most.
        lag_s: The shortest replica.lag.time.max.ms of the brokers.
        has_alter_isr: Whether some leader may ask the controller to change its ISR (KIP-497).
        releases: What controllers of the brokers' releases do; empty where no release is known.
        wanted: From which zxid on a partition may be moving, and to which replicas.
        deletions: By topic, in zxid order.
        asked_unclean: Partitions of which a client may have asked for an unclean election, whatever
            the settings say (KIP-460); None for any.
        unclean_of_brokers: What unclean.leader.election.enable may be for a topic without its own.
    """

    decided: tuple[Decided, ...]
    epochs: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    clean_stops: Mapping[int, Sequence[float]] = field(default_factory=dict)
    offline: Mapping[tuple[TopicPartition, int], Sequence[tuple[float, float]]] = field(
        default_factory=dict
    )
    lag_s: float = 0.0
    has_alter_isr: bool = True
    releases: frozenset[ControllerRelease] = frozenset()
    wanted: Mapping[TopicPartition, Sequence[tuple[int, tuple[Replicas, ...]]]] = field(
        default_factory=dict
    )
    deletions: Mapping[str, Sequence[TopicDeletion]] = field(default_factory=dict)
    asked_unclean: frozenset[TopicPartition] | None = frozenset()
    unclean_of_brokers: frozenset[bool] = frozenset()

    def wanted_at(self, partition: TopicPartition, zxid: int) -> tuple[Replicas, ...]:
        """Return the replicas to which the partition may be moving just before a zxid."""
        since = [wanted for begun, wanted in self.wanted.get(partition, ()) if begun < zxid]
        return since[-1] if since else ()

    def has_failed(self, partition: TopicPartition, broker: int, time: float) -> bool:
        """Return whether a log directory with the partition has failed by then, restored or not."""
        return any(since <= time for since, _ in self.offline.get((partition, broker), ()))

    def is_offline(self, partition: TopicPartition, broker: int, time: float) -> bool:
        """Return whether the broker's log directory of the partition may have failed just then."""
        periods = self.offline.get((partition, broker), ())
        return any(since <= time <= until for since, until in periods)

    def has_asked_to_stop(self, broker: int, time: float) -> bool:
        """Return whether the broker may have asked the controller to let it shut down by then."""
        return any(stopped <= time for stopped in self.clean_stops.get(broker, ()))

    def is_being_deleted(self, state: PartitionState) -> bool:
        """Return whether the topic's deletion was pending when the state was written."""
        return any(
            deletion.asked < state.zxid
            and (state.zxid <= deletion.zxid or deletion.time == math.inf)
            for deletion in self.deletions.get(state.topic, ())
        )


@dataclass(slots=True)
class ControllerKnowledge:
    """Knowledge of the present controller, and of the former one, at one zxid.

    Attributes:
        recorded: All decisions of the run, and what bears on their writers.
        registered: Broker to the zxid of its registration.
        ever: Brokers that were registered at any time.
        known_dead: Brokers that the present controller knows to be away.
        known_live: Broker to the registration of which the present controller surely knows.
        former_live: The same of the controller before it, which may still write what it decided.
        began: The zxid at which the present controller was elected.
        away_at_start: Brokers that were away then, and have not been there since.
        to_remove: By partition and broker, members of ISRs that were away when the present
            controller was elected, and that nobody has taken out since.
        assigned: The replicas of each partition, the preferred one first.
        states: The last state of each partition.
        earlier: The state of each partition before its last one.
        changed: When a leader last changed the ISR of each partition, or may have: a zxid.
        unclean: From which zxid on a topic has which setting of its own; None for none.
        followed_since: By partition and broker, since when its leader has surely taken it for
            caught up: since the leader's term began. One that joins later may be behind the
            leader's log end when it does, since it need only reach the high watermark.
    """

    recorded: RecordedDecisions
    registered: dict[int, int] = field(default_factory=dict)
    ever: set[int] = field(default_factory=set)
    known_dead: set[int] = field(default_factory=set)
    known_live: dict[int, int] = field(default_factory=dict)
    former_live: dict[int, int] = field(default_factory=dict)
    began: int = -1
    away_at_start: set[int] = field(default_factory=set)
    to_remove: set[tuple[TopicPartition, int]] = field(default_factory=set)
    assigned: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    earlier: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    changed: dict[TopicPartition, int] = field(default_factory=dict)
    unclean: dict[str, list[tuple[int, bool | None]]] = field(default_factory=dict)
    followed_since: dict[tuple[TopicPartition, int], float] = field(default_factory=dict)

    def learn(self, decided: Decided) -> None:
        """Take in what was written next."""
        event, zxid = decided.what, decided.what.zxid
        match event:
            case PartitionState():
                self._note(event, decided.time)
            case BrokerRegistered(broker=broker):
                self.registered[broker] = zxid
                self.ever.add(broker)
                self.known_dead.discard(broker)
                self.away_at_start.discard(broker)
                self.to_remove = {each for each in self.to_remove if each[1] != broker}
            case BrokerUnregistered():
                self.registered.pop(event.broker, None)
            case ControllerElected():
                self._begin(zxid)
            case TopicCreated():
                self._assign(event)
            case TopicConfigured():
                setting = own_unclean_election(event.configuration)
                self.unclean.setdefault(event.topic, []).append((zxid, setting))

    def _begin(self, zxid: int) -> None:
        """Let a new controller be elected, which reads who is registered."""
        self.former_live, self.began = self.known_live, zxid
        self.known_live = dict(self.registered)
        self.known_dead = self.ever - self.registered.keys()
        self.away_at_start = set(self.known_dead)
        self.to_remove = {
            (partition, broker)
            for partition, state in self.states.items()
            for broker in self.away_at_start.intersection(state.isr)
            if broker in self.assigned.get(partition, ())
        }

    def _assign(self, created: TopicCreated) -> None:
        deletions = self.recorded.deletions.get(created.topic, ())
        for number, replicas in enumerate(created.assignment):
            partition = TopicPartition(created.topic, number)
            self.assigned[partition] = replicas
            self._keep_to_remove(partition, replicas)
            state = self.states.get(partition)
            if state is not None and any(
                state.zxid < deletion.zxid < created.zxid for deletion in deletions
            ):
                del self.states[partition]
                self._keep_to_remove(partition, ())
                self.earlier.pop(partition, None)

    def _note(self, new: PartitionState, time: float) -> None:
        partition = TopicPartition(new.topic, new.partition)
        old = self.states.get(partition)
        is_new_term = old is None or old.leader_epoch != new.leader_epoch
        if not is_new_term or self.recorded.is_being_deleted(new):
            # A leader may have written it while its topic is deleted.
            self.changed[partition] = new.zxid
        self.states[partition] = new
        self._keep_to_remove(partition, new.isr)
        if old is not None:
            self.earlier[partition] = old
        if is_new_term:
            self.followed_since.update({(partition, broker): time for broker in new.isr})
        gone = [key for key in self.followed_since if key[0] == partition and key[1] not in new.isr]
        for key in gone:
            del self.followed_since[key]
        if not self.is_former(new.controller_epoch):
            self._note_brokers(partition, old, new)

    def _note_brokers(
        self, partition: TopicPartition, old: PartitionState | None, new: PartitionState
    ) -> None:
        """Note of which brokers the present controller knows that they live, or that they do not.

        Who leaves an ISR because its topic is deleted, or its partition moves, may be there.
        """
        elected = new.isr if old is None else (new.leader,) if old.leader != new.leader else ()
        self.known_live |= {
            broker: self.registered[broker] for broker in elected if broker in self.registered
        }
        leaves_for_others = self.recorded.is_being_deleted(new) or self.recorded.wanted_at(
            partition, new.zxid
        )
        if old is not None and old.leader_epoch != new.leader_epoch and not leaves_for_others:
            out = (set(old.isr) | {old.leader}) - set(new.isr) - {new.leader}
            self.known_dead |= {broker for broker in out if broker not in self.registered}

    def _keep_to_remove(self, partition: TopicPartition, brokers: Collection[int]) -> None:
        """Let nobody else be left to be taken out of a partition's ISR."""
        self.to_remove = {
            (other, broker)
            for other, broker in self.to_remove
            if other != partition or broker in brokers
        }

    def is_former(self, controller_epoch: int) -> bool:
        """Return whether another controller was elected after this epoch was taken."""
        _, taken = self.recorded.epochs.get(controller_epoch, (-1, self.began))
        return taken < self.began

    def surely_live(self, new: PartitionState, time: float) -> set[int]:
        """Return the brokers that the controller of a new state must take for alive.

        The log directory with the partition works, and none of them has asked to shut down.
        """
        partition = TopicPartition(new.topic, new.partition)
        known = self.former_live if self.is_former(new.controller_epoch) else self.known_live
        return {
            broker
            for broker, registered in self.registered.items()
            if known.get(broker) == registered
            and not self.recorded.is_offline(partition, broker, time)
            and not self.recorded.has_asked_to_stop(broker, time)
        }

    def contexts(
        self, new: PartitionState, time: float, surely_live: Collection[int]
    ) -> Iterator[ControllerContext]:
        """Yield all that the controller of a new state may have known, as `explain` takes it.

        There is a context for each release and each setting that it may have had.

        Args:
            new: Of a partition that is assigned.
            time: When it was written.
            surely_live: Brokers that it must have taken for alive.

        Raises:
            KeyError: The partition is not assigned.
        """
        partition = TopicPartition(new.topic, new.partition)
        assignment, old = self.assigned[partition], self.states.get(partition)
        before = () if old is None else old.isr
        brokers = {*assignment, *before, *new.isr, *self.registered}
        is_former = self.is_former(new.controller_epoch)
        known_dead = set() if is_former else self.known_dead - self.registered.keys()
        away_at_start = frozenset(
            broker
            for broker in (() if is_former else self.away_at_start)
            if not self.recorded.has_failed(partition, broker, time)
        )
        asked = [
            each
            for each in self.recorded.clean_stops
            if self.recorded.has_asked_to_stop(each, time)
        ]
        may_elect_again = self._may_elect_again(partition, new)
        for release in self.recorded.releases:
            for is_unclean in sorted(self._may_be_unclean(partition, new)):
                yield ControllerContext(
                    assignment=assignment,
                    live=frozenset((brokers & self.ever) - known_dead),
                    shutting_down=frozenset(asked),
                    was_away=frozenset(brokers - {*surely_live}),
                    is_unclean=is_unclean,
                    is_deleting=self.recorded.is_being_deleted(new),
                    elects_again=release.elects_all_again and may_elect_again,
                    away_at_start=away_at_start,
                    removes_offline_at_start=release.removes_offline_at_start,
                    isr_without=release.isr_without,
                    isr_of_preferred=release.isr_of_preferred,
                )

    def _may_be_unclean(self, partition: TopicPartition, new: PartitionState) -> set[bool]:
        """Return what unclean.leader.election.enable may have been since the state before.

        An election reads the state before, and then the topic's settings (PartitionLeaderSelector,
        0.10.2.2, and PartitionStateMachine.doElectLeaderForPartitions, 1.1.1 and 3.6.2).
        """
        asked = self.recorded.asked_unclean
        if asked is None or partition in asked:
            return {False, True}
        old = self.states.get(partition)
        since = -1 if old is None else old.zxid
        written = [each for each in self.unclean.get(new.topic, ()) if each[0] < new.zxid]
        before = [setting for zxid, setting in written if zxid <= since][-1:] or [None]
        settings = {*before, *(setting for zxid, setting in written if zxid > since)}
        return {
            value
            for setting in settings
            for value in (self.recorded.unclean_of_brokers if setting is None else (setting,))
        }

    def _may_elect_again(self, partition: TopicPartition, new: PartitionState) -> bool:
        """Return whether the same controller has just elected, and may have been refused elsewhere.

        ZooKeeper refuses to write another partition whose leader changed its ISR after it was read.
        What was then read of this partition is its state before that election.
        """
        last, earlier = self.states.get(partition), self.earlier.get(partition)
        if last is None or earlier is None or last.leader_epoch == earlier.leader_epoch:
            return False
        return last.controller_epoch == new.controller_epoch and any(
            other != partition and zxid > earlier.zxid for other, zxid in self.changed.items()
        )
