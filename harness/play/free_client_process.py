"""The process of free clients: `python -m kchaos.harness.play.free_client_process SETTINGS`.

Each client has a thread. SIGTERM asks them to end; those that cannot in time are left, for the
process ends with `os._exit`. Nothing here is awaited without a bound.
"""

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from kchaos.checkers.json_form import from_json
from kchaos.harness.play.free_clients import CONSUMERS, PRODUCERS, FreeClientSettings

_END_S = 15.0
_CLOSE_S = 5.0
_LOOK_S = 0.2
_SHORTEST_WAIT_S = 0.5
_MOST_WAITS = 1_000
_MOST_ERRORS = 20
_ABORTED_EACH = 4
_IN_TRANSACTION = 3
_SOON: dict[str, Any] = {
    "bootstrap_timeout_ms": 5_000,
    "request_timeout_ms": 10_000,
    "metadata_max_age_ms": 5_000,
    "reconnect_backoff_max_ms": 1_000,
}
"""Settings with which clients try again soon: a broker that is gone must not silence them."""


class Client:
    """Work of one client so far; its thread and callbacks write it."""

    def __init__(self, name: str, kind: str, fleet: "Fleet") -> None:
        self.name, self.kind, self.fleet = name, kind, fleet
        self.done = self.failed = self.tried = 0
        self.errors: Counter[str] = Counter()
        self.waits: list[list[float]] = []
        self._lock = threading.Lock()
        self._waiting_since: dict[int, float] = {}

    def told(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        with self._lock:
            return {
                "client": self.name,
                "kind": self.kind,
                "tried": self.tried,
                "done": self.done,
                "failed": self.failed,
                "errors": dict(self.errors.most_common(_MOST_ERRORS)),
            }

    def note_tried(self, partition: int) -> None:
        """Count a record that the client library is given now."""
        with self._lock:
            self.tried += 1
            self._waiting_since.setdefault(partition, time.time())

    def note_done(self, partition: int) -> None:
        """Count an acknowledged record, with which the partition's wait ends."""
        with self._lock:
            self.done += 1
            self._end_wait(partition)

    def note_failed(self, error: BaseException) -> None:
        """Count a failed record or another error, after which the wait goes on."""
        with self._lock:
            self.failed += 1
            self._count(error)

    def note_error(self, error: BaseException) -> None:
        """Count an error that was no record's."""
        with self._lock:
            self._count(error)

    def end_waits(self) -> None:
        """End all waits, since nothing is written any more."""
        with self._lock:
            for partition in list(self._waiting_since):
                self._end_wait(partition)

    def _count(self, error: BaseException) -> None:
        self.errors[f"{type(error).__name__}: {error}"[:200]] += 1

    def _end_wait(self, partition: int) -> None:
        now = time.time()
        began = self._waiting_since.pop(partition, now)
        if now - began >= _SHORTEST_WAIT_S and len(self.waits) < _MOST_WAITS:
            self.waits.append([partition, began, now])


class Fleet:
    """All clients of the process."""

    def __init__(self, settings: FreeClientSettings) -> None:
        self.settings = settings
        self.stopping = threading.Event()
        self.clients: list[Client] = []
        self.threads: list[threading.Thread] = []

    def run(self) -> None:
        """Run every client until SIGTERM, and report their progress."""
        for kind in (*PRODUCERS, *CONSUMERS):
            for number in range(self.settings.kinds.get(kind, 0)):
                name = f"{self.settings.name}-{kind}-{number}"
                self.clients.append(Client(name, kind, self))
        for client in self.clients:
            self._start(client)
        is_started = False
        while not self.stopping.wait(_LOOK_S):
            if not is_started and self._all_at_work():
                is_started = True
                self.say(is_started=True)
            elif not is_started:
                self.say(is_started=False)
        deadline = time.monotonic() + _END_S
        for thread in self.threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        for client in self.clients:
            client.end_waits()
        self.say(is_started=is_started, is_over=True)

    def _all_at_work(self) -> bool:
        """Return whether each client, or one of each group, has written or read."""
        groups: dict[str, bool] = {}
        for client in self.clients:
            own = client.kind if client.kind.startswith("in-group") else client.name
            groups[own] = groups.get(own, False) or client.done > 0
        return all(groups.values())

    def say(self, **more: Any) -> None:
        """Write the progress of the clients."""
        file = Path(self.settings.status)
        waits = [
            {"client": client.name, "partition": partition, "began": began, "ended": ended}
            for client in self.clients
            for partition, began, ended in client.waits
        ]
        told = {
            **more,
            "clients": [client.told() for client in self.clients],
            "waits": waits,
            "not_ended": [thread.name for thread in self.threads if thread.is_alive()],
        }
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps(told))
        temporary.rename(file)

    def _start(self, client: Client) -> None:
        work = {"plain": _produce, "idempotent": _produce, "transactional": _transact}
        target = work.get(client.kind, _consume)

        def live() -> None:
            # A client that fails is made anew: its scenario goes on without waiting for anybody.
            while not self.stopping.is_set():
                try:
                    target(client)
                except Exception as error:  # noqa: BLE001 - whatever fails is counted and told
                    client.note_error(error)
                    self.stopping.wait(_LOOK_S)

        thread = threading.Thread(target=live, name=client.name, daemon=True)
        self.threads.append(thread)
        thread.start()

    def partitions_of(self, client: Client) -> list[int]:
        """Return a producer's partitions: its own, if there are enough for each producer.

        Nothing orders two requests of two clients for one partition until a broker has answered.
        """
        partitions = [*range(self.settings.partitions)]
        producers = [each for each in self.clients if each.kind in PRODUCERS]
        if len(producers) > len(partitions):
            return partitions
        return partitions[producers.index(client) :: len(producers)]

    def paces(self) -> float:
        """Return the seconds between two records of one producer."""
        producers = sum(self.settings.kinds.get(kind, 0) for kind in PRODUCERS)
        return max(1, producers) / self.settings.rate


