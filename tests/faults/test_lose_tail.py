"""LoseTail: where a segment is cut, and what a real broker makes of it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from kafka.record.memory_records import MemoryRecordsBuilder

import kchaos as k
from tests.support.stand_ins import StandInCluster

CODECS = {"none": 0, "gzip": 1}


def entry(base_offset: int, records: int, *, magic: int, codec: str = "none") -> bytes:
    """One batch as a broker writes it; older compressed sets carry their last offset."""
    builder = MemoryRecordsBuilder(magic, CODECS[codec], 1 << 20)
    for index in range(records):
        assert builder.append(1, None, b"value %d" % index) is not None
    builder.close()
    data = bytes(builder.buffer())
    stated = base_offset + records - 1 if magic < 2 and codec != "none" else base_offset
    return stated.to_bytes(8, "big") + data[8:]


@dataclass
class Folder:
    """The log of a broker that was stopped."""

    cluster: StandInCluster
    journal: k.MemoryJournal = field(default_factory=k.MemoryJournal)

    @property
    def segment(self) -> Path:
        return self.cluster.brokers[1].log_directory / "t-0" / f"{0:020}.log"

    def lose(self, log_end_offset: int) -> Any:
        fault = k.LoseTail(broker=1, topic="t", partition=0, log_end_offset=log_end_offset)
        with fault.inject(cast(Any, self.cluster), self.journal) as injection:
            return injection


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    cluster = StandInCluster(brokers=(1,), folder=tmp_path)
    cluster.brokers[1].stop()
    (cluster.brokers[1].log_directory / "t-0").mkdir(parents=True)
    return Folder(cluster)


@pytest.mark.parametrize(
    ("magic", "codec"), [(0, "none"), (1, "none"), (1, "gzip"), (2, "none"), (2, "gzip")]
)
def test_a_log_is_cut_where_the_batch_starts_that_has_the_offset_first(folder, magic, codec):
    records = 1 if magic < 2 and codec == "none" else 3
    batches = [entry(i * records, records, magic=magic, codec=codec) for i in range(3)]
    folder.segment.write_bytes(b"".join(batches))
    injection = folder.lose(2 * records)
    assert folder.segment.read_bytes() == b"".join(batches[:2])
    assert injection.before == {
        "segment": folder.segment.name,
        "size_bytes": sum(map(len, batches)),
    }
    assert injection.effect == {"size_bytes": len(batches[0]) + len(batches[1])}
    assert [act for act, _ in folder.journal.entries] == ["LoseTail"]


def test_the_smallest_message_there_is_can_be_the_one_that_is_lost(folder):
    # Magic 0 without key and value: offset, length, checksum, magic, attributes, -1, -1.
    smallest = b"\0" * 8 + (14).to_bytes(4, "big") + b"\0" * 6 + b"\xff" * 8
    folder.segment.write_bytes(smallest)
    folder.lose(0)
    assert folder.segment.read_bytes() == b""


@pytest.mark.parametrize(("magic", "offset"), [(1, 5), (1, 4), (2, 4), (2, 6), (2, 9)])
def test_an_offset_inside_a_batch_or_beyond_the_end_is_refused_and_nothing_is_lost(
    folder, magic, offset
):
    data = b"".join(entry(base, 3, magic=magic, codec="gzip") for base in (0, 3))
    folder.segment.write_bytes(data)
    with pytest.raises(k.FaultError, match=rf"no batch starts at offset {offset} .*\[0, 3\]"):
        folder.lose(offset)
    assert folder.segment.read_bytes() == data
    assert folder.journal.entries == []


def test_only_the_last_segment_has_a_tail_and_its_own_offsets(folder):
    folder.segment.write_bytes(entry(0, 3, magic=1, codec="gzip"))
    last = folder.segment.with_name(f"{3:020}.log")
    last.write_bytes(entry(3, 2, magic=1, codec="gzip"))
    with pytest.raises(k.FaultError, match=r"last batches start at \[3\]"):
        folder.lose(0)
    folder.lose(3)
    assert last.read_bytes() == b""
    assert folder.segment.stat().st_size > 0


def test_a_torn_batch_and_a_preallocated_end_are_no_place_to_cut_at(folder):
    whole, torn = entry(0, 2, magic=2), entry(2, 2, magic=2)[:-1]
    for end in (torn, b"\0" * 200):
        folder.segment.write_bytes(whole + end)
        with pytest.raises(k.FaultError, match=r"no batch starts at offset 2 .*\[0\]"):
            folder.lose(2)


def test_what_cannot_lose_its_tail_is_refused(folder):
    with pytest.raises(k.FaultError, match="holds no segment: is the partition on this broker"):
        folder.lose(0)
    folder.segment.write_bytes(entry(0, 1, magic=2))
    (folder.cluster.brokers[1].log_directory / ".kafka_cleanshutdown").touch()
    with pytest.raises(k.NotAvailable, match="stopped cleanly, which flushes all its logs"):
        folder.lose(0)
    folder.cluster.brokers[1].start()
    with pytest.raises(k.NotAvailable, match="broker 1 runs: kill it before"):
        folder.lose(0)
    folder.cluster.brokers[1].capabilities = frozenset()
    with pytest.raises(k.NotAvailable, match="broker 1 is not Collectable with this driver"):
        folder.lose(0)
    folder.cluster.brokers.clear()
    with pytest.raises(k.NotAvailable, match="the cluster has no broker 1"):
        folder.lose(0)


@pytest.mark.cluster
def test_tails_that_a_killed_broker_lost_are_fetched_again(cluster, journal, topic):
    old = {"message.format.version": "0.10.2"}
    topics = [(topic(0, 1), 2, "none"), (topic(0, 1, **old), 1, "gzip")]
    for replicas, magic, codec in topics:
        for _ in range(3):
            answer = replicas.produce(0, b"one", b"two", acks=-1, magic=magic, codec=codec)
            assert answer.error_code == 0
        replicas.await_log_ends(6)
    with k.KillBroker(broker=1).inject(cluster, journal):
        for replicas, _, _ in topics:
            fault = k.LoseTail(broker=1, topic=replicas.name, partition=0, log_end_offset=2)
            with fault.inject(cluster, journal) as injection:
                assert injection.effect["size_bytes"] < injection.before["size_bytes"]
            assert (replicas.batches(1), replicas.log_end(1)) == (1, 2)
            assert (replicas.batches(0), replicas.log_end(0)) == (3, 6)
    for replicas, _, _ in topics:
        replicas.await_log_ends(6)
        assert replicas.batches(1) == 3
        replicas.await_state(leader=0, isr=[0, 1])
