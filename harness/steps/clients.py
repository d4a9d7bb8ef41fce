"""Steps that a client does: it writes, and it reads."""

from dataclasses import dataclass

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.model import events
from kchaos.clusters.api import Broker
from kchaos.clusters.ask.client import ConsumerRecord, Fetched, Produced, fetch
from kchaos.clusters.errors import ClusterError
from kchaos.clusters.metadata.api import LeaderAndIsr
from kchaos.clusters.system.exchange import NoAnswer, NotSent
from kchaos.clusters.system.waiting import await_until
from kchaos.harness.errors import NotPossible, ScenarioError
from kchaos.harness.gates import gates
from kchaos.harness.gates.gates import GATE_S
from kchaos.harness.play.clients import magic_of
from kchaos.harness.play.play import Play


@dataclass(frozen=True, slots=True, kw_only=True)
class Produce:
    """One ProduceRequest with one batch of known records, sent to one broker.

    The records' values are `OPERATION-INDEX`, and their keys null, or `KEYS-INDEX`. A broker that
    does not lead yet appends nothing and says so; it is asked again until the gate's time is up.

    Attributes:
        operation: Names the operation; must be new in the scenario.
        records: How many.
        acks: 1, or -1 for all in-sync replicas.
        broker: Whom to send it to, or None for the registered leader of the partition.
        await_answer: Whether the gate is the answer; else `AwaitAnswer` comes later.
        accept_error: Whether an answer with an error passes the gate too.
        one_record_batches: Send as many requests with one record each, one after another.
        keys: What the keys begin with; "" for null keys. Two operations with the same one write
            the same keys.
        header_bytes: Each record has a header of so many zeros besides, so that it is large; 0 for
            none. Message formats before 2 have no headers.
    """

    operation: str
    topic: str
    partition: int
    records: int
    acks: int
    broker: int | None = None
    await_answer: bool = True
    accept_error: bool = False
    one_record_batches: bool = False
    codec: str = "none"
    keys: str = ""
    header_bytes: int = 0
    timeout_s: float = 20.0

    def __post_init__(self) -> None:
        """Refuse what no broker could append or acknowledge."""
        if self.records < 1:
            raise ValueError(f"records is {self.records}: at least 1 is written")
        if self.acks not in (1, -1):
            raise ValueError(f"acks is {self.acks}: 1, or -1 for all in-sync replicas")

    def perform(self, play: Play) -> None:
        """Send the records; wait for the response, unless `await_answer` is false.

        Raises:
            NotPossible: It was refused, or not answered.
            ScenarioError: A leader was elected during a produce with acks=1, and there are no links
                to tell when the broker heard of it.
        """
        broker = self.broker
        if broker is None:
            broker = _registered_leader(play, self.topic, self.partition, self.timeout_s)
        values = tuple(f"{self.operation}-{index}" for index in range(self.records))
        keys = tuple(f"{self.keys}-{index}" for index in range(self.records) if self.keys)
        batches = [(self.operation, values, keys)]
        if self.one_record_batches:
            batches = [
                (f"{self.operation}.{i}", (value,), keys[i : i + 1])
                for i, value in enumerate(values)
            ]
        for operation, records, keys_of_records in batches:
            action = events.Produce(
                operation=operation,
                broker=broker,
                topic=self.topic,
                partition=self.partition,
                records=records,
                acks=self.acks,
                codec=self.codec,
                keys=keys_of_records,
            )
            before = play.cluster.metadata.state(self.topic, self.partition)
            play.clients.produce(action, timeout_s=self.timeout_s, header_bytes=self.header_bytes)
            if self.await_answer:
                _require_answer(play, operation, self.accept_error, self.timeout_s + 5)
                if self.acks == 1 and play.cluster.links is None:
                    _require_term(play, action, before)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitAnswer:
    """The answer to a produce that was started without waiting for it."""

    operation: str
    accept_error: bool = False
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait for the response."""
        _require_answer(play, self.operation, self.accept_error, self.timeout_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteUntil:
    """A client writes one record after the other with acks=1, until the ISR is this one.

    Each waits for its answer, with an error or without, before the next; the last one too.

    Attributes:
        operation: The writes are called `OPERATION.0` and so on.
        isr: In any order.
        broker: Whom to write to.
        answer_s: How long each waits for its answer.
    """

    operation: str
    topic: str
    partition: int
    isr: tuple[int, ...]
    broker: int
    answer_s: float = 20.0
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Wait until the state znode has that ISR and the last write its response."""
        written = 0

        def is_reached() -> bool:
            state = play.cluster.metadata.state(self.topic, self.partition)
            return state is not None and set(state.isr) == set(self.isr)

        def write() -> bool:
            nonlocal written
            if is_reached():
                return True
            Produce(
                operation=f"{self.operation}.{written}",
                topic=self.topic,
                partition=self.partition,
                records=1,
                acks=1,
                broker=self.broker,
                accept_error=True,
                timeout_s=self.answer_s,
            ).perform(play)
            written += 1
            return is_reached()

        await_until(
            write,
            timeout_s=self.timeout_s,
            waiting_for=f"the ISR of {self.topic}-{self.partition} to be {list(self.isr)}",
            last_seen=lambda: (
                f"{play.cluster.metadata.state(self.topic, self.partition)} after {written} writes"
            ),
            abort=gates.no_exit(play),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A consumer reads records of one partition, from one broker.

    A broker gives consumers only what lies below its high watermark: from then on Kafka has
    promised to keep it, however it was acknowledged. Only what a scenario writes can be written
    down: text without keys, at offsets that follow each other.

    Attributes:
        operation: Names the operation; must be new in the scenario.
        offset: The first to read, inclusive.
        records: How many at least; the gate is that so many are below the broker's high watermark.
        broker: Whom to ask, or None for the registered leader of the partition.
    """

    operation: str
    topic: str
    partition: int
    records: int
    offset: int = 0
    broker: int | None = None
    timeout_s: float = GATE_S

    def perform(self, play: Play) -> None:
        """Ask until the broker returns this many records; record them.

        Raises:
            AwaitTimeout: It did not, in time.
            ScenarioError: It gave what no scenario writes.
        """
        broker = self.broker
        if broker is None:
            broker = _registered_leader(play, self.topic, self.partition, self.timeout_s)
        asked = play.cluster.brokers[broker]
        detail = {
            "function": "read",
            "broker": broker,
            "topic": self.topic,
            "partition": self.partition,
        }
        play.recorder.history(self.operation, "invoke", **detail)
        seen: list[Fetched | ClusterError] = []

        def read() -> Fetched | None:
            seen[:] = [self._fetched(asked)]
            if isinstance(seen[0], Fetched) and len(seen[0].records) >= self.records:
                return seen[0]
            return None

        try:
            fetched = await_until(
                read,
                timeout_s=self.timeout_s,
                waiting_for=f"broker {broker} to give a consumer {self.records} records of "
                f"{self.topic}-{self.partition} from offset {self.offset} on",
                last_seen=lambda: seen,
                remedy="does their high watermark cover them? see brokers/N/server.log",
                abort=asked.check_running,
            )
            values = [
                _text(record, offset=self.offset + index)
                for index, record in enumerate(fetched.records)
            ]
        except (ClusterError, ScenarioError) as error:
            play.recorder.history(self.operation, "fail", **detail, error=str(error))
            raise
        more = {"records": values, "base_offset": self.offset, "promised": True}
        play.recorder.history(self.operation, "ok", **detail, **more)

    def _fetched(self, broker: Broker) -> Fetched | ClusterError:
        try:
            return fetch(
                broker.client_address,
                topic=self.topic,
                partition=self.partition,
                offset=self.offset,
                magic=magic_of(broker),
            )
        except (NoAnswer, NotSent) as error:
            return error


def _text(record: ConsumerRecord, *, offset: int) -> str:
    """Return the value of a record that a scenario wrote at this offset."""
    try:
        if record.offset == offset and record.key is None and record.value is not None:
            return record.value.decode()
    except UnicodeDecodeError:
        # Then it is none of ours either.
        pass
    raise ScenarioError(
        f"a consumer got {record} where a record of the scenario at offset {offset} was to be: "
        "read only what its own steps write"
    )


def _registered_leader(play: Play, topic: str, partition: int, timeout_s: float) -> int:
    """Return the partition's leader once it is registered and knows of its leadership.

    A leader whose registration is gone is none: the controller is about to replace it.
    """
    metadata = play.cluster.metadata
    if metadata.state(topic, partition) is None:
        raise NotPossible(f"{topic}-{partition} has no leader: it does not exist")

    def with_registered_leader() -> LeaderAndIsr | None:
        state = metadata.state(topic, partition)
        return state if state is not None and state.leader in metadata.registered() else None

    state = await_until(
        with_registered_leader,
        timeout_s=timeout_s,
        waiting_for=f"a registered broker to lead {topic}-{partition}",
        last_seen=lambda: metadata.state(topic, partition),
        remedy="name the broker to send it to one that is not registered",
    )
    topic_partition = TopicPartition(topic, partition)
    gates.await_delivered(play, topic_partition, state.leader, state, timeout_s=timeout_s)
    return state.leader


def _require_term(play: Play, action: events.Produce, before: LeaderAndIsr | None) -> None:
    """Check that no leader was elected while the produce was under way.

    Where there are links the model follows them and knows in which leader epoch the records are.
    With acks=1 the answer comes at once, so the records were appended before the decision only if
    the decision came after the answer. With acks=all it may come long after the records.

    Raises:
        ScenarioError: One was; nobody can say in which leader epoch the records are.
    """
    now = play.cluster.metadata.state(action.topic, action.partition)
    if before is None or now is None or before.term != now.term:
        raise ScenarioError(
            f"{action.topic}-{action.partition} went from {before} to {now} during produce "
            f"{action.operation}: await the state first (AwaitState)"
        )


def _require_answer(play: Play, operation: str, accept_error: bool, timeout_s: float) -> None:
    answer = gates.await_answer(play, operation, timeout_s=timeout_s)
    if accept_error or (isinstance(answer, Produced) and answer.error_code == 0):
        return
    raise NotPossible(f"produce {operation} was not acknowledged: {answer}")
