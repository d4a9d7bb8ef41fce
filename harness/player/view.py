"""The view that random schedules are drawn from: a small simulation of the faults that act.

A `View` is a value. `refusal` says why a step is not legal now, and `after` gives the view when it
was done. The simulation is told nothing by a real cluster: where a race decides it may be wrong,
and then a legal step turns out to be impossible, which the player takes for an observation. It
exists to keep schedules meaningful, and to know which broker is a zombie.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kchaos.checkers.model.controller.decisions import (
    ControllerContext,
    LeaderAndIsr,
    after_brokers_left,
    elect_for_offline,
)
from kchaos.checkers.model.releases.proposed import keep_isr
from kchaos.checkers.model.releases.rules.last_in_isr import keep_last_member
from kchaos.checkers.model.values.events import NO_LEADER
from kchaos.faults import CutLink, IsolateBroker
from kchaos.faults.api import Fault

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionInView:
    """One partition as its controller sees it, and who still believes to lead it.

    Attributes:
        replicas: Preferred replica first.
        leader: A broker, or -1.
        isr: In-sync replicas; the last one stays in it when it dies.
        zombies: Brokers that led it, were replaced, and cannot have heard of it.
        starts: Where the batches of its leader's log begin, as far as anybody can say.
        end: Where that log ends, likewise.
        is_tiered: Whether its segments are copied to remote storage.
        offline: Replicas whose log directory has failed.
    """

    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader: int
    isr: frozenset[int]
    zombies: frozenset[int] = frozenset()
    starts: tuple[int, ...] = ()
    end: int = 0
    is_tiered: bool = False
    offline: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The cluster as a schedule's writer imagines it.

    Attributes:
        brokers: All there are.
        running: Those with a process.
        registered: Those whose session lives.
        paused: Those that stand still.
        cut_off: Those that cannot reach ZooKeeper, or any KRaft controller.
        acting: Lasting faults by name, oldest first.
        partitions: What was created.
        controllers: Whoever may be the controller now; more than one after a race. None with KRaft.
        quorum: The KRaft controllers; none with ZooKeeper.
        voters: Those that vote, of a dynamic quorum; none of a static one, in which all do.
        has_epochs: Whether followers ask for leader epochs (0.11 on).
        outlives_disks: Whether brokers go on when one of their log directories fails.
        zookeepers: How many members ZooKeeper has.
        moves_replicas: Whether brokers can move replicas between log directories, and have several.
        is_asked: Whether controllers know the requests of an administrator (2.4 on).
        unclean: Whether unclean elections are allowed.
        formats: Message formats that may be set; none where an old one is ignored, or stops
            replication (KAFKA-7601).
        kafkas: The releases or paths that brokers may be rolled to; none unless there are two.
        asked: The one of `kafkas` that was asked for; its protocol may be spoken once every broker
            runs it. "" where there is one alone.
        asked_protocol: That protocol, or "".
        asked_levels: With KRaft, its feature levels; none unless there are two releases.
        upgraded: Brokers, and KRaft controllers, that run it.
        raised: Those that speak its protocol too, or have its feature levels: no broker goes back
            from there on.
        snapshots: How many were taken.
        names: Names of faults and operations that were used.
    """

    brokers: tuple[int, ...]
    running: frozenset[int]
    registered: frozenset[int]
    controllers: frozenset[int]
    quorum: tuple[int, ...] = ()
    voters: frozenset[int] = frozenset()
    paused: frozenset[int] = frozenset()
    cut_off: frozenset[int] = frozenset()
    acting: tuple[tuple[str, Fault], ...] = ()
    partitions: tuple[PartitionInView, ...] = ()
    has_epochs: bool = True
    outlives_disks: bool = False
    zookeepers: int = 1
    moves_replicas: bool = False
    is_asked: bool = False
    unclean: bool = False
    formats: tuple[str, ...] = ()
    kafkas: tuple[str, ...] = ()
    asked: str = ""
    asked_protocol: str = ""
    asked_levels: tuple[tuple[str, int], ...] = ()
    upgraded: frozenset[int] = frozenset()
    raised: frozenset[int] = frozenset()
    snapshots: int = 0
    names: frozenset[str] = frozenset()

    @property
    def whole(self) -> frozenset[int]:
        """Brokers that run, go on, and have a session and a way to ZooKeeper."""
        return (self.running & self.registered) - self.paused - self.cut_off

    @property
    def topics(self) -> tuple[str, ...]:
        """Names of what was created, in order."""
        return tuple(dict.fromkeys(partition.topic for partition in self.partitions))

    def faults(self, *kinds: type[_Kind]) -> list[_Kind]:
        """Return the lasting faults of these kinds that are not healed."""
        return [fault for _, fault in self.acting if isinstance(fault, kinds)]

    def partition(self, topic: str, partition: int) -> PartitionInView | None:
        """Return the partition of that name."""
        for known in self.partitions:
            if (known.topic, known.partition) == (topic, partition):
                return known
        return None


