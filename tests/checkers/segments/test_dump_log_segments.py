"""Segments that real brokers wrote, read here and by Kafka's own DumpLogSegments."""

import random
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.admin import KafkaAdminClient

from kchaos.checkers.formats.checkpoints import (
    parse_meta_properties,
    parse_offset_checkpoint,
    parse_partition_metadata,
)
from kchaos.checkers.segments.batch import Batch, Record, join_payload_digests
from kchaos.checkers.segments.directory import partition_directories, read_partition, segment_files
from kchaos.checkers.segments.reader import read_records
from kchaos.clusters.kafka.distribution import java_of, resolve
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.clusters.system.waiting import await_until
from tests.support.drivers import cluster_of

pytestmark = pytest.mark.cluster

DUMPING_RELEASE = "2.8.2"
OLD_CODECS = ("uncompressed", "gzip", "snappy", "lz4")
FORMATS = {"0.10.2.2": {"0.9.0": 0, "0.10.2": 1}, "2.8.2": {"0.9.0": 0, "0.10.2": 1, "2.8": 2}}
ONE_BROKER = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "2000000",
}
TIMES = ("CreateTime", "LogAppendTime", "NoTimestampType")
# Small, so that each topic has several segments.
SEGMENT_BYTES = "1500"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a broker left behind.

    `topics` gives the magic and codec of each topic by name, `compacted` those of the topics whose
    older segments the log cleaner has rewritten, `preallocated` a topic's directory as it was
    while the broker ran.
    """

    log_directory: Path
    topics: Mapping[str, tuple[int, str]]
    compacted: Mapping[str, tuple[int, str]]
    preallocated: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Dumped:
    """One batch line of DumpLogSegments with the record lines under it."""

    file: str
    batch: Mapping[str, str]
    records: tuple[Mapping[str, str], ...]


Topics = dict[str, tuple[dict[str, str], int, str]]
"""The settings, magic and codec of each topic by name."""


def topics_of(release: str) -> Topics:
    topics: Topics = {}
    for version, magic in FORMATS[release].items():
        for codec in (*OLD_CODECS, "zstd") if magic == 2 else OLD_CODECS:
            for time in ("CreateTime", "LogAppendTime") if magic else ("CreateTime",):
                settings = {
                    "message.format.version": version,
                    "compression.type": codec,
                    "message.timestamp.type": time,
                    "segment.bytes": SEGMENT_BYTES,
                }
                topics[f"magic{magic}-{codec}-{time}"] = (settings, magic, codec)
    return topics


def compacted_topics_of(release: str) -> Topics:
    return {
        f"compacted-magic{magic}-{codec}": (
            {
                "message.format.version": version,
                "compression.type": codec,
                "segment.bytes": SEGMENT_BYTES,
                "cleanup.policy": "compact",
                "min.cleanable.dirty.ratio": "0.01",
            },
            magic,
            codec,
        )
        for version, magic in FORMATS[release].items()
        for codec in ("uncompressed", "gzip")
    }


def produce(servers: list[str], topics: Mapping[str, tuple[int, str]]) -> None:
    """Write three requests of eight records to every topic."""
    # Idempotence is off, since brokers refuse it for the old formats.
    with KafkaProducer(
        bootstrap_servers=servers, linger_ms=200, enable_idempotence=False
    ) as producer:
        for part in range(3):
            sent = [
                producer.send(topic, value=value, key=key, headers=headers)
                for topic, (magic, _) in topics.items()
                for key, value, headers in records_of(part, magic)
            ]
            producer.flush(timeout=60)
            for each in sent:
                each.get(timeout=60)


def records_of(
    part: int, magic: int
) -> Iterator[tuple[bytes | None, bytes | None, list[tuple[str, bytes]] | None]]:
    headers = [("name", b"value"), ("empty", b"")] if magic == 2 else None
    for index in range(8):
        key = None if index % 3 == 0 else b"key-%d-%d" % (part, index)
        value = None if index == 5 else b"value-%d-" % index * (index * 5)
        yield key, value, headers


def produce_repeated_keys(servers: list[str], topics: Iterable[str]) -> None:
    """Write the same two keys again and again beside keys that come once."""
    with KafkaProducer(
        bootstrap_servers=servers, linger_ms=50, enable_idempotence=False
    ) as producer:
        for part in range(20):
            sent = [
                producer.send(
                    topic, key=key, value=b"value-%d-" % part + random.Random(part).randbytes(90)
                )
                for topic in topics
                for key in (b"key-a", b"key-once-%d" % part, b"key-b")
            ]
            producer.flush(timeout=60)
            for each in sent:
                each.get(timeout=60)


def await_compaction(log_directory: Path, topics: Iterable[str]) -> None:
    """Return once the cleaner has rewritten a segment of every topic."""
    checkpoint = log_directory / "cleaner-offset-checkpoint"
    seen: dict[tuple[str, int], int] = {}

    def cleaned() -> bool:
        if checkpoint.exists():
            seen.update(parse_offset_checkpoint(checkpoint.read_text(), file=checkpoint.name))
        return all(seen.get((topic, 0), 0) > 0 for topic in topics)

    await_until(
        cleaned,
        timeout_s=90,
        waiting_for=f"the log cleaner to have cleaned {', '.join(topics)}",
        last_seen=lambda: seen,
        remedy="see log-cleaner lines in the broker's log",
    )


def produce_transactions(servers: list[str]) -> None:
    """Write one committed and one aborted transaction over two topics of magic 2."""
    with KafkaProducer(bootstrap_servers=servers, transactional_id="writer") as producer:
        producer.init_transactions()
        for end in (producer.commit_transaction, producer.abort_transaction):
            producer.begin_transaction()
            sent = [
                producer.send(f"magic2-{codec}-CreateTime", value=b"in-a-transaction")
                for codec in ("uncompressed", "lz4")
            ]
            producer.flush(timeout=60)
            for each in sent:
                each.get(timeout=60)
            end()


@pytest.fixture(scope="module", params=list(FORMATS))
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Written:
    release = request.param
    spec = ClusterSpec(brokers=brokers_of(release, (0,)), linked=False, properties=ONE_BROKER)
    topics, compacted = topics_of(release), compacted_topics_of(release)
    preallocated: Topics = {
        "preallocated": ({"preallocate": "true", "segment.bytes": "100000"}, -1, "none")
    }
    with cluster_of(spec, work_directory=tmp_path_factory.mktemp("cluster")) as cluster:
        servers = cluster.bootstrap_servers
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics(
                {
                    name: {"num_partitions": 1, "replication_factor": 1, "configs": settings}
                    for name, (settings, _, _) in (topics | compacted | preallocated).items()
                },
                wait_for_metadata=True,
            )
        broker = cluster.brokers[0]
        produce(servers, shapes_of(topics | preallocated))
        produce_repeated_keys(servers, list(compacted))
        if 2 in FORMATS[release].values():
            produce_transactions(servers)
        await_compaction(broker.log_directory, list(compacted))
        running = tmp_path_factory.mktemp("running") / "preallocated-0"
        shutil.copytree(broker.log_directory / running.name, running)
        broker.stop()
        return Written(
            log_directory=broker.log_directory,
            topics=shapes_of(topics),
            compacted=shapes_of(compacted),
            preallocated=running,
        )


def shapes_of(topics: Topics) -> dict[str, tuple[int, str]]:
    return {name: (magic, codec) for name, (_, magic, codec) in topics.items()}


def dump(files: list[Path]) -> Iterator[Dumped]:
    distribution = resolve(DUMPING_RELEASE)
    command = [str(java_of(distribution) / "bin" / "java"), "-Xmx256m", "-cp"]
    command += [":".join(map(str, distribution.class_path)), "kafka.tools.DumpLogSegments"]
    command += ["--deep-iteration", "--print-data-log", "--files", ",".join(map(str, files))]
    done = subprocess.run(
        command, capture_output=True, check=True, text=True, errors="replace", timeout=120
    )
    file = ""
    batch: dict[str, str] = {}
    records: list[dict[str, str]] = []
    for line in done.stdout.split("\n"):
        if line.startswith("Dumping "):
            yield from [Dumped(file=file, batch=batch, records=tuple(records))] if batch else []
            file, batch, records = line.removeprefix("Dumping "), {}, []
        elif line.startswith("| "):
            records.append(facts(line))
        elif "position: " in line:
            yield from [Dumped(file=file, batch=batch, records=tuple(records))] if batch else []
            batch, records = facts(line), []
    yield from [Dumped(file=file, batch=batch, records=tuple(records))] if batch else []


def facts(line: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+): (\S*)", line))


def time_in(said: Mapping[str, str]) -> int:
    return next(int(said[name]) for name in TIMES if name in said)


def ours(log_directory: Path) -> Iterator[tuple[Path, Batch, tuple[Record, ...]]]:
    for directory in partition_directories(log_directory):
        for batch in read_partition(directory).batches:
            path = directory / batch.file
            yield path, batch, read_records(path.read_bytes(), batch)


def as_dumped(batch: Batch) -> dict[str, str]:
    """Return what DumpLogSegments says of a batch; of a message it names the last offset only."""
    said = {
        "position": batch.position,
        "size": batch.size_bytes,
        "magic": batch.magic,
        "compresscodec": batch.codec.upper(),
        "crc": batch.crc,
        "isvalid": "true",
    }
    if batch.magic < 2:
        said |= {"offset": batch.last_offset}
    else:
        said |= {
            "baseOffset": batch.base_offset,
            "lastOffset": batch.last_offset,
            "count": batch.record_count,
            "baseSequence": batch.base_sequence,
            "producerId": batch.producer_id,
            "producerEpoch": batch.producer_epoch,
            "partitionLeaderEpoch": batch.leader_epoch,
            "isTransactional": str(batch.is_transactional).lower(),
            "isControl": str(batch.is_control).lower(),
        }
    return {name: str(value) for name, value in said.items()}


def record_as_dumped(record: Record, batch: Batch) -> dict[str, str]:
    said: dict[str, object] = {
        "offset": record.offset,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "baseOffset": batch.base_offset,
    }
    if batch.magic == 2:
        said["headerKeys"] = f"[{','.join(name for name, _ in record.headers)}]"
    if batch.control_type:
        said |= {"endTxnMarker": batch.control_type, "coordinatorEpoch": batch.coordinator_epoch}
    elif record.key is not None and record.key.startswith(b"key"):
        said["key"] = record.key.decode()
    if record.value is not None and re.fullmatch(rb"[a-z0-9-]+", record.value):
        said["payload"] = record.value.decode()
    return {name: str(value) for name, value in said.items()}


def test_every_batch_and_record_is_what_dump_log_segments_says(written: Written):
    directories = partition_directories(written.log_directory)
    files = [path for directory in directories for path in segment_files(directory)]
    dumped = list(dump(files))
    read = list(ours(written.log_directory))
    assert len(dumped) == len(read) > 90
    for theirs, (path, batch, records) in zip(dumped, read, strict=True):
        assert theirs.file == str(path)
        expected = as_dumped(batch)
        assert {name: theirs.batch.get(name) for name in expected} == expected
        assert time_in(theirs.batch) == batch.max_timestamp
        assert len(theirs.records) == len(records) == batch.record_count
        for their_record, record in zip(theirs.records, records, strict=True):
            expected = record_as_dumped(record, batch)
            assert {name: their_record.get(name) for name in expected} == expected
            assert time_in(their_record) == record.timestamp


def test_every_topic_has_its_format_and_codec_and_no_finding(written: Written):
    for topic, (magic, codec) in written.topics.items():
        contents = read_partition(written.log_directory / f"{topic}-0")
        assert contents.findings == ()
        data_batches = [each for each in contents.batches if not each.is_control]
        assert {each.magic for each in data_batches} == {magic}
        assert {each.codec for each in data_batches} == {codec.replace("uncompressed", "none")}
        in_transaction = sum(each.is_transactional for each in data_batches)
        assert sum(each.record_count for each in data_batches) == 24 + in_transaction
        assert (contents.epoch_entries is not None) == (magic == 2)


def test_the_same_records_have_the_same_digest_in_every_format_and_codec(written: Written):
    digests = set()
    for topic in written.topics:
        batches = read_partition(written.log_directory / f"{topic}-0").batches
        parts = [
            (each.payload or "", each.record_count) for each in batches if each.last_offset < 24
        ]
        digests.add(join_payload_digests(parts))
    assert len(digests) == 1


def test_the_text_files_of_a_log_directory_are_read(written: Written):
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        text = (written.log_directory / name).read_text()
        offsets = parse_offset_checkpoint(text, file=name)
        ends = {
            (topic, 0): read_partition(written.log_directory / f"{topic}-0").batches[-1].last_offset
            + 1
            for topic in written.topics
        }
        assert {name: offsets[name] for name in ends} == ends
    text = (written.log_directory / "meta.properties").read_text()
    assert parse_meta_properties(text, file="meta.properties")["broker.id"] == "0"
    for path in written.log_directory.glob("*/partition.metadata"):
        assert parse_partition_metadata(path.read_text(), file=path.name).version == 0


def test_what_the_log_cleaner_rewrote_is_read_without_a_finding(written: Written):
    for topic, (magic, codec) in written.compacted.items():
        contents = read_partition(written.log_directory / f"{topic}-0")
        assert contents.findings == ()
        assert {each.magic for each in contents.batches} == {magic}
        assert {each.codec for each in contents.batches} == {codec.replace("uncompressed", "none")}
        assert sum(each.record_count for each in contents.batches) < 60
        assert contents.batches[-1].last_offset == 59


def test_a_preallocated_active_segment_is_read_up_to_its_zero_tail(written: Written):
    contents = read_partition(written.preallocated)
    assert [finding.kind for finding in contents.findings] == ["zero-tail"]
    assert contents.batches[-1].last_offset == 23
    stopped = read_partition(written.log_directory / "preallocated-0")
    assert stopped.findings == ()
    assert stopped.batches == contents.batches
