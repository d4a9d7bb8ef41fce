"""The gate, with sockets that say what a rule says."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from kchaos.checkers.acts import HoldPoint, TopicPartition
from kchaos.checkers.formats.point_hit import PointHit
from kchaos.clusters.agent.gate import Gate
from kchaos.clusters.errors import ClusterError
from kchaos.clusters.system.waiting import await_until

HOLD = HoldPoint(name="reads", broker=1, point="fetch-read")


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate("127.0.0.1")
    yield gate
    gate.close()


def connect(gate: Gate) -> socket.socket:
    address = gate.address
    return socket.create_connection((address.host, address.port), timeout=30)


def come(
    gate: Gate,
    point: str = "fetch-read",
    *,
    broker: int = 1,
    reader: str = "2",
    seen: str = "",
    token: str | None = None,
) -> socket.socket:
    """A thread that has come to a point and waits for its answer."""
    connection = connect(gate)
    token = gate.token if token is None else token
    connection.sendall(f"{token}\t{broker}\t1\t{point}\thandler-0\t{reader}\t{seen}\n".encode())
    return connection


def answer(connection: socket.socket) -> bytes:
    with connection:
        return connection.recv(9)


def await_hits(gate: Gate, count: int, point: str = "fetch-read") -> None:
    await_until(
        lambda: gate.hits(1, point) == count,
        timeout_s=30,
        waiting_for=f"{count} hits",
        last_seen=gate.records,
    )


def is_kept(connection: socket.socket) -> bool:
    """Whether no answer is there yet, now that the gate has counted the hit."""
    connection.setblocking(False)
    try:
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    finally:
        connection.settimeout(30)
    return False


def fates(gate: Gate) -> list[tuple[int, str, str]]:
    return [(record.number, record.fate, record.hold) for record in gate.records()]


def test_a_thread_that_nothing_holds_goes_on_and_only_the_first_is_recorded(gate: Gate):
    assert [answer(come(gate)), answer(come(gate))] == [b"g", b"g"]
    assert gate.hits(1, "fetch-read") == 2
    assert fates(gate) == [(1, "passed", "")]


def test_what_a_leader_tells_is_recorded_each_time(gate: Gate):
    assert [answer(come(gate, "isr-check", seen=seen)) for seen in "ab"] == [b"g", b"g"]
    assert [(hit.fate, hit.seen) for hit in gate.records()] == [("told", "a"), ("told", "b")]


def test_a_thread_that_is_held_waits_until_it_is_released(gate: Gate):
    hold = gate.hold(HOLD)
    held = come(gate, seen="(t-0,offset=29)")
    await_hits(gate, 1)
    assert is_kept(held)
    assert [hit.describe() for hit in hold.held] == [
        "fetch-read of broker 1 by 2 (handler-0) held: (t-0,offset=29)"
    ]
    assert gate.holds == {"reads": HOLD}

    hold.release()

    assert answer(held) == b"g"
    assert answer(come(gate)) == b"g"
    assert fates(gate) == [(1, "held", "reads"), (1, "released", "reads")]
    assert (hold.is_released, gate.holds) == (True, {})


def test_a_delayed_thread_goes_on_by_itself_and_is_recorded_twice(gate: Gate):
    gate.hold(HoldPoint(name="slow", broker=1, point="log-read", manner="delay", delay_ms=1))
    assert answer(come(gate, "log-read")) == b"g"
    assert fates(gate) == [(1, "delayed", "slow"), (1, "released", "slow")]


def test_what_still_waits_is_known_without_those_whose_process_has_died(gate: Gate):
    hold = gate.hold(HOLD)
    lives, dies = come(gate, reader="2"), come(gate, reader="3")
    await_hits(gate, 2)
    dies.close()
    await_until(
        lambda: [hit.reader for hit in hold.waiting] == ["2"],
        timeout_s=30,
        waiting_for="one that waits",
        last_seen=lambda: hold.waiting,
    )
    hold.release()
    assert answer(lives) == b"g"
    await_until(
        lambda: hold.waiting == [], timeout_s=30, waiting_for="nobody", last_seen=lambda: hold
    )


def test_a_thread_whose_work_is_left_undone_is_told_so(gate: Gate):
    hold = gate.hold(HoldPoint(name="none", broker=1, point="send-fetch", manner="skip"))
    assert answer(come(gate, "send-fetch")) == b"s"
    hold.release()
    assert answer(come(gate, "send-fetch")) == b"g"
    assert fates(gate) == [(1, "skipped", "none")]


def test_a_thread_that_is_to_fail_is_told_as_one_whose_work_is_left_undone(gate: Gate):
    point = "remote-copy-checkpoint"
    hold = gate.hold(HoldPoint(name="none", broker=1, point=point, manner="fail"))
    assert answer(come(gate, point)) == b"s"
    hold.release()
    assert answer(come(gate, point)) == b"g"
    assert fates(gate) == [(1, "failed", "none"), (2, "told", "")]


@pytest.mark.parametrize(
    ("hold", "coming", "is_held"),
    [
        ({}, {"broker": 2}, False),
        ({}, {"point": "log-read"}, False),
        ({"readers": "followers"}, {"reader": "2"}, True),
        ({"readers": "followers"}, {"reader": "-1"}, False),
        ({"readers": "followers"}, {"reader": "broker-2-fetcher-0"}, True),
        ({"readers": "followers"}, {"reader": "ReplicaFetcherThread-0-1"}, True),
        ({"readers": "followers"}, {"reader": "consumer-1"}, False),
        ({"readers": "followers"}, {"reader": "FetchLogEnd"}, True),
        ({"readers": "followers"}, {"reader": "LOG_END"}, True),
        ({"readers": "followers"}, {"reader": "FetchHighWatermark"}, False),
        ({"readers": "consumers"}, {"reader": "HIGH_WATERMARK"}, True),
        ({"readers": "consumers"}, {"reader": "follower"}, False),
        ({"topic": "t", "partition": 0}, {"seen": "ArrayBuffer((t-0,(offset=0)))"}, True),
        ({"topic": "t", "partition": 1}, {"seen": "List((u-1,(a)), (t-1,(b)))"}, True),
        ({"topic": "t", "partition": 0}, {"seen": "List((u-t-0,(offset=0)))"}, False),
        ({"topic": "t", "partition": 0}, {"seen": "List((t-01,(offset=0)))"}, False),
        (
            {"topic": "t-9", "partition": 0},
            {"seen": "List((pMw1I-hFTEqpYAZp_yb0PQ:t-9-0,PartitionData()))"},
            True,
        ),
    ],
)
def test_a_hold_concerns_its_own_broker_point_readers_and_partition(
    gate: Gate, hold: dict[str, Any], coming: dict[str, Any], is_held: bool
):
    kept = gate.hold(HoldPoint(name="h", broker=1, point="fetch-read", **hold))
    connection = come(gate, **coming)
    broker, point = coming.get("broker", 1), coming.get("point", "fetch-read")
    await_until(
        lambda: gate.hits(broker, point) == 1,
        timeout_s=30,
        waiting_for="the hit",
        last_seen=gate.records,
    )
    assert len(kept.held) == is_held
    kept.release()
    assert answer(connection) == b"g"


def test_the_oldest_of_two_holds_decides_and_the_other_one_lasts(gate: Gate):
    first, second = gate.hold(HOLD), gate.hold(HoldPoint(name="b", broker=1, point="fetch-read"))
    held = come(gate)
    await_hits(gate, 1)
    first.release()
    assert answer(held) == b"g"
    later = come(gate)
    await_hits(gate, 2)
    assert is_kept(later)
    assert (len(first.held), len(second.held)) == (1, 1)
    second.release()
    assert answer(later) == b"g"


def test_a_name_that_lasts_already_is_refused(gate: Gate):
    gate.hold(HOLD)
    with pytest.raises(ClusterError, match="'reads' lasts already"):
        gate.hold(HOLD)


def test_closing_lets_every_thread_go_on(gate: Gate):
    gate.hold(HOLD)
    held = come(gate)
    await_hits(gate, 1)
    gate.close()
    assert answer(held) == b"g"


def test_a_thread_whose_broker_has_died_is_gone_and_disturbs_nobody(gate: Gate):
    hold = gate.hold(HOLD)
    come(gate).close()
    await_hits(gate, 1)
    hold.release()
    assert answer(come(gate)) == b"g"
    await_until(
        lambda: len(gate.records()) == 2, timeout_s=30, waiting_for="both", last_seen=gate.records
    )
    assert fates(gate) == [(1, "held", "reads"), (1, "gone", "reads")]


def test_what_is_not_said_to_the_end_is_no_hit(gate: Gate):
    for said in (b"", b"1\t1\tfetch", b"GET / HTTP/1.1\r\n\r\n"):
        with connect(gate) as connection:
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
    assert gate.hits(1, "fetch-read") == 0


@pytest.mark.parametrize("token", ["", "0" * 32])
def test_who_does_not_know_the_token_is_hung_up_on_and_counts_as_nobody(gate: Gate, token: str):
    assert answer(come(gate, token=token)) == b""
    assert gate.hits(1, "fetch-read") == 0


def test_the_sink_gets_every_record_once_and_those_from_before_first(gate: Gate):
    answer(come(gate))
    seen: list[PointHit] = []
    gate.set_sink(seen.append)
    answer(come(gate, "log-read", seen="(t-0,offset=3,length=1)"))
    assert seen == gate.records()
    assert [hit.point for hit in seen] == ["fetch-read", "log-read"]
    assert seen[1].partitions == (TopicPartition("t", 0),)
    assert seen[1].seen == "(t-0,offset=3,length=1)"
    gate.check()


def test_a_record_that_cannot_be_written_is_an_error(gate: Gate):
    def full(_hit: PointHit) -> None:
        raise OSError("no space left")

    gate.set_sink(full)
    assert answer(come(gate)) == b"g"
    with pytest.raises(ClusterError, match="no space left"):
        gate.check()
