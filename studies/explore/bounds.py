"""Bounds of model checking: records, leader epochs, log size, faults, grain, a document's rules."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.state import Component
from kchaos.checkers.model.state.world import World
from kchaos.studies.explore.in_sync import Counted, counted

PARTITION = TopicPartition("t", 0)
CONTROLLER_EPOCH = 1
RECORDS = ("records",)
"""The component that says how many records were written."""
PROMISED = ("promised",)
"""The component that says what was below some leader's high watermark: (offset, payload)."""
LAGS = ("lags",)
"""The component that says how often `replica.lag.time.max.ms` has passed, where that may happen."""
FAULTS = ("faults",)
"""The component that says which `Faults` may still happen."""
MOST_WAITING = 2
"""Requests of one controller that may stand in a broker's queue."""


class Grain(StrEnum):
    """In how many steps a fetcher thread and its leader talk."""

    ANSWERS = "answers"
    """Asking and answering are one step. An answer is in flight, and meanwhile either broker may
    hear of another leader epoch."""
    REQUESTS = "requests"
    """A request is in flight too, and so is a leader's AlterPartition (KIP-497)."""
    READS = "reads"
    """A leader's look at its log and its count of the follower are two steps, and so are an append
    and the high watermark that it moves."""
    QUEUES = "queues"
    """What has arrived waits to be handled, in a broker's request queue and in the controller's
    event queue (`studies.explore.queues`)."""

    @property
    def has_requests(self) -> bool:
        """Whether requests are in flight."""
        return self is not Grain.ANSWERS

    @property
    def splits_reads(self) -> bool:
        """Whether a leader's look and its count are two steps."""
        return self in (Grain.READS, Grain.QUEUES)

    @property
    def has_queues(self) -> bool:
        """Whether queues are part of the state."""
        return self is Grain.QUEUES


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Number of times that each fault may happen.

    Attributes:
        kills: Processes that end at once (SIGKILL). When one starts again is open.
        stops: Processes that end after a controlled shutdown, and start again or not.
        expiries: Sessions that end while their brokers live; these register again at any time.
        controllers: Controllers that are elected after the first, each in an epoch of its own.
        time_outs: Requests of a fetcher thread that it waits for no more.
        reassignments: Times that other brokers are to hold the partition.
        lags: Times that `replica.lag.time.max.ms` passes. With any, a leader drops nobody sooner;
            without, as much time has passed as it takes.
    """

    kills: int = 0
    stops: int = 0
    expiries: int = 0
    controllers: int = 0
    time_outs: int = 0
    reassignments: int = 0
    lags: int = 0

    @property
    def has_sessions(self) -> bool:
        """Whether registrations come and go, so that a controller decides by what it sees."""
        return bool(self.kills or self.stops or self.expiries)

    @property
    def has_requests(self) -> bool:
        """Whether a controller sends more than one LeaderAndIsr for each leader epoch."""
        return self.has_sessions or bool(self.controllers or self.reassignments)


NO_FAULTS = Faults()


class ProposedAction:
    """An action that no release takes, and a document proposes."""

    __slots__ = ()


def keep_nobody(_world: World, _leader: int, _follower: int) -> bool:
    """Let a leader drop every follower that lags, as all releases do."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """Rules, actions, memory and properties that a document adds to the machine; none by default.

    Attributes:
        actions_of: (machine, broker) to actions of that broker that may happen in some state.
        effects: Type of such an action to what it does: (world, machine, action) to whether it can
            happen, as in `studies.explore.transitions`.
        keeps: (world, leader, follower) to whether a follower that lags stays in the ISR.
        counted: (what the leader knew of a follower, a fetch that it counts, which lag it is now)
            to what it knows after that.
        components: More components of a state, with their first values.
        remembered: (world before an action, the action, the components that it changes) to the
            changes of those further components.
        properties: By name, as `studies.explore.properties.PROPERTIES`.
    """

    actions_of: Callable[["Machine", int], Iterable[ProposedAction]] = lambda _machine, _broker: ()
    effects: Mapping[type[Any], Callable[[World, "Machine", Any], bool]] = field(
        default_factory=dict
    )
    keeps: Callable[[World, int, int], bool] = keep_nobody
    counted: Counted = counted
    components: Mapping[Component, Any] = field(default_factory=dict)
    remembered: Callable[[World, Any, Mapping[Component, Any]], Mapping[Component, Any]] | None = (
        None
    )
    properties: Mapping[str, Callable[[World], str]] = field(default_factory=dict)


NO_EXTENSION = Extension()


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One partition on a few brokers, and what bounds it.

    Attributes:
        generations: Broker id to what it does; all hold the partition, the first one leads first.
        records: How many records are written.
        leader_epoch: The highest leader epoch; the first is 0.
        log_size: How many records a leader's log may have.
        grain: In how many steps brokers talk.
        skips_epochs: Whether a broker may hear of a leader epoch and never of an older one, as
            when the controller moves; else it hears of all in order. Not where a controller sends
            more than that, or where there are queues.
        remembers_promises: Whether what was committed is part of the state, for
            `studies.explore.properties.kept`.
        faults: What may happen besides; by default brokers run all the time.
        spares: How many of the brokers, the last ones, hold the partition only once it is
            reassigned to them.
        is_unclean: Whether a replica outside the ISR may be elected where no member is there.
        extension: Rules of a document that no release follows.
    """

    generations: Mapping[int, Generation]
    records: int
    leader_epoch: int
    log_size: int
    grain: Grain = Grain.ANSWERS
    skips_epochs: bool = False
    remembers_promises: bool = False
    faults: Faults = NO_FAULTS
    spares: int = 0
    is_unclean: bool = False
    extension: Extension = NO_EXTENSION

    @property
    def assigned(self) -> tuple[int, ...]:
        """Return the brokers that hold the partition at first."""
        replicas = tuple(sorted(self.generations))
        return replicas[: len(replicas) - self.spares]

    @property
    def controller_epochs(self) -> range:
        """Return the epochs of the controllers that there may be."""
        return range(CONTROLLER_EPOCH, CONTROLLER_EPOCH + self.faults.controllers + 1)

    def controller_of(self, epoch: int) -> int:
        """Return the broker, without a replica, that is the controller of an epoch."""
        return max(self.generations) + epoch
