"""Decisions in ZooKeeper's log that no controller and no leader could have made then.

The model's own rules (`checkers.model.controller.allowed`) say which state may follow which. These
say who may write it, with which controller epoch, and how soon a leader may throw a follower out;
and some decision of the model's controller (`checkers.model.controller.decisions`) must be the one
that was written, by what that controller can have known of brokers and reassignments.

Read from kafka.controller.KafkaController (onControllerFailover, onBrokerFailure),
PartitionStateMachine, ControlledShutdownLeaderSelector and kafka.cluster.Partition
(maybeShrinkIsr), 0.10.2.2, 1.1.1, 2.8.2 and 3.6.2.

What a controller knows of a broker lags behind ZooKeeper, by as long as it likes. So each rule
names the honest races that it allows:

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
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kchaos.checkers.acts import (
    AskBrokerToStop,
    FailLogDirectory,
    RestoreLogDirectory,
    StaleRequest,
    StartBroker,
    StopBroker,
    TopicPartition,
)
from kchaos.checkers.errors import ModelError
from kchaos.checkers.evidence.given_settings import shortest_lag_s
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.evidence.zookeeper import (
    Replicas,
    TopicDeletion,
    controller_epochs,
    wanted_replicas,
)
from kchaos.checkers.findings import Finding
from kchaos.checkers.model.controller.decisions import (
    ControllerContext,
    IsrOfPreferred,
    IsrWithout,
    LeaderAndIsr,
    explain,
)
from kchaos.checkers.model.releases.composition import asks_controller_for_isr, generation_for
from kchaos.checkers.model.releases.rules.kip_537 import LAG
from kchaos.checkers.model.state.world import UNCLEAN, own_unclean_election
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerUnregistered,
    ControllerElected,
    PartitionState,
    TopicConfigured,
    TopicCreated,
)

_CLOCKS_S = 0.05


def impossible_decisions(evidence: RunEvidence) -> Iterator[Finding]:
    """Yields a finding for each partition state that its writer could not have written then.

    **Verifies**: that no ISR names a broker twice; that the controller epoch is one that was given
    out, never lower than before, and the writer's own where a controller wrote it; that elections
    are written by controllers, and other changes by a controller or by the leader; that a live
    follower is not thrown out sooner after the leader's term began than replica.lag.time.max.ms
    allows. And that a first state and a new leader epoch are what the model's controller decides by
    something that its writer can have known: so nobody is elected whom it knew to be away, and no
    leader is taken away and no member thrown out that it knew to live; a reassigned partition
    moves to the replicas that were asked for; and only after another partition's ISR was changed
    meanwhile is a partition elected again; and up to 2.2.2 nobody is thrown out without an election
    who was away already when the controller began. A replica whose log directory a fault made fail
    counts as away. Nobody from outside the ISR is elected where the topic's own setting, or that of
    all brokers, was against it ever since the state before. From 2.3.0 on no leader is chosen while
    an ISR has another member that was away already when the controller began.
    **Does not verify**: what only depends on how long a message takes; what a controller writes of
    a topic while it deletes it.
    """
    world = _World(
        epochs=controller_epochs(evidence.znode_changes),
        clean_stops=_clean_stops(evidence),
        offline=_offline(evidence),
        lag_s=shortest_lag_s(evidence),
        has_alter_isr=any(
            asks_controller_for_isr(start) is not False for start in _started(evidence)
        ),
        controllers=_controllers(evidence),
        wanted=wanted_replicas(evidence.znode_changes),
        deletions=evidence.deletions,
        is_open_to_others=evidence.is_open_to_others,
        unclean_of_brokers=_unclean_of_brokers(evidence),
    )
    for timed in evidence.decisions:
        event = timed.event
        if not isinstance(event, PartitionState):
            world.take(event, timed.zxid)
        elif world.is_being_deleted(event):
            # A leader may have written it, which makes a controller elect again.
            world.changed[TopicPartition(event.topic, event.partition)] = event.zxid
        else:
            yield from _findings(world, event, timed.time)
        world.ever |= set(world.registered)


class _Controller(NamedTuple):
    """What a controller of some release does; each is of `Generation`."""

    isr_without: IsrWithout
    isr_of_preferred: IsrOfPreferred
    elects_all_again: bool
    removes_offline_at_start: bool


@dataclass(slots=True)
class _World:
    """Knowledge of cluster and controller at one zxid.

    Attributes:
        epochs: Controller epoch to the broker that took it and the zxid at which it did.
        has_alter_isr: Whether some leader may ask the controller to change its ISR (KIP-497).
        clean_stops: Broker to the times at which it was told to stop in order.
        offline: From when until when the log directory of a replica had failed, at most.
        registered: Broker to the zxid of its registration.
        known_dead: Brokers that the present controller knows to be away.
        known_live: Broker to the registration of which the present controller surely knows.
        former_live: The same of the controller before it, which may still write what it decided.
        began: The zxid at which the present controller was elected.
        away_at_start: Brokers that were away then, and have not been there since.
        states: The last state of each partition, and when it was written.
        controllers: What controllers of the brokers' releases do.
        wanted: From which zxid on a partition may be moving, and to which replicas.
        deletions: Of topics.
        is_open_to_others: Whether somebody else was given the cluster's addresses.
        unclean_of_brokers: What unclean.leader.election.enable may be for a topic without its own.
        unclean: From which zxid on a topic has which setting of its own; None for none.
        to_remove: By partition and broker, members of ISRs that were away when the present
            controller was elected, and that nobody has taken out since.
        earlier: The state of each partition before its last one.
        changed: When a leader last changed the ISR of each partition, or may have: a zxid.
        followed_since: By partition and broker, since when its leader has surely taken it for
            caught up: since the leader's term began. One that joins later may be behind the
            leader's log end when it does, since it need only reach the high watermark.
    """

    epochs: Mapping[int, tuple[int, int]]
    clean_stops: Mapping[int, tuple[float, ...]]
    offline: Mapping[tuple[TopicPartition, int], list[tuple[float, float]]]
    lag_s: float
    has_alter_isr: bool
    controllers: frozenset[_Controller] = frozenset()
    wanted: Mapping[TopicPartition, Sequence[tuple[int, tuple[Replicas, ...]]]] = field(
        default_factory=dict
    )
    deletions: Mapping[str, Sequence[TopicDeletion]] = field(default_factory=dict)
    is_open_to_others: bool = False
    unclean_of_brokers: frozenset[bool] = frozenset()
    unclean: dict[str, list[tuple[int, bool | None]]] = field(default_factory=dict)
    to_remove: set[tuple[TopicPartition, int]] = field(default_factory=set)
    registered: dict[int, int] = field(default_factory=dict)
    ever: set[int] = field(default_factory=set)
    known_dead: set[int] = field(default_factory=set)
    known_live: dict[int, int] = field(default_factory=dict)
    former_live: dict[int, int] = field(default_factory=dict)
    began: int = -1
    away_at_start: set[int] = field(default_factory=set)
    assigned: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    earlier: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    changed: dict[TopicPartition, int] = field(default_factory=dict)
    followed_since: dict[tuple[TopicPartition, int], float] = field(default_factory=dict)

    def take(self, event: object, zxid: int) -> None:
        """Note an event other than a partition's state."""
        match event:
            case BrokerRegistered(broker=broker):
                self.registered[broker] = zxid
                self.known_dead.discard(broker)
                self.away_at_start.discard(broker)
                self.to_remove = {each for each in self.to_remove if each[1] != broker}
            case BrokerUnregistered():
                self.registered.pop(event.broker, None)
            case ControllerElected():
                self.begin(zxid)
            case TopicCreated(topic=topic):
                for number, replicas in enumerate(event.assignment):
                    partition = TopicPartition(topic, number)
                    self.assigned[partition] = replicas
                    self.keep_to_remove(partition, replicas)
                    if any(
                        partition in self.states
                        and self.states[partition].zxid < deletion.zxid < event.zxid
                        for deletion in self.deletions.get(topic, ())
                    ):
                        del self.states[partition]
                        self.earlier.pop(partition, None)
            case TopicConfigured():
                setting = own_unclean_election(event.configuration)
                self.unclean.setdefault(event.topic, []).append((zxid, setting))

    def begin(self, zxid: int) -> None:
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

    def keep_to_remove(self, partition: TopicPartition, brokers: Collection[int]) -> None:
        """Let nobody else be left to be taken out of a partition's ISR."""
        self.to_remove = {
            (other, broker)
            for other, broker in self.to_remove
            if other != partition or broker in brokers
        }

    def may_be_unclean(self, topic: str, since: int, until: int) -> set[bool]:
        """Return what unclean.leader.election.enable may have been between two zxids.

        An election reads the state before, and then the topic's settings (PartitionLeaderSelector,
        0.10.2.2, and PartitionStateMachine.doElectLeaderForPartitions, 1.1.1 and 3.6.2). A client
        of others may ask for an unclean election whatever they are (KIP-460).
        """
        if self.is_open_to_others:
            return {False, True}
        written = [each for each in self.unclean.get(topic, ()) if each[0] < until]
        before = [setting for zxid, setting in written if zxid <= since][-1:] or [None]
        settings = {*before, *(setting for zxid, setting in written if zxid > since)}
        return {
            value
            for setting in settings
            for value in (self.unclean_of_brokers if setting is None else (setting,))
        }

    def is_former(self, controller_epoch: int) -> bool:
        """Whether another controller was elected after this epoch was taken."""
        _, taken = self.epochs.get(controller_epoch, (-1, self.began))
        return taken < self.began

    def wanted_at(self, partition: TopicPartition, zxid: int) -> tuple[Replicas, ...]:
        """Return the replicas to which the partition may be moving just before a zxid."""
        since = [wanted for begun, wanted in self.wanted.get(partition, ()) if begun < zxid]
        return since[-1] if since else ()

    def may_elect_again(self, partition: TopicPartition, new: PartitionState) -> bool:
        """Tell whether the same controller has just elected, and may have been refused elsewhere.

        ZooKeeper refuses to write another partition whose leader changed its ISR after it was read.
        What was then read of this partition is its state before that election.
        """
        last, earlier = self.states.get(partition), self.earlier.get(partition)
        if last is None or earlier is None or last.leader_epoch == earlier.leader_epoch:
            return False
        return last.controller_epoch == new.controller_epoch and any(
            other != partition and zxid > earlier.zxid for other, zxid in self.changed.items()
        )

    def failed(self, partition: TopicPartition, time: float) -> set[int]:
        """Return the brokers whose log directory with the partition has failed by then."""
        return {
            broker
            for (failed, broker), periods in self.offline.items()
            if failed == partition and any(since <= time for since, _ in periods)
        }

    def is_being_deleted(self, state: PartitionState) -> bool:
        """Whether the topic was to be deleted when the state was written, and still there."""
        return any(
            deletion.asked < state.zxid
            and (state.zxid <= deletion.zxid or deletion.zxid == deletion.asked)
            for deletion in self.deletions.get(state.topic, ())
        )

    def is_known_live(
        self, partition: TopicPartition, broker: int, time: float, controller_epoch: int
    ) -> bool:
        """Whether the controller of that epoch must take the broker's replica for online."""
        if any(
            since <= time <= until for since, until in self.offline.get((partition, broker), ())
        ):
            return False
        if any(stopped <= time for stopped in self.clean_stops.get(broker, ())):
            return False
        registered = self.registered.get(broker)
        known = self.former_live if self.is_former(controller_epoch) else self.known_live
        return registered is not None and known.get(broker) == registered


