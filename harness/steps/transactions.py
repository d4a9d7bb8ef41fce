"""A step that is a transactional client whose last batch comes when its transaction is over."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka.record.memory_records import MemoryRecordsBuilder

from kchaos.checkers.formats.api_keys import ApiKey
from kchaos.checkers.formats.error_codes import ErrorCode, error_name
from kchaos.clusters.client import fetch
from kchaos.clusters.exchange import NoAnswer, NotSent
from kchaos.clusters.requests import send
from kchaos.clusters.waiting import await_until
from kchaos.harness.errors import ScenarioError
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
    client goes through the links for clients, which write down what it asks and is told.

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
        """Returns when the late batch is answered, whatever with.

        Raises:
            ScenarioError: The cluster has no links for clients, or the transaction did not go well.
        """
        links = play.cluster.links
        if links is None or not links.client_addresses:
            raise ScenarioError(f"{type(self).__name__} needs a cluster with client_links")
        addresses = {
            broker: f"{host}:{port}" for broker, (host, port) in links.client_addresses.items()
        }
        leader = addresses[self.broker]
        told = self._until(
            play,
            lambda: _ask(
                leader,
                ApiKey.FIND_COORDINATOR,
                {"key": self.transactional_id, "key_type": _TRANSACTION},
                1,
            ),
        )
        coordinator = addresses[told["node_id"]]
        begun = self._until(
            play,
            lambda: _ask(
                coordinator,
                ApiKey.INIT_PRODUCER_ID,
                {
                    "transactional_id": self.transactional_id,
                    "transaction_timeout_ms": 60_000,
                },
                0,
            ),
        )
        producer = (begun["producer_id"], begun["producer_epoch"])
        of_transaction = {
            "transactional_id": self.transactional_id,
            "producer_id": producer[0],
            "producer_epoch": producer[1],
        }
        added = {"topic": self.topic, "partitions": [self.partition]}
        self._until(
            play,
            lambda: _ask(
                coordinator,
                ApiKey.ADD_PARTITIONS_TO_TXN,
                of_transaction | {"topics": [added]},
                0,
            ),
        )
        error_code, base_offset = self._write(leader, producer, 0)
        if error_code:
            raise ScenarioError(f"the first batch was answered with {error_name(error_code)}")
        self._until(
            play,
            lambda: _ask(
                coordinator,
                ApiKey.END_TXN,
                of_transaction | {"committed": False},
                0,
            ),
        )
        self._await_marker(play, leader, base_offset + 2)
        error_code, base_offset = self._write_late(play, leader, producer)
        play.observed(
            "late-batch",
            operation=self.operation,
            topic=self.topic,
            partition=self.partition,
            error=error_name(error_code) if error_code else "",
            base_offset=base_offset,
        )

    def _until(self, play: Play, ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Asks until the answer has no error."""
        answers: list[dict[str, Any]] = []

        def is_answered() -> bool:
            answers.append(ask())
            return _error_of(answers[-1]) == 0

        await_until(
            is_answered,
            timeout_s=self.timeout_s,
            waiting_for=f"the coordinator of {self.transactional_id!r}",
            last_seen=lambda: error_name(_error_of(answers[-1])) if answers else "no answer",
            remedy="see the server.log of the broker that leads __transaction_state",
            abort=gates.no_exit(play),
        )
        return answers[-1]

    def _await_marker(self, play: Play, leader: str, high_watermark: int) -> None:
        def end() -> int:
            answer = fetch(
                leader, topic=self.topic, partition=self.partition, offset=high_watermark - 1
            )
            return answer.high_watermark

        await_until(
            lambda: end() >= high_watermark,
            timeout_s=self.timeout_s,
            waiting_for=f"the marker of {self.transactional_id!r} to be replicated",
            last_seen=end,
            remedy="see the server.log of the broker that leads __transaction_state",
            abort=gates.no_exit(play),
        )

    def _write_late(self, play: Play, leader: str, producer: tuple[int, int]) -> tuple[int, int]:
        """Sends the late batch, again while a leader says so: its coordinator is not done yet."""
        answers: list[tuple[int, int]] = []

        def is_answered() -> bool:
            answers.append(self._write(leader, producer, 1))
            return answers[-1][0] != ErrorCode.NOT_ENOUGH_REPLICAS

        await_until(
            is_answered,
            timeout_s=self.timeout_s,
            waiting_for="the late batch to be taken or refused",
            last_seen=lambda: error_name(answers[-1][0]) if answers else "no answer",
            remedy="see the server.log of the broker that leads __transaction_state",
            abort=gates.no_exit(play),
        )
        return answers[-1]

    def _write(self, leader: str, producer: tuple[int, int], sequence: int) -> tuple[int, int]:
        builder = MemoryRecordsBuilder(2, 0, 1 << 20)
        builder.set_producer_state(*producer, sequence, True)
        value = f"{self.operation}-{sequence}".encode()
        builder.append(int(time.time() * 1000), None, value)
        builder.close()
        batch = {"partition": self.partition, "records": bytes(builder.buffer())}
        request = {
            "transactional_id": self.transactional_id,
            "acks": -1,
            "timeout_ms": int(_ANSWER_S * 1000),
            "topics": [{"topic": self.topic, "partitions": [batch]}],
        }
        answer = _ask(leader, ApiKey.PRODUCE, request, 3)
        told = answer["topics"][0]["partitions"][0]
        return int(told["error_code"]), int(told["base_offset"])


def _ask(address: str, api: ApiKey, values: Mapping[str, Any], version: int) -> dict[str, Any]:
    try:
        return send(address, api, values, version=version, timeout_s=_ANSWER_S)
    except (NoAnswer, NotSent) as error:
        raise ScenarioError(f"{api.spelled} was not answered: {error}") from error


def _error_of(answer: Mapping[str, Any]) -> int:
    if "topics" in answer:
        return int(answer["topics"][0]["partitions"][0]["error_code"])
    return int(answer["error_code"])
