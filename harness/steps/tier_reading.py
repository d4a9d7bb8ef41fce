"""Readers of tiered logs: from a leader as a step, and from each possible leader by themselves.

What they see is written to `tier.jsonl` with the kind "read": every Fetch of one reader, and what
came back. A read is also an action of the model's, which says at that moment what the log is.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args

from kchaos.checkers import observations
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.formats.error_codes import ErrorCode
from kchaos.checkers.model import events
from kchaos.clusters.ask.client import Fetched, ListedOffset, fetch, list_offset
from kchaos.clusters.errors import AwaitTimeout
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.clusters.system.waiting import await_until
from kchaos.faults import ConfigureTopic
from kchaos.faults.api import Fault
from kchaos.harness.gates import gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.play.play import Play

EARLIEST, LATEST, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -4, -5
Manner = Literal["in sequence", "descending"]
MANNERS: tuple[Manner, ...] = get_args(Manner)
Source = Literal["leader", "follower"]

_REMOTE_READ_MS = 5000
# A broker allocates so much for every Fetch from the remote store (RemoteLogManager.read); if its
# heap cannot give it, the reading thread ends and the reader gets nothing and no error.
_MOST_BYTES = 1 << 20
# A remote read that takes longer than remote.fetch.max.wait.ms (500 ms, from 3.8 on) is answered
# without records and without an error (kafka.server.DelayedRemoteFetch): readers ask again.
_EMPTY_ANSWERS = 3
# A broker that has just started has not read yet what is in the remote store: readers ask again.
_LETS_GO = ("local.retention.bytes", "local.retention.ms", "retention.bytes", "retention.ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRead:
    """A consumer reads a tiered log from one broker, up to the high watermark that it gets.

    Attributes:
        operation: Names the read; must be new in the scenario.
        manner: "in sequence": from the earliest offset, each Fetch goes on where the last one
            ended. Or "descending": one Fetch for each offset, the last offset first. So nothing
            that a client has in hand is used again.
        source: As what the broker is asked. Requests to a "leader" are refused by followers; those
            to a "follower" are of the kind that followers answer too (KIP-392).
    """

    operation: str
    topic: str
    partition: int
    broker: int
    manner: Manner = "in sequence"
    source: Source = "leader"
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Fetch, and record each result, including errors.

        What is local may be let go of at any time. It is read again until nothing was meanwhile, so
        that it is known from where each record came.

        Raises:
            AwaitTimeout: The broker does not lead, does not have the log, or does not answer.
            ScenarioError: It gave no answer to a Fetch.
        """
        readings: list[tuple[tuple[int, int, int], list[dict[str, Any]]]] = []

        def stands_still() -> bool:
            ends = self._ends(play)
            readings[:] = [(ends, list(self._fetches(play, ends[0], ends[2])))]
            return self._ends(play)[:2] == ends[:2]

        await_until(
            stands_still,
            timeout_s=self.timeout_s,
            waiting_for=f"broker {self.broker} to let go of nothing of {self.topic}-"
            f"{self.partition} while it is read",
            last_seen=lambda: readings[0][0],
            remedy="see its server.log",
            abort=gates.no_exit(play),
        )
        (first, local, end), fetches = readings[0]
        read: dict[str, Any] = {
            "operation": self.operation,
            "broker": self.broker,
            "topic": self.topic,
            "partition": self.partition,
            "manner": self.manner,
            "source": self.source,
            "first_offset": first,
            "end_offset": end,
            "local_start_offset": local,
        }
        play.action(events.TierRead(**read))
        play.recorder.tier("read", **read, fetches=fetches)

    def _fetches(self, play: Play, first: int, end: int) -> Iterator[dict[str, Any]]:
        if self.manner == "in sequence":
            return _all(play, self, first, end)
        return _each(play, self, range(end - 1, first - 1, -1))

    def _ends(self, play: Play) -> tuple[int, int, int]:
        """Return the log start offset, the local log start offset and the high watermark."""
        offsets: dict[int, ListedOffset] = {}
        silent: list[str] = []
        partition = TopicPartition(self.topic, self.partition)

        def answers() -> bool:
            try:
                for asked in (EARLIEST, LATEST, EARLIEST_LOCAL):
                    offsets[asked] = listed(
                        play, self.broker, partition, asked, from_follower=self.source == "follower"
                    )
            except (NoAnswer, NotSent) as error:
                silent[:] = [str(error)]
                return False
            return all(offset.error_code == 0 for offset in offsets.values())

        await_until(
            answers,
            timeout_s=self.timeout_s,
            waiting_for=f"broker {self.broker} to be a {self.source} of {self.topic}-"
            f"{self.partition} for readers",
            last_seen=lambda: (offsets, *silent),
            remedy="see its server.log",
            abort=gates.no_exit(play),
        )
        end = offsets[LATEST].offset
        if self.source == "follower":  # It said its log end offset, not what readers get of it.
            end = _fetched(play, self, end, max_wait_ms=0)[0].high_watermark
        return offsets[EARLIEST].offset, offsets[EARLIEST_LOCAL].offset, end