def _findings(world: _World, new: PartitionState, time: float) -> Iterator[Finding]:
    partition = TopicPartition(new.topic, new.partition)
    old = world.states.get(partition)
    reasons = list(_reasons(world, partition, old, new, time))
    if not reasons and (old is None or new.leader_epoch > old.leader_epoch):
        reasons = list(_unexplained(world, partition, old, new, time))
    for reason in reasons:
        yield Finding(
            kind="decision-not-allowed",
            topic=new.topic,
            partition=new.partition,
            message=f"zxid {new.zxid}: {reason}",
            evidence={"zxid": new.zxid, "written_by": new.written_by, "isr": list(new.isr)},
        )
    world.states[partition] = new
    world.keep_to_remove(partition, new.isr)
    is_new_term = old is None or old.leader_epoch != new.leader_epoch
    if old is not None:
        world.earlier[partition] = old
    if not is_new_term:
        world.changed[partition] = new.zxid
    if is_new_term:
        world.followed_since.update({(partition, broker): time for broker in new.isr})
    for key in [
        key for key in world.followed_since if key[0] == partition and key[1] not in new.isr
    ]:
        del world.followed_since[key]
    elected = new.isr if old is None else (new.leader,) if old.leader != new.leader else ()
    known = [broker for broker in elected if broker in world.registered]
    world.known_live.update({broker: world.registered[broker] for broker in known})
    if old is not None and is_new_term:
        out = (set(old.isr) | {old.leader}) - set(new.isr) - {new.leader}
        world.known_dead |= {broker for broker in out if broker not in world.registered}


