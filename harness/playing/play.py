"""What a step has in its hands while it is performed: the cluster, the evidence, the gates."""

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka.errors import for_code

from checkers.model import events
from checkers.run_directory import RunDirectory
from checkers.segments.checkpoints import parse_offset_checkpoint
from clusters.api import Broker, Cluster
from clusters.client import NoAnswer, NotSent, Produced, produce
from faults.api import Fault, Injection
from faults.observation import observe_broker
from harness.errors import NotPossible, ScenarioError

NOT_LEADER = 6
UNKNOWN_TOPIC_OR_PARTITION = 3
LEADER_NOT_AVAILABLE = 5
_NOTHING_APPENDED = (NOT_LEADER, UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE)
REQUEST_TIMED_OUT = 7
NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
_INDEFINITE = (REQUEST_TIMED_OUT, NOT_ENOUGH_REPLICAS_AFTER_APPEND)  # The record is there.
_PAUSE_S = 0.01
HIGH_WATERMARKS = "replication-offset-checkpoint"


@dataclass(slots=True)
class Play:
    """One scenario while it is played; also the journal that faults write to.

    Every act is written as the model's action together with the last zxid before it, so that
    the timeline can put acts and ZooKeeper's transactions into one order.
    """

    cluster: Cluster
    run: RunDirectory
    say: Callable[[str], None]
    step: int = -1
    healing: dict[str, ExitStack] = field(default_factory=dict)
    injections: dict[str, Injection] = field(default_factory=dict)
    pending: dict[str, threading.Thread] = field(default_factory=dict)
    answers: dict[str, Produced | Exception] = field(default_factory=dict)
    log_started: dict[int, int] = field(default_factory=dict)
    links_started: dict[int, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    # -- evidence ---------------------------------------------------------------------------

    def observed(self, what: str, **detail: Any) -> None:
        """Appends one observation."""
        self._append("observations.jsonl", {"step": self.step, "kind": what, **detail})

    def action(self, event: events.Action, zxid: int) -> None:
        """Appends one action of the model's, taken when `zxid` was the last one."""
        line = {"zxid": zxid, "step": self.step, "action": events.event_to_json(event)}
        self._append("actions.jsonl", line)

    def history(self, operation: str, kind: str, **detail: Any) -> None:
        """Appends one line of a client's operation: "invoke", "ok", "fail" or "info"."""
        self._append("history.jsonl", {"operation": operation, "type": kind, **detail})

    def _append(self, name: str, value: dict[str, Any]) -> None:
        with self._lock:
            self.run.append(name, {"time": time.time(), **value})

    @contextlib.contextmanager
    def acting(self, act: str, **detail: Any) -> Iterator[None]:
        """A fault's primitive; see `faults.api.ACTS`. Written when it is done."""
        zxid = self.last_zxid()
        self.observed("act", act=act, zxid=zxid, **detail)
        if act == "start-broker":
            self._remember_start(detail["broker"])
        yield
        event = self._model_action(act, detail)
        if event is not None:
            self.action(event, zxid)

    def last_zxid(self) -> int:
        """The newest zxid that ZooKeeper has, as a read through the shared client shows it."""
        client = self.cluster.zookeeper()
        client.exists("/")
        return int(client.last_zxid)

    def _model_action(self, act: str, detail: dict[str, Any]) -> events.Action | None:
        match act:
            case "start-broker":
                return self.start_action(detail["broker"])
            case "kill-broker" | "stop-broker":
                return events.StopBroker(
                    broker=detail["broker"],
                    clean=act == "stop-broker",
                    checkpointed=self.checkpointed(detail["broker"]),
                )
            case "pause-broker":
                return events.PauseBroker(broker=detail["broker"])
            case "resume-broker":
                return events.ResumeBroker(broker=detail["broker"])
            case "lose-tail":
                return events.LoseTail(**detail)
            case "cut-link":
                return events.CutLink(**detail)
            case "heal-link":
                return events.HealLink(**detail)
            case "hold":
                return events.Hold(**detail)
            case "release":
                return events.ReleaseHold(**detail)
            case _:
                # The rest acts on ZooKeeper, whose own log shows what came of it.
                return None

    def start_action(self, broker: int) -> events.StartBroker:
        """The model's action for a start of this broker with its present configuration."""
        found = self.cluster.brokers[broker]
        properties = found.properties
        return events.StartBroker(
            broker=broker,
            release=found.protocol,
            inter_broker_protocol=properties.get("inter.broker.protocol.version"),
            message_format=properties.get("log.message.format.version"),
            unclean_leader_election=properties.get("unclean.leader.election.enable") == "true",
            min_insync_replicas=int(properties.get("min.insync.replicas", "1")),
        )

    def checkpointed(self, broker: int) -> tuple[tuple[str, int, int], ...]:
        """What the broker's high watermark checkpoint holds: (topic, partition, offset)."""
        file = self.cluster.brokers[broker].log_directory / HIGH_WATERMARKS
        text = file.read_text() if file.is_file() else ""
        offsets = parse_offset_checkpoint(text, file=str(file))
        return tuple((topic, partition, offset) for (topic, partition), offset in offsets.items())

    # -- faults -----------------------------------------------------------------------------

    def inject(self, name: str, fault: Fault) -> Injection:
        """Injects, and remembers under `name` how to heal."""
        if name in self.healing:
            raise ScenarioError(f"a fault named {name!r} acts already: heal it first")
        stack = ExitStack()
        context: AbstractContextManager[Injection] = fault.inject(self.cluster, self)
        injection = stack.enter_context(context)
        self.injections[name] = injection
        if fault.lasting:
            self.healing[name] = stack
        else:
            stack.close()
        self.observed(
            "injected",
            name=name,
            fault=injection.fault,
            lasting=fault.lasting,
            before=injection.before,
            effect=injection.effect,
        )
        return injection

    def heal(self, name: str) -> None:
        """Heals what was injected under that name."""
        stack = self.healing.pop(name, None)
        if stack is None:
            raise NotPossible(f"no fault named {name!r} acts; those that do: {[*self.healing]}")
        stack.close()
        self.observed("healed", name=name)

    def heal_all(self, after_each: Callable[["Play"], None] = lambda _: None) -> None:
        """Heals whatever still acts, the newest first, and goes on after one that fails.

        Args:
            after_each: Called after each that could be healed.

        Raises:
            ExceptionGroup: One or more could not be healed.
        """
        problems: list[Exception] = []
        for name in reversed(list(self.healing)):
            try:
                self.heal(name)
                after_each(self)
            except Exception as error:  # noqa: BLE001 - all are raised below
                problems.append(error)
        if problems:
            raise ExceptionGroup("not everything could be healed", problems)

    # -- clients ----------------------------------------------------------------------------

    def start_produce(
        self, action: events.Produce, *, timeout_s: float, is_probe: bool = False
    ) -> None:
        """Sends one ProduceRequest from a thread of its own; `answers` gets what came back.

        Args:
            is_probe: Written down: a probe's acknowledgement says nothing about the scenario.
        """
        self.action(action, self.last_zxid())
        detail: dict[str, Any] = {
            "function": "produce",
            "broker": action.broker,
            "topic": action.topic,
            "partition": action.partition,
            "acks": action.acks,
            "probe": is_probe,
        }
        self.history(action.operation, "invoke", **detail, records=list(action.records))

        def send() -> None:
            try:
                answer = self._produced(action, timeout_s)
                self._write_answer(action, answer, detail)
            except Exception as error:  # noqa: BLE001 - raised at the gate that awaits the answer
                answer = error
            self.answers[action.operation] = answer

        thread = threading.Thread(target=send, name=f"produce {action.operation}", daemon=True)
        self.pending[action.operation] = thread
        thread.start()

    def join_clients(self, timeout_s: float = 10.0) -> None:
        """Returns once no client writes to the history any more; brokers must be gone.

        Raises:
            ScenarioError: One still does.
        """
        for operation, thread in self.pending.items():
            thread.join(timeout_s)
            if thread.is_alive():
                raise ScenarioError(f"produce {operation} does not end, though no broker runs")

    def _produced(self, action: events.Produce, timeout_s: float) -> Produced | Exception:
        """The broker's answer; a refusal that appended nothing is asked again until the time is up.

        A broker that leads answers so until it has handled UpdateMetadata. If the partition's state
        changes meanwhile, nobody can say before which decision the records were appended, and the
        answer is a ScenarioError.
        """
        broker = self.cluster.brokers[action.broker]
        deadline = time.monotonic() + timeout_s
        before = self.state(action.topic, action.partition)
        while True:
            try:
                answer = produce(
                    broker.client_address,
                    topic=action.topic,
                    partition=action.partition,
                    values=[record.encode() for record in action.records],
                    acks=action.acks,
                    magic=magic_of(broker),
                    codec=action.codec,
                    timestamp_ms=int(time.time() * 1000),
                    timeout_s=timeout_s,
                )
            except (NoAnswer, NotSent) as error:
                return error
            if answer.error_code not in _NOTHING_APPENDED or time.monotonic() > deadline:
                return answer
            time.sleep(_PAUSE_S)
            now = self.state(action.topic, action.partition)
            if before is None or now is None or term(now) != term(before):
                return ScenarioError(
                    f"{action.topic}-{action.partition} went from {before} to {now} while broker "
                    f"{action.broker} refused produce {action.operation}"
                )

    def _write_answer(
        self, action: events.Produce, answer: Produced | Exception, detail: dict[str, Any]
    ) -> None:
        more: dict[str, Any]
        if isinstance(answer, Produced) and answer.error_code == 0:
            kind, more = "ok", {"base_offset": answer.base_offset, "promised": action.acks == -1}
        elif isinstance(answer, Produced):
            kind = "info" if answer.error_code in _INDEFINITE else "fail"
            name = for_code(answer.error_code).message
            more = {"error": name, "error_code": answer.error_code}
        else:
            kind = "fail" if isinstance(answer, NotSent | ScenarioError) else "info"
            more = {"error": str(answer)}
        self.history(action.operation, kind, **detail, **more)

    # -- what is seen -----------------------------------------------------------------------

    def state(self, topic: str, partition: int) -> dict[str, Any] | None:
        """The partition's state znode, or None while there is none."""
        from kazoo.exceptions import NoNodeError

        path = f"/brokers/topics/{topic}/partitions/{partition}/state"
        try:
            data, _ = self.cluster.zookeeper().get(path)
        except NoNodeError:
            return None
        state: dict[str, Any] = json.loads(data)
        return state

    def assignment(self, topic: str) -> dict[int, list[int]]:
        """Replica ids by partition as `/brokers/topics/T` has them, preferred replica first."""
        data, _ = self.cluster.zookeeper().get(f"/brokers/topics/{topic}")
        return {int(key): value for key, value in json.loads(data)["partitions"].items()}

    def observe_all(self, why: str) -> None:
        """Appends what ZooKeeper says of every broker."""
        for broker in self.cluster.brokers:
            seen = observe_broker(self.cluster, broker).to_json()
            self.observed("broker", why=why, **seen)

    def log_lines(self, broker: int, pattern: re.Pattern[str], *, since: int = 0) -> list[str]:
        """The lines of a broker's log, from a byte position on, that match the expression."""
        log = self.cluster.brokers[broker].server_log
        if not log.is_file():
            return []
        with log.open("rb") as file:
            file.seek(since)
            lines = file.read().decode("utf-8", "replace").splitlines()
        return [line for line in lines if pattern.search(line)]

    def _remember_start(self, broker: int) -> None:
        """From here on, log lines and link records are those of the broker's next process."""
        log = self.cluster.brokers[broker].server_log
        self.log_started[broker] = log.stat().st_size if log.is_file() else 0
        if self.cluster.links is not None:
            self.links_started[broker] = self.cluster.links.next_sequence

    def partition_directory(self, broker: int, topic: str, partition: int) -> Path:
        """Where this broker keeps this partition."""
        return self.cluster.brokers[broker].log_directory / f"{topic}-{partition}"


def magic_of(broker: Broker) -> int:
    """The newest message format that clients of this broker's release speak."""
    return 1 if broker.release.startswith("0.10.") else 2


def term(state: Mapping[str, Any]) -> tuple[Any, Any]:
    """The leader and its epoch, as a state znode has them."""
    return state["leader"], state["leader_epoch"]
