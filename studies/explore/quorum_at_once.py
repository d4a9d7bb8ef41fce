"""A scheduler of a KRaft quorum: its decisions, and the brokers that read them, at once.

A broker reads the metadata log up to its end as soon as it can, what was decided meanwhile as one
delta. One that is cut off from the controllers, or stopped, stays at its position. Decisions are
those of `checkers.model.controller.quorum`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kchaos.checkers.acts import StartBroker
from kchaos.checkers.formats.metadata_image import BrokerImage, MetadataImage, PartitionImage
from kchaos.checkers.formats.metadata_records import MetadataRecord
from kchaos.checkers.model.broker import control_handling
from kchaos.checkers.model.controller import quorum
from kchaos.checkers.model.controller.quorum import Election, Fields, IsrProposal, Quorum
from kchaos.checkers.model.releases.generation import Generation
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    Event,
    PartitionState,
    TopicCreated,
)
from kchaos.checkers.model.values.requests import (
    ControlRequest,
    LeaderAndIsr,
    Received,
    UpdateMetadata,
)
from kchaos.studies.explore.at_once import PARTITION, InstantController
from kchaos.studies.explore.isr_changes import isr_with

_TOPIC_ID = "t"
_PLACE = (_TOPIC_ID, PARTITION.partition)
_IMAGE = ("partition image", PARTITION)
"""The component that has the partition as the metadata log has it (`PartitionImage`)."""


@dataclass(slots=True, kw_only=True)
class InstantQuorum(InstantController):
    """The leader of a quorum over a modelled cluster; what it decides every broker reads at once.

    Attributes:
        settle: Lets brokers do all that follows from what they have read.
        levels: Feature levels of the cluster, by name.
    """

    settle: Callable[[], None]
    levels: Mapping[str, int] = field(default_factory=dict)

    def begin(self, generations: Mapping[int, Generation]) -> None:
        """Start brokers and create the partition."""
        for broker in self.replicas:
            release = ".".join(str(part) for part in generations[broker].versions.release)
            self.add(
                StartBroker(
                    broker=broker,
                    release=release,
                    min_insync_replicas=self.min_insync_replicas,
                    mode="kraft",
                )
            )
            self.add(BrokerRegistered(broker=broker, czxid=self.next_czxid()))
        self.add(TopicCreated(topic=PARTITION.topic, assignment=(self.replicas,)))
        first = quorum.created(self._quorum(), self.replicas)
        self._append("PartitionRecord", {"Replicas": self.replicas, **first})
        self._expand()

    def follow(self, event: Event) -> None:
        """Let an event happen, and then everything that is decided because of it.

        A broker that is unfenced again has the broker epoch of before, and a process that starts
        reads the log anew.
        """
        before = self.world().registered()
        if isinstance(event, StartBroker):
            self.world().put(("read", event.broker), None)
        if isinstance(event, BrokerRegistered):
            known = self.world().broker(event.broker)
            assert known is not None
            if known.epoch >= 0:
                event = BrokerRegistered(broker=event.broker, czxid=known.epoch)
            else:
                self._register(event.broker, is_clean=known.was_stopped_cleanly)
        self.add(event)
        now = self.world().registered()
        for broker in sorted(before.keys() - now.keys()):
            self._change(quorum.fenced(self._quorum(), broker).get(_PLACE, {}))
        for broker in sorted(now.keys() - before.keys()):
            self._change(quorum.unfenced(self._quorum(), broker).get(_PLACE, {}))
        self._expand()

    def prefer(self) -> Iterator[Event]:
        """Yield nothing: the preferred replica is elected at once, where it may be."""
        self._change(quorum.elected(self._quorum(), _PLACE, Election.PREFERRED))
        yield from ()

    def reorder(self, preferred: int) -> Iterator[Event]:
        """Yield the reassignment to the same brokers, after which another one is preferred."""
        order = (preferred, *(broker for broker in self.replicas if broker != preferred))
        yield TopicCreated(topic=PARTITION.topic, assignment=(order,))
        self._change(quorum.reassigned(self._quorum(), _PLACE, order))

    def _expand(self) -> None:
        self._read()
        for follower in self.replicas:
            isr = isr_with(self.world(), PARTITION, follower)
            if isr is not None:
                self._propose(isr)

    def _register(self, broker: int, *, is_clean: bool) -> None:
        """Decide what follows from a process that registers, and is fenced still."""
        changes = quorum.registered(self._quorum(), broker, "another", is_clean=is_clean)
        self._change(changes.get(_PLACE, {}))

    def _propose(self, isr: tuple[int, ...]) -> None:
        """Let the leader ask for an ISR (AlterPartition)."""
        known: PartitionImage = self.world().get(_IMAGE)
        epochs = self.world().registered()
        proposal = IsrProposal(
            leader=known.leader,
            leader_epoch=known.leader_epoch,
            partition_epoch=known.partition_epoch,
            broker_epoch=epochs[known.leader],
            isr=tuple((member, epochs.get(member, -1)) for member in isr),
            is_recovering=False,
        )
        self._change(quorum.isr_asked_for(self._quorum(), _PLACE, proposal) or {})

    def _change(self, fields: Fields) -> None:
        if fields:
            self._append("PartitionChangeRecord", fields)

    def _append(self, name: str, fields: Fields) -> None:
        """Append a record about the partition, which every broker reads that can."""
        image = self._image()
        fields = {"TopicId": _TOPIC_ID, "PartitionId": PARTITION.partition, **fields}
        image.apply(MetadataRecord(name=name, version=0, fields=fields), controller_epoch=1)
        known = image.partitions[_PLACE]
        self.world().put(_IMAGE, known)
        self.add(
            PartitionState(
                topic=PARTITION.topic,
                partition=PARTITION.partition,
                leader=known.leader,
                leader_epoch=known.leader_epoch,
                isr=known.isr,
                controller_epoch=1,
                version=known.partition_epoch,
            )
        )
        self._read()

    def _read(self) -> None:
        """Let every broker that is not fenced read the log up to its end."""
        world = self.world()
        state, registered = world.partition_state(PARTITION), frozenset(world.broker_ids())
        live = world.registered()
        who = UpdateMetadata(
            live=frozenset(live), registered=registered, epochs=frozenset(live.items())
        )
        wanted: list[ControlRequest] = [who]
        if state is not None:
            replicas = world.assignment(PARTITION)
            wanted.append(
                LeaderAndIsr(states=(state,), is_new=True, registered=registered, replicas=replicas)
            )
        for broker in sorted(live):
            read = world.get(("read", broker)) or ()
            working = world.broker(broker)
            if working is None or not working.is_working or read == tuple(wanted):
                continue
            handled = []
            for request in wanted:
                received = Received(number=(-1, 0), controller_epoch=0, request=request)
                # A broker that has to wait for a fetcher reads it with what is decided next.
                if request in read or control_handling.handle(world, broker, received) is not None:
                    handled.append(request)
            world.put(("read", broker), tuple(handled))
        self.settle()

    def _image(self) -> MetadataImage:
        world = self.world()
        live, known = world.registered(), world.get(_IMAGE)
        return MetadataImage(
            features=dict(self.levels),
            brokers={
                broker: BrokerImage(epoch=live.get(broker, -1), is_fenced=broker not in live)
                for broker in world.broker_ids()
            },
            names={_TOPIC_ID: PARTITION.topic},
            topic_ids={PARTITION.topic: _TOPIC_ID},
            partitions={} if known is None else {_PLACE: known},
        )

    def _quorum(self) -> Quorum:
        broker = self.world().broker(self.replicas[0])
        assert broker is not None
        return Quorum(
            image=self._image(),
            generation=broker.generation,
            properties={"min.insync.replicas": str(self.min_insync_replicas)},
        )
