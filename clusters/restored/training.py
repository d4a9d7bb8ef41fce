"""Making images: a small cluster starts, serves and ends, and its JVMs are written down."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kchaos.clusters.ask.client import fetch, produce
from kchaos.clusters.errors import ClusterError
from kchaos.clusters.kafka.distribution import Distribution
from kchaos.clusters.releases import release_of
from kchaos.clusters.restored import criu, main_class
from kchaos.clusters.restored.image import IMAGE, LINES, TEMPLATE, ImageKey, WantedJvm
from kchaos.clusters.spec import BrokerSpec, ClusterSpec
from kchaos.clusters.start.host import LocalHost, Node
from kchaos.clusters.start.jvm_cluster import JvmCluster
from kchaos.clusters.system.processes import Child, spawn
from kchaos.clusters.system.waiting import await_until

_ENDED = "ended"
TOPIC = "written-before-the-image"
"""The topic of which a record is written before an image is."""
_END_S = 60.0
# CRIU writes a process down with its session, and a pid namespace whose other processes would be
# missing cannot be made anew.
_ALONE = ("unshare", "--pid", "--fork", "--kill-child", "setsid")


def train(folder: Path, key: ImageKey, *, offline: bool) -> None:
    """Write the images of a key into a new folder, whose path stands in them.

    Raises ClusterError when a server does not start or end, or CRIU cannot write its JVM.
    """
    spec = ClusterSpec(
        brokers=(BrokerSpec(id=0, kafka=key.distribution.release),),
        linked=False,
        broker_heap_mib=key.broker_heap_mib,
        mode="kraft" if key.is_kraft else "zookeeper",
    )
    host = _TrainingHost(folder, key.distribution, main_class.compiled(offline=offline))
    cluster = JvmCluster(
        spec, host=host, work_directory=folder, share_classes=False, offline=offline
    )
    with cluster:
        _serve(cluster)
        if not key.is_kraft:
            cluster.zookeeper().stop()
        host.write_images()


def _serve(cluster: JvmCluster) -> None:
    """Write a record and read it, so that JVMs of the image have loaded and compiled what it takes.

    A cluster's first topic took 0.5 s of the processor's time without, and takes 0.2 s.
    """
    cluster.metadata.create_topic(TOPIC, [[0]], {})
    leader = cluster.brokers[0]
    magic = 1 if release_of(leader.release).number < (0, 11) else 2
    partition: dict[str, Any] = {"topic": TOPIC, "partition": 0}
    codes = [-1]

    def is_written() -> bool:
        answer = produce(
            leader.client_address, **partition, values=[b"a"], acks=-1, timestamp_ms=1, magic=magic
        )
        codes.append(answer.error_code)
        return answer.error_code == 0

    await_until(
        is_written,
        timeout_s=_END_S,
        waiting_for="a write to the broker of whose JVM an image is made",
        last_seen=lambda: f"error {codes[-1]}",
        remedy="see its server.log",
    )
    fetch(leader.client_address, **partition, offset=0, magic=magic)


class _TrainingHost(LocalHost):
    """Starts each JVM so that it can be written down: alone in a pid namespace of its own."""

    def __init__(self, folder: Path, distribution: Distribution, classes: Path) -> None:
        super().__init__(folder)
        self._distribution = distribution
        self._classes = classes
        self._started: list[tuple[Node, WantedJvm, Child]] = []

    def resolve(self, kafka: str, *, offline: bool) -> Distribution:
        """Return the only Kafka that there is here."""
        return self._distribution

    def spawn(
        self,
        node: Node,
        command: Sequence[str],
        distribution: Distribution,
        console: Path,
        reads: Sequence[Path] = (),
    ) -> Child:
        """Start the JVM by the main class that starts its server once and ends it."""
        at = command.index("-cp") + 1
        java = [
            *command[:at],
            f"{self._classes}:{command[at]}",
            main_class.NAME,
            *command[at + 1 :],
        ]
        lines = node.directory / LINES
        with lines.open("wb+") as file:
            child = spawn(
                [*_ALONE, *java, str(node.directory / _ENDED)],
                log_file=console,
                cwd=node.directory,
                name=node.name,
                stdin=file.fileno(),
            )
        self._started.append((node, WantedJvm.of(node, command), child))
        return child

    def write_images(self) -> None:
        """End each server, what keeps the metadata last, and write its JVM down."""
        for node, wanted, child in reversed(self._started):
            _end(node, child)
            jvm = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
            criu.dump(int(jvm[0]), node.directory / IMAGE)
            file = node.directory / TEMPLATE
            file.write_text(json.dumps(wanted.template), encoding="utf-8")


def _end(node: Node, child: Child) -> None:
    """End a server; its JVM stays."""
    with (node.directory / LINES).open("ab") as lines:
        lines.write(b"\n")

    def check_running() -> None:
        if child.exit_code is not None:
            raise ClusterError(
                f"{node.name} ended with exit code {child.exit_code} before its JVM could be "
                f"written down; see {node.directory / 'console.log'}"
            )

    await_until(
        (node.directory / _ENDED).exists,
        timeout_s=_END_S,
        waiting_for=f"{node.name} to end, so that its JVM can be written down",
        last_seen=lambda: "its server has not ended",
        remedy=f"see {node.directory / 'console.log'}",
        abort=check_running,
    )