def read_tiered_logs(play: Play, partitions: Iterable[TopicPartition], *, name: str) -> None:
    """Read every tiered log from each possible leader, in sequence and by seeking.

    These are the leader and every follower in sync whose process runs. Of what a follower serves
    nothing changes when it is elected: it finds segments by its own epochs and by its own copy of
    the remote store's metadata (ReplicaManager.handleOffsetOutOfRangeError, RemoteLogManager.read,
    3.6.2 and 3.9). Who cannot be read from is written down.

    `name` is a prefix of the reads' names.
    """
    for partition in partitions:
        settings = play.cluster.metadata.topic_configuration(partition.topic)
        if settings.get("remote.storage.enable") != "true":
            continue
        state = play.cluster.metadata.state(*partition)
        leader, isr = (-1, ()) if state is None else (state.leader, state.isr)
        readable = [replica for replica in (leader, *isr) if _runs(play, replica)]
        if leader not in readable:
            _not_read(play, partition, leader, "nobody leads it")
            continue
        for broker in dict.fromkeys(readable):
            _read_from(play, partition, broker, name, "leader" if broker == leader else "follower")


def read_before(play: Play, fault: Fault) -> None:
    """Read a tiered log before a change of its topic's settings deletes more records."""
    if not isinstance(fault, ConfigureTopic) or not play.cluster.spec.tiered:
        return
    if not {*dict(fault.configuration)} & {*_LETS_GO}:
        return
    metadata = play.cluster.metadata
    partitions = [
        TopicPartition(fault.topic, partition) for partition in metadata.assignment(fault.topic)
    ]
    held = [
        name for name in play.faults.acting if play.faults.injections[name].fault == "HoldPoint"
    ]
    if held:
        # Readers that get nothing because something is held say nothing about what is there.
        for partition in partitions:
            _not_read(play, partition, -1, f"{held[0]!r} acts")
        return
    read_tiered_logs(play, partitions, name=f"step-{play.recorder.step}")


def _runs(play: Play, broker: int) -> bool:
    return broker in play.cluster.brokers and play.cluster.brokers[broker].is_running


def _read_from(
    play: Play, partition: TopicPartition, broker: int, name: str, source: Source
) -> None:
    for manner in MANNERS:
        read = TierRead(
            operation=f"{name}-{partition.name}-broker-{broker}-{manner.replace(' ', '-')}",
            topic=partition.topic,
            partition=partition.partition,
            broker=broker,
            manner=manner,
            source=source,
        )
        try:
            read.perform(play)
        except AwaitTimeout as error:
            _not_read(play, partition, broker, str(error))
            return


def _not_read(play: Play, partition: TopicPartition, broker: int, why: str) -> None:
    detail = f"{partition.name} was not read from broker {broker}: {why}"
    play.observed(observations.WaitedInVain(detail=detail))


def listed(
    play: Play,
    broker: int,
    partition: TopicPartition,
    timestamp: int,
    *,
    from_follower: bool = False,
) -> ListedOffset:
    """Return a broker's response to ListOffsets; see `list_offset`.

    Raises:
        NoAnswer: It gave none; NotSent likewise.
    """
    return list_offset(
        play.cluster.brokers[broker].client_address,
        topic=partition.topic,
        partition=partition.partition,
        timestamp=timestamp,
        version=9 if timestamp == LATEST_TIERED else 8,
        from_follower=from_follower,
    )


def _fetched(
    play: Play, read: TierRead, offset: int, *, max_wait_ms: int = _REMOTE_READ_MS
) -> tuple[Fetched, int]:
    """Return the response that counts, and the number of empty ones before it."""
    answers: list[Fetched] = []
    empty = 0

    def is_answered() -> bool:
        nonlocal empty
        answer = fetch(
            play.cluster.brokers[read.broker].client_address,
            topic=read.topic,
            partition=read.partition,
            offset=offset,
            max_wait_ms=max_wait_ms,
            most_bytes=_MOST_BYTES,
            timeout_s=2 * _REMOTE_READ_MS / 1000,
            from_follower=read.source == "follower",
        )
        answers[:] = [answer]
        if not answer.error_code and not answer.records and offset < answer.high_watermark:
            empty += 1
            return empty == _EMPTY_ANSWERS
        return answer.error_code != ErrorCode.REPLICA_NOT_AVAILABLE

    await_until(
        is_answered,
        timeout_s=read.timeout_s,
        waiting_for=f"broker {read.broker} to know what {read.topic}-{read.partition} has in the "
        "remote store",
        last_seen=lambda: answers,
        remedy="see the lines of its RemoteLogMetadataManager in its server.log",
        abort=gates.no_exit(play),
    )
    return answers[0], empty


def _line(offset: int, fetched: Fetched, empty_answers: int) -> dict[str, Any]:
    return {
        "offset": offset,
        "error_code": fetched.error_code,
        "records": [[record.offset, (record.value or b"").decode()] for record in fetched.records],
        "keys": [None if record.key is None else record.key.decode() for record in fetched.records],
        **({"empty_answers": empty_answers} if empty_answers else {}),
    }


def _each(play: Play, read: TierRead, offsets: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Yield one Fetch for each offset, of which only the record at that offset counts."""
    for offset in offsets:
        line = _line(offset, *_fetched(play, read, offset))
        yield {**line, "records": line["records"][:1], "keys": line["keys"][:1]}


def _all(play: Play, read: TierRead, first: int, end: int) -> Iterator[dict[str, Any]]:
    """Fetch to the end; after a response without records, from the next offset."""
    offset = first
    while offset < end:
        fetched, empty_answers = _fetched(play, read, offset)
        yield _line(offset, fetched, empty_answers)
        offset = fetched.records[-1].offset + 1 if fetched.records else offset + 1
