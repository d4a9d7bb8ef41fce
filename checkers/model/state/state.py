"""The state of the machine: named components, each an immutable value.

A component's name is a tuple whose first item says what it is:

| name | value |
|---|---|
| ("brokers",) | ids of the brokers that have ever run, ascending |
| ("broker", N) | `Broker`: its process, and what that knows |
| ("partitions", N) | the partitions that have a replica on broker N |
| ("replica", N, tp) | `Replica`: log and epoch cache on disk, role and views in memory |
| ("checkpoint", N, tp) | `Checkpoint`: what `replication-offset-checkpoint` may hold |
| ("fetchers", N) | num.replica.fetchers of broker N at most, where that is more than 1 |
| ("leaders", N) | the sources L of broker N's fetcher threads (`values.fetchers`): leaders, |
| | unless it has several threads for one |
| ("thread", N, L) | `FetcherThread` of broker N for source L |
| ("asked to delete", tp) | the offset up to which a client wants records to be deleted |
| ("remotely deleted", tp) | the offset up to which its remote segments are deleted in a run |
| ("began", N, tp) | where the log on broker N may begin, though nobody has seen that |
| ("deletes", T) | whether brokers may delete what is old of topic T, where a run is followed |
| ("told", N, L) | (partition, high watermark and log start that this thread's fetch session told |
| | last, with the leader epoch then), where a schedule is settled |
| ("exchanges", N, L) | requests of that thread in flight, and those it gave up, oldest first |
| ("assignment", tp) | replica ids, preferred one first |
| ("topic configuration", T) | (name, value) of what `/config/topics` holds |
| ("adopted", N, T) | the same as broker N still has it, where ZooKeeper's is newer |
| ("state", tp) | `PartitionState` as ZooKeeper has it |
| ("remote", tp) | its segments in the remote tier (`RemoteSegment`), in the order of their copies |
| ("topics",) | every partition that has an assignment |
| ("topic id", T) | the id that the znode of topic T has |
| ("stray", N, tp) | whether broker N cannot make a log of tp, as it found another topic's |
| ("control", N) | `Received`: control requests in broker N's queue, or handled and not answered |
| ("isr change", N, tp) | an ISR that is written, and that leader N has not learned of yet |
| ("isr answer", N, tp) | whether leader N has the controller's answer about that ISR; with KRaft |
| | that answer (`GrantedIsr`) |
| ("isr wanted", N, tp) | the ISR that leader N asks for, where a run is followed (`WantedIsr`) |
| ("isr unanswered", N, tp) | whether leader N asked in an earlier epoch, and not seen in this |
| ("isr refused", N, tp) | whether leader N has the controller's refusal of the ISR that it wants |
| ("keyed", tp) | `KeyedBatch`: batches with keys, as leaders appended and cleaners left them |
| ("appended", N, tp) | whether leader N has appended and not yet moved its high watermark, |
| | where a run is followed for which produces |
| ("shortened", N, tp) | whether follower N has truncated its log and not yet its epoch cache |
| ("copying", L, N) | what was seen of broker N's files while snapshot L was taken |
| ("copying",) | (broker, label) of each of those, ascending |
| ("sent",) | produces on their way to their broker, of each connection the first request |
| ("elected",) | the broker that is the controller, where a run is followed |
| ("registered",) | (broker, czxid) of each registration |
| ("failed", N) | `FailLogDirectory` values of broker N's log directories that have failed |
| ("restored", N) | partitions in directories that were restored since broker N's process ended |
| ("failing", N) | `FailLogDirectory` values of which broker N's process does not know yet |
| ("new epoch", N) | the czxid of a registration that broker N's process has not heard of yet |
| ("controllers",) | epochs of the controllers that have not resigned, the newest last |
| ("controller", E) | `Controller`: what the controller of that epoch last saw |
| ("outbox", E, N) | `Outbox`: control requests of that controller to broker N |
| ("events",) | what the newest controller was told and has not handled (`explore.queues`) |
| ("cuts",), ("holds",) | `CutLink` and `Hold` values that act |
| ("answer", operation) | what a client's produce was answered, until the client has it |
| ("delayed", N) | produces that reached broker N while it was paused |
| ("point holds",), ("forgeries",) | `HoldPoint` and `ForgeAnswers` values that act |
| ("last controller epoch",) | the newest one, also of a controller that has resigned |

An explorer has besides what bounds it (`studies.explore.bounds`) and

| component | value |
|---|---|
| ("isr request", N, tp) | the ISR that leader N asked the controller for, and its leader epoch |
| ("followers", N) | when each follower fetched and had caught up, as leader N knows it |
| ("stopping", N) | how far broker N's controlled shutdown is |
| ("reassigned",) | the replicas that the partition moves to |

Replicas and fetcher threads are in `checkers.model.values.replica`, what is in flight is in
`checkers.model.values.requests`. What has happened (rounds, truncations, promises) is no state:
transitions note it beside.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers.acts import StartBroker, TopicPartition
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.values.shared import Shared

Component = tuple[Any, ...]
Read = Callable[[Component], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """Values that `replication-offset-checkpoint` may hold for one replica.

    Attributes:
        known: The value when it was last known.
        possible: `known` and the values that memory had since, oldest first. A replica that was
            deleted leaves its own behind, from which the next of that name begins.
        is_observed: Whether the running broker's file was looked into.
    """

    known: int = 0
    possible: Shared[int] = field(default_factory=lambda: Shared((0,)))
    is_observed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker: its process, and what the process knows.

    Attributes:
        has_exited: The process ended itself (KAFKA-7414).
        hangs: It waits for its own end for ever: nothing is left of it but the process
            (KAFKA-4039).
        live: The brokers in its metadata cache, from the last UpdateMetadata.
        epochs: With KRaft, (broker, broker epoch) of each broker there that is not fenced.
        told: The partitions in its metadata cache, which a Fetch may ask for; None where that is
            taken for granted.
        topic_ids: (topic, id) in its metadata cache; None where that is taken for granted.
        controller_epoch: The highest that it has heard of; an older controller is refused.
        failed: Partitions that fetch no more (KIP-461).
        epoch: The czxid of its registration, as the process knows it; -1 before the first.
        checkpoints: Whether it writes its high watermarks from time to time, which begins after
            the first LeaderAndIsr.
    """

    generation: Generation
    configuration: StartBroker
    is_running: bool = True
    is_paused: bool = False
    was_stopped_cleanly: bool = True
    has_exited: bool = False
    hangs: bool = False
    live: frozenset[int] = frozenset()
    epochs: frozenset[tuple[int, int]] = frozenset()
    told: frozenset[TopicPartition] | None = None
    topic_ids: frozenset[tuple[str, str]] | None = None
    controller_epoch: int = 0
    failed: frozenset[TopicPartition] = frozenset()
    epoch: int = -1
    checkpoints: bool = False

    @property
    def is_working(self) -> bool:
        """Whether it sends and handles requests."""
        return self.is_running and not self.is_paused


