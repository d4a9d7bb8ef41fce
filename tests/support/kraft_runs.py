"""Run directories of KRaft clusters for the tests: brokers 0 and 1, controller 100."""

import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from kchaos.checkers import acts
from kchaos.checkers.formats.metadata_records import RecordDefinitions
from tests.support.metadata_logs import FIRST_SEGMENT, FOLDER, leader_change, metadata_batch
from tests.support.run_builder import RunBuilder, values

CONTROLLER = 100
CLUSTER_ID = "e8ebZ5I0T4GePXCn6VGsGQ"
TOPIC_IDS = {"t": "zj02F248SJuIp7M9eTZjQA", "u": "cy5l6LDoSgGMV93ECA6Fkw"}


@cache
def definitions() -> Mapping[str, bytes]:
    """The definitions of 4.1.2 by their file's name."""
    with tarfile.open(FOLDER / "4.1.2-1.tar.gz") as archive:
        members = [each for each in archive if "/definitions/" in each.name]
        return {
            Path(member.name).name: content.read()
            for member in members
            if (content := archive.extractfile(member)) is not None
        }


@cache
def _read_definitions() -> RecordDefinitions:
    return RecordDefinitions.from_texts(definitions())


@dataclass(slots=True)
class KraftRunBuilder(RunBuilder):
    """As `RunBuilder`, whose znodes are records of a metadata log here; `zxid` is the offset."""

    release: str = "4.1.2"
    zxid: int = -1
    log: list[bytes] = field(default_factory=list)
    nodes: Sequence[int] = (0, 1, CONTROLLER)

    def records(self, *records: tuple[str, int, Mapping[str, Any]]) -> "KraftRunBuilder":
        """One batch of records."""
        time_ms = int(self.tick() * 1000)
        self.log.append(
            metadata_batch(_read_definitions(), self.zxid + 1, records, timestamp=time_ms)
        )
        self.zxid += len(records)
        return self

    def begin(self) -> "KraftRunBuilder":
        """The controller leads its quorum."""
        time_ms = int(self.tick() * 1000)
        self.zxid += 1
        self.log.append(leader_change(self.zxid, CONTROLLER, [CONTROLLER], timestamp=time_ms))
        return self

    def register(self, broker: int, session: int = 0) -> "KraftRunBuilder":
        endpoint = {"Name": "INTERNAL", "Host": "127.0.0.1", "Port": 1, "SecurityProtocol": 0}
        said = {"BrokerId": broker, "BrokerEpoch": self.zxid + 1, "EndPoints": [endpoint]}
        self.records(("RegisterBrokerRecord", 3, said | {"Fenced": True}))
        return self.fence(broker, is_fenced=False)

    def fence(self, broker: int, *, is_fenced: bool = True) -> "KraftRunBuilder":
        """The controller takes a broker for away, or for alive."""
        return self.records(fencing(broker, is_fenced=is_fenced))

    def topic(self, topic: str, *assignment: Sequence[int]) -> "KraftRunBuilder":
        """A topic; it is written with the state of its one partition."""
        (replicas,) = assignment
        self.assignments[topic] = tuple(replicas)
        return self

    def state(
        self,
        leader: int,
        leader_epoch: int,
        isr: Sequence[int],
        *,
        topic: str = "t",
        session: int = 0,
        **more: Any,
    ) -> "KraftRunBuilder":
        """The state of partition 0; `more` are fields of a PartitionChangeRecord."""
        before = self.states.get(f"{topic}-0")
        fields = {"PartitionId": 0, "TopicId": TOPIC_IDS[topic]}
        now = {"controller_epoch": 1, "leader": leader, "leader_epoch": leader_epoch}
        self.states[f"{topic}-0"] = now | {"version": 0, "isr": list(isr)}
        if before is None:
            said = fields | {
                "Replicas": self.assignments[topic],
                "Isr": isr,
                "Leader": leader,
                "LeaderEpoch": leader_epoch,
                "PartitionEpoch": 0,
            }
            created = {"Name": topic, "TopicId": TOPIC_IDS[topic]}
            return self.records(("TopicRecord", 0, created), ("PartitionRecord", 2, said))
        assert leader_epoch - before["leader_epoch"] in (0, 1)
        elected = {} if leader_epoch == before["leader_epoch"] else {"Leader": leader}
        return self.records(("PartitionChangeRecord", 2, fields | elected | {"Isr": isr} | more))

    def write_zookeeper(self, member: int = 1) -> None:
        """Each node's copy of the metadata log instead, and the definitions."""
        for name, content in definitions().items():
            self.write_file(f"definitions/{name}", content)
        for node in self.nodes:
            self.write_file(f"node-{node}/{FIRST_SEGMENT}", b"".join(self.log))
            told = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node}\n"
            self.write_file(f"node-{node}/meta.properties", told.encode())

    def write_file(self, name: str, content: bytes) -> None:
        """A file below `metadata/`."""
        file = self.run.path / "metadata" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def _write_brokers(self) -> None:
        RunBuilder._write_brokers(self)
        for broker in self.started:
            file = self.run.path / "brokers" / str(broker) / "server.properties"
            file.write_text(file.read_text() + "process.roles=broker\n")


def fencing(broker: int, *, is_fenced: bool) -> tuple[str, int, Mapping[str, Any]]:
    """The record by which the controller takes a broker for away, or for alive."""
    said = {"BrokerId": broker, "Fenced": 1 if is_fenced else -1}
    return ("BrokerRegistrationChangeRecord", 1, said)


def config(
    name: str, value: str, *, kind: int = 4, of: str = ""
) -> tuple[str, int, dict[str, Any]]:
    """The record of a setting, of all brokers if nothing else is said."""
    said = {"ResourceType": kind, "ResourceName": of, "Name": name, "Value": value}
    return ("ConfigRecord", 0, said)


def kraft_cluster_of_two(path: Path, **fields: Any) -> KraftRunBuilder:
    """Brokers 0 and 1 are in sync, and nothing was written yet."""
    build = KraftRunBuilder(path, **fields)
    for broker in (0, 1):
        build.act(acts.StartBroker(broker=broker, release=build.release), zxid=-1)
    build.begin().register(0).register(1)
    return build.topic("t", [0, 1]).state(0, 0, [0, 1])


def kraft_run(path: Path, *, acks: int = -1, **fields: Any) -> KraftRunBuilder:
    """A cluster of two that took eleven records, before its last snapshot."""
    build = kraft_cluster_of_two(path, **fields)
    build.produce("both", 0, values("both", 11), acks=acks, base_offset=0)
    return build


def kraft_snapshot(build: KraftRunBuilder, *, end: int = 11, **fields: Any) -> KraftRunBuilder:
    """The last snapshot: both replicas have the records before `end`, or else `logs`."""
    kept = values("both", 11)[:end]
    logs = fields.pop("logs", {broker: [(0, 0, kept)] for broker in (0, 1)})
    build.ends["t"] = end
    epochs, marks = {broker: [(0, 0)] for broker in (0, 1)}, dict.fromkeys((0, 1), end)
    build.snapshot("final", logs, epochs=epochs, high_watermarks=marks, **fields)
    return build
