"""A transition in the making: what it reads of a state, what it changes, what it notes.

Transitions are functions over a `World`. They read components, put new values, and note what has
happened for the journal; the state that they began with never changes. `World.read` is any function
from component to value, so that an explorer can follow what a transition reads.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from kchaos.checkers.acts import CutLink, ForgeAnswers, Hold, HoldPoint, TopicPartition
from kchaos.checkers.model.releases.composition import generation_of
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.state.state import EMPTY, Broker, Checkpoint, Component, Read, State
from kchaos.checkers.model.values import requests
from kchaos.checkers.model.values.events import PartitionState
from kchaos.checkers.model.values.fetchers import fetcher_of, source_of, sources_of
from kchaos.checkers.model.values.prediction import PredictedProduce
from kchaos.checkers.model.values.replica import FetcherThread, Replica

_FORMAT = "message.format.version"
UNCLEAN = "unclean.leader.election.enable"


def own_unclean_election(configuration: Iterable[tuple[str, str]]) -> bool | None:
    """Return whether a topic's own settings allow unclean elections; None if they do not say."""
    setting = dict(configuration).get(UNCLEAN)
    return None if setting is None else str(setting).strip().lower() == "true"


class Reads(dict[Component, Any]):
    """Each component that was read, with its value, in the order of the first reading.

    A subscript reads: `World(reads.__getitem__)` is a transition whose reads it keeps.
    """

    __slots__ = ("_read",)

    def __init__(self, read: Read) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, component: Component) -> Any:
        """Read a component for the first time."""
        value = self[component] = self._read(component)
        return value


