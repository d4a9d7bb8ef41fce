"""Who led when, and when which broker was registered, as ZooKeeper's own log has it."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.run_directory import RunDirectory
from checkers.zookeeper_log import (
    ZnodeChange,
    ZooKeeperLogError,
    last_zxid,
    read_zookeeper_log,
)
from harness.report.loading import Loaded

_STATE = re.compile(r"/brokers/topics/(?P<topic>[^/]+)/partitions/(?P<partition>\d+)/state")
_BROKER = re.compile(r"/brokers/ids/(?P<broker>\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """One state that was written for one partition.

    Attributes:
        time: Seconds since 1970, by ZooKeeper's clock.
        leader: Broker id, or -1.
        isr: In the order in which it was written.
    """

    time: float
    zxid: int
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int

    @property
    def name(self) -> str:
        """The topic, a dash, and the partition's number."""
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A broker's registration, or the controller's, came (or went, then `came` is False).

    Attributes:
        time: Seconds since 1970, by ZooKeeper's clock.
        zxid: Of the change; at a creation it is the czxid, the broker epoch of KIP-380.
        session: The owner's session.
        is_controller: Whether it is `/controller` and not `/brokers/ids/N`.
    """

    time: float
    zxid: int
    broker: int
    session: int
    came: bool
    is_controller: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """What ZooKeeper's log says of one run, in zxid order.

    Attributes:
        problems: Why something is missing, a sentence each.
    """

    leaderships: tuple[Leadership, ...] = ()
    registrations: tuple[Registration, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Incarnation:
    """One broker as it was seen: what identifies it to its peers.

    Attributes:
        since: Seconds since 1970 when it was first seen so.
        pid: Its process, or None if none ran.
        czxid: Of `/brokers/ids/N`; None while it was not registered.
        session_id: Its ZooKeeper session, or None.
        why: What made kchaos look.
    """

    broker: int
    since: float
    pid: int | None
    czxid: int | None
    session_id: int | None
    why: str


def decisions_of(run: RunDirectory) -> Decisions:
    """Leaderships and registrations from the transaction log of the member that knows most."""
    members = [_files(run, folder.name) for folder in sorted(run.path.glob("zookeeper/member-*"))]
    members = [files for files in members if files]
    if not members:
        return Decisions(problems=("no ZooKeeper transaction log was collected",))
    try:
        changes = list(read_zookeeper_log(max(members, key=last_zxid)))
    except ZooKeeperLogError as error:
        return Decisions(problems=(str(error),))
    return Decisions(
        leaderships=tuple(_leaderships(changes)),
        registrations=tuple(_registrations(changes)),
    )


def _files(run: RunDirectory, member: str) -> Sequence[tuple[str, bytes]]:
    logs = (run.path / "zookeeper" / member).glob("log.*")
    ordered = sorted(logs, key=lambda file: int(file.suffix[1:], 16))
    return [(f"{member}/{file.name}", file.read_bytes()) for file in ordered]


def _leaderships(changes: Iterable[ZnodeChange]) -> Iterable[Leadership]:
    for change in changes:
        match = _STATE.fullmatch(change.path)
        state = _json(change.data)
        if match and "leader" in state:
            yield Leadership(
                time=change.time_ms / 1000,
                zxid=change.zxid,
                topic=match["topic"],
                partition=int(match["partition"]),
                leader=state["leader"],
                leader_epoch=state["leader_epoch"],
                isr=tuple(state["isr"]),
                controller_epoch=state["controller_epoch"],
            )


def _registrations(changes: Iterable[ZnodeChange]) -> Iterable[Registration]:
    controller = -1
    for change in changes:
        match = _BROKER.fullmatch(change.path)
        is_controller = change.path == "/controller"
        if change.operation == "set" or not (match or is_controller):
            continue
        if is_controller and change.operation == "create":
            controller = int(_json(change.data).get("brokerid", -1))
        yield Registration(
            time=change.time_ms / 1000,
            zxid=change.zxid,
            broker=int(match["broker"]) if match else controller,
            session=change.ephemeral_owner,
            came=change.operation == "create",
            is_controller=is_controller,
        )


def _json(data: bytes | None) -> dict[str, Any]:
    try:
        value = json.loads(data or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def incarnations(loaded: Loaded) -> tuple[Incarnation, ...]:
    """Each broker's process, czxid and session, one entry per change, by broker and time."""
    last: dict[int, tuple[Any, ...]] = {}
    found: list[Incarnation] = []
    for line in loaded.observations:
        for seen, why in _seen(line):
            identity = (seen.get("pid"), seen.get("czxid"), seen.get("session_id"))
            if last.get(seen["broker"]) != identity:
                last[seen["broker"]] = identity
                found.append(
                    Incarnation(
                        broker=seen["broker"],
                        since=float(line["time"]),
                        pid=identity[0],
                        czxid=identity[1],
                        session_id=identity[2],
                        why=why,
                    )
                )
    return tuple(sorted(found, key=lambda each: (each.broker, each.since)))


def _seen(line: Any) -> Iterable[tuple[dict[str, Any], str]]:
    """What one observation says of brokers: directly, or before and after a fault."""
    kind = line.get("kind")
    for value, why in (
        (line, str(line.get("why") or kind)),
        (line.get("before"), f"before {line.get('name')}"),
        (line.get("effect"), f"after {line.get('name')}"),
    ):
        if isinstance(value, dict) and "czxid" in value and isinstance(value.get("broker"), int):
            yield value, why
