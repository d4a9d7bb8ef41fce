"""One run's evidence, through which the judge, Spark's tasks and the report read it.

Here the files are joined: operations with the ISR of their time, partitions with all that names
them.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from kchaos.checkers.acts import LoseTail, StartBroker, StopBroker, TopicPartition, WipeLogDirectory
from kchaos.checkers.errors import CheckpointError, ScenarioDataError, SegmentError
from kchaos.checkers.evidence.actions import TimedEvent, in_one_order, is_internal, read_actions
from kchaos.checkers.evidence.broker_epochs import ControlRequest, control_requests
from kchaos.checkers.evidence.client_history import ClientHistory, client_history
from kchaos.checkers.evidence.dropped import dropped_followers
from kchaos.checkers.evidence.history import Operation, produces
from kchaos.checkers.evidence.led_from import LedEpoch, ends_answered, starts_said
from kchaos.checkers.evidence.links import LinkMessage
from kchaos.checkers.evidence.markers import Marker, markers_of
from kchaos.checkers.evidence.metadata import METADATA, MIN_ISR
from kchaos.checkers.evidence.migration import placed_by_time
from kchaos.checkers.evidence.observed import lines_of
from kchaos.checkers.evidence.partition import DroppedFollower
from kchaos.checkers.evidence.run_files import RunFiles
from kchaos.checkers.evidence.said import joined, not_seen
from kchaos.checkers.evidence.server_logs import deleted_until, moved_replicas
from kchaos.checkers.evidence.snapshots import TakenSnapshot
from kchaos.checkers.evidence.tier import remote_deleted
from kchaos.checkers.evidence.topic_settings import TopicSettings
from kchaos.checkers.model.releases.request_versions import can_read
from kchaos.checkers.model.releases.versions import parse_version
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    DeleteRecords,
    EligibleReplicas,
    HighWatermarkObserved,
    LogCleaned,
    LogStartObserved,
    PartitionState,
    Produce,
    RemoteCopy,
    ReplicaMoved,
    Snapshot,
    TierRead,
    TopicConfigured,
    TopicCreated,
)
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.observations import HighWatermark

_UNDISTURBING = (
    *(Produce, Snapshot, DeleteRecords, HighWatermarkObserved, LogStartObserved),
    *(LogCleaned, RemoteCopy, TierRead, ReplicaMoved),
)
_EVERYWHERE = 2**63 - 1
"""Above every offset."""


class RunEvidence(RunFiles):
    """Evidence of one run: its files, and what follows from several of them."""

    def read(self) -> "RunEvidence":
        """Read all but copied files and the brokers' logs; return itself.

        Raises:
            CheckError: A file does not have the documented shape; the message names it.
        """
        _ = self.events, self.configurations, self.operations, self.rounds, self.snapshots
        _ = self.outcome, self.pinned, self.is_linked, self.control, self.leader_views
        _ = self.tier_readings, self.remote_events
        return self

    @cached_property
    def events(self) -> tuple[TimedEvent, ...]:
        """The timeline: actions and decisions in their order, without internal topics."""
        return in_one_order(self.decisions, self.actions)

    @cached_property
    def unregistered(self) -> frozenset[int]:
        """The brokers that have not registered since they were started last."""
        waiting: set[int] = set()
        for timed in self.events:
            match timed.event:
                case StartBroker(broker=broker):
                    waiting.add(broker)
                case BrokerRegistered(broker=broker):
                    waiting.discard(broker)
        return frozenset(waiting)

    @cached_property
    def actions(self) -> tuple[TimedEvent, ...]:
        """The scenario's actions, in its order, internal topics included.

        That is actions.jsonl, and each produce of the history but probes that were refused.
        """
        refused = {each.operation for each in self.client_operations if each.is_refused_probe}
        sent = (
            timed
            for timed in produces(self.files, self.history)
            if not isinstance(timed.event, Produce) or timed.event.operation not in refused
        )
        both = (*read_actions(self.files), *sent)
        placed = map(placed_by_time, both) if self.is_migration else both
        return tuple(sorted(placed, key=lambda timed: (timed.zxid, timed.time)))

    @cached_property
    def operations(self) -> tuple[Operation, ...]:
        """Operations of all clients, in the order of invocation, with the ISR at their end."""
        others = self.clients.operations if self.clients is not None else ()
        every = sorted(
            (*self.said_alone, *self.client_operations, *others),
            key=lambda operation: operation.invoked_at,
        )
        decided: dict[TopicPartition, list[TimedEvent]] = {}
        for timed in self.events:
            if isinstance(timed.event, PartitionState):
                partition = TopicPartition(timed.event.topic, timed.event.partition)
                decided.setdefault(partition, []).append(timed)
        return tuple(_with_decided(operation, decided) for operation in every)

    @cached_property
    def said_alone(self) -> tuple[Operation, ...]:
        """The test's statements that no link confirms, consecutive ones merged.

        A change of an ISR, a disk, a broker's end or a deletion separates them.
        """
        changes = (PartitionState, EligibleReplicas, LoseTail, WipeLogDirectory, StopBroker)
        turns = [timed.time for timed in self.events if isinstance(timed.event, changes)]
        turns += [deletion.time for each in self.deletions.values() for deletion in each]
        return joined(not_seen(self.said, self.clients), sorted(turns))

    @cached_property
    def client_history(self) -> ClientHistory | None:
        """The clients' history from links and the test's statements, None without both."""
        if self.clients is None and not self.said_alone:
            return None
        left_out = {
            partition.topic
            for partition in self.partitions
            if self.settings.is_compacted(partition.topic) or self.deletions.get(partition.topic)
        }
        lines = () if self.clients is None else self.clients.lines
        return client_history(lines, left_out=left_out, said=self.said_alone)

    @cached_property
    def unfollowed_clients(self) -> Mapping[TopicPartition, str]:
        """Partitions to which others' clients wrote what the model is not told, with the reason."""
        whys = {
            TopicPartition(operation.topic, operation.partition): "records of which the test says "
            "where they were acknowledged, and not when they were sent"
            for operation in self.said_alone
            if operation.function == "produce"
        }
        if self.clients is None:
            return whys
        whys |= self.clients.unfollowed
        for transactional in self.clients.transactional:
            if self.markers is None:
                whys.setdefault(transactional, "transactions whose markers the links did not see")
            if self.settings.may_delete(transactional.topic):
                whys.setdefault(
                    transactional, "transactions in a topic that brokers may delete from"
                )
        for operation in self.clients.operations:
            if operation.function != "produce":
                continue
            partition = TopicPartition(operation.topic, operation.partition)
            if self.settings.is_compacted(operation.topic):
                whys.setdefault(partition, "records with keys in a compacted topic")
            if any(self._is_in_doubt(operation, snapshot) for snapshot in self.snapshots):
                whys.setdefault(partition, "records that were sent while disks were copied")
        return whys

    @cached_property
    def topics_left_out(self) -> Mapping[str, Sequence[str]]:
        """Topics that the model leaves out of a run that it follows, each with the reasons.

        A topic of others' clients counts as a whole: fetchers ask for all its partitions.
        """
        whys: dict[str, list[str]] = {}
        for partition, why in sorted(self.unfollowed_clients.items()):
            whys.setdefault(partition.topic, []).append(
                f"clients of others wrote to {partition.name} what the model does not follow: {why}"
            )
        for partition, why in sorted(self.untold_cleaning.items()):
            whys.setdefault(partition.topic, []).append(why)
        return whys

    def _is_in_doubt(self, operation: Operation, snapshot: TakenSnapshot) -> bool:
        """Return whether some copies may precede a client's write, and others follow it.

        It is in none of them or in all if its broker's process had ended before, if logs ended in
        the copies where settling saw them end before, and if all copies end alike.
        """
        is_over = operation.ended_at is not None and operation.ended_at <= snapshot.copied_from
        if is_over or operation.invoked_at > snapshot.copied_until:
            return False
        # Clients may have left many writes without an answer, each asks the same of its partition.
        about = (snapshot.label, TopicPartition(operation.topic, operation.partition))
        if about not in self._still:
            self._still[about] = self._stood_still(about[1], snapshot)
        return not self._still[about] and not any(
            isinstance(timed.event, StopBroker)
            and timed.event.broker == operation.broker
            and operation.invoked_at < timed.time <= snapshot.copied_from
            for timed in self.events
        )

    @cached_property
    def _still(self) -> dict[tuple[str, TopicPartition], bool]:
        """By label and partition, what `_stood_still` has said so far."""
        return {}

    def _stood_still(self, partition: TopicPartition, snapshot: TakenSnapshot) -> bool:
        """Return whether all copied logs end alike, or where each ended before the copying."""
        copied = self._copied_ends(snapshot, partition)
        if len({*copied.values()}) == 1 and None not in copied.values():
            return True
        settled = self.outcome.settle
        if settled is None or not snapshot.is_final:
            return False
        seen = (settled.last_seen or {}).get(partition.name)
        ends = seen.get("ends") if isinstance(seen, Mapping) else None
        return isinstance(ends, Mapping) and bool(copied) and ends == copied

    def _copied_ends(
        self, snapshot: TakenSnapshot, partition: TopicPartition
    ) -> Mapping[str, int | None]:
        """Return each copied log's end (exclusive) by broker; None if its segments are unreadable.

        A broker without a copy of the partition is left out.
        """
        ends: dict[str, int | None] = {}
        for broker in snapshot.brokers:
            try:
                contents = self.copied.contents(snapshot.label, broker, partition)
            except SegmentError:
                ends[str(broker)] = None
                continue
            if contents is not None:
                batches = contents.batches
                ends[str(broker)] = batches[-1].last_offset + 1 if batches else 0
        return ends

    @cached_property
    def pinned(self) -> frozenset[tuple[TopicPartition, int]]:
        """Partition and broker of each checkpoint in which settling saw the last high watermark.

        Left out are partitions to which others' clients still wrote while the run settled: their
        high watermarks went on.
        """
        steps = len(self.scenario.steps)
        settles = next((line.time for line in self.observed if line.step >= steps), math.inf)
        written = {*self._written_by_others(settles)}
        return frozenset(
            (partition, broker)
            for line, mark in lines_of(self.observed, HighWatermark)
            if line.step >= steps
            and (partition := TopicPartition(mark.topic, mark.partition)) not in written
            for broker in mark.seen
        )

    def _written_by_others(self, since: float) -> Iterator[TopicPartition]:
        """Yield partitions with foreign writes that were sent or answered from a time on."""
        for operation in () if self.clients is None else self.clients.operations:
            if operation.function == "produce" and since <= max(
                operation.invoked_at, operation.ended_at or 0
            ):
                yield TopicPartition(operation.topic, operation.partition)
        for marker in self.markers or ():
            if since <= max(marker.asked_at, marker.answered_at or 0):
                yield TopicPartition(marker.topic, marker.partition)

    @cached_property
    def markers(self) -> tuple[Marker, ...] | None:
        """The transaction markers that coordinators sent; None where the links do not tell them.

        Markers that their leader's release cannot read are left out (KAFKA-20322).
        """
        return None if self.links is None else markers_of(self.links, self._can_read)

    @cached_property
    def unread_markers(self) -> tuple[Marker, ...]:
        """The markers that the last process of their leader cannot read; it hangs up on them."""
        unread = markers_of(self.links or (), lambda message: not self._can_read(message)) or ()
        return tuple(
            marker
            for marker in unread
            if all(start.time <= marker.asked_at for start in self._starts(marker.broker))
        )

    def _starts(self, broker: int | None) -> list[TimedEvent]:
        return [
            timed
            for timed in self.events
            if isinstance(timed.event, StartBroker) and timed.event.broker == broker
        ]

    def _can_read(self, message: LinkMessage) -> bool:
        """Return whether the release that its receiver ran then knows the version of a request."""
        ran = [
            timed.event.release
            for timed in self._starts(message.target)
            if isinstance(timed.event, StartBroker) and timed.time <= message.wall_time_s
        ]
        if not ran or message.api is None or message.api_version is None:
            return True
        return can_read(parse_version(ran[-1]), message.api, message.api_version)

    @cached_property
    def control(self) -> tuple[ControlRequest, ...] | None:
        """Control requests that were answered; None without links.jsonl.

        None in a migration too: there a broker has generations in two logs at once.
        """
        if self.links is None or self.is_migration:
            return None
        return control_requests(self.links, self.events)

    @cached_property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Those that are judged, sorted: of every topic that was created or seen, and is there."""
        created = (timed.event for timed in self.events if isinstance(timed.event, TopicCreated))
        partitions = {
            TopicPartition(event.topic, number)
            for event in created
            for number in range(len(event.assignment))
        }
        partitions.update(*(snapshot.partitions() for snapshot in self.snapshots))
        return tuple(
            sorted(
                partition
                for partition in partitions
                if not is_internal(partition.topic) and not self._is_gone(partition)
            )
        )

    def _is_gone(self, partition: TopicPartition) -> bool:
        """Return whether the topic was deleted, and its successor, if any, lacks the partition."""
        removed = [
            deletion.zxid
            for deletion in self.deletions.get(partition.topic, ())
            if deletion.time < math.inf
        ]
        made = (timed.event for timed in self.events if isinstance(timed.event, TopicCreated))
        return bool(removed) and not any(
            event.topic == partition.topic
            and event.zxid > max(removed)
            and partition.partition < len(event.assignment)
            for event in made
        )

    @cached_property
    def settings(self) -> TopicSettings:
        """Settings of the topics."""
        changes: dict[str, list[Mapping[str, str]]] = {}
        for timed in self.events:
            if isinstance(timed.event, TopicConfigured):
                changes.setdefault(timed.event.topic, []).append(dict(timed.event.configuration))
        return TopicSettings(
            last=self.configurations,
            changes=changes,
            of_brokers=self.broker_properties,
            while_running=frozenset(
                name for _, given in self.broker_configurations for name, _ in given
            ),
            deleted_from=frozenset(
                timed.event.topic for timed in self.events if isinstance(timed.event, DeleteRecords)
            ),
        )

    @cached_property
    def deleted_until(self) -> Mapping[TopicPartition, int]:
        """By partition the offset below which a client had records deleted (DeleteRecords)."""
        return deleted_until(self.server_logs)

    @cached_property
    def remote_deleted(self) -> Mapping[TopicPartition, int]:
        """By partition the offset below which finished copies left the remote tier."""
        return remote_deleted(self.remote_events)

    @cached_property
    def moved_replicas(self) -> tuple[tuple[float, ReplicaMoved], ...]:
        """Replicas that brokers moved to another log directory, by their logs, with the times."""
        return moved_replicas(self.server_logs, self.events)

    def assignment(self, partition: TopicPartition) -> tuple[int, ...]:
        """Return the partition's last assignment, preferred replica first; empty without one."""
        assigned: tuple[int, ...] = ()
        for timed in self.events:
            event = timed.event
            if isinstance(event, TopicCreated) and event.topic == partition.topic:
                has_it = partition.partition < len(event.assignment)
                assigned = event.assignment[partition.partition] if has_it else ()
        return assigned

    def moved_away(self, partition: TopicPartition) -> Iterator[tuple[int, float]]:
        """Yield (broker, seconds since the epoch) of each replica that the assignment lost."""
        before: tuple[int, ...] = ()
        for timed in self.events:
            event = timed.event
            if isinstance(event, TopicCreated) and event.topic == partition.topic:
                has_it = partition.partition < len(event.assignment)
                now = event.assignment[partition.partition] if has_it else ()
                yield from ((broker, timed.time) for broker in before if broker not in now)
                before = now

    @cached_property
    def starts_said(self) -> Mapping[LedEpoch, int]:
        """Offset at which each leader epoch began, as its leader's log says."""
        return starts_said(self.server_logs)

    @cached_property
    def ends_answered(self) -> Mapping[LedEpoch, Mapping[int, int]]:
        """The ends that each leader answered, by the epoch that was asked for."""
        return ends_answered(self.links or ())

    @cached_property
    def undisturbed_since(self) -> float:
        """When the cluster was last acted on, decided something, or stood still."""
        events = (*self.decisions, *self.actions)
        changed = [each.time for each in events if not isinstance(each.event, _UNDISTURBING)]
        return max((*changed, *(each.ended for each in self.standstills)), default=-math.inf)

    @cached_property
    def unclean_stops(self) -> tuple[tuple[int, float], ...]:
        """Each end of a broker that was no clean one, as (broker, seconds since the epoch)."""
        return tuple(
            (timed.event.broker, timed.time)
            for timed in self.events
            if isinstance(timed.event, StopBroker) and not timed.event.clean
        )

    def cleaned_until(self, partition: TopicPartition, snapshot: TakenSnapshot) -> int:
        """Return the offset below which log cleaners may have removed records by a snapshot, or 0.

        A cleaner leaves alone the segment that is written to, and notes in a checkpoint how far it
        came. A broker that ends uncleanly may not have noted it, and one that a replica was moved
        away from notes nothing of it any more: what it removed is missing where that was copied to.
        """
        earlier = [each for each in self.snapshots if each.time <= snapshot.time]
        is_moved = any(self.moved_away(partition))
        may_be_unnoted = self.settings.is_compacted(partition.topic) and (
            self.unclean_stops or is_moved
        )
        if not may_be_unnoted and not any(
            self._noted(each.label, broker, partition)
            for each in earlier
            for broker in each.brokers
        ):
            return 0
        if is_moved:
            return _EVERYWHERE
        segments = (
            self.copied.segments(each.label, broker, partition)
            for each in earlier
            for broker in each.brokers
        )
        return max((int(files[-1].stem) for files in segments if files), default=0)

    def _noted(self, label: str, broker: int, partition: TopicPartition) -> int:
        """Return the offset in a broker's cleaner checkpoint; 0 without one."""
        try:
            return self.copied.cleaned(label, broker).get(partition, 0)
        except CheckpointError:
            return 0  # The rules say so.

    @cached_property
    def untold_cleaning(self) -> Mapping[TopicPartition, str]:
        """Partitions over which log cleaners went unawaited, each with a sentence."""
        told: dict[tuple[TopicPartition, int], int] = {}
        for timed in self.events:
            if isinstance(timed.event, LogCleaned):
                seen = timed.event
                key = (TopicPartition(seen.topic, seen.partition), seen.broker)
                told[key] = max(told.get(key, 0), seen.cleaned_until)
        return {
            partition: f"broker {broker}'s log cleaner went over {partition.name} up to offset "
            f"{until}, and nobody waited for it (AwaitCleaned): when it did so is not known"
            for snapshot in self.snapshots
            for partition in self.partitions
            for broker in snapshot.brokers
            if (until := self._noted(snapshot.label, broker, partition))
            > told.get((partition, broker), 0)
        }

    def dropped(self, partition: TopicPartition) -> Iterator[DroppedFollower]:
        """Yield each follower that left the ISR while it waited for its leader."""
        looks: dict[int, list[float]] = {}
        for view in self.leader_views:
            if view.is_check and view.partition == partition:
                looks.setdefault(view.leader, []).append(view.time)
        return dropped_followers(
            self.events, self.overdue_fetches, partition, looks=looks, wait_s=self._fetch_wait_s
        )

    def min_insync_replicas(self, partition: TopicPartition, leader: int) -> int:
        """Return the topic's min.insync.replicas, else that of the leader's broker."""
        of_topic = self.configurations.get(partition.topic, {}).get(MIN_ISR)
        if of_topic is not None:
            if not (of_topic.isascii() and of_topic.isdigit() and len(of_topic) < 10):
                folder = METADATA if self.is_kraft else "zookeeper"
                raise ScenarioDataError(
                    f"{folder}/: topic {partition.topic} has min.insync.replicas {of_topic!r}"
                )
            return int(of_topic)
        of_broker = 1
        for timed in self.events:
            if isinstance(timed.event, StartBroker) and timed.event.broker == leader:
                start = self.metadata_logs.as_started(timed.event) if self.is_kraft else timed.event
                of_broker = start.min_insync_replicas
        return of_broker


def _with_decided(
    operation: Operation, decided: Mapping[TopicPartition, Sequence[TimedEvent]]
) -> Operation:
    """Return the operation with the ISR and leader epochs decided while it went on.

    All clocks are this machine's.
    """
    isr: tuple[int, ...] = ()
    epochs: list[int] = []
    for timed in decided.get(TopicPartition(operation.topic, operation.partition), ()):
        event = timed.event
        if (
            isinstance(event, PartitionState)
            and operation.ended_at is not None
            and timed.time <= operation.ended_at
        ):
            isr = event.isr
            if event.leader == operation.broker:
                epochs = [] if timed.time <= operation.invoked_at else epochs
                epochs.append(event.leader_epoch)
    is_known = operation.function == "produce" and not operation.is_said
    appended_in = tuple(dict.fromkeys(epochs)) if is_known else ()
    return replace(operation, isr_when_ended=isr, leader_epochs=appended_in)
