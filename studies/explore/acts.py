"""A small cluster that is acted upon: which acts are possible in a state, and the state after each.

Interleavings as fine as the machine's cannot be forced upon real brokers. Acts from outside can:
links cut and healed, sessions that end and come back, processes that end and start, answers that
are held, elections, produces. After each act the cluster is left alone until nothing changes, as in
a scenario.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.state import EMPTY, State
from kchaos.checkers.model.state.world import World
from kchaos.studies.explore.at_once import PARTITION, InstantController
from kchaos.studies.explore.canonical import Form, canonical
from kchaos.studies.explore.isr_changes import takes_in
from kchaos.studies.explore.moves import ChaosMove, healing
from kchaos.studies.explore.quorum_at_once import InstantQuorum
from kchaos.studies.explore.simulation import Promised, SimulatedCluster, SimulationMemory

RECORDS = ("records",)
"""The component that says how many produces there were."""
PROMISED = ("promised",)
"""The component that says what was acknowledged with acks=all."""
EXPLORED_KINDS = ("write-one", "write-all", "prefer", "expire", "register", "cut", "heal")
"""Kinds of acts in a search for a shortest schedule."""
KINDS = (
    *EXPLORED_KINDS,
    *("write-pair", "reorder", "kill", "terminate", "restart"),
    *("hold-answers", "hold-next-answers", "release", "bounce"),
)
"""All kinds of acts. One that ends a process ends its session too: nobody waits for that."""
_BETWEEN_TWO = ("cut", "heal")
_ENDS_OF_PROCESSES = ("kill", "terminate")
_ELECTS = ("bounce", "expire", "prefer", "reorder", *_ENDS_OF_PROCESSES)
"""Kinds of acts that may bring another leader epoch; those that heal are not among them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActedBrokers:
    """The brokers that are acted upon.

    They hold one partition. One more broker is the controller, or with KRaft a quorum is, and
    nothing is done to it. The first broker leads, and the second is the preferred leader.

    Attributes:
        generations: Broker id to what it does.
        is_unclean: Whether unclean elections are allowed.
        min_insync_replicas: `min.insync.replicas`.
        levels: Feature levels by name, with KRaft.
    """

    generations: Mapping[int, Generation]
    is_unclean: bool = False
    min_insync_replicas: int = 1
    levels: Mapping[str, int] = field(default_factory=dict)


class ActedCluster:
    """Acts on such brokers, and what each of them sets off.

    Args:
        setup: The brokers.
        form: Of the states, where they are compared; else every count is kept.
    """

    def __init__(self, setup: ActedBrokers, form: Form | None = None) -> None:
        self._setup = setup
        self._form = form
        self._memory = SimulationMemory(setup.generations)
        self._replicas = tuple(sorted(setup.generations))

    def begin(self) -> State:
        """Return the state in which the first broker leads, and the second is preferred."""
        simulated = SimulatedCluster(self._memory, EMPTY)
        deciding = self._instant_controller(simulated, self._replicas)
        deciding.begin(self._setup.generations)
        for event in deciding.reorder(self._replicas[1]):
            deciding.follow(event)
        return self._state_after(EMPTY, simulated, records=0, promised=frozenset())

    def acts(self, kinds: tuple[str, ...] = KINDS) -> Iterator[ChaosMove]:
        """Yield every act of these kinds that there may be."""
        if "prefer" in kinds:
            yield ChaosMove("prefer", -1)
        one_by_one = [kind for kind in kinds if kind not in ("prefer", *_BETWEEN_TWO)]
        for broker in self._replicas:
            yield from (ChaosMove(kind, broker) for kind in one_by_one)
        for broker, other in combinations(self._replicas, 2):
            yield from (ChaosMove(kind, broker, other) for kind in _BETWEEN_TWO if kind in kinds)

    def after(self, state: State, act: ChaosMove, operation: str = "") -> State | None:
        """Return the state after an act and all that it sets off, None where it cannot be done.

        Args:
            state: Where it is done.
            act: One of `acts`.
            operation: What a write is called.
        """
        simulated = SimulatedCluster(self._memory, state)
        world = simulated.world
        if not _can_be_forced(world, act):
            return None
        deciding = self._instant_controller(simulated, world.assignment(PARTITION))
        move = act._replace(broker=self._replicas[0]) if act.broker == -1 else act
        simulated.act(deciding, move, operation)
        if simulated.timeline and act.kind in _ENDS_OF_PROCESSES:
            simulated.act(deciding, ChaosMove("expire", act.broker))
        # A scenario could not wait for an acknowledgement that does not come.
        if not simulated.timeline or (act.kind == "write-all" and not simulated.is_acknowledged):
            return None
        return self._state_after(
            state,
            simulated,
            records=state(RECORDS) + act.kind.startswith("write"),
            promised=state(PROMISED) | simulated.promised,
        )

    def healed(self, state: State) -> list[tuple[ChaosMove, State]]:
        """Return the acts that heal every fault, sessions first, and the state after each."""
        steps = []
        while (act := next(healing(World(state)), None)) is not None:
            after = self.after(state, act)
            assert after is not None, f"{act} heals what acts"
            state = after
            steps.append((act, state))
        return steps

    def _instant_controller(
        self, simulated: SimulatedCluster, replicas: tuple[int, ...]
    ) -> InstantController:
        brokers = (simulated.world.broker(broker_id) for broker_id in simulated.world.broker_ids())
        epochs = [broker.epoch for broker in brokers if broker is not None]
        generation = self._setup.generations[self._replicas[0]]
        given: dict[str, Any] = {
            "world": lambda: simulated.world,
            "add": simulated.add,
            "replicas": replicas,
            "is_unclean": self._setup.is_unclean,
            "min_insync_replicas": self._setup.min_insync_replicas,
            "czxid": max([0, *epochs, *simulated.world.registered().values()]),
        }
        if generation.versions.mode == "zookeeper":
            return InstantController(**given)
        return InstantQuorum(**given, settle=simulated.settle, levels=self._setup.levels)

    def _state_after(
        self, state: State, simulated: SimulatedCluster, *, records: int, promised: Promised
    ) -> State:
        value = self._memory.footprints.value
        changes = {**simulated.changes, RECORDS: records, PROMISED: promised}
        if self._form is not None:
            kept = canonical(self._form, state, simulated.world.get, changes)
            changes = {**changes, **kept} if state is EMPTY else kept
        return state.changed({component: value(changed) for component, changed in changes.items()})


