"""Steps that are transactional clients: a batch that comes late, and a time that is over."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.record.memory_records import MemoryRecordsBuilder

from kchaos.checkers import observations
from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.error_codes import ErrorCode, error_name
from kchaos.clusters.ask.client import fetch
from kchaos.clusters.ask.requests import send
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.errors import NotPossible, ScenarioError
from kchaos.harness.gates import gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.play.play import Play

_TRANSACTION = 1
"""Key type of FindCoordinator."""
_ANSWER_S = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAfterAbort:
    """A transactional producer writes a batch, aborts, and then its next batch arrives.

    So it is where that batch was long on its way: the producer had given up waiting for it. The
    client goes through the links for clients, which write down its requests and the answers.

    Attributes:
        operation: Begins each record's value.
        broker: The partition's leader.
    """

    operation: str
    topic: str
    partition: int
    broker: int
    transactional_id: str = "late"
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Send the late batch and record its response, whatever it is.

        Raises:
            ScenarioError: The cluster has no links for clients, or the transaction did not go well.
        """
        producer = _begun(play, self, transaction_timeout_ms=60_000)
        producer.add(self.partition)
        base_offset = producer.write_first(self.operation, self.partition)
        producer.end(committed=False)
        producer.await_marker(self.partition, base_offset + 2)
        producer.write_late(self.operation, self.partition, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAcrossTimeout:
    """A transactional producer writes a batch, is slow, and goes on when its time is over.

    Its coordinator aborts the transaction, and nobody tells the producer. It adds another partition
    to what it takes for the same transaction, writes there too, and commits. It goes through the
    links for clients.

    Attributes:
        operation: Begins each record's value.
        broker: The leader of both partitions.
        next_partition: Where it writes when its time is over.
        transaction_timeout_ms: How long its coordinator leaves it.
        timeout_s: Some releases look once in a minute whose time is over.
    """

    operation: str
    topic: str
    partition: int
    next_partition: int
    broker: int
    transactional_id: str = "slow"
    transaction_timeout_ms: int = 1_000
    timeout_s: float = 120.0

    def perform(self, play: Play) -> None:
        """Commit; wait until the commit is written, or the producer is fenced.

        Raises:
            ScenarioError: The cluster has no links for clients, or something else was refused.
        """
        producer = _begun(play, self, transaction_timeout_ms=self.transaction_timeout_ms)
        producer.add(self.partition)
        base_offset = producer.write_first(self.operation, self.partition)
        producer.await_marker(self.partition, base_offset + 2)
        error_code = producer.add(self.next_partition, accept=ErrorCode.INVALID_PRODUCER_EPOCH)
        if not error_code:
            base_offset = producer.write_first(self.operation, self.next_partition)
            producer.end(committed=True)
            producer.await_marker(self.next_partition, base_offset + 2)
        play.observed(
            observations.AfterTimeout(
                operation=self.operation,
                topic=self.topic,
                partition=self.next_partition,
                error=error_name(error_code) if error_code else "",
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LetTransactionTimeOut:
    """A transactional producer adds a partition to its transaction, and has not written there yet.

    Its coordinator aborts the transaction when its time is over, and nobody tells the producer.
    Another one takes its transactional id, as where an application was started anew. The first goes
    on with `WriteWhenTimedOut`. Both go through the links for clients.

    Attributes:
        broker: The partition's leader.
        transaction_timeout_ms: How long its coordinator leaves it.
        timeout_s: Some releases look once in a minute whose time is over.
    """

    topic: str
    partition: int
    broker: int
    transactional_id: str = "slow"
    transaction_timeout_ms: int = 1_000
    timeout_s: float = 120.0

    def perform(self, play: Play) -> None:
        """Abort; wait until the marker is replicated, to its coordinator's knowledge.

        Raises:
            ScenarioError: The cluster has no links for clients, or something was refused.
        """
        producer = _begun(play, self, transaction_timeout_ms=self.transaction_timeout_ms)
        before = producer.high_watermark(self.partition)
        producer.add(self.partition)
        producer.await_marker(self.partition, before + 1)
        # As long as the marker is not known to be written, the coordinator refuses another one.
        _begun(play, self, transaction_timeout_ms=self.transaction_timeout_ms)
        play.slow_producers[self.transactional_id] = producer.producer_id, producer.producer_epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteWhenTimedOut:
    """The producer of a `LetTransactionTimeOut` goes on: its first batch arrives.

    Attributes:
        operation: Begins the record's value.
        broker: The partition's leader by now.
    """

    operation: str
    topic: str
    partition: int
    broker: int
    transactional_id: str = "slow"
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Send the batch and record its response, whatever it is.

        Raises:
            ScenarioError: The cluster has no links for clients, or no such producer is slow.
        """
        if self.transactional_id not in play.slow_producers:
            raise ScenarioError(f"no transaction of {self.transactional_id!r} was let time out")
        producer_id, producer_epoch = play.slow_producers[self.transactional_id]
        producer = _Producer(
            play=play,
            step=self,
            leader=_client_addresses(play, self)[self.broker],
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        producer.write_late(self.operation, self.partition, 0)


_REMEDY = "see the server.log of the broker that leads __transaction_state"


_Step = WriteAfterAbort | WriteAcrossTimeout | LetTransactionTimeOut | WriteWhenTimedOut


@dataclass(frozen=True, slots=True, kw_only=True)
class _Producer:
    """A transactional producer in the epoch that its coordinator has given it.

    Attributes:
        leader: An address, as that of the coordinator is; "" where that is asked nothing.
    """

    play: Play
    step: _Step
    leader: str
    coordinator: str = ""
    producer_id: int
    producer_epoch: int

    @property
    def _names(self) -> dict[str, Any]:
        return {
            "transactional_id": self.step.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }

    def add(self, partition: int, *, accept: int = ErrorCode.NONE) -> int:
        """Add a partition to the transaction; return the error, if it is that one."""
        topic = {"topic": self.step.topic, "partitions": [partition]}
        values = self._names | {"topics": [topic]}
        answer = _until(
            self.play,
            self.step,
            lambda: _ask(self.coordinator, ApiKey.ADD_PARTITIONS_TO_TXN, values, 0),
            accept=accept,
        )
        return _error_of(answer)

    def end(self, *, committed: bool) -> None:
        """Ask the coordinator to commit or to abort, until it answers without an error."""
        values = self._names | {"committed": committed}
        _until(self.play, self.step, lambda: _ask(self.coordinator, ApiKey.END_TXN, values, 0))

    def await_marker(self, partition: int, high_watermark: int) -> None:
        """Wait until the partition's high watermark is there, behind a marker."""
        await_until(
            lambda: self.high_watermark(partition) >= high_watermark,
            timeout_s=self.step.timeout_s,
            waiting_for=f"the marker of {self.step.transactional_id!r} to be replicated",
            last_seen=lambda: self.high_watermark(partition),
            remedy=_REMEDY,
            abort=gates.no_exit(self.play),
        )

    def high_watermark(self, partition: int) -> int:
        """Return the high watermark in the leader's response to a fetch from the beginning."""
        answer = fetch(self.leader, topic=self.step.topic, partition=partition, offset=0)
        return answer.high_watermark

    def write_first(self, operation: str, partition: int) -> int:
        """Write its first batch to a partition, which must accept it; return its offset."""
        error_code, base_offset = self.write(operation, partition, 0)
        if error_code:
            raise NotPossible(f"the first batch was answered with {error_name(error_code)}")
        return base_offset

    def write_late(self, operation: str, partition: int, sequence: int) -> None:
        """Write a batch, retrying while a leader asks for it, and record the response."""
        answers: list[tuple[int, int]] = []

        def is_answered() -> bool:
            answers.append(self.write(operation, partition, sequence))
            return answers[-1][0] != ErrorCode.NOT_ENOUGH_REPLICAS

        await_until(
            is_answered,
            timeout_s=self.step.timeout_s,
            waiting_for="the late batch to be taken or refused",
            last_seen=lambda: error_name(answers[-1][0]) if answers else "no answer",
            remedy=_REMEDY,
            abort=gates.no_exit(self.play),
        )
        error_code, base_offset = answers[-1]
        self.play.observed(
            observations.LateBatch(
                operation=operation,
                topic=self.step.topic,
                partition=partition,
                error=error_name(error_code) if error_code else "",
                base_offset=base_offset,
            )
        )

    def write(self, operation: str, partition: int, sequence: int) -> tuple[int, int]:
        """Write a batch of one record; return the error and the base offset of the response."""
        builder = MemoryRecordsBuilder(2, 0, 1 << 20)
        builder.set_producer_state(self.producer_id, self.producer_epoch, sequence, True)
        value = f"{operation}-{sequence}".encode()
        builder.append(int(time.time() * 1000), None, value)
        builder.close()
        batch = {"partition": partition, "records": bytes(builder.buffer())}
        request = {
            "transactional_id": self.step.transactional_id,
            "acks": -1,
            "timeout_ms": int(_ANSWER_S * 1000),
            "topics": [{"topic": self.step.topic, "partitions": [batch]}],
        }
        answer = _ask(self.leader, ApiKey.PRODUCE, request, 3)
        told = answer["topics"][0]["partitions"][0]
        return int(told["error_code"]), int(told["base_offset"])


def _begun(play: Play, step: _Step, *, transaction_timeout_ms: int) -> _Producer:
    """Return a producer that its coordinator has initialised."""
    addresses = _client_addresses(play, step)
    leader = addresses[step.broker]
    named = {"key": step.transactional_id, "key_type": _TRANSACTION}
    told = _until(play, step, lambda: _ask(leader, ApiKey.FIND_COORDINATOR, named, 1))
    coordinator = addresses[told["node_id"]]
    asked = {
        "transactional_id": step.transactional_id,
        "transaction_timeout_ms": transaction_timeout_ms,
    }
    begun = _until(play, step, lambda: _ask(coordinator, ApiKey.INIT_PRODUCER_ID, asked, 0))
    return _Producer(
        play=play,
        step=step,
        leader=leader,
        coordinator=coordinator,
        producer_id=begun["producer_id"],
        producer_epoch=begun["producer_epoch"],
    )


def _client_addresses(play: Play, step: _Step) -> dict[int, str]:
    """Return the addresses at which clients reach each broker, by its links."""
    links = play.cluster.links
    if links is None or not links.client_addresses:
        raise ScenarioError(f"{type(step).__name__} needs a cluster with client_links")
    return {broker: f"{host}:{port}" for broker, (host, port) in links.client_addresses.items()}


def _until(
    play: Play, step: _Step, ask: Callable[[], dict[str, Any]], *, accept: int = ErrorCode.NONE
) -> dict[str, Any]:
    """Ask until the response has no error, or the accepted one."""
    answers: list[dict[str, Any]] = []

    def is_answered() -> bool:
        answers.append(ask())
        return _error_of(answers[-1]) in (ErrorCode.NONE, accept)

    await_until(
        is_answered,
        timeout_s=step.timeout_s,
        waiting_for=f"the coordinator of {step.transactional_id!r}",
        last_seen=lambda: error_name(_error_of(answers[-1])) if answers else "no answer",
        remedy=_REMEDY,
        abort=gates.no_exit(play),
    )
    return answers[-1]


def _ask(address: str, api: ApiKey, values: Mapping[str, Any], version: int) -> dict[str, Any]:
    return send(address, api, values, version=version, timeout_s=_ANSWER_S)


def _error_of(answer: Mapping[str, Any]) -> int:
    if "topics" in answer:
        return int(answer["topics"][0]["partitions"][0]["error_code"])
    return int(answer["error_code"])