def _reasons(
    world: _World,
    partition: TopicPartition,
    old: PartitionState | None,
    new: PartitionState,
    time: float,
) -> Iterator[str]:
    if len(set(new.isr)) != len(new.isr):
        yield f"ISR {list(new.isr)} names a broker twice"
    if old is not None and replace(old, zxid=0, version=0) == replace(new, zxid=0, version=0):
        yield "it writes what was there before"
    yield from _of_writer(world, old, new)
    if new.leader >= 0 and (old is None or old.leader != new.leader):
        yield from _of_those_left(world, new)
    if old is not None and old.leader_epoch == new.leader_epoch:
        yield from _of_those_thrown_out(world, partition, old, new, time)


def _unexplained(
    world: _World,
    partition: TopicPartition,
    old: PartitionState | None,
    new: PartitionState,
    time: float,
) -> Iterator[str]:
    """Yields a sentence where no controller decides so, whatever it may have known."""
    assignment = world.assigned.get(partition)
    if assignment is None or not world.controllers:
        return
    before = () if old is None else old.isr
    brokers = {*assignment, *before, *new.isr, *world.registered}
    is_former = world.is_former(new.controller_epoch)
    known_dead = set() if is_former else world.known_dead - world.registered.keys()
    surely_live = {
        broker
        for broker in brokers
        if world.is_known_live(partition, broker, time, new.controller_epoch)
    }
    away_at_start = set() if is_former else world.away_at_start - world.failed(partition, time)
    stops = world.clean_stops.items()
    asked = {broker for broker, times in stops if any(stop <= time for stop in times)}
    known = None if old is None else LeaderAndIsr(leader=old.leader, isr=old.isr)
    may_elect_again = world.may_elect_again(partition, new)
    wanted = world.wanted_at(partition, new.zxid)
    written = LeaderAndIsr(leader=new.leader, isr=new.isr)
    unclean = world.may_be_unclean(new.topic, -1 if old is None else old.zxid, new.zxid)
    for controller in world.controllers:
        for is_unclean in sorted(unclean):
            context = ControllerContext(
                assignment=assignment,
                live=frozenset((brokers & world.ever) - known_dead),
                shutting_down=frozenset(asked),
                was_away=frozenset(brokers - surely_live),
                is_unclean=is_unclean,
                elects_again=controller.elects_all_again and may_elect_again,
                away_at_start=frozenset(away_at_start),
                removes_offline_at_start=controller.removes_offline_at_start,
                isr_without=controller.isr_without,
                isr_of_preferred=controller.isr_of_preferred,
            )
            if explain(context, known, written, surely_live=surely_live, wanted=wanted):
                return
    was = "" if old is None else f" after leader {old.leader} and ISR {list(old.isr)}"
    moving = "".join(f", which may move to {list(replicas)}" for replicas in wanted)
    yield (
        f"no controller decides so: leader {new.leader} and ISR {list(new.isr)}{was} of replicas "
        f"{list(assignment)}{moving}; it knew that {sorted(surely_live)} lived"
    )