def uninformed(world: World) -> set[int]:
    """Return the registered brokers whose process does not know that it has a replica (KIP-380)."""
    return {
        broker
        for broker in set(world.registered()) & set(world.assignment(PARTITION))
        if world.running(broker) is not None
        and not world.known_replica(broker, PARTITION).is_hosted
    }


def _can_be_forced(world: World, act: ChaosMove) -> bool:
    """Return whether a scenario can do it: steps ask more of a cluster than the model does."""
    registered = world.registered()
    if _reaches_untold(world, act):
        return False
    match act.kind:
        case "expire":
            return not _rejoins_some_time(world, act.broker)
        case "kill" | "terminate" | "bounce":
            # Cut off from ZooKeeper it could not register when it is started again.
            return act.broker in registered
        case "hold-answers" | "hold-next-answers":
            state = world.partition_state(PARTITION)
            assert state is not None
            return world.running(act.broker) is not None and state.leader != act.broker
        case "write-one" | "write-pair" | "write-all":
            return not waits_for_zookeeper(world, act.broker)
        case "reorder":
            replicas, state = world.assignment(PARTITION), world.partition_state(PARTITION)
            assert state is not None
            is_whole = set(replicas) == set(state.isr) <= set(registered)
            is_reached = not world.cuts() and not world.holds()
            return is_whole and is_reached and replicas[0] != act.broker
    return True


def _reaches_untold(world: World, act: ChaosMove) -> bool:
    """Return whether a broker that was not informed hears of a decision because of an act.

    The controller takes it for the process of before, and names a leader. The metadata cache of the
    broker is empty: it does not follow, and the UpdateMetadata that comes next does not make up for
    that (ReplicaManager.makeFollowers, 2.1.1). The model's controller sends that one at once.
    """
    if act.kind not in _ELECTS:
        return False
    return bool(uninformed(world) - {act.broker})


def _rejoins_some_time(world: World, follower: int) -> bool:
    """Return whether a follower whose answers are held would be back in the ISR at an unknown time.

    It asks anew when its time is over, and a leader that sees no leader epoch in a Fetch counts it
    (before KIP-320). Where the Fetch has an epoch, the follower must be told the new one first.
    """
    broker = world.broker(follower)
    is_held = any(hold.source == follower for hold in world.holds())
    return is_held and broker is not None and not broker.generation.sends_leader_epoch


def waits_for_zookeeper(world: World, broker_id: int) -> bool:
    """Return whether a leader without a session waits for ZooKeeper, to which it writes an ISR.

    It keeps the partition's lock while it waits. No produce is appended, and no Fetch answered:
    Partition.updateIsr in inWriteLock(leaderIsrUpdateLock), 1.1.1 and 2.5.1. With KIP-497 a leader
    asks the controller.
    """
    broker, replica = world.broker(broker_id), world.replica(broker_id, PARTITION)
    if broker is None or replica is None or broker_id in world.registered():
        return False
    return not broker.generation.asks_controller_for_isr and any(
        takes_in(replica, follower) for follower, _ in replica.views if follower not in replica.isr
    )
