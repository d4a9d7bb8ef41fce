"""How each broker of a KRaft cluster takes up the metadata log, in the words of control requests.

A broker learns what is committed by the answer to its Fetch of the metadata log. All that an answer
newly commits is loaded together and published as the difference of two images
(KafkaRaftClient.updateFollowerHighWatermark, MetadataLoader.handleCommit and
MetadataBatchLoader.maybeFlushBatches, 3.6.2 and 4.1.2). So the answer is what the arrival of a
control request is with ZooKeeper. A heartbeat of a broker that wants to be unfenced names the
offset that was published last (MetadataLoader.maybePublishMetadata, 3.5.2 to 4.1.2), so it is what
the answer to a control request is.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from typing import Any

from kchaos.checkers.acts import StartBroker, StopBroker, TopicPartition
from kchaos.checkers.evidence.actions import is_internal
from kchaos.checkers.evidence.links import ARRIVED, LinkMessage
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.formats.metadata_image import BrokerImage
from kchaos.checkers.model.follow.observations import (
    METADATA_LOG,
    ControlAnswered,
    ControlSent,
    Number,
    Seen,
)
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    BrokerRegistrationChanged,
    BrokerUnregistered,
    PartitionState,
    TopicCreated,
    TopicDeleted,
    TopicIdentified,
)
from kchaos.checkers.model.values.requests import StopReplica

METADATA_TOPIC = "__cluster_metadata"
_PUBLISHES_BEFORE_IT_COUNTS = (3, 5, 0, 0)
"""The first release whose heartbeats name no offset before replicas have changed by it."""
_MOST_BROKERS = 1 << 31


@dataclass(slots=True, kw_only=True)
class _Image:
    """The metadata up to an offset, inclusive, as far as replicas depend on it.

    Attributes:
        topic_ids: The id of each topic.
    """

    offset: int = -1
    topic_ids: dict[str, str] = field(default_factory=dict)
    states: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    assigned: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    brokers: dict[int, BrokerImage] = field(default_factory=dict)

    def live(self) -> frozenset[int]:
        """Return the brokers that are neither fenced nor shutting down."""
        return frozenset(broker for broker, image in self.brokers.items() if image.is_active)

    def copy(self) -> "_Image":
        return _Image(**{each.name: copy(getattr(self, each.name)) for each in fields(self)})

    def take(self, decision: object) -> bool:
        """Take the next decision; return whether it is about replicas."""
        match decision:
            case TopicIdentified(topic=topic, topic_id=topic_id):
                self.topic_ids[topic] = topic_id
            case TopicCreated(topic=topic, assignment=assignment):
                for number, replicas in enumerate(assignment):
                    self.assigned[TopicPartition(topic, number)] = replicas
            case TopicDeleted(topic=topic):
                self.topic_ids.pop(topic, None)
                for partition in [each for each in self.assigned if each.topic == topic]:
                    del self.assigned[partition]
                    self.states.pop(partition, None)
            case PartitionState(topic=topic, partition=number):
                self.states[TopicPartition(topic, number)] = decision
            case BrokerRegistered(broker=broker, czxid=epoch):
                self.brokers[broker] = BrokerImage(epoch=epoch)
            case BrokerRegistrationChanged(broker=broker):
                self.brokers[broker] = replace(
                    self.brokers[broker],
                    is_fenced=decision.is_fenced,
                    is_shutting_down=decision.is_shutting_down,
                )
            case BrokerUnregistered(broker=broker):
                self.brokers.pop(broker, None)
            case _:
                return False
        return True


@dataclass(slots=True, kw_only=True)
class _Life:
    """One process of a broker, and how far it has come in the metadata log.

    Attributes:
        connection: Of the numbers of its deltas; no link has one below 0.
        names_what_is_published: Whether a heartbeat names an offset only when replicas have changed
            by it. Up to 3.4 an offset counts as read before that
            (BrokerMetadataListener.loadBatches, 3.3.2 and 3.4.1): two further offsets show it then.
        committed: The last offset that the process knows to be committed.
        pending: (last offset, number) of each delta that no heartbeat has shown to be published.
        passed: By number, the offsets named since that are beyond the delta.
    """

    connection: int
    names_what_is_published: bool
    image: _Image = field(default_factory=_Image)
    committed: int = -1
    deltas: int = 0
    pending: list[tuple[int, Number]] = field(default_factory=list)
    passed: dict[Number, set[int]] = field(default_factory=dict)

    def published(self, offset: int) -> Iterator[tuple[Number, bool]]:
        """Yield the deltas published by an offset, and whether it shows that no later one is."""
        done = [each for each in self.pending if self._shows(offset, *each)]
        self.pending = [each for each in self.pending if each not in done]
        for place, (_, number) in enumerate(done):
            is_last = place == len(done) - 1
            yield number, is_last and bool(self.pending) and self.names_what_is_published

    def _shows(self, offset: int, last: int, number: Number) -> bool:
        if self.names_what_is_published:
            return offset >= last
        if offset > last:
            self.passed.setdefault(number, set()).add(offset)
        return len(self.passed.get(number, ())) > 1


def metadata_taken_up(evidence: RunEvidence) -> list[Seen]:
    """Return each delta that a broker may publish, and each heartbeat that shows that it did.

    Deltas are `ControlSent` and heartbeats `ControlAnswered`, in the order of their times.
    """
    images = [_Image()]
    for timed in evidence.decisions:
        after = images[-1].copy()
        if after.take(timed.event):
            after.offset = timed.zxid
            images.append(after)
    items = [
        item
        for broker in evidence.description.brokers
        for item in _of_broker(evidence, broker, images)
    ]
    return sorted(items, key=lambda item: item.time)


def _of_broker(evidence: RunEvidence, broker: int, images: Sequence[_Image]) -> Iterator[Seen]:
    offsets = [image.offset for image in images]
    messages = [
        message
        for message in evidence.links or ()
        if message.source == broker
        and message.target not in evidence.description.brokers
        and message.fate in ARRIVED
        and message.detail is not None
    ]
    disk: dict[TopicPartition, str] = {}
    for life, own in _by_process(evidence, broker, messages):
        ends = _ends(own)
        life.image.topic_ids = {partition.topic: topic_id for partition, topic_id in disk.items()}
        life.image.assigned = {partition: (broker,) for partition in disk}
        for message in own:
            answered = metadata_entry(message) if message.direction == "response" else None
            if answered is not None and not answered.get("error_code"):
                last = min(answered["high_watermark"], ends[message.sequence]) - 1
                if last <= life.committed:
                    continue
                life.committed = last
                before, life.image = life.image, images[bisect_right(offsets, last) - 1]
                number = (life.connection, life.deltas)
                delta = _difference(before, life.image, broker, number)
                if delta is not None:
                    disk = {
                        partition: life.image.topic_ids[partition.topic]
                        for partition, replicas in life.image.assigned.items()
                        if broker in replicas
                    }
                    life.pending.append((last, number))
                    life.deltas += 1
                    yield Seen(
                        what=delta,
                        time=message.wall_time_s,
                        zxid=life.image.offset,
                        source=message.read_at,
                    )
            elif _wants_to_be_unfenced(message):
                assert message.detail is not None
                for number, is_alone in life.published(message.detail["current_metadata_offset"]):
                    yield Seen(
                        what=ControlAnswered(
                            number=number,
                            api=METADATA_LOG,
                            broker=broker,
                            error_code=0,
                            errors={},
                            is_alone=is_alone,
                        ),
                        time=message.wall_time_s,
                        source=message.read_at,
                    )


def _by_process(
    evidence: RunEvidence, broker: int, messages: Sequence[LinkMessage]
) -> Iterator[tuple[_Life, list[LinkMessage]]]:
    """Yield each process of a broker with its messages, without those after its end."""
    starts = [
        timed.event
        for timed in evidence.events
        if isinstance(timed.event, StartBroker) and timed.event.broker == broker
    ]
    ends = [
        timed.time
        for timed in evidence.events
        if isinstance(timed.event, StopBroker) and timed.event.broker == broker
    ]
    process_of: dict[int, int] = {}
    for place, start in enumerate(starts):
        release = parse_version(start.release)
        life = _Life(
            connection=-1 - broker - place * _MOST_BROKERS,
            names_what_is_published=release >= _PUBLISHES_BEFORE_IT_COUNTS,
        )
        own = []
        for message in messages:
            now = bisect_right(ends, message.wall_time_s)
            if now == place and process_of.setdefault(message.connection, now) == now:
                own.append(message)
        yield life, own


def _ends(messages: Sequence[LinkMessage]) -> Mapping[int, int]:
    """Return by sequence number where the broker's copy ends after each answer, exclusive.

    The next Fetch says so. Where none comes any more, the last record of the answer does.
    """
    ends: dict[int, int] = {}
    waiting: list[int] = []
    end = 0
    for message in messages:
        fetched = metadata_entry(message)
        if fetched is None:
            continue
        if message.direction == "request":
            end = int(fetched["fetch_offset"])
            ends.update(dict.fromkeys(waiting, end))
            waiting = []
        else:
            last = fetched.get("last_offset")
            ends[message.sequence] = end if last is None else int(last) + 1
            waiting.append(message.sequence)
    return ends


def metadata_entry(message: LinkMessage) -> Mapping[str, Any] | None:
    """Return what a Fetch, or its answer, says of the metadata log."""
    if message.api != "Fetch" or message.detail is None:
        return None
    entries = message.detail.get("partitions") or ()
    return next((entry for entry in entries if entry.get("topic") == METADATA_TOPIC), None)


def _wants_to_be_unfenced(message: LinkMessage) -> bool:
    """Return whether a heartbeat says what replicas have changed by.

    A broker that starts wants to stay fenced until its first image is published
    (BrokerServer.startup waits for firstPublishFuture, 3.6.2 and 4.1.2).
    """
    is_heartbeat = message.api == "BrokerHeartbeat" and message.direction == "request"
    return is_heartbeat and message.detail is not None and not message.detail["want_fence"]


def _difference(before: _Image, after: _Image, broker: int, number: Number) -> ControlSent | None:
    """Return what the difference of two images is for a broker (TopicDelta.localChanges, 4.1.2).

    Of a process that starts, `before` has nothing but the replicas that it finds on disk.
    """
    held = {
        partition
        for partition, replicas in before.assigned.items()
        if broker in replicas and not is_internal(partition.topic)
    }
    kept = {
        partition
        for partition in held
        if before.topic_ids.get(partition.topic) == after.topic_ids.get(partition.topic)
        and broker in after.assigned.get(partition, ())
    }
    states = []
    for partition, state in sorted(after.states.items()):
        known = before.states.get(partition) if partition in kept else None
        is_changed = known is None or known.version != state.version
        is_assigned = broker in after.assigned.get(partition, ())
        if is_assigned and is_changed and not is_internal(partition.topic):
            states.append(state)
    gone = [
        partition
        for partition in before.states
        if before.topic_ids.get(partition.topic) != after.topic_ids.get(partition.topic)
    ]
    told = frozenset(after.states) - (frozenset(before.states) - frozenset(gone))
    stopped = sorted(held - kept)
    if not states and not stopped and not told and not gone and before.brokers == after.brokers:
        return None
    return ControlSent(
        number=number,
        api=METADATA_LOG,
        controller=-1,
        controller_epoch=0,
        broker=broker,
        states=tuple(states),
        live=after.live(),
        registered=frozenset(after.brokers),
        epochs=frozenset(
            (broker, registration.epoch)
            for broker, registration in after.brokers.items()
            if not registration.is_fenced
        ),
        told=told,
        topic_ids={
            partition.topic: after.topic_ids[partition.topic]
            for partition in (*told, *(TopicPartition(s.topic, s.partition) for s in states))
        },
        deleted=frozenset(gone) - frozenset(after.states),
        replicas={
            partition: after.assigned[partition]
            for partition in (TopicPartition(state.topic, state.partition) for state in states)
        },
        stopped=tuple(
            StopReplica(
                partition=partition,
                deletes=True,
                is_stray=before.offset < 0 and broker in after.assigned.get(partition, ()),
            )
            for partition in stopped
        ),
    )