def _of_writer(world: _World, old: PartitionState | None, new: PartitionState) -> Iterator[str]:
    if new.written_by is None or not world.epochs:
        return
    taken = {epoch: broker for epoch, (broker, zxid) in world.epochs.items() if zxid <= new.zxid}
    writer, epoch = new.written_by, new.controller_epoch
    if old is not None and epoch < old.controller_epoch:
        yield f"the controller epoch went back from {old.controller_epoch} to {epoch}"
    if epoch not in taken:
        yield f"nobody had taken the controller epoch {epoch}"
        return
    is_own = old is not None and (old.leader, old.leader_epoch) == (new.leader, new.leader_epoch)
    if is_own and writer == new.leader and old is not None and epoch == old.controller_epoch:
        return
    if is_own and not world.has_alter_isr:
        yield f"broker {writer} changed the ISR of broker {new.leader}, who leads"
    if taken[epoch] != writer:
        yield (
            f"broker {writer} wrote it with controller epoch {epoch}, which was broker "
            f"{taken[epoch]}'s"
        )


def _of_those_left(world: _World, new: PartitionState) -> Iterator[str]:
    """Yields whom the writer of an election should have taken out of an ISR before.

    A controller takes all that are away out of the ISRs, but for a last member, before it elects
    anybody. It tries again where a leader wrote meanwhile, or the connection broke. Any other
    failure is only logged, and such a one comes of a session that is over
    (KafkaController.onControllerFailover, ReplicaStateMachine.startup and removeReplicasFromIsr,
    KafkaZkClient.retryRequestsUntilConnected, 2.3.0, 2.8.2 and 3.6.2). So it counts only while the
    writer is registered as when it became the controller. A member that was out meanwhile does not
    count: a leader that takes a late Fetch may take one in that is away.
    """
    broker, taken = world.epochs.get(new.controller_epoch, (-1, -1))
    has_session = world.registered.get(broker, taken) < taken
    removes = {controller.removes_offline_at_start for controller in world.controllers}
    if taken < world.began or not has_session or removes != {True}:
        return
    for partition, away in sorted(world.to_remove):
        isr = world.states[partition].isr
        deletions = world.deletions.get(partition.topic, ())
        if len(isr) > 1 and all(deletion.asked > new.zxid for deletion in deletions):
            yield (
                f"broker {broker} elects broker {new.leader} while broker {away}, which was away "
                f"when it became the controller, is in the ISR {list(isr)} of {partition.name}"
            )