class World:
    """One transition over a state.

    Attributes:
        changes: The components that it changed so far.
        notes: What has happened so far, for the journal (`checkers.model.values.prediction`).
        is_unlikely: Whether a search goes on with what it leads to last.
    """

    __slots__ = ("_read", "changes", "is_unlikely", "notes")

    def __init__(self, read: Read = EMPTY) -> None:
        self._read = read.lookup if isinstance(read, State) else read
        self.changes: dict[Component, Any] = {}
        self.notes: list[Any] = []
        self.is_unlikely = False

    def get(self, component: Component) -> Any:
        """Return a component as it is now in this transition."""
        changes = self.changes
        if changes and component in changes:
            return changes[component]
        return self._read(component)

    def put(self, component: Component, value: Any) -> None:
        """Change a component; None takes it away."""
        self.changes[component] = value

    def state(self, before: State) -> State:
        """Return the state after this transition over `before`."""
        return before.changed(self.changes)

    # -- brokers ----------------------------------------------------------------------------

    def broker_ids(self) -> tuple[int, ...]:
        """Return the brokers that have ever run, ascending."""
        broker_ids: tuple[int, ...] = self.get(("brokers",)) or ()
        return broker_ids

    def broker(self, broker: int) -> Broker | None:
        """Return a broker, None if it never ran."""
        broker_state: Broker | None = self.get(("broker", broker))
        return broker_state

    def running(self, broker: int) -> Broker | None:
        """Return a broker whose process runs, paused or not."""
        broker_state = self.broker(broker)
        return broker_state if broker_state is not None and broker_state.is_running else None

    def put_broker(self, broker: int, value: Broker) -> None:
        """Change a broker, or add one."""
        if broker not in self.broker_ids():
            self.put(("brokers",), tuple(sorted((*self.broker_ids(), broker))))
        self.put(("broker", broker), value)

    # -- replicas ---------------------------------------------------------------------------

    def partitions(self, broker: int) -> tuple[TopicPartition, ...]:
        """Return the partitions that have a replica on the broker."""
        partitions: tuple[TopicPartition, ...] = self.get(("partitions", broker)) or ()
        return partitions

    def replica(self, broker: int, partition: TopicPartition) -> Replica | None:
        """Return a replica, None if the broker has none."""
        replica: Replica | None = self.get(("replica", broker, partition))
        return replica

    def known_replica(self, broker: int, partition: TopicPartition) -> Replica:
        """Return a replica that is there."""
        replica = self.replica(broker, partition)
        assert replica is not None, f"broker {broker} has no replica of {partition}"
        return replica

    def put_replica(self, broker: int, partition: TopicPartition, value: Replica) -> None:
        """Change a replica or add one; a new high watermark may come to be checkpointed."""
        before = self.replica(broker, partition)
        if before is None:
            self.put(("partitions", broker), tuple(sorted((*self.partitions(broker), partition))))
            if self.get(("checkpoint", broker, partition)) is None:
                self.put(("checkpoint", broker, partition), Checkpoint())
        self.put(("replica", broker, partition), value)
        if before is None or before.high_watermark != value.high_watermark:
            self._note_high_watermark(broker, partition, value.high_watermark)

    def checkpoint(self, broker: int, partition: TopicPartition) -> Checkpoint:
        """Return what the broker's checkpoint file may hold for a replica that is there."""
        checkpoint: Checkpoint = self.get(("checkpoint", broker, partition))
        return checkpoint

    def _note_high_watermark(self, broker: int, partition: TopicPartition, offset: int) -> None:
        checkpoint = self.checkpoint(broker, partition)
        if checkpoint.possible[-1] != offset:
            self.put(
                ("checkpoint", broker, partition),
                Checkpoint(
                    known=checkpoint.known,
                    possible=checkpoint.possible.with_items((offset,)),
                    is_observed=checkpoint.is_observed,
                ),
            )

    # -- fetchers ---------------------------------------------------------------------------

    def leaders(self, broker: int) -> tuple[int, ...]:
        """Return the sources of the broker's fetcher threads, ascending (`values.fetchers`)."""
        sources: tuple[int, ...] = self.get(("leaders", broker)) or ()
        return sources

    def thread(self, broker: int, leader: int) -> FetcherThread | None:
        """Return a fetcher thread, None if there is none."""
        thread: FetcherThread | None = self.get(("thread", broker, leader))
        return thread

    def put_thread(self, broker: int, leader: int, value: FetcherThread | None) -> None:
        """Change a fetcher thread, add one, or end it."""
        leaders = set(self.leaders(broker))
        wanted = leaders | {leader} if value is not None else leaders - {leader}
        if wanted != leaders:
            self.put(("leaders", broker), tuple(sorted(wanted)))
        self.put(("thread", broker, leader), value)

    def source(self, broker: int, leader: int, partition: TopicPartition) -> int:
        """Return the source of the thread with which a broker fetches a partition."""
        broker_state = self.broker(broker)
        fetchers = 1 if broker_state is None else broker_state.configuration.replica_fetchers
        return source_of(leader, fetcher_of(partition, fetchers))

    def sources(self, broker: int, leader: int) -> tuple[int, ...]:
        """Return the sources of all threads that a broker may have had for a leader."""
        most = self.get(("fetchers", broker))
        return (leader,) if most is None else sources_of(leader, most)

    def received(self, broker: int) -> tuple[requests.Received, ...]:
        """Return the control requests that a broker has, oldest first."""
        received: tuple[requests.Received, ...] = self.get(("control", broker)) or ()
        return received

    def put_received(self, broker: int, value: tuple[requests.Received, ...]) -> None:
        """Change the control requests that a broker has."""
        self.put(("control", broker), value or None)

    def to_handle(self, broker: int) -> list[requests.Received]:
        """Return the control requests that a broker has not handled yet, oldest first."""
        return [part for part in self.received(broker) if part.errors is None]

    def to_be_told(self, broker: int) -> list[PartitionState]:
        """Return what a broker is told by each LeaderAndIsr that it has not handled yet."""
        return [
            told
            for part in self.to_handle(broker)
            if isinstance(part.request, requests.LeaderAndIsr)
            for told in part.request.states
        ]

    def exchanges(self, broker: int, leader: int) -> tuple[requests.Exchange, ...]:
        """Return the requests in flight between a follower and its leader, oldest first."""
        exchanges: tuple[requests.Exchange, ...] = self.get(("exchanges", broker, leader)) or ()
        return exchanges

    def put_exchanges(self, broker: int, leader: int, value: tuple[requests.Exchange, ...]) -> None:
        """Change the requests in flight between a follower and its leader."""
        self.put(("exchanges", broker, leader), value or None)

    # -- cluster metadata -------------------------------------------------------------------

    def assignment(self, partition: TopicPartition) -> tuple[int, ...]:
        """Return the partition's replicas, preferred one first; none before it exists."""
        assignment: tuple[int, ...] = self.get(("assignment", partition)) or ()
        return assignment

    def partition_state(self, partition: TopicPartition) -> PartitionState | None:
        """Return the partition's state as ZooKeeper has it."""
        state: PartitionState | None = self.get(("state", partition))
        return state

    def min_insync_replicas(self, broker: Broker, partition: TopicPartition) -> int:
        """Return `min.insync.replicas` of the topic, or of the broker where it has none."""
        of_topic = self.topic_configuration(broker.configuration.broker, partition.topic)
        setting = of_topic.get("min.insync.replicas")
        return int(setting) if setting is not None else broker.configuration.min_insync_replicas

    def allows_unclean_election(self, topic: str, brokers: Iterable[Broker]) -> bool:
        """Return `unclean.leader.election.enable` of the topic, or of any broker where it has none.

        It is read from ZooKeeper when it is asked for, and not as a broker has taken it over
        (kafka.controller.PartitionLeaderSelector and kafka.server.ReplicaFetcherThread, 0.10.2.2
        to 2.0.0).
        """
        own = own_unclean_election(self.get(("topic configuration", topic)) or ())
        if own is not None:
            return own
        return any(broker.configuration.unclean_leader_election for broker in brokers)

    def topic_configuration(self, broker: int, topic: str) -> dict[str, str]:
        """Return the topic's own configuration as the broker has it."""
        adopted = self.get(("adopted", broker, topic))
        if adopted is None:
            adopted = self.get(("topic configuration", topic)) or ()
        return dict(adopted)

    def generation(self, broker: Broker, partition: TopicPartition) -> Generation:
        """Return what the broker does with this partition, whose topic may have its own format."""
        own = broker.configuration
        topic_format = self.topic_configuration(own.broker, partition.topic).get(_FORMAT)
        if topic_format is None:
            return broker.generation
        return generation_of(own, message_format=topic_format)

    def registered(self) -> dict[int, int]:
        """Return the czxid of each broker's registration."""
        return dict(self.get(("registered",)) or ())

    def controller_epochs(self) -> tuple[int, ...]:
        """Return the epochs of the controllers that have not resigned, the newest last."""
        epochs: tuple[int, ...] = self.get(("controllers",)) or ()
        return epochs

    def controller(self, epoch: int) -> requests.Controller:
        """Return the controller of an epoch."""
        controller: requests.Controller = self.get(("controller", epoch))
        return controller

    def outbox(self, epoch: int, broker: int) -> requests.Outbox | None:
        """Return a controller's outbox for a broker, None while it does not know the broker."""
        outbox: requests.Outbox | None = self.get(("outbox", epoch, broker))
        return outbox

    # -- links ------------------------------------------------------------------------------

    def cuts(self) -> tuple[CutLink, ...]:
        """Return the cuts that act, in the order in which they were made."""
        cuts: tuple[CutLink, ...] = self.get(("cuts",)) or ()
        return cuts

    def point_holds(self) -> tuple[HoldPoint, ...]:
        """Return the holds at points inside brokers, in the order in which they were made."""
        holds: tuple[HoldPoint, ...] = self.get(("point holds",)) or ()
        return holds

    def holds(self) -> tuple[Hold, ...]:
        """Return the holds that act, in the order in which they were made."""
        holds: tuple[Hold, ...] = self.get(("holds",)) or ()
        return holds

    def forgeries(self) -> tuple[ForgeAnswers, ...]:
        """Return what replaces answers to OffsetForLeaderEpoch, in the order in which it began."""
        forgeries: tuple[ForgeAnswers, ...] = self.get(("forgeries",)) or ()
        return forgeries

    def passes(self, source: int, target: int) -> bool:
        """Return whether bytes get from one broker to another: both work, no cut is between."""
        for broker in (self.broker(source), self.broker(target)):
            if broker is None or not broker.is_working:
                return False
        return not any(_stops(cut, source, target) for cut in self.cuts())

    # -- clients ----------------------------------------------------------------------------

    def answer(self, outcome: PredictedProduce) -> None:
        """Answer a client's produce; None for `acknowledged` says that it still waits."""
        self.put(("answer", outcome.operation), outcome)
        self.notes.append(outcome)

    def holding(self, api: str, source: int, target: int, direction: str) -> Iterator[Hold]:
        """Yield the holds that may keep messages of this kind."""
        for hold in self.holds():
            if (
                (hold.api, hold.direction) == (api, direction)
                and hold.source in (None, source)
                and hold.target in (None, target)
            ):
                yield hold


def _stops(cut: CutLink, source: int, target: int) -> bool:
    if (cut.source, cut.target) == (source, target):
        return True
    return not cut.one_way and (cut.target, cut.source) == (source, target)