class State:
    """An immutable, hashable mapping from components to values; what is absent is None.

    Attributes:
        lookup: The same as calling the state, without a frame of Python; a search asks often.
        awaits: Of how many components the first item of the name is in `_AWAITING`.
    """

    __slots__ = ("_components", "_hash", "awaits", "lookup")

    lookup: Read

    def __init__(self, components: Mapping[Component, Any]) -> None:
        self._components = dict(components)
        self.lookup = self._components.get
        self._hash: int | None = None
        self.awaits = sum(component[0] in _AWAITING for component in self._components)

    def __call__(self, component: Component) -> Any:
        """Return the value of a component, None without one."""
        return self._components.get(component)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self._components == other._components

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = 0
            for item in self._components.items():
                self._hash ^= hash(item)
        return self._hash

    def components(self) -> Mapping[Component, Any]:
        """Return every component that has a value."""
        return dict(self._components)

    def changed(self, changes: Mapping[Component, Any], *, is_hashed: bool = True) -> "State":
        """Return the state with these components changed.

        Its hash is made of this state's, if that was asked for; else, and of a state that is not to
        be hashed, it is made when it is asked for.
        """
        components = dict(self._components)
        value, awaits = self._hash if is_hashed else None, self.awaits
        for component, after in changes.items():
            before = components.get(component)
            if component[0] in _AWAITING:
                awaits += (after is not None) - (before is not None)
            if value is not None:
                value ^= 0 if before is None else hash((component, before))
                value ^= 0 if after is None else hash((component, after))
            if after is None:
                components.pop(component, None)
            else:
                components[component] = after
        state = State.__new__(State)
        state._components = components
        state.lookup = components.get
        state._hash = value
        state.awaits = awaits
        return state


_AWAITING = frozenset(("appended", "asked to delete", "isr answer", "isr change", "isr refused"))
"""The first items of names of components that a leader's next step takes up."""

EMPTY = State({})
