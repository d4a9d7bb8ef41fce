"""Steps that only look: a decision, a log line, a message at a link, a checkpoint that stays."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.api_keys import unknown_api
from kchaos.checkers.formats.checkpoints import HIGH_WATERMARKS
from kchaos.checkers.model import events
from kchaos.clusters.agent import POINTS, Gate
from kchaos.clusters.ask.requests import send
from kchaos.clusters.links import ApiKey, LinkRecord
from kchaos.clusters.system.exchange import NoAnswer
from kchaos.clusters.system.interrupts import check_interrupt
from kchaos.clusters.system.waiting import await_until
from kchaos.faults.api import links_of
from kchaos.faults.observation import await_metadata_read
from kchaos.harness.errors import NotPossible, ScenarioError
from kchaos.harness.gates import fetching, gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.play.play import Play

# Of an IncrementalAlterConfigs request: the kind of resource, and the operation.
_BROKER_LOGGER = 8
_SET = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitDecision:
    """The partition's leader, its ISR, or both, in the state znode, whoever has heard of it.

    `AwaitState` also waits for the leader to hear of it, which a hold or a cut may prevent.
    """

    topic: str
    partition: int
    leader: int | None = None
    isr: tuple[int, ...] | None = None
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until the znode names them."""
        partition = TopicPartition(self.topic, self.partition)
        gates.await_state(
            play, partition, leader=self.leader, isr=self.isr, timeout_s=self.timeout_s
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitPoint:
    """Threads of a broker come to a named point of its code, so often from now on.

    Attributes:
        times: How many must come.
        seen: Only those that see exactly this count; "" for all. The point must be one that is
            told (`clusters.agent.points.Point.is_told`).
    """

    broker: int
    point: str
    times: int = 1
    seen: str = ""
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until they have arrived.

        Raises:
            ScenarioError: The broker runs without that point.
        """
        gate = play.cluster.gate
        points = {broker.id: broker.points for broker in play.cluster.spec.brokers}
        if gate is None or self.point not in points.get(self.broker, ()):
            raise ScenarioError(
                f"broker {self.broker} runs without the point {self.point}: name it in its spec"
            )
        if self.seen and not POINTS[self.point].is_told:
            raise ScenarioError(f"not every hit at {self.point} has values: leave seen out")
        before = self._count(gate)
        await_until(
            lambda: self._count(gate) >= before + self.times,
            timeout_s=self.timeout_s,
            waiting_for=f"{self.times} threads of broker {self.broker} to come to {self.point}"
            + f" and to see {self.seen}" * bool(self.seen),
            last_seen=lambda: f"{self._count(gate) - before} came",
            remedy="see hits.jsonl",
            abort=gates.no_exit(play),
        )

    def _count(self, gate: Gate) -> int:
        if not self.seen:
            return gate.hits(self.broker, self.point)
        wanted = (self.broker, self.point, self.seen)
        return sum(
            (record.broker, record.point, record.seen) == wanted for record in gate.records()
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitLog:
    """A line of a broker's server.log, written by its present process.

    Attributes:
        broker: Whose log it is; a KRaft controller has one too.
        pattern: A regular expression, searched in each line.
        count: How many lines must match.
    """

    broker: int
    pattern: str
    count: int = 1
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until this many lines match."""
        expression = re.compile(self.pattern)
        lines: list[str] = []

        def holds() -> bool:
            lines[:] = play.observer.log_lines(self.broker, expression)
            return len(lines) >= self.count

        await_until(
            holds,
            timeout_s=self.timeout_s,
            waiting_for=f"{self.count} lines like {self.pattern!r} in broker {self.broker}'s log",
            last_seen=lambda: lines,
            remedy=f"see brokers/{self.broker}/server.log; releases word their lines differently",
            abort=gates.no_exit(play),
        )
        play.observed(observations.LogLines(broker=self.broker, lines=tuple(lines)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SetLogLevel:
    """A running broker logs more or less, until its process ends (KIP-412, from 2.4 on).

    Attributes:
        logger: The logger's name, such as "kafka.server.ReplicaFetcherThread".
        level: "TRACE", "DEBUG", "INFO", "WARN", "ERROR" or "FATAL".
    """

    broker: int
    logger: str
    level: str
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Ask the broker, and wait until it has done so.

        Raises:
            NotPossible: It refused, as brokers before 2.4 do by closing the connection.
        """
        setting = {"name": self.logger, "operation": _SET, "value": self.level}
        loggers = {"type": _BROKER_LOGGER, "name": str(self.broker), "configs": [setting]}
        try:
            answer = send(
                play.cluster.brokers[self.broker].client_address,
                ApiKey.INCREMENTAL_ALTER_CONFIGS,
                {"resources": [loggers], "validate_only": False},
                version=0,
                timeout_s=self.timeout_s,
            )
        except NoAnswer as error:
            raise NotPossible(
                f"broker {self.broker} did not set the level of {self.logger}: {error}; releases "
                "before 2.4 cannot"
            ) from error
        refused = [told["error_message"] for told in answer["resources"] if told["error_code"]]
        if refused:
            raise NotPossible(
                f"broker {self.broker} refused level {self.level} for {self.logger}: {refused}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitMessage:
    """A request or response at the links, from any time of the run.

    Attributes:
        api: Kafka's name of the API, such as "AlterPartition".
        source: The broker that sends the request, or None for any.
        target: The broker that answers it, or None for any.
        direction: "request" or "response".
        fates: What became of it; see `checkers.formats.link_record.LinkRecord`.
        topic: With `partition`, only messages that themselves name this partition.
        says: Fields and values, as `clusters.links.details` names them: of the partition where
            one is named, else of the message.
        count: How many such messages there must be.
    """

    api: str
    source: int | None = None
    target: int | None = None
    direction: str = "request"
    fates: tuple[str, ...] = ("passed", "released", "delayed")
    topic: str | None = None
    partition: int = 0
    says: tuple[tuple[str, Any], ...] = ()
    count: int = 1
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until this many messages match.

        Raises:
            ScenarioError: No API has that name.
        """
        if why := unknown_api(self.api):
            raise ScenarioError(why)
        seen: list[LinkRecord] = []

        def is_last(record: LinkRecord) -> bool:
            if self._matches(record):
                seen.append(record)
            return len(seen) >= self.count

        links_of(play.cluster).await_record(
            is_last,
            timeout_s=self.timeout_s,
            waiting_for=f"{self.count} messages at the links: {self}",
            since=0,
            abort=check_interrupt,
            api_keys=[key for key in ApiKey if key.spelled == self.api],
        )
        messages = tuple(record.describe() for record in seen)
        play.observed(observations.MessagesSeen(messages=messages))

    def _matches(self, record: LinkRecord) -> bool:
        wanted = (self.api, self.direction)
        if (record.api, record.direction) != wanted or record.fate not in self.fates:
            return False
        if self.source not in (None, record.source) or self.target not in (None, record.target):
            return False
        said: Mapping[str, Any] | None = record.detail
        if self.topic is not None:
            said = record.partition(self.topic, self.partition)
            if said is None:
                return False
        missing = object()
        return all(_plain((said or {}).get(name, missing)) == value for name, value in self.says)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitMetadataRead:
    """A broker of a KRaft cluster has taken up all that was decided until now, by its heartbeats.

    They name the offset up to which it has read the metadata log (`await_metadata_read`).
    """

    broker: int
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until the broker has reported it, whether or not its heartbeats arrive.

        Raises:
            ScenarioError: The cluster's metadata is kept by ZooKeeper.
        """
        if not play.cluster.is_kraft:
            raise ScenarioError("brokers read a metadata log with KRaft alone: use AwaitFollowing")
        play.observed(await_metadata_read(play.cluster, self.broker, timeout_s=self.timeout_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitMetadataSnapshots:
    """Every node of a KRaft cluster writes a snapshot of all that was decided until now.

    A node that starts reads its newest snapshot and the records behind it. So only behind a
    snapshot can an older binary start where the log has a feature level that it does not know.
    Kafka makes one every `metadata.log.max.snapshot.interval.ms`, which is off here unless a
    cluster sets it.
    """

    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until the newest snapshot of each controller and broker ends here or later.

        Raises:
            ScenarioError: The cluster's metadata is kept by ZooKeeper.
        """
        if not play.cluster.is_kraft:
            raise ScenarioError("snapshots of the metadata are written with KRaft alone")
        position = play.cluster.metadata.position()
        folders = play.cluster.metadata_folders()

        def ends() -> dict[int, int]:
            snapshots = {node: folder.glob("*.checkpoint") for node, folder in folders.items()}
            return {
                node: max((int(file.name.partition("-")[0]) for file in files), default=0)
                for node, files in snapshots.items()
            }

        await_until(
            lambda: min(ends().values()) >= position,
            timeout_s=self.timeout_s,
            waiting_for=f"a snapshot up to offset {position} of the metadata log on every node",
            last_seen=ends,
            remedy="set metadata.log.max.snapshot.interval.ms to less than this step waits",
            abort=gates.no_exit(play),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitHighWatermarkKept:
    """The high watermark does not move: the checkpoint is written again with the same value.

    A broker writes the file every `replica.high.watermark.checkpoint.interval.ms`, whatever has
    changed, by a rename. The first new file may hold values that were read before this step
    began; each later one was read after it.

    Attributes:
        writes: How many new files each broker must have written, all with this value.
    """

    topic: str
    partition: int
    brokers: tuple[int, ...]
    high_watermark: int
    writes: int = 4
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until each broker has written its files; give the model the value.

        Raises:
            AwaitTimeout: A file had another value, or no more files came.
        """
        partition = TopicPartition(self.topic, self.partition)
        files = {broker: _Checkpoint() for broker in self.brokers}

        def holds() -> bool:
            for broker, file in files.items():
                file.look(play, broker, partition)
            return all(
                file.writes >= self.writes and file.values == {self.high_watermark}
                for file in files.values()
            )

        await_until(
            holds,
            timeout_s=self.timeout_s,
            waiting_for=f"the high watermark {self.high_watermark} of {partition.topic}-"
            f"{partition.partition} to be checkpointed {self.writes} times on {self.brokers}",
            last_seen=lambda: {broker: (f.writes, f.values) for broker, f in files.items()},
            remedy="another value means that it has moved; see links.jsonl for what moved it",
            abort=gates.no_exit(play),
        )
        for broker in self.brokers:
            seen = events.HighWatermarkObserved(
                broker=broker,
                topic=partition.topic,
                partition=partition.partition,
                high_watermark=self.high_watermark,
            )
            play.action(seen)
        play.observed(
            observations.HighWatermarkKept(
                topic=self.topic,
                partition=self.partition,
                brokers=self.brokers,
                value=self.high_watermark,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitHighWatermarkForgotten:
    """The broker's checkpoint of high watermarks was written without this partition (KAFKA-7235).

    It is once the broker has handled a first LeaderAndIsr that does not name the partition. Its
    high watermark begins at 0 then.
    """

    broker: int
    topic: str
    partition: int
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until the file has other partitions and not this one; inform the model."""
        partition = TopicPartition(self.topic, self.partition)
        seen: dict[tuple[str, int], int] = {}

        def holds() -> bool:
            seen.clear()
            seen.update(play.observer.checkpointed(self.broker))
            return bool(seen) and partition not in seen

        await_until(
            holds,
            timeout_s=self.timeout_s,
            waiting_for=f"broker {self.broker}'s checkpoint to be written without {partition.name}",
            last_seen=lambda: dict(seen),
            remedy="only a first LeaderAndIsr that leaves the partition out does that",
            abort=gates.no_exit(play),
        )
        forgotten = events.HighWatermarkObserved(
            broker=self.broker, topic=self.topic, partition=self.partition, high_watermark=0
        )
        play.action(forgotten)
        play.observed(
            observations.HighWatermarkForgotten(
                broker=self.broker, topic=self.topic, partition=self.partition, left=tuple(seen)
            )
        )


@dataclass(slots=True)
class _Checkpoint:
    """Values of one broker's checkpoint file, as they were seen.

    Attributes:
        written: When the newest file that was seen was written, in nanoseconds.
        writes: How many other files came after the first.
        values: The partition's values in the second file that came, and in all after it.
    """

    written: int | None = None
    writes: int = 0
    values: set[int | None] = field(default_factory=set)

    def look(self, play: Play, broker: int, partition: TopicPartition) -> None:
        """Read the file if it has changed since the last time."""
        replica = play.observer.partition_directory(broker, partition.topic, partition.partition)
        file = replica.parent / HIGH_WATERMARKS
        written = file.stat().st_mtime_ns if file.is_file() else None
        if written == self.written:
            return
        self.writes += self.written is not None
        self.written = written
        if self.writes >= 2:
            offsets = play.observer.checkpointed(broker)
            self.values.add(offsets.get((partition.topic, partition.partition)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitThrottled:
    """A follower that is behind gets none of what its leader has, as replication is throttled.

    A leader that is throttled answers with nothing: fetches pass, and what the follower has stays
    the same. A follower that is throttled asks no more: it takes leave of the partition.

    Attributes:
        side: Who is throttled, "leader" or "follower".
    """

    topic: str
    partition: int
    leader: int
    follower: int
    side: str = "leader"
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until this is observed."""
        partition = TopicPartition(self.topic, self.partition)
        ends: dict[int, int] = {}

        def holds() -> bool:
            for broker in (self.follower, self.leader):
                ends[broker] = gates.last_offset(play, broker, partition)
            if ends[self.follower] >= ends[self.leader]:
                return False
            if self.side == "follower":
                return self._is_forgotten(play)
            fetching.await_fetches(play, self.follower, self.leader, 3, timeout_s=self.timeout_s)
            return ends[self.follower] == gates.last_offset(play, self.follower, partition)

        await_until(
            holds,
            timeout_s=self.timeout_s,
            waiting_for=f"broker {self.follower} to get no more of {self.topic}-{self.partition}",
            last_seen=lambda: f"last offsets by broker: {ends}",
            remedy="throttle replication further, or let the follower be further behind",
            abort=gates.no_exit(play),
        )
        play.observed(
            observations.FollowerThrottled(
                topic=self.topic,
                partition=self.partition,
                follower=self.follower,
                last_offset=ends[self.follower],
            )
        )

    def _is_forgotten(self, play: Play) -> bool:
        """Return whether the last Fetch that names the partition removes it from the session."""
        ends = (self.follower, self.leader, TopicPartition(self.topic, self.partition))
        forgotten = links_of(play.cluster).fetches.last(*ends, "forgotten")
        named = links_of(play.cluster).fetches.last(*ends)
        return forgotten is not None and (named is None or named.sequence < forgotten.sequence)


def _plain(value: Any) -> Any:
    """Return a list as the tuple that a frozen step holds."""
    return tuple(_plain(item) for item in value) if isinstance(value, list) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitFetches:
    """A leader gets so many more fetches of a follower; two of them, and one was answered."""

    follower: int
    leader: int
    count: int = 2
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until they have passed the link, idle ones included."""
        fetching.await_fetches(
            play, self.follower, self.leader, self.count, timeout_s=self.timeout_s
        )
