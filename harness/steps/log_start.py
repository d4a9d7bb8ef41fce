"""Steps about where a log begins: a client lets records be deleted, and a gate looks at disks."""

from dataclasses import dataclass

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.checkpoints import LOG_STARTS, parse_offset_checkpoint
from kchaos.checkers.model.values import events
from kchaos.checkers.segments.directory import segment_files
from kchaos.clusters.ask.requests import send
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.errors import NotPossible
from kchaos.harness.gates import gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.play.play import Play


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecords:
    """A client asks the leader to delete the records below an offset (KIP-107; from 0.11 on).

    The leader's log begins there at once. It answers when the logs of all replicas that live do, or
    when the time is up; either is an observation.

    Attributes:
        before_offset: The first offset that is to stay; at most the high watermark.
        broker: Whom to ask, or None for the registered leader.
        timeout_s: How long the leader may wait for its followers.
    """

    topic: str
    partition: int
    before_offset: int
    broker: int | None = None
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Send the request and wait for its response.

        Raises:
            NotPossible: There is no leader to ask, or no answer.
        """
        broker = self.broker
        if broker is None:
            state = play.cluster.metadata.state(self.topic, self.partition)
            if state is None or state.leader < 0:
                raise NotPossible(f"{self.topic}-{self.partition} has no leader to ask")
            broker = state.leader
        asked = events.DeleteRecords(
            broker=broker,
            topic=self.topic,
            partition=self.partition,
            before_offset=self.before_offset,
        )
        play.action(asked)
        error_code, low_watermark = self._answer(play.cluster.brokers[broker].client_address)
        if error_code == 0:
            begun = events.LogStartObserved(
                broker=broker,
                topic=self.topic,
                partition=self.partition,
                log_start_offset=self.before_offset,
            )
            play.action(begun)
        play.observed(
            observations.RecordsDeleted(
                broker=broker,
                topic=self.topic,
                partition=self.partition,
                before_offset=self.before_offset,
                error_code=error_code,
                low_watermark=low_watermark,
            )
        )

    def _answer(self, address: str) -> tuple[int, int]:
        wanted = {"partition": self.partition, "offset": self.before_offset}
        request = {
            "topics": [{"topic": self.topic, "partitions": [wanted]}],
            "timeout_ms": int(self.timeout_s * 1000),
        }
        try:
            answer = send(
                address, ApiKey.DELETE_RECORDS, request, version=0, timeout_s=self.timeout_s + 5
            )
        except (NoAnswer, NotSent) as error:
            raise NotPossible(f"nobody answered DeleteRecords: {error}") from error
        partition_answer = answer["topics"][0]["partitions"][0]
        return partition_answer["error_code"], partition_answer["low_watermark"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitLogStart:
    """A log begins at an offset or later on these brokers, as their disks say.

    The first segment says so, or `log-start-offset-checkpoint`, which a broker writes every
    `log.flush.start.offset.checkpoint.interval.ms`.
    """

    topic: str
    partition: int
    brokers: tuple[int, ...]
    log_start_offset: int
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until each log begins there; give the model the offset."""
        starts: dict[int, int | None] = {}

        def holds() -> bool:
            starts.update({broker: self._start(play, broker) for broker in self.brokers})
            return all(start is not None and start >= wanted for start in starts.values())

        wanted = self.log_start_offset
        await_until(
            holds,
            timeout_s=self.timeout_s,
            waiting_for=f"{self.topic}-{self.partition} to begin at {wanted} on {self.brokers}",
            last_seen=lambda: f"it begins at {starts}",
            remedy="retention looks every log.retention.check.interval.ms, first 30 s after a "
            "broker's start, at segments below the high watermark; the checkpoint is written every "
            "log.flush.start.offset.checkpoint.interval.ms",
            abort=gates.no_exit(play),
        )
        for broker, start in starts.items():
            assert start is not None
            seen = events.LogStartObserved(
                broker=broker, topic=self.topic, partition=self.partition, log_start_offset=start
            )
            play.action(seen)

    def _start(self, play: Play, broker: int) -> int | None:
        directory = play.observer.partition_directory(broker, self.topic, self.partition)
        file = directory.parent / LOG_STARTS
        text = file.read_text() if file.is_file() else ""
        partition = TopicPartition(self.topic, self.partition)
        said = parse_offset_checkpoint(text, file=str(file)).get(partition, 0)
        segments = segment_files(directory) if directory.is_dir() else ()
        return max(said, int(segments[0].stem)) if segments else None