def new_view(
    brokers: tuple[int, ...], *, first_broker: int, quorum: tuple[int, ...] = (), **given: Any
) -> View:
    """Return the view of a new cluster; with ZooKeeper its first broker is the controller.

    `given` has other fields of `View`.
    """
    return View(
        brokers=brokers,
        running=frozenset(brokers),
        registered=frozenset(brokers),
        controllers=frozenset() if quorum else frozenset({first_broker}),
        quorum=quorum,
        **given,
    )


def gone(view: View, broker: int) -> View:
    """Return the view after the end of a broker's session: others lead its partitions."""
    registered = view.registered - {broker}
    believes = broker in view.cut_off or broker in view.paused
    partitions = tuple(
        _without(partition, broker, registered, view.unclean, believes)
        for partition in view.partitions
    )
    controllers = view.controllers
    if broker in controllers:
        controllers = (controllers - {broker}) | registered
    return replace(view, registered=registered, partitions=partitions, controllers=controllers)


def back(view: View, broker: int) -> View:
    """Return the view after a broker's registration: it is no zombie any more."""
    registered = view.registered | {broker}
    partitions = tuple(replace(p, zombies=p.zombies - {broker}) for p in view.partitions)
    controllers = view.controllers if view.quorum else view.controllers or registered
    return replace(view, registered=registered, partitions=partitions, controllers=controllers)


def without_disk(view: View, broker: int, topic: str, partition: int) -> View:
    """Return the view after a replica's log directory failed, with its other replicas."""

    def taken_offline(there: PartitionInView) -> PartitionInView:
        if (there.topic, there.partition) != (topic, partition):
            return there
        offline = replace(there, offline=there.offline | {broker})
        return _without(offline, broker, view.registered, view.unclean, believes=False)

    return replace(view, partitions=tuple(map(taken_offline, view.partitions)))


def settled(view: View) -> View:
    """Return the view after all unhindered work of controller and followers."""
    return replace(
        view, partitions=tuple(_settled(view, partition) for partition in view.partitions)
    )


def elected(
    view: View,
    partition: PartitionInView,
    election: Callable[[ControllerContext, LeaderAndIsr], LeaderAndIsr | None],
) -> PartitionInView:
    """Return the partition after an election of the controller, unchanged if it elects nobody."""
    known = LeaderAndIsr(leader=partition.leader, isr=tuple(sorted(partition.isr)))
    live = view.registered - partition.offline
    decided = election(_context(partition, live, view.unclean), known)
    if decided is None:
        return partition
    return replace(partition, leader=decided.leader, isr=frozenset(decided.isr))


def is_linked(view: View, a: int, b: int) -> bool:
    """Return whether no cut lies between two brokers in either direction, and neither is alone."""
    if any(alone.broker in (a, b) for alone in view.faults(IsolateBroker)):
        return False
    return not any({cut.source, cut.target} == {a, b} for cut in view.faults(CutLink))


def _without(
    view: PartitionInView, broker: int, registered: Iterable[int], unclean: bool, believes: bool
) -> PartitionInView:
    if broker not in view.replicas:
        return view
    context = _context(view, frozenset(registered) - view.offline, unclean)
    known = LeaderAndIsr(leader=view.leader, isr=tuple(sorted(view.isr)))
    for decided in after_brokers_left(context, known, {broker}):
        known = decided
    zombies = view.zombies | {broker} if believes and view.leader == broker else view.zombies
    return replace(view, leader=known.leader, isr=frozenset(known.isr), zombies=zombies)


def _context(view: PartitionInView, live: frozenset[int], unclean: bool) -> ControllerContext:
    return ControllerContext(
        assignment=view.replicas,
        live=live,
        is_unclean=unclean,
        isr_without=keep_last_member,
        isr_of_preferred=keep_isr,
    )


def _settled(view: View, partition: PartitionInView) -> PartitionInView:
    if partition.leader == NO_LEADER:
        partition = elected(view, partition, elect_for_offline)
    if partition.leader not in view.whole:
        return partition
    joined = {
        broker
        for broker in partition.replicas
        if broker in view.whole - partition.offline and is_linked(view, broker, partition.leader)
    }
    return replace(partition, isr=partition.isr | joined)
