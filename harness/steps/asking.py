"""Steps in which readers with a leader epoch ask a broker: raw requests, and Kafka's own consumer.

What each got is an observation of the kind "asked" or "consumed". Nothing is judged by it: an entry
says in its witnesses what must have come.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kchaos.checkers import observations
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.clusters.ask.client import batches_in, fetch_request, records_of
from kchaos.clusters.ask.requests import send
from kchaos.clusters.front.java_consumer import consume
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.gates import gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.play.play import Play

GROUPS = "__consumer_offsets"
_NO_EPOCH = -1
_WAIT_MS = 5000
_MOST_BYTES = 1 << 20
_MOST_LINES = 30
_COMMIT_VERSION, _EPOCH_VERSION = 7, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AskAs:
    """A reader at an offset of a leader epoch asks one broker, in each of the ways that there are.

    These are Fetch versions 10 (the last that only leaders answer) and 11 without a leader epoch,
    and 11 with it as `current_leader_epoch`. Version 12 has it as `last_fetched_epoch`, which
    followers send and Kafka's own consumer leaves out (AbstractFetch, 3.9). The last way is
    OffsetForLeaderEpoch.

    Attributes:
        operation: Names what is asked; must be new in the scenario.
        broker: Who is asked, whatever it is.
        leader_epoch: Of the record before `offset`, as the reader knows it.
    """

    operation: str
    topic: str
    partition: int
    broker: int
    offset: int
    leader_epoch: int

    def perform(self, play: Play) -> None:
        """Ask each broker and record the answers.

        Raises:
            NoAnswer: One was not answered; NotSent likewise.
        """
        for request, answer in self._answers(play):
            play.observed(
                observations.Asked(
                    operation=self.operation,
                    broker=self.broker,
                    topic=self.topic,
                    partition=self.partition,
                    offset=self.offset,
                    leader_epoch=self.leader_epoch,
                    request=request,
                    **answer,
                )
            )

    def _answers(self, play: Play) -> Iterator[tuple[str, dict[str, Any]]]:
        address = play.cluster.brokers[self.broker].client_address
        asks = {
            "Fetch v10": (10, _NO_EPOCH, _NO_EPOCH),
            "Fetch v11": (11, _NO_EPOCH, _NO_EPOCH),
            "Fetch v11, current_leader_epoch": (11, self.leader_epoch, _NO_EPOCH),
            "Fetch v12, last_fetched_epoch": (12, _NO_EPOCH, self.leader_epoch),
        }
        for name, (version, current, last) in asks.items():
            yield name, self._fetch(address, version, current, last)
        yield "OffsetForLeaderEpoch", self._end_offset(address)

    def _fetch(self, address: str, version: int, current: int, last: int) -> dict[str, Any]:
        request = fetch_request(
            self.topic,
            self.partition,
            offset=self.offset,
            max_wait_ms=_WAIT_MS,
            most_bytes=_MOST_BYTES,
            leader_epoch=current,
            last_fetched_epoch=last,
        )
        timeout_s = 2 * _WAIT_MS / 1000
        answer = send(address, ApiKey.FETCH, request, version=version, timeout_s=timeout_s)
        partition_answer = answer["topics"][0]["partitions"][0]
        diverging = partition_answer.get("diverging_epoch")
        return {
            "error_code": partition_answer["error_code"],
            "records": tuple(
                (record.offset, (record.value or b"").decode())
                for record in records_of(batches_in(partition_answer), self.offset)
            ),
            "diverging": None
            if diverging is None or diverging["epoch"] < 0
            else (diverging["epoch"], diverging["end_offset"]),
        }

    def _end_offset(self, address: str) -> dict[str, Any]:
        wanted = {
            "partition": self.partition,
            "current_leader_epoch": _NO_EPOCH,
            "leader_epoch": self.leader_epoch,
        }
        answer = send(
            address,
            ApiKey.OFFSET_FOR_LEADER_EPOCH,
            {"replica_id": -1, "topics": [{"topic": self.topic, "partitions": [wanted]}]},
            version=_EPOCH_VERSION,
            timeout_s=10.0,
        )
        partition_answer = answer["topics"][0]["partitions"][0]
        return {
            "error_code": partition_answer["error_code"],
            "answered": (partition_answer["leader_epoch"], partition_answer["end_offset"]),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeFrom:
    """Kafka's own consumer goes on at an offset of a leader epoch, as a group had committed it.

    It may not choose another position by itself (`auto.offset.reset` none), so that it says what is
    wrong with this one. Groups are kept on one broker, in a topic that is made for it.

    Attributes:
        operation: Names the reading, and its group; must be new in the scenario.
        coordinator: The broker that keeps the groups; its `offsets.topic.num.partitions` must be 1.
        leader_epoch: That the group committed with the offset.
        records: After how many it ends.
        idle_s: It also ends when nothing has come for so long, its own start included.
    """

    operation: str
    topic: str
    partition: int
    coordinator: int
    offset: int
    leader_epoch: int
    records: int
    idle_s: float = 30.0
    timeout_s: float = 2 * GATE_S

    def perform(self, play: Play) -> None:
        """Run the consumer and record its result.

        Raises:
            AwaitTimeout: The position could not be committed.
            ClusterError: The consumer did not end.
        """
        metadata = play.cluster.metadata
        if metadata.state(GROUPS, 0) is None:
            metadata.create_topic(GROUPS, [[self.coordinator]], {"cleanup.policy": "compact"})
        refused: list[int | str] = []

        def is_committed() -> bool:
            refused[:] = [self._commit(play)]
            return refused == [0]

        await_until(
            is_committed,
            timeout_s=self.timeout_s,
            waiting_for=f"broker {self.coordinator} to commit group {self.operation}'s position",
            last_seen=lambda: refused,
            remedy="offsets.topic.num.partitions must be 1 on every broker",
            abort=gates.no_exit(play),
        )
        running = [broker for broker in play.cluster.brokers.values() if broker.is_running]
        consumed = consume(
            running[0].release,
            bootstrap=",".join(broker.client_address for broker in running),
            topic=self.topic,
            group=self.operation,
            records=self.records,
            idle_s=self.idle_s,
            timeout_s=self.timeout_s,
            offline=play.is_offline,
        )
        play.observed(
            observations.ConsumerEnded(
                operation=self.operation,
                topic=self.topic,
                partition=self.partition,
                offset=self.offset,
                leader_epoch=self.leader_epoch,
                records=tuple(consumed.records),
                error=consumed.error,
                exit_code=consumed.exit_code,
                said=tuple(consumed.said[-_MOST_LINES:]),
            )
        )

    def _commit(self, play: Play) -> int | str:
        position = {
            "partition": self.partition,
            "offset": self.offset,
            "leader_epoch": self.leader_epoch,
            "metadata": "",
        }
        request = {
            "group": self.operation,
            "generation": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"topic": self.topic, "partitions": [position]}],
        }
        address = play.cluster.brokers[self.coordinator].client_address
        try:
            answer = send(
                address, ApiKey.OFFSET_COMMIT, request, version=_COMMIT_VERSION, timeout_s=10.0
            )
        except (NoAnswer, NotSent) as error:
            return str(error)
        return int(answer["topics"][0]["partitions"][0]["error_code"])
