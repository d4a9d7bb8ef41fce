import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from kchaos.clusters.kafka.distribution import java_of, resolve
from kchaos.clusters.start.local import LocalCluster
from kchaos.clusters.system.cache import cache_directory

RoundTrip = Callable[..., list[bytes]]


@pytest.fixture
def round_trip() -> RoundTrip:
    """Create a topic, write values with acks=all, and return what a consumer reads of it."""

    def run(cluster: LocalCluster, values: list[bytes], *, topic: str = "") -> list[bytes]:
        topic = topic or f"round-trip-{time.monotonic_ns()}"
        servers = cluster.bootstrap_servers
        admin = KafkaAdminClient(bootstrap_servers=servers)
        admin.create_topics(
            {topic: {"num_partitions": 1, "replication_factor": len(cluster.brokers)}}
        )
        admin.close()
        producer = KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=False)
        for value in values:
            assert producer.send(topic, value).get(timeout=60).partition == 0
        producer.close()
        consumer = KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest")
        consumer.assign([TopicPartition(topic, 0)])
        deadline = time.monotonic() + 60
        read: list[bytes] = []
        while len(read) < len(values) and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                read += [record.value for record in records]
        consumer.close()
        return read

    return run


@pytest.fixture
def borrowing_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own that has what was fetched for 1.1.1 and nothing else."""
    java_of(resolve("1.1.1"))
    shared, cache = cache_directory(), tmp_path / "borrowing-cache"
    cache.mkdir()
    for name in ("java", "maven", "kafka"):
        (cache / name).symlink_to(shared / name)
    monkeypatch.setenv("KCHAOS_CACHE", str(cache))
    return cache
