"""The files of one run, as typed values: each is read when it is first asked for, and once."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.about import (
    RUN,
    SCENARIO,
    Outcome,
    RunAbout,
    ScenarioAbout,
    marked,
    read_outcome,
)
from kchaos.checkers.evidence.actions import TimedEvent, is_internal
from kchaos.checkers.evidence.clients import ClientsSeen, read_clients
from kchaos.checkers.evidence.dropped import OverdueFetch, fetch_wait_s, overdue_fetches
from kchaos.checkers.evidence.epoch_rounds import epoch_rounds
from kchaos.checkers.evidence.files import EvidenceFiles
from kchaos.checkers.evidence.history import HISTORY, HistoryLine, Operation, operations, said
from kchaos.checkers.evidence.leader_view import LeaderView, leader_views
from kchaos.checkers.evidence.links import LinkMessage, read_links
from kchaos.checkers.evidence.metadata import MetadataLogs, Settings
from kchaos.checkers.evidence.migration import Offices, in_one_log, offices
from kchaos.checkers.evidence.observed import Observed, lines_of, read_observed
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
from kchaos.checkers.formats.point_hit import HITS, PLANTED, PointHit
from kchaos.checkers.metadata_log import LeaderChange, LogEntry
from kchaos.checkers.model.values.events import TopicDeletion
from kchaos.checkers.model.values.prediction import EpochRound
from kchaos.checkers.observations import (
    AddressesGiven,
    BrokerStarted,
    GaveUp,
    Injected,
    Standstill,
    StepNotPossible,
    StoodStill,
    UncleanElectionAsked,
)
from kchaos.checkers.run_directory import RunDirectory
from kchaos.checkers.zookeeper_log import ZnodeChange, read_ensemble

_WITHOUT_ZOOKEEPER = re.compile(r"(?:[4-9]|\d\d)\.")
"""Releases that have KRaft alone."""


class RunFiles:
    """Files of one run; every property raises a `CheckError` that names the damage in it."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.files = EvidenceFiles(run)
        self.copied = CopiedFiles(self.files)

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
    def is_migration(self) -> bool:
        """Whether the cluster was to go from ZooKeeper to KRaft: two logs have its decisions."""
        return self.scenario.cluster.migrates

    @cached_property
    def has_both_logs(self) -> bool:
        """Whether it is a migration whose controllers were provisioned."""
        return self.is_migration and bool(self.metadata_logs.copies)

    @cached_property
    def offices(self) -> Offices:
        """Who decided when in a migration."""
        return offices(self.znode_changes, self.metadata_logs.entries if self.has_both_logs else ())

    @property
    def is_predicted(self) -> bool:
        """Whether the model predicts it: with KRaft, links show when brokers read decisions.

        A combined node reads those of its own controller past the links.
        """
        is_shown = self.is_linked and not self.scenario.cluster.combined
        return not self.is_migration and (not self.is_kraft or is_shown)

    @cached_property
    def metadata_logs(self) -> MetadataLogs:
        """The copies of a KRaft cluster's metadata log."""
        return MetadataLogs(self.files, brokers=self.description.brokers)

    @property
    def positions(self) -> str:
        """Name of what orders decisions, for messages: zxids, or offsets of the metadata log."""
        return "millisecond" if self.is_migration else "offset" if self.is_kraft else "zxid"

    @property
    def decided_by(self) -> str:
        """Name of the log that has the decisions, for messages."""
        if self.is_migration:
            return "ZooKeeper's log or the metadata log"
        return "the metadata log" if self.is_kraft else "ZooKeeper's log"

    @cached_property
    def decisions(self) -> tuple[TimedEvent, ...]:
        """The cluster's decisions, in zxid order, internal topics included."""
        if self.is_kraft:
            return self.metadata_logs.decisions
        if self.is_migration:
            of_kraft = self.metadata_logs.decisions if self.has_both_logs else ()
            return in_one_log(decisions(self.znode_changes), of_kraft, self.offices)
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
        later = self.metadata_logs.topic_configurations if self.has_both_logs else {}
        return {**topic_configurations(self.znode_changes), **later}

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
    def deletions(self) -> Mapping[str, Sequence[TopicDeletion]]:
        """Each deletion of each topic that somebody had deleted, internal topics left out."""
        deletions = (
            self.metadata_logs.deletions if self.is_kraft else topic_deletions(self.znode_changes)
        )
        return {topic: each for topic, each in deletions.items() if not is_internal(topic)}

    @cached_property
    def is_tiered(self) -> bool:
        """Whether the cluster had a remote store for its logs (KIP-405)."""
        return self.scenario.cluster.tiered

    @cached_property
    def tier_readings(self) -> tuple[TierReading, ...]:
        """Readings of tiered logs."""
        return read_tier(self.files)

    @cached_property
    def remote_events(self) -> tuple[RemoteEvent, ...]:
        """Records of brokers in the remote store's metadata topic, in its order."""
        return remote_events(self.files, self.snapshots) if self.is_tiered else ()

    @cached_property
    def broker_properties(self) -> Mapping[str, str]:
        """Properties that scenario.json sets for all brokers or for any one of them."""
        cluster = self.scenario.cluster
        properties = dict(cluster.properties)
        for broker in cluster.brokers:
            properties.update(broker.properties)
        return properties
