"""One run's evidence, as typed values: each file is read when it is first asked for, and once.

The judge, Spark's tasks and the report all read a run through this. What the pieces of evidence
name of each other is joined here: operations with the ISR of their time, partitions with all that
names them.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property

from kchaos.checkers.acts import LoseTail, StartBroker, StopBroker, TopicPartition, WipeLogDirectory
from kchaos.checkers.errors import CheckpointError, ScenarioDataError, SegmentError
from kchaos.checkers.evidence.about import (
    RUN,
    SCENARIO,
    Outcome,
    RunAbout,
    ScenarioAbout,
    marked,
    read_outcome,
)
from kchaos.checkers.evidence.actions import TimedEvent, in_one_order, is_internal, read_actions
from kchaos.checkers.evidence.broker_epochs import ControlRequest, control_requests
from kchaos.checkers.evidence.client_history import ClientHistory, client_history
from kchaos.checkers.evidence.clients import ClientsSeen, read_clients
from kchaos.checkers.evidence.dropped import (
    OverdueFetch,
    dropped_followers,
    fetch_wait_s,
    overdue_fetches,
)
from kchaos.checkers.evidence.epoch_rounds import epoch_rounds
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.history import (
    HISTORY,
    HistoryLine,
    Operation,
    operations,
    produces,
    said,
)
from kchaos.checkers.evidence.leader_view import LeaderView, leader_views
from kchaos.checkers.evidence.led_from import (
    LedEpoch,
    ends_answered,
    ends_cached,
    reached_by_fetching,
    starts_said,
)
from kchaos.checkers.evidence.links import LinkMessage, read_links
from kchaos.checkers.evidence.markers import Marker, markers_of
from kchaos.checkers.evidence.metadata import METADATA, MIN_ISR, MetadataLogs, Settings
from kchaos.checkers.evidence.observed import Observed, lines_of, read_observed
from kchaos.checkers.evidence.partition import DroppedFollower, Excuse
from kchaos.checkers.evidence.said import joined, not_seen
from kchaos.checkers.evidence.snapshots import CopiedFiles, TakenSnapshot, read_snapshots
from kchaos.checkers.evidence.tier import RemoteEvent, TierReading, read_tier, remote_events
from kchaos.checkers.evidence.zookeeper import (
    broker_configurations,
    cluster_id,
    decisions,
    member_logs,
    topic_configurations,
    topic_deletions,
    topic_ids,
)
from kchaos.checkers.formats.partition_names import topic_partition
from kchaos.checkers.formats.point_hit import HITS, PLANTED, PointHit
from kchaos.checkers.metadata_log import LeaderChange, LogEntry
from kchaos.checkers.model.values.events import (
    BrokerRegistered,
    DeleteRecords,
    EligibleReplicas,
    LogCleaned,
    PartitionState,
    Produce,
    ReplicaMoved,
    TopicConfigured,
    TopicCreated,
    TopicDeletion,
)
from kchaos.checkers.model.values.prediction import EpochRound
from kchaos.checkers.model.values.replacing import replace
from kchaos.checkers.observations import (
    AddressesGiven,
    BrokerStarted,
    GaveUp,
    HighWatermark,
    Injected,
    Standstill,
    StepNotPossible,
    StoodStill,
    UncleanElectionAsked,
)
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.segments.tier import FINISHED
from kchaos.checkers.zookeeper_log import ZnodeChange, read_ensemble

_EXPIRING = ("retention.ms", "retention.minutes", "retention.hours", "retention.bytes")
DELETING = (*_EXPIRING, "remote.storage.enable", "remote.log.storage.system.enable")
"""Settings, without "log.", that let brokers delete records."""

_DAY_MS = 86_400_000
_EVERYWHERE = 2**63 - 1
"""Above every offset."""
_WITHOUT_ZOOKEEPER = re.compile(r"(?:[4-9]|\d\d)\.")
"""Releases that have KRaft alone."""

# kafka.log.Log (UnifiedLog from 3.0 on), maybeIncrementLogStartOffset.
_LOG_TIME = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\]")
_MOVED = "successfully replaced with the future replica for "
_MOVED_REPLICA = re.compile(rf"{_MOVED}(?P<partition>\S+)")
_ZONE_STEP_S = 900.0
_DELETED_RECORDS = re.compile(
    r"\[\w*Log partition=(?P<partition>\S+-\d+), dir=.*\] Increment(?:ing|ed) log start offset to "
    r"(?P<offset>\d{1,18})(?: \(| due to client delete records request)"
)


class RunEvidence:
    """Evidence of one run; every property raises a `CheckError` that names the damage in it."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.files = EvidenceFiles(run)
        self.copied = CopiedFiles(self.files)

    def read(self) -> "RunEvidence":
        """Read all but copied files and the brokers' logs; return itself.

        Raises:
            CheckError: A file does not have the documented shape; the message names it.
        """
        _ = self.events, self.configurations, self.operations, self.rounds, self.snapshots
        _ = self.outcome, self.pinned, self.is_linked, self.control, self.leader_views
        _ = self.tier_readings, self.remote_events
        return self

    @property
    def name(self) -> str:
        """The run's own name, wherever a copy of it lies."""
        return self.description.name or self.run.path.resolve().name

    @cached_property
    def description(self) -> RunAbout:
        """run.json."""
        return self.files.value(RunAbout, RUN)

    @cached_property
    def scenario(self) -> ScenarioAbout:
        """scenario.json."""
        return self.files.value(ScenarioAbout, SCENARIO)

    @cached_property
    def outcome(self) -> Outcome:
        """outcome.json, or that the run did not finish."""
        return read_outcome(self.files)

    @cached_property
    def builds(self) -> tuple[str, ...]:
        """Each build of somebody's own that a broker ran, those included to which one rolled."""
        first = [broker.build for broker in self.description.brokers.values()]
        later = [started.build for _, started in lines_of(self.observed, BrokerStarted)]
        return tuple(sorted({build for build in [*first, *later] if build}))

    @cached_property
    def planted(self) -> tuple[str, ...]:
        """Points at which the agent planted bugs, as hits.jsonl names them."""
        builds = "; ".join(broker.build for broker in self.description.brokers.values())
        return tuple(sorted({name for name in builds.split("; ") if name.startswith(PLANTED)}))

    @cached_property
    def started_as(self) -> tuple[str, ...]:
        """Releases of brokers at first, each once, with its build if it is somebody's own."""
        return tuple(sorted({broker.name for broker in self.description.brokers.values()}))

    @cached_property
    def rolled_to(self) -> tuple[str, ...]:
        """Releases that brokers became besides, in the order in which they were rolled."""
        rolled = [
            marked(str(injected.effect["release"]), str(injected.effect.get("build") or ""))
            for _, injected in lines_of(self.observed, Injected)
            if injected.fault == "RollBroker" and injected.effect.get("release")
        ]
        return tuple(name for name in dict.fromkeys(rolled) if name not in self.started_as)

    @cached_property
    def ran(self) -> str:
        """Releases of brokers, for people, such as "1.1.1, rolled to 2.0.1"."""
        text = " and ".join(self.started_as) or self.description.release
        return f"{text}, rolled to {' and '.join(self.rolled_to)}" if self.rolled_to else text

    @cached_property
    def is_linked(self) -> bool:
        """Whether brokers spoke through links: the scenario asked for them, they could be had."""
        return not self.description.unlinked and self.scenario.cluster.linked

    @cached_property
    def znode_changes(self) -> tuple[ZnodeChange, ...]:
        """Every change of a znode, in zxid order."""
        return read_ensemble(self.zookeeper_logs)

    @cached_property
    def zookeeper_logs(self) -> Sequence[Sequence[tuple[str, bytes]]]:
        """Name and content of each member's transaction logs."""
        return member_logs(self.files)

    @cached_property
    def is_kraft(self) -> bool:
        """Whether a quorum of controllers kept the cluster's metadata, and not ZooKeeper."""
        mode = self.scenario.cluster.mode
        if mode is not None:
            return mode == "kraft"
        releases = (broker.release for broker in self.description.brokers.values())
        return any(_WITHOUT_ZOOKEEPER.match(release) for release in releases)

    @property
    def is_predicted(self) -> bool:
        """Whether the model predicts it: with KRaft, links show when brokers read decisions."""
        return not self.is_kraft or self.is_linked

    @cached_property
    def metadata_logs(self) -> MetadataLogs:
        """The copies of a KRaft cluster's metadata log."""
        return MetadataLogs(self.files, brokers=self.description.brokers)

    @property
    def positions(self) -> str:
        """Name of what orders decisions, for messages: zxids, or offsets of the metadata log."""
        return "offset" if self.is_kraft else "zxid"

    @property
    def decided_by(self) -> str:
        """Name of the log that has the decisions, for messages."""
        return "the metadata log" if self.is_kraft else "ZooKeeper's log"

    @cached_property
    def decisions(self) -> tuple[TimedEvent, ...]:
        """The cluster's decisions, in zxid order, internal topics included."""
        if self.is_kraft:
            return self.metadata_logs.decisions
        return tuple(decisions(self.znode_changes))

    @cached_property
    def topic_ids(self) -> Mapping[str, frozenset[str]]:
        """Every id that a topic ever had, as the cluster's metadata have it."""
        return self.metadata_logs.topic_ids if self.is_kraft else topic_ids(self.znode_changes)

    @cached_property
    def cluster_id(self) -> str:
        """The cluster's id, as ZooKeeper or the nodes have it, or ""."""
        return self.metadata_logs.cluster_id if self.is_kraft else cluster_id(self.znode_changes)

    @cached_property
    def configurations(self) -> Mapping[str, Mapping[str, str]]:
        """The last configuration of each topic, as the cluster's metadata have it."""
        if self.is_kraft:
            return self.metadata_logs.topic_configurations
        return topic_configurations(self.znode_changes)

    @cached_property
    def broker_configurations(self) -> Sequence[tuple[str, Settings]]:
        """Settings that brokers were given while they ran: an id or "<default>", and settings.

        Raises:
            ScenarioDataError: A znode holds no JSON of Kafka's shape.
        """
        if self.is_kraft:
            return self.metadata_logs.broker_configurations
        return tuple(broker_configurations(self.znode_changes))

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
        return tuple(sorted(both, key=lambda timed: (timed.zxid, timed.time)))

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
    def clients(self) -> ClientsSeen | None:
        """Acts of others' clients, as the links in front of brokers saw; None without those."""
        if not self.is_linked or not self.scenario.cluster.client_links:
            return None
        return read_clients(self.files)

    @cached_property
    def said(self) -> tuple[Operation, ...]:
        """The test's statements about its own clients, one operation each."""
        return tuple(said(self.files, self.history))

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
            if self.is_compacted(partition.topic) or self.deletions.get(partition.topic)
        }
        lines = () if self.clients is None else self.clients.lines
        return client_history(lines, left_out=left_out, said=self.said_alone)

    @cached_property
    def markers(self) -> tuple[Marker, ...] | None:
        """The transaction markers that coordinators sent; None where the links do not tell them."""
        return None if self.links is None else markers_of(self.links)

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
            if self.may_delete(transactional.topic):
                whys.setdefault(
                    transactional, "transactions in a topic that brokers may delete from"
                )
        for operation in self.clients.operations:
            if operation.function != "produce":
                continue
            partition = TopicPartition(operation.topic, operation.partition)
            if self.is_compacted(operation.topic):
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

        It is in none of them or in all if its broker's process had ended before, and if logs ended
        in the copies where settling saw them end before.
        """
        is_over = operation.ended_at is not None and operation.ended_at <= snapshot.copied_from
        if is_over or operation.invoked_at > snapshot.copied_until:
            return False
        is_gone = any(
            isinstance(timed.event, StopBroker)
            and timed.event.broker == operation.broker
            and operation.invoked_at < timed.time <= snapshot.copied_from
            for timed in self.events
        )
        partition = TopicPartition(operation.topic, operation.partition)
        return not is_gone and not self._stood_still(partition, snapshot)

    def _stood_still(self, partition: TopicPartition, snapshot: TakenSnapshot) -> bool:
        """Return whether each copied log ends at its log end offset before the copying."""
        settled = self.outcome.settle
        if settled is None or not snapshot.is_final:
            return False
        seen = (settled.last_seen or {}).get(partition.name)
        ends = seen.get("ends") if isinstance(seen, Mapping) else None
        copied = self._copied_ends(snapshot, partition)
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
    def client_operations(self) -> tuple[Operation, ...]:
        """Operations of kchaos's own clients, without the part that only ZooKeeper tells."""
        return operations(self.files, self.history)

    @cached_property
    def history(self) -> tuple[HistoryLine, ...]:
        """history.jsonl."""
        return tuple(self.files.lines(HistoryLine, HISTORY))

    @cached_property
    def observed(self) -> tuple[Observed, ...]:
        """observations.jsonl."""
        return tuple(read_observed(self.files))

    @cached_property
    def undone(self) -> frozenset[int]:
        """The numbers of the steps that were not possible, or that ended the run as unknown."""
        return frozenset(
            line.step for line in self.observed if isinstance(line.what, StepNotPossible | GaveUp)
        )

    @cached_property
    def standstills(self) -> tuple[Standstill, ...]:
        """Times in which the machine let nothing run, in order."""
        return tuple(each for _, seen in lines_of(self.observed, StoodStill) for each in seen.times)

    @property
    def stood_still(self) -> str:
        """For how long of the run the machine let nothing run, in words; "" for under a second."""
        stood = self.stood_still_s()
        if stood < 1:
            return ""
        return f"the machine stood still for {stood:.0f} of {self.outcome.seconds or 0:.0f} s"

    def stood_still_s(self, began: float = 0.0, ended: float = math.inf) -> float:
        """Return for how many seconds the machine was suspended between two times."""
        return sum(
            min(each.seconds, min(each.ended, ended) - max(each.began, began))
            for each in self.standstills
            if each.began < ended and began < each.ended
        )

    @cached_property
    def is_open_to_others(self) -> bool:
        """Whether somebody was given the cluster's addresses: clients of their own may write."""
        return any(lines_of(self.observed, AddressesGiven))

    @cached_property
    def asked_unclean(self) -> frozenset[TopicPartition] | None:
        """Partitions of which somebody may have asked for an unclean election; None for any."""
        asked = (each for _, each in lines_of(self.observed, UncleanElectionAsked))
        named = frozenset(TopicPartition(each.topic, each.partition) for each in asked)
        return None if self.is_open_to_others else named

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
    def links(self) -> tuple[LinkMessage, ...] | None:
        """links.jsonl; None without it."""
        return read_links(self.files)

    @cached_property
    def hits(self) -> tuple[PointHit, ...]:
        """hits.jsonl, in the order of its lines; empty where no broker ran with an agent."""
        return tuple(self.files.lines(PointHit, HITS))

    @cached_property
    def leader_views(self) -> tuple[LeaderView, ...]:
        """Leaders' knowledge of their followers; empty where no broker tells it."""
        return tuple(leader_views(self.hits))

    @cached_property
    def rounds(self) -> tuple[EpochRound, ...] | None:
        """Answered questions for leader epochs; None without links.jsonl."""
        return None if self.links is None else epoch_rounds(self.links)

    @cached_property
    def overdue_fetches(self) -> tuple[OverdueFetch, ...]:
        """Followers' fetches that their leaders kept for too long before they read."""
        return overdue_fetches(self.hits, self._fetch_wait_s)

    @property
    def _fetch_wait_s(self) -> float:
        return fetch_wait_s(self.scenario.cluster)

    @cached_property
    def control(self) -> tuple[ControlRequest, ...] | None:
        """Control requests that were answered; None without links.jsonl."""
        return None if self.links is None else control_requests(self.links, self.events)

    @cached_property
    def snapshots(self) -> tuple[TakenSnapshot, ...]:
        """Every snapshot.json, oldest first."""
        return read_snapshots(self.files)

    @cached_property
    def server_logs(self) -> Mapping[int, Sequence[str]]:
        """The lines of each broker's server.log, by its id; what is no UTF-8 is replaced."""
        return self._logs("brokers")

    @cached_property
    def controller_logs(self) -> Mapping[int, Sequence[str]]:
        """The same of each KRaft controller."""
        return self._logs("controllers")

    def _logs(self, folder: str) -> Mapping[int, Sequence[str]]:
        logs = sorted((self.run.path / folder).glob("*/server.log"))
        return {
            int(log.parent.name): self.files.content(f"{folder}/{log.parent.name}/server.log")
            .decode(errors="replace")
            .split("\n")
            for log in logs
            if log.parent.name.isdecimal()
        }

    @property
    def leader_changes(self) -> Iterator[LogEntry]:
        """Yields the beginning of each epoch of the quorum that was committed."""
        entries = self.metadata_logs.entries
        return (entry for entry in entries if isinstance(entry.record, LeaderChange))

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
    def deletions(self) -> Mapping[str, Sequence[TopicDeletion]]:
        """Each deletion of each topic that somebody had deleted, internal topics left out."""
        deletions = (
            self.metadata_logs.deletions if self.is_kraft else topic_deletions(self.znode_changes)
        )
        return {topic: each for topic, each in deletions.items() if not is_internal(topic)}

    @cached_property
    def deleted_until(self) -> Mapping[TopicPartition, int]:
        """By partition the offset below which a client had records deleted (DeleteRecords).

        Leaders say so in their logs, from 1.0 on; until 2.5 without the reason.
        """
        offsets: dict[TopicPartition, int] = {}
        for lines in self.server_logs.values():
            for line in lines:
                said = _DELETED_RECORDS.search(line) if "log start offset to" in line else None
                named = topic_partition(said["partition"]) if said else None
                if said is not None and named is not None:
                    key = TopicPartition(*named)
                    offsets[key] = max(offsets.get(key, 0), int(said["offset"]))
        return offsets

    @cached_property
    def remote_deleted(self) -> Mapping[TopicPartition, int]:
        """By partition the offset below which finished copies were deleted from the remote tier.

        A leader moves its log start there before it deletes them (RemoteLogManager.
        cleanupExpiredRemoteLogSegments, 3.6.2 and 3.8.0).
        """
        finished: set[str] = set()
        until: dict[TopicPartition, int] = {}
        for event in self.remote_events:
            segment = event.segment
            if event.record.state == FINISHED:
                finished.add(segment.segment_id)
            elif not event.is_copy and segment.segment_id in finished:
                known = until.get(event.partition, 0)
                until[event.partition] = max(known, segment.end_offset + 1)
        return until

    @cached_property
    def moved_replicas(self) -> tuple[tuple[float, ReplicaMoved], ...]:
        """Replicas that brokers moved to another log directory, by their logs, with the times.

        A log's times have no zone. Its first line is of the broker's first start, so the zone is
        the one, in steps of a quarter of an hour, in which both agree.
        """
        started: dict[int, float] = {}
        for timed in self.events:
            if isinstance(timed.event, StartBroker):
                began = timed.time if timed.began is None else timed.began
                started.setdefault(timed.event.broker, began)
        moved = []
        for broker, lines in self.server_logs.items():
            zone_s: float | None = None
            for line in lines if broker in started else ():
                time = log_time(line) if zone_s is None or _MOVED in line else None
                if time is None:
                    continue
                if zone_s is None:
                    zone_s = round((time - started[broker]) / _ZONE_STEP_S) * _ZONE_STEP_S
                named = _MOVED_REPLICA.search(line)
                partition = topic_partition(named["partition"]) if named else None
                if partition is not None:
                    what = ReplicaMoved(broker=broker, partition=TopicPartition(*partition))
                    moved.append((time - zone_s, what))
        return tuple(moved)

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

    def excuses(self, partition: TopicPartition) -> Iterator[Excuse]:
        """Yield, in order, the events after which Kafka may lose records of the partition.

        An eligible leader replica has all that is committed, as the ISR has (KIP-966).
        """
        isr: tuple[int, ...] | None = None
        eligible: tuple[int, ...] = ()
        led, led_before = set[tuple[int, int]](), set[tuple[int, int]]()
        deletions = [*self.deletions.get(partition.topic, ())]
        for timed in self.events:
            event = timed.event
            while deletions and deletions[0].zxid <= timed.zxid:
                isr, eligible = None, ()
                led_before |= led
                yield Excuse(kind="topic-deletion", broker=-1, time=deletions.pop(0).time)
            if isinstance(event, PartitionState) and (event.topic, event.partition) == partition:
                if isr is not None and event.leader >= 0 and event.leader not in (*isr, *eligible):
                    yield self._unclean_election(event, timed.time, led_before)
                isr = event.isr
                led.add((event.leader, event.leader_epoch))
            elif (
                isinstance(event, EligibleReplicas) and (event.topic, event.partition) == partition
            ):
                eligible = event.eligible
            elif isinstance(event, LoseTail) and (event.topic, event.partition) == partition:
                yield Excuse(
                    kind="lost-tail",
                    broker=event.broker,
                    time=timed.time,
                    first_lost_offset=event.log_end_offset,
                    isr=(*(isr or ()), *eligible),
                )
            elif isinstance(event, WipeLogDirectory) and event.broker in self.assignment(partition):
                keepers = (*(isr or ()), *eligible)
                yield Excuse(kind="lost-tail", broker=event.broker, time=timed.time, isr=keepers)
        for deletion in deletions:
            yield Excuse(kind="topic-deletion", broker=-1, time=deletion.time)

    def _unclean_election(
        self, decided: PartitionState, time: float, led_before: set[tuple[int, int]]
    ) -> Excuse:
        """Return an election from outside the ISR, with what its leader had.

        Of a topic that was deleted and made again, replicas that did not lead may have old folders,
        and what is said of a leader epoch that both topics had may be of either.
        """
        partition = TopicPartition(decided.topic, decided.partition)
        term = LedEpoch(partition, decided.leader, decided.leader_epoch)
        start: int | None = None
        kept: dict[int, int] = {}
        if (decided.leader, decided.leader_epoch) not in led_before:
            caches = (
                self.copied.epoch_entries(snapshot.label, broker, partition)
                for snapshot in self.snapshots
                for broker in sorted(snapshot.brokers, key=lambda each: each != decided.leader)
                if snapshot.time >= time and (broker == decided.leader or not led_before)
            )
            start, cached = ends_cached(caches, decided.leader_epoch)
            kept = {**self._ends_answered.get(term, {}), **cached}
            start = self._starts_said.get(term, start)
            if start is None and not any(
                isinstance(at.event, LoseTail | WipeLogDirectory) and at.event.broker == term.leader
                for at in self.events
            ):
                start = reached_by_fetching(self.links or ()).get(term)
        return Excuse(
            kind="unclean-election",
            broker=decided.leader,
            time=time,
            leader_epoch=decided.leader_epoch,
            start_offset=start,
            kept=tuple(sorted(kept.items())),
        )

    @cached_property
    def _starts_said(self) -> Mapping[LedEpoch, int]:
        return starts_said(self.server_logs)

    @cached_property
    def _ends_answered(self) -> Mapping[LedEpoch, Mapping[int, int]]:
        return ends_answered(self.links or ())

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
        may_be_unnoted = self.is_compacted(partition.topic) and (self.unclean_stops or is_moved)
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

    def delete_retention_s(self, topic: str) -> float:
        """Return the shortest time for which cleaners keep a record without a value, in seconds."""
        given = [settings.get("delete.retention.ms") for settings in self._settings_of(topic)]
        given.append(self.broker_properties.get("log.cleaner.delete.retention.ms"))
        # Both have a day by default; a value that is no number is told elsewhere.
        numbers = [int(value) for value in given if value and value.isdecimal()]
        return min(numbers, default=_DAY_MS) / 1000

    def may_delete(self, topic: str) -> bool:
        """Return whether a setting lets brokers delete the topic's records before the default time.

        By default they keep them for a week. A client may have asked for it too.
        """
        return self.is_deleted_from(topic) or self._is_set(topic, DELETING)

    def is_deleted_from(self, topic: str) -> bool:
        """Return whether a client requested the deletion of the topic's records."""
        return any(
            isinstance(timed.event, DeleteRecords) and timed.event.topic == topic
            for timed in self.events
        )

    def retains_less(self, topic: str) -> bool:
        """Return whether a setting lets brokers delete records by age or log size."""
        return self._is_set(topic, _EXPIRING)

    def _is_set(self, topic: str, names: tuple[str, ...]) -> bool:
        if self._policies(topic) == {"compact"}:
            return False
        changed = (dict(given) for _, given in self.broker_configurations)
        of_brokers = itertools.chain(self.broker_properties, *changed)
        set_there = {name.removeprefix("log.") for name in of_brokers}
        return not set_there.union(*self._settings_of(topic)).isdisjoint(names)

    def is_compacted(self, topic: str) -> bool:
        """Return whether log cleaners may compact the topic at any time of the run."""
        runs = self.broker_properties.get("log.cleaner.enable", "true") == "true"
        return runs and any("compact" in policy for policy in self._policies(topic))

    def cleanup_policy(self, topic: str) -> str:
        """Return the topic's or else the brokers' given policy; "" is Kafka's default, delete."""
        return self.configurations.get(topic, {}).get("cleanup.policy", self.default_cleanup_policy)

    def _policies(self, topic: str) -> frozenset[str]:
        """Return the policies of each of the topic's settings, or the default, without spaces."""
        given = [
            settings.get("cleanup.policy", self.default_cleanup_policy)
            for settings in self._settings_of(topic)
        ]
        return frozenset(policy.replace(" ", "") for policy in given)

    def _settings_of(self, topic: str) -> list[Mapping[str, str]]:
        """Return the settings that the topic was given, oldest first."""
        changes = [
            dict(timed.event.configuration)
            for timed in self.events
            if isinstance(timed.event, TopicConfigured) and timed.event.topic == topic
        ]
        return [*changes, self.configurations.get(topic, {})]

    @property
    def default_cleanup_policy(self) -> str:
        """The brokers' default `cleanup.policy`."""
        return self.broker_properties.get("log.cleanup.policy", "")

    def has_other_codec(self, topic: str) -> bool:
        """Return whether a setting lets brokers compress producers' batches anew."""
        named = [self.configurations.get(topic, {}), self.broker_properties]
        return any(settings.get("compression.type", "producer") != "producer" for settings in named)

    def has_other_times(self, topic: str) -> bool:
        """Return whether a setting lets brokers replace producers' timestamps."""
        of_topic = self.configurations.get(topic, {}).get("message.timestamp.type")
        of_brokers = self.broker_properties.get("log.message.timestamp.type")
        return "LogAppendTime" in (of_topic, of_brokers)

    @cached_property
    def broker_properties(self) -> Mapping[str, str]:
        """Properties that scenario.json sets for all brokers or for any one of them."""
        cluster = self.scenario.cluster
        properties = dict(cluster.properties)
        for broker in cluster.brokers:
            properties.update(broker.properties)
        return properties

    @cached_property
    def is_tiered(self) -> bool:
        """Whether the cluster had a remote store for its logs (KIP-405)."""
        return self.scenario.cluster.tiered

    def is_tiered_topic(self, topic: str) -> bool:
        """Return whether the topic's log is tiered."""
        return self.configurations.get(topic, {}).get("remote.storage.enable") == "true"

    @cached_property
    def tier_readings(self) -> tuple[TierReading, ...]:
        """Readings of tiered logs."""
        return read_tier(self.files)

    @cached_property
    def remote_events(self) -> tuple[RemoteEvent, ...]:
        """Records of brokers in the remote store's metadata topic, in its order."""
        return remote_events(self.files, self.snapshots) if self.is_tiered else ()

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


def log_time(line: str) -> float | None:
    """Return the time of a broker's log line, in seconds since the epoch if its zone were UTC."""
    said = _LOG_TIME.search(line)
    if said is None:
        return None
    return datetime.strptime(said[1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC).timestamp()