def _of_those_thrown_out(
    world: _World, partition: TopicPartition, old: PartitionState, new: PartitionState, time: float
) -> Iterator[str]:
    for broker in sorted(set(old.isr) - set(new.isr)):
        since = world.followed_since.get((partition, broker))
        is_to_stay = all(
            broker in replicas
            for replicas in (
                world.assigned.get(partition, (broker,)),
                *world.wanted_at(partition, new.zxid),
            )
        )
        if is_to_stay and since is not None and time - since < world.lag_s - _CLOCKS_S:
            yield (
                f"broker {broker} was thrown out of the ISR {time - since:.3f} s after its "
                f"leader's term had begun, and {LAG} is {world.lag_s:g} s"
            )


def _clean_stops(evidence: RunEvidence) -> dict[int, tuple[float, ...]]:
    """When the controller may have been asked to let a broker shut down, from each moment on."""
    moments: dict[int, tuple[float, ...]] = {}
    for timed in evidence.events:
        event = timed.event
        is_late = isinstance(event, StaleRequest) and event.api == "ControlledShutdown"
        is_asked = isinstance(event, AskBrokerToStop)
        if is_late or is_asked or (isinstance(event, StopBroker) and event.clean):
            assert isinstance(event, StaleRequest | AskBrokerToStop | StopBroker)
            begun = timed.time if timed.began is None else timed.began
            moments[event.broker] = (*moments.get(event.broker, ()), begun - _CLOCKS_S)
    return moments


def _offline(
    evidence: RunEvidence,
) -> Mapping[tuple[TopicPartition, int], list[tuple[float, float]]]:
    """From when until when each replica's log directory had failed, at most."""
    periods: dict[tuple[TopicPartition, int], list[tuple[float, float]]] = {}
    for timed in evidence.events:
        event = timed.event
        if isinstance(event, FailLogDirectory):
            begun = timed.time if timed.began is None else timed.began
            restored = (
                later.time
                for later in evidence.events
                if isinstance(later.event, RestoreLogDirectory)
                and (later.event.broker, later.event.directory) == (event.broker, event.directory)
                and later.time > timed.time
            )
            until = min(restored, default=math.inf)
            for each in event.partitions:
                times = periods.setdefault((TopicPartition(*each), event.broker), [])
                times.append((begun - _CLOCKS_S, until))
    return periods


def _controllers(evidence: RunEvidence) -> frozenset[_Controller]:
    """What controllers do, by the releases of all started brokers."""
    controllers = set()
    for broker in _started(evidence):
        try:
            generation = generation_for(
                broker.release, inter_broker_protocol=broker.inter_broker_protocol
            )
        except ModelError:
            continue  # The model says what is wrong with it.
        controller = _Controller(
            isr_without=generation.isr_without,
            isr_of_preferred=generation.proposed.isr_of_preferred,
            elects_all_again=generation.elects_all_again,
            removes_offline_at_start=generation.removes_offline_at_start,
        )
        controllers.add(controller)
    return frozenset(controllers)


def _unclean_of_brokers(evidence: RunEvidence) -> frozenset[bool]:
    """What brokers may have for topics that have no setting of their own."""
    if any(UNCLEAN in dict(settings) for _, settings in evidence.broker_configurations):
        return frozenset((False, True))
    return frozenset(broker.unclean_leader_election for broker in _started(evidence))


def _started(evidence: RunEvidence) -> list[StartBroker]:
    return [timed.event for timed in evidence.events if isinstance(timed.event, StartBroker)]
