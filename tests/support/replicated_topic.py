"""A topic to break, and what its replicas hold."""

import threading
import time
from typing import Any

from kchaos.checkers.segments.directory import read_partition
from kchaos.clusters.ask.client import Produced, produce
from kchaos.clusters.start.jvm_cluster import JvmCluster
from kchaos.clusters.system.waiting import await_until

RELEASE = "2.8.2"
# Not leader, unknown partition, no leader: the broker has not handled the LeaderAndIsr yet.
_NOT_YET = (3, 5, 6)


class Topic:
    """A new topic with one partition on the brokers named, led by the first of them."""

    def __init__(
        self, cluster: JvmCluster, name: str, replicas: list[int], **configuration: str
    ) -> None:
        self.cluster, self.name, self.replicas = cluster, name, replicas
        cluster.metadata.create_topic(name, [replicas], configuration)
        self.await_state(leader=replicas[0], isr=sorted(replicas))

    def state(self) -> dict[str, Any]:
        state = self.cluster.metadata.state(self.name, 0)
        return {"isr": []} if state is None else state.to_json() | {"isr": sorted(state.isr)}

    def await_state(self, **wanted: Any) -> dict[str, Any]:
        await_until(
            lambda: wanted.items() <= self.state().items(),
            timeout_s=60,
            waiting_for=f"{self.name} to reach {wanted}",
            last_seen=self.state,
        )
        return self.state()

    def produce(
        self,
        broker: int,
        *values: bytes,
        acks: int,
        timeout_s: float = 60,
        magic: int | None = None,
        codec: str = "none",
    ) -> Produced:
        """One batch; asked again only as long as the broker says that it does not lead yet."""

        if magic is None:
            magic = 1 if self.cluster.brokers[broker].release.startswith("0.10.") else 2

        def answered() -> Produced | None:
            answer = produce(
                self.cluster.brokers[broker].client_address,
                topic=self.name,
                partition=0,
                values=values or (b"a record",),
                acks=acks,
                magic=magic,
                codec=codec,
                # An old one would be deleted by retention, half a minute after a broker's start.
                timestamp_ms=int(time.time() * 1000),
                timeout_s=timeout_s,
            )
            return None if answer.error_code in _NOT_YET else answer

        return await_until(
            answered,
            timeout_s=60,
            waiting_for=f"broker {broker} to lead {self.name}",
            last_seen=self.state,
        )

    def produce_later(self, broker: int, *, acks: int) -> tuple[threading.Thread, list[Produced]]:
        answers: list[Produced] = []
        thread = threading.Thread(target=lambda: answers.append(self.produce(broker, acks=acks)))
        thread.start()
        return thread, answers

    def log_end(self, broker: int) -> int:
        """Where the last batch on the broker's disk ends (exclusive)."""
        directory = self.cluster.brokers[broker].log_directory / f"{self.name}-0"
        batches = read_partition(directory, decode_records=False).batches
        return batches[-1].last_offset + 1 if batches else 0

    def batches(self, broker: int) -> int:
        directory = self.cluster.brokers[broker].log_directory / f"{self.name}-0"
        return len(read_partition(directory, decode_records=False).batches)

    def await_log_ends(self, log_end_offset: int) -> None:
        await_until(
            lambda: {self.log_end(broker) for broker in self.replicas} == {log_end_offset},
            timeout_s=60,
            waiting_for=f"every log of {self.name} to end at {log_end_offset}",
            last_seen=lambda: {broker: self.log_end(broker) for broker in self.replicas},
        )
