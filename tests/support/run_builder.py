"""Builds run directories for the tests: literal histories, tiny segments, a ZooKeeper log."""

import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crc32c import crc32c

from kchaos.checkers import acts
from kchaos.checkers.acts import StartBroker
from kchaos.checkers.evidence.observed import Observed
from kchaos.checkers.formats.kafka_jars import SERVER_JARS
from kchaos.checkers.json_form import to_json
from kchaos.checkers.model import events
from kchaos.checkers.model.releases.request_versions import asked_versions
from kchaos.checkers.model.releases.versions import line_of, parse_version
from kchaos.checkers.model.values.events import Action, event_to_json
from kchaos.checkers.observations import (
    Act,
    Broker,
    HighWatermark,
    Observation,
    SettleOutcome,
    SettleProbe,
    StepBegun,
)
from kchaos.checkers.run_directory import RunDirectory
from tests.support.segment_encoder import record

CONTROLLER_SESSION = 0x100
START = 1_600_000_000.0
Log = Sequence[tuple[int, int, Sequence[str]]]


def string(text: str) -> bytes:
    return struct.pack(">i", len(text.encode())) + text.encode()


def buffer(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


ACL = struct.pack(">ii", 1, 31) + string("world") + string("anyone")


def create_body(path: str, data: bytes | None, *, ephemeral: bool = False) -> bytes:
    return string(path) + buffer(data) + ACL + struct.pack(">?i", ephemeral, 1)


def set_body(path: str, data: bytes | None, version: int) -> bytes:
    return string(path) + buffer(data) + struct.pack(">i", version)


def multi_body(parts: Sequence[tuple[int, bytes]]) -> bytes:
    encoded = b"".join(struct.pack(">i", kind) + buffer(body) for kind, body in parts)
    return struct.pack(">i", len(parts)) + encoded


def transaction(
    zxid: int, kind: int, body: bytes, *, session: int = CONTROLLER_SESSION, time_ms: int = 0
) -> bytes:
    content = struct.pack(">qiqqi", session, 1, zxid, time_ms, kind) + body
    return struct.pack(">qi", zlib.adler32(content), len(content)) + content + b"\x42"


def transaction_log(*transactions: bytes) -> bytes:
    return struct.pack(">4siq", b"ZKLG", 2, 0) + b"".join(transactions)


def segment(log: Log, sent_ms: Mapping[str, int] | None = None) -> bytes:
    """Magic 2 batches from (base offset, leader epoch, values); a batch is as old as its value."""
    times = sent_ms or {}
    return b"".join(
        _batch(base, epoch, values, times.get(values[0], 1000)) for base, epoch, values in log
    )


def _batch(base_offset: int, leader_epoch: int, values: Sequence[str], time_ms: int) -> bytes:
    records = b"".join(record(delta, None, value.encode()) for delta, value in enumerate(values))
    covered = struct.pack(
        ">hiqqqhii", 0, len(values) - 1, time_ms, time_ms, -1, -1, -1, len(values)
    )
    covered += records
    head = struct.pack(">qiibI", base_offset, len(covered) + 9, leader_epoch, 2, crc32c(covered))
    return head + covered


@dataclass(slots=True)
class RunBuilder:
    """Writes one run directory, event by event; time goes on by a second with each."""

    path: Path
    expectation: Mapping[str, Any] | None = None
    release: str = "1.1.1"
    is_linked: bool = False
    client_links: bool = False
    unlinked: str = ""
    zxid: int = 0
    clock: float = START
    transactions: list[bytes] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    states: dict[str, dict[str, Any]] = field(default_factory=dict)
    sent_ms: dict[str, int] = field(default_factory=dict)
    started: dict[int, str] = field(default_factory=dict)
    steps: list[dict[str, Any]] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    assignments: dict[str, tuple[int, ...]] = field(default_factory=dict)
    probes: dict[str, SettleProbe] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    run: RunDirectory = field(init=False)

    def __post_init__(self) -> None:
        fields = {
            "entry": "KAFKA-6361",
            "case": "n20",
            "release": self.release,
            "driver": "local",
            "seed": 7,
            "brokers": {},
            "unlinked": self.unlinked,
            "started_at": START,
            "kchaos": "0.1.0",
            "jars": {},
        }
        cluster = {"linked": self.is_linked or self.client_links}
        cluster |= {"client_links": True} if self.client_links else {}
        named = {name: fields[name] for name in ("entry", "case", "release", "seed")}
        named["title"] = "a literal history"
        scenario = {"expectation": self.expectation, "cluster": cluster, **named}
        self.run = RunDirectory.create(self.path, run=fields, scenario=scenario)

    def tick(self) -> float:
        self.clock += 1
        return self.clock

    def begin_with(self, brokers: int, **started: Any) -> "RunBuilder":
        """Two brokers, of which 0 is the controller, or three, of which 2 is."""
        for broker in range(brokers):
            self.act(StartBroker(broker=broker, release=self.release, **started), zxid=0)
        controller = 0 if brokers == 2 else 2
        self.elect_controller(controller, CONTROLLER_SESSION)
        self.register(controller, CONTROLLER_SESSION)
        for broker in sorted({0, 1} - {controller}):
            self.register(broker, 0x10 + broker)
        return self

    # -- ZooKeeper --------------------------------------------------------------------------

    def write(self, kind: int, body: bytes, *, session: int = CONTROLLER_SESSION) -> "RunBuilder":
        self.zxid += 1
        time_ms = int(self.tick() * 1000)
        self.transactions.append(
            transaction(self.zxid, kind, body, session=session, time_ms=time_ms)
        )
        return self

    def register(self, broker: int, session: int) -> "RunBuilder":
        return self.write(
            1, create_body(f"/brokers/ids/{broker}", b"{}", ephemeral=True), session=session
        )

    def elect_controller(self, broker: int, session: int) -> "RunBuilder":
        data = json.dumps({"version": 1, "brokerid": broker}).encode()
        return self.write(1, create_body("/controller", data, ephemeral=True), session=session)

    def close_session(self, session: int) -> "RunBuilder":
        return self.write(-11, b"", session=session)

    def topic(self, topic: str, *assignment: Sequence[int]) -> "RunBuilder":
        path = f"/brokers/topics/{topic}"
        self.assignments[topic] = tuple(broker for ids in assignment for broker in ids)
        partitions = {str(index): list(ids) for index, ids in enumerate(assignment)}
        data = json.dumps({"version": 1, "partitions": partitions}).encode()
        return self._put(path, data, CONTROLLER_SESSION)

    def state(
        self,
        leader: int,
        leader_epoch: int,
        isr: Sequence[int],
        *,
        topic: str = "t",
        session: int = CONTROLLER_SESSION,
    ) -> "RunBuilder":
        state = {
            "controller_epoch": 1,
            "leader": leader,
            "version": 1,
            "leader_epoch": leader_epoch,
            "isr": list(isr),
        }
        self.states[f"{topic}-0"] = state
        path = f"/brokers/topics/{topic}/partitions/0/state"
        return self._put(path, json.dumps(state).encode(), session)

    def delete_topic(self, topic: str) -> "RunBuilder":
        """Somebody wishes it, the controller takes each replica out of the ISR, then the topic."""
        self.write(1, create_body(f"/admin/delete_topics/{topic}", None))
        state = self.states[f"{topic}-0"]
        leader, isr = state["leader"], state["isr"]
        for number, broker in enumerate(isr):
            leader = -1 if broker == leader else leader
            left = isr[number + 1 :] or [broker]
            self.state(leader, state["leader_epoch"] + number + 1, left, topic=topic)
        path = f"/brokers/topics/{topic}"
        for part in ("/partitions/0/state", ""):
            self.write(2, string(path + part))
            self.versions.pop(path + part, None)
        del self.states[f"{topic}-0"]
        return self.write(2, string(f"/admin/delete_topics/{topic}"))

    def _put(self, path: str, data: bytes, session: int) -> "RunBuilder":
        if path not in self.versions:
            self.versions[path] = 0
            return self.write(1, create_body(path, data), session=session)
        self.versions[path] += 1
        return self.write(5, set_body(path, data, self.versions[path]), session=session)

    # -- what the runner writes -------------------------------------------------------------

    def act(self, action: Action, *, zxid: int | None = None) -> "RunBuilder":
        told = event_to_json(action)
        step = 0
        if isinstance(action, StartBroker) and action.broker not in self.started:
            self.started[action.broker] = action.release
            step = -1  # The first start of a broker is before all steps.
        number = self.zxid if zxid is None else zxid
        time = self.tick()
        if isinstance(action, events.Snapshot):
            pass
        elif isinstance(action, events.HighWatermarkObserved):
            seen = {action.broker: action.high_watermark}
            seen_at = HighWatermark(topic=action.topic, partition=action.partition, seen=seen)
            self.observe(seen_at, step, time)
        elif step >= 0 and isinstance(action, acts.Act):
            self.observe(Act(act=action, zxid=number), step, time)
        line = {"time": time, "began": time, "zxid": number, "step": step, "action": told}
        self.run.append("actions.jsonl", line)
        return self

    def observe(self, what: Observation, step: int = 0, time: float | None = None) -> None:
        """Writes an observation, of now if no time is given."""
        line = Observed(time=self.tick() if time is None else time, step=step, what=what)
        self.run.append("observations.jsonl", line.line())

    def history(self, operation: str, kind: str, **detail: Any) -> "RunBuilder":
        line = {"time": self.tick(), "operation": operation, "type": kind, **detail}
        self.run.append("history.jsonl", line)
        return self

    def pinned(
        self, high_watermark: int, brokers: Sequence[int], *, topic: str = "t"
    ) -> "RunBuilder":
        """What settling saw in the checkpoints, after the last step."""
        seen = HighWatermark(topic=topic, partition=0, seen=dict.fromkeys(brokers, high_watermark))
        self.observe(seen, len(self.steps))
        return self

    def produce(
        self,
        operation: str,
        broker: int,
        values: Sequence[str],
        *,
        acks: int,
        base_offset: int | None = None,
        error: str = "",
        error_code: int = 0,
        topic: str = "t",
        probe: bool | None = None,
    ) -> "RunBuilder":
        """A produce and its end: acknowledged with a base offset, else an error."""
        is_probe = operation.startswith("settle-t") if probe is None else probe
        if is_probe:
            done = base_offset is not None
            self.probes[f"{topic}-0"] = SettleProbe(
                operation=operation, acknowledged=done, error=error_code
            )
        detail = {
            "function": "produce",
            "broker": broker,
            "topic": topic,
            "partition": 0,
            "acks": acks,
            "probe": is_probe,
        }
        sent_ms = int((self.clock + 1) * 1000)
        told = {"zxid": self.zxid, "step": len(self.steps), "codec": "none"}
        asked = {"records": list(values), "timestamp_ms": sent_ms}
        self.history(operation, "invoke", **detail, **asked, **told)
        self.sent_ms |= dict.fromkeys(values, sent_ms)
        if not operation.startswith("settle-t"):
            self.observe(StepBegun(name="Produce"), len(self.steps))
            step = {"step": "Produce", "operation": operation, "acks": acks, "codec": "none"}
            self.steps.append(step)
        if base_offset is not None:
            self.ends[topic] = base_offset + len(values)
            promised = acks == -1
            ended = {"base_offset": base_offset, "promised": promised}
            return self.history(operation, "ok", **detail, **ended)
        return self.history(operation, "fail", **detail, error=error, error_code=error_code)

    def snapshot(
        self,
        label: str,
        logs: Mapping[int, Log],
        *,
        is_final: bool = True,
        high_watermarks: Mapping[int, int] | None = None,
        epochs: Mapping[int, Sequence[tuple[int, int]]] | None = None,
        running: Sequence[int] | None = None,
        stable: bool = True,
        topic: str = "t",
        probed: bool = True,
    ) -> "RunBuilder":
        """A snapshot of these logs; before a final one settling's probe is written, if none was."""
        if is_final and probed:
            logs, high_watermarks = self._probed(topic, logs, high_watermarks)
        high_watermarks = high_watermarks or {}
        for broker in self.started.keys() - logs.keys():
            logs = {**logs, broker: []}
        root = self.run.path / "snapshots" / label
        for broker, log in logs.items():
            self._copy(root / f"broker-{broker}", broker, log, topic, epochs or {})
            mark = high_watermarks.get(broker)
            marks = "0\n" if mark is None else f"1\n{topic} 0 {mark}\n"
            file = root / f"broker-{broker}" / "replication-offset-checkpoint"
            file.write_text(f"0\n{marks}")
            state: dict[str, Any] = dict.fromkeys(("czxid", "session_id", "znode"))
            pid = 1 if running is None or broker in running else None
            looked = Broker(broker=broker, why=f"snapshot {label}", pid=pid, **state)
            self.observe(looked, len(self.steps), self.clock)
        brokers = {
            str(broker): {
                "is_running": running is None or broker in running,
                "stable": stable,
                "read_from": self.clock,
                "read_until": self.clock,
                "files": sum(file.is_file() for file in (root / f"broker-{broker}").rglob("*")),
            }
            for broker in logs
        }
        self.run.write(
            f"snapshots/{label}/snapshot.json",
            {
                "label": label,
                "time": self.tick(),
                "zxid": self.zxid,
                "is_final": is_final,
                "brokers": brokers,
                "states": dict(self.states),
            },
        )
        return self.act(events.Snapshot(label=label))

    def _copy(
        self,
        disk: Path,
        broker: int,
        log: Log,
        topic: str,
        epochs: Mapping[int, Sequence[tuple[int, int]]],
    ) -> None:
        """What is copied of a broker's disk, but for its high watermarks."""
        disk.mkdir(parents=True)
        (disk / "meta.properties").write_text(f"version=0\nbroker.id={broker}\n")
        (disk / "recovery-point-offset-checkpoint").write_text("0\n0\n")
        if not log and broker not in self.assigned(topic):
            return
        folder = disk / f"{topic}-0"
        folder.mkdir()
        (folder / "00000000000000000000.log").write_bytes(segment(log, self.sent_ms))
        if broker in epochs:
            text = "".join(f"{epoch} {start}\n" for epoch, start in epochs[broker])
            (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs[broker])}\n{text}")

    def copied(self, label: str, broker: int, name: str, text: str) -> "RunBuilder":
        """One more file of a broker in a snapshot."""
        file = f"snapshots/{label}/snapshot.json"
        snapshot = self.run.read(file)
        snapshot["brokers"][str(broker)]["files"] += 1
        self.run.write(file, snapshot, replace=True)
        (self.run.path / "snapshots" / label / f"broker-{broker}" / name).write_text(text)
        return self

    def assigned(self, topic: str) -> Sequence[int]:
        return self.assignments.get(topic, ())

    def _probed(
        self, topic: str, logs: Mapping[int, Log], high_watermarks: Mapping[int, int] | None
    ) -> tuple[Mapping[int, Log], Mapping[int, int] | None]:
        state = self.states.get(f"{topic}-0")
        if state is None or state["leader"] < 0 or f"{topic}-0" in self.probes:
            return logs, high_watermarks
        end, value = self.ends.get(topic, 0), f"settle-{topic}-0"
        self.produce(value, state["leader"], [value], acks=-1, base_offset=end, topic=topic)
        batch = (end, state["leader_epoch"], [value])
        longer = {
            broker: [*log, batch] if log and log[-1][0] + len(log[-1][2]) == end else log
            for broker, log in logs.items()
        }
        marks = high_watermarks and {
            broker: end + 1 if mark == end else mark for broker, mark in high_watermarks.items()
        }
        return longer, marks

    def link(self, **fields: Any) -> "RunBuilder":
        self.is_linked = True
        api = str(fields.get("api", "OffsetForLeaderEpoch"))
        record = {
            "connection": 1,
            "source": 1,
            "target": 0,
            "api_key": 23,
            "api": "OffsetForLeaderEpoch",
            "api_version": max(
                asked_versions(api, line_of(parse_version(self.release))), default=0
            ),
            "correlation_id": 1,
            "direction": "request",
            "fate": "passed",
            "detail": {},
            "wall_time_s": self.tick(),
            "monotonic_s": self.clock,
            "client_id": "broker-1-fetcher-0",
            "sequence": 1 + len(list(self.run.read_lines("links.jsonl"))),
        }
        self.run.append("links.jsonl", record | fields)
        return self

    def epoch_round(
        self, follower: int, leader: int, requested: int, answered: int | None, end_offset: int
    ) -> "RunBuilder":
        fields = {"topic": "t", "partition": 0}
        self.zxid += 0
        exchange = {
            "source": follower,
            "target": leader,
            "correlation_id": int(self.tick() - START),
        }
        self.link(**exchange, detail={"partitions": [fields | {"leader_epoch": requested}]})
        answer = fields | {"error_code": 0, "leader_epoch": answered, "end_offset": end_offset}
        return self.link(**exchange, direction="response", detail={"partitions": [answer]})

    def server_log(self, broker: int, text: str) -> "RunBuilder":
        folder = self.run.path / "brokers" / str(broker)
        folder.mkdir(parents=True)
        (folder / "server.log").write_text(text)
        return self

    def _write_brokers(self) -> None:
        """What each broker was set to, and the line in which its log says what it is."""
        for broker, release in self.started.items():
            folder = self.run.path / "brokers" / str(broker)
            folder.mkdir(parents=True, exist_ok=True)
            is_linked = (self.is_linked or self.client_links) and not self.unlinked
            told = f"INTERNAL://127.0.0.1:{2 if is_linked else 1}"
            settings = f"broker.id={broker}\nlisteners=INTERNAL://127.0.0.1:1\n"
            settings += f"advertised.listeners={told}\n"
            settings += "".join(f"{name}={value}\n" for name, value in self.properties.items())
            (folder / "server.properties").write_text(settings)
            said = f"INFO Kafka version: {release} (AppInfoParser)\n"
            with (folder / "server.log").open("a") as log:
                log.write(f"{said}advertised.listeners = {told}\n")

    def seal(
        self,
        *,
        settle: str | None = "converged",
        reasons: Sequence[Mapping[str, Any]] = (),
        finished: bool = True,
        unknown: str | None = None,
        ended_early: str = "",
        ends: Mapping[str, int] | None = None,
        before: Callable[[RunDirectory], None] = lambda run: None,
    ) -> RunDirectory:
        """The run, whole, whose logs were seen to end at `ends` when it settled.

        `before` may still damage it before it is sealed.
        """
        self.write_zookeeper()
        self._write_about()
        settled = settle and SettleOutcome(
            state=settle,
            reasons=tuple(reasons),
            bound_s=20.0,
            bound_from="the least there is",
            probes=tuple(self.probes.values()),
            last_seen={
                name: state | ({"ends": dict(ends)} if ends is not None else {})
                for name, state in self.states.items()
            },
        )
        if settled:
            self._look_at_checkpoints()
            self.observe(settled, len(self.steps), self.clock)
        self.run.write(
            "outcome.json",
            {
                "finished": finished,
                "unknown": unknown,
                **({"ended_early": ended_early} if ended_early else {}),
                "seconds": round(self.clock - START, 3),
                "settle": settled and to_json(settled),
            },
        )
        before(self.run)
        self.run.seal()
        return self.run

    def _look_at_checkpoints(self) -> None:
        """What settling leaves of each partition, where no checkpoint is written often enough."""
        for name in self.states:
            topic, _, partition = name.rpartition("-")
            seen = HighWatermark(topic=topic, partition=int(partition), seen={})
            self.observe(seen, len(self.steps), self.clock)

    def _write_about(self) -> None:
        """What is known of brokers and steps only at the end."""
        brokers = {
            str(broker): {"release": release, "judged_as": release}
            for broker, release in self.started.items()
        }
        described = self.run.read("run.json")
        named = described["brokers"] or brokers
        jars = {
            release: {f"kafka_2.12-{release}.jar": SERVER_JARS.get(release, "0")}
            for release in self.started.values()
        }
        self.run.write("run.json", {**described, "brokers": named, "jars": jars}, replace=True)
        self._write_brokers()
        scenario = self.run.read("scenario.json")
        listed = [
            {"id": broker, "kafka": kafka, "properties": {}}
            for broker, kafka in self.started.items()
        ]
        cluster = scenario.get("cluster")
        if isinstance(cluster, dict):
            own = {"brokers": listed, "properties": self.properties, "tiered": False}
            scenario["cluster"] = {**own, **cluster, "linked": self.is_linked or self.client_links}
        self.run.write("scenario.json", scenario | {"steps": self.steps}, replace=True)
        lines = list(self.run.read_lines("history.jsonl"))
        (self.run.path / "history.jsonl").unlink(missing_ok=True)
        for line in lines:
            if "step" in line and line["operation"].startswith("settle-t"):
                line["step"] = len(self.steps)
            self.run.append("history.jsonl", line)
        if not (self.run.path / "observations.jsonl").exists():
            self.run.begin("observations.jsonl")

    def write_zookeeper(self, member: int = 1) -> None:
        folder = self.run.path / "zookeeper" / f"member-{member}"
        folder.mkdir(parents=True)
        (folder / "log.1").write_bytes(transaction_log(*self.transactions))


def values(operation: str, count: int) -> list[str]:
    return [f"{operation}-{index}" for index in range(count)]