def _each_record(client: Client, send: Callable[[int, int], None]) -> None:
    """Call `send` with the record's number and partition, at the client's pace."""
    fleet = client.fleet
    pause, partitions = fleet.paces(), fleet.partitions_of(client)
    following = time.monotonic()
    while not fleet.stopping.wait(max(0.0, following - time.monotonic())):
        number = client.tried
        send(number, partitions[number % len(partitions)])
        # Who was kept waiting does not hurry afterwards.
        following = max(following + pause, time.monotonic())


def _producer(client: Client, **more: Any) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=list(client.fleet.settings.servers),
        client_id=client.name,
        acks="all",
        delivery_timeout_ms=20_000,
        max_block_ms=5_000,
        linger_ms=0,
        # What is sent again stays in its place.
        max_in_flight_requests_per_connection=1,
        **_SOON,
        **more,
    )


def _send(
    client: Client,
    producer: KafkaProducer,
    number: int,
    partition: int,
    given_up: threading.Event | None = None,
) -> None:
    """Send a record; set the event once the library has given it up."""

    def failed(error: BaseException) -> None:
        client.note_failed(error)
        if given_up is not None:
            given_up.set()

    client.note_tried(partition)
    try:
        value = f"{client.name}-{number}".encode()
        # A compacted topic takes no record without a key, and keeps the last one of each.
        future = producer.send(client.fleet.settings.topic, value, key=value, partition=partition)
    except KafkaError as error:
        client.note_failed(error)
        return
    future.add_callback(lambda _told: client.note_done(partition))
    future.add_errback(failed)


class RecordGivenUp(Exception):
    """An idempotent producer has given a record up, and may never send another one."""


def _produce(client: Client) -> None:
    """Send one record after another, until the end or an idempotent producer's first failure.

    kafka-python may never look at its partition again (3.0.12: kafka.producer.sender mutes a
    partition, and a batch that expires there leaves it so). A new producer goes on.
    """
    is_idempotent = client.kind == "idempotent"
    given_up = threading.Event()
    producer = _producer(client, enable_idempotence=is_idempotent)

    def send(number: int, partition: int) -> None:
        if is_idempotent and given_up.is_set():
            raise RecordGivenUp("a record was given up; another producer goes on")
        _send(client, producer, number, partition, given_up)

    try:
        _each_record(client, send)
    finally:
        producer.close(timeout=_CLOSE_S)


def _transact(client: Client) -> None:
    """Write transactions of a few records each, at the records' pace, and abort some of them.

    One that fails is left to the next producer of that id, which ends it by asking for its own
    producer epoch.
    """
    producer = _producer(client, transactional_id=client.name, transaction_timeout_ms=10_000)
    in_transaction = ended = 0

    def send(number: int, partition: int) -> None:
        nonlocal in_transaction, ended
        if not in_transaction:
            producer.begin_transaction()
        _send(client, producer, number, partition)
        in_transaction += 1
        if in_transaction == _IN_TRANSACTION:
            in_transaction, ended = 0, ended + 1
            if ended % _ABORTED_EACH == 0:
                producer.abort_transaction()
            else:
                producer.commit_transaction()

    try:
        producer.init_transactions()
        _each_record(client, send)
        if in_transaction:
            producer.abort_transaction()
    finally:
        producer.close(timeout=_CLOSE_S)


def _consume(client: Client) -> None:
    settings = client.fleet.settings
    is_in_group = client.kind.startswith("in-group")
    committed_only = client.kind.endswith("-committed")
    level = "read_committed" if committed_only else "read_uncommitted"
    own: dict[str, Any] = {}
    if is_in_group:
        own = {
            "group_id": f"{settings.name}-{client.kind}",
            "session_timeout_ms": 6_000,
            "heartbeat_interval_ms": 1_000,
            "auto_commit_interval_ms": 1_000,
        }
    consumer = KafkaConsumer(
        bootstrap_servers=list(settings.servers),
        client_id=client.name,
        auto_offset_reset="earliest",
        isolation_level=level,
        fetch_max_wait_ms=200,
        **_SOON,
        **own,
    )
    try:
        if is_in_group:
            consumer.subscribe([settings.topic])
        else:
            consumer.assign(
                [TopicPartition(settings.topic, number) for number in range(settings.partitions)]
            )
        while not client.fleet.stopping.is_set():
            came = consumer.poll(timeout_ms=int(_LOOK_S * 1000))
            client.done += sum(map(len, came.values()))
    finally:
        consumer.close(timeout_ms=_CLOSE_S * 1000)


def main(file: str) -> None:
    """Run the clients of the file until SIGTERM."""
    settings = from_json(FreeClientSettings, json.loads(Path(file).read_text()))
    fleet = Fleet(settings)
    signal.signal(signal.SIGTERM, lambda _number, _frame: fleet.stopping.set())
    fleet.run()


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    # Threads of clients that hang would keep the process.
    os._exit(0)
