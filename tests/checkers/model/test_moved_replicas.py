"""Replicas that move between the log directories of their broker (KIP-113)."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

import tests.support.model as m
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model import follow
from kchaos.checkers.model.broker import control_handling, exchange, follower, log_start, process
from kchaos.checkers.model.broker.follower import move
from kchaos.checkers.model.broker.leader import become_leader, end_of_epoch, produce
from kchaos.checkers.model.follow.observations import Record
from tests.golden.stored import OTHERS, recorded
from tests.support.model_timelines import left_alone, state, write
from tests.support.rule_timelines import pair
from tests.support.run_builder import RunBuilder

T = m.TopicPartition("t", 0)
MOVED = m.ReplicaMoved(broker=0, partition=T)
MOVED_AT_1 = m.ReplicaMoved(broker=1, partition=T)


def led_in_epoch_3(release: str) -> m.World:
    """Broker 0 has a record of epoch 0, and leads in epoch 3, of which nobody has a record.

    Broker 1 led in epoch 2, and has not asked since.
    """
    events = [
        *pair(release),
        write("a", 0, acks=-1),
        state(1, 2, (0, 1)),
        m.CutLink(source=1, target=0),
        state(0, 3, (0, 1)),
    ]
    return m.World(left_alone(events))


def answer_to_broker_1(world: m.World) -> tuple[str, object]:
    world.put(("exchanges", 1, 0), None)
    asked = exchange.question(world, 1, 0, exchange.FETCH)
    assert asked is not None
    sent = exchange.send(world, 1, 0, asked)
    ((_, answer),) = exchange.look(world, 1, 0, sent).answers
    assert isinstance(answer, m.FetchAnswer)
    return answer.error or str(answer.diverging), [
        tuple(entry) for entry in world.known_replica(0, T).entries
    ]


@pytest.mark.parametrize("release", ["2.8.2", "3.9.1"])
def test_a_move_leaves_the_epochs_of_batches_alone_so_a_follower_is_out_of_range(release: str):
    world = led_in_epoch_3(release)
    diverging = "EpochEnd(epoch=0, end_offset=1)"
    assert answer_to_broker_1(world) == (diverging, [(0, 0), (3, 1)])
    before = world.known_replica(0, T)

    assert move(world, MOVED) == ""

    # The follower tells epoch 2 as its last, and the leader knows of none so new any more.
    assert answer_to_broker_1(world) == ("OFFSET_OUT_OF_RANGE", [(0, 0)])
    after = world.known_replica(0, T)
    assert (after.log, after.high_watermark, after.role) == (
        before.log,
        before.high_watermark,
        before.role,
    )


@pytest.mark.parametrize(
    ("log_start_offset", "entries", "kept"),
    [(1, [(0, 1), (1, 2)], 2), (2, [(1, 2)], 1), (3, [], 0)],
)
def test_a_copy_begins_at_the_log_start_and_so_does_its_first_epoch(
    log_start_offset: int, entries: list[tuple[int, int]], kept: int
):
    """The log before has batches below its log start, and the copy has none."""
    writes = [write("a", 0, acks=-1), write("b", 0, acks=-1)]
    world = m.World(left_alone([*pair("4.0.2"), *writes, state(0, 1, (0, 1)), write("c", 0)]))
    log_start.move(world, 0, T, log_start_offset)
    assert len(world.known_replica(0, T).log.local_batches()) == 3

    assert move(world, MOVED) == ""

    after = world.known_replica(0, T)
    assert [tuple(entry) for entry in after.entries] == entries
    assert len(after.log.local_batches()) == kept


@pytest.mark.parametrize(
    ("release", "known", "is_stale"), [("1.1.1", 0, True), ("2.0.0", 0, True), ("2.1.1", 1, False)]
)
def test_up_to_2_1_0_a_moved_leader_answers_with_the_epochs_of_the_log_before(
    release: str, known: int, is_stale: bool
):
    """The last of them ends where that log did, and a restart forgets them."""
    world = m.World(left_alone([*pair(release), write("a", 0, acks=-1)]))
    assert move(world, MOVED) == ""
    become_leader(world, 0, T, state(0, 1, (0, 1)))
    produce(world, write("b", 0))
    broker = world.broker(0)
    assert broker is not None

    leader = world.known_replica(0, T)
    assert [end_of_epoch(broker, leader, epoch).end_offset for epoch in (0, 1)] == (
        [1, -1] if is_stale else [1, 2]
    )
    assert [tuple(entry) for entry in leader.entries] == [(0, 0), (1, 1)]
    fetch = m.FetchState(fetch_offset=2, state=m.FetcherState.TRUNCATING, leader_epoch=1)
    assert broker.generation.proposed.epoch_question(leader, fetch) == m.EpochQuestion(known)

    process.stop(world, 0, is_clean=True)
    assert m.latest_epoch(world.known_replica(0, T).epochs.entries) == 1


@pytest.mark.parametrize(
    ("release", "error", "role", "epochs"),
    [
        ("2.0.0", "", m.Role.LEADER, [(0, 0)]),
        ("2.0.1", "KAFKA_STORAGE_ERROR", m.Role.FOLLOWER, [(0, 0), (1, 1)]),
        ("2.1.0", "KAFKA_STORAGE_ERROR", m.Role.FOLLOWER, [(0, 0), (1, 1)]),
        ("2.1.1", "", m.Role.LEADER, [(0, 0), (1, 1)]),
    ],
)
def test_where_an_election_is_noted_in_the_directory_before_it_fails(
    release: str, error: str, role: m.Role, epochs: list[tuple[int, int]]
):
    """On 2.0.1 and 2.1.0 the cache in memory has the leader epoch all the same."""
    world = m.World(left_alone([*pair(release), write("a", 0, acks=-1)]))
    assert move(world, MOVED_AT_1) == ""
    request = m.LeaderAndIsr(states=(state(1, 1, (0, 1)),))
    received = m.Received(number=(2, 9), controller_epoch=1, request=request)

    assert control_handling.handle(world, 1, received) == ((None, ""), (T, error))

    after = world.known_replica(1, T)
    assert (after.role, after.leader_epoch) == (role, 1)
    assert [tuple(entry) for entry in after.epochs.entries] == epochs


@pytest.mark.parametrize("checkpointed", [{}, {T: 1}])
def test_a_process_that_is_killed_after_a_move_may_leave_no_high_watermark(
    checkpointed: dict[m.TopicPartition, int],
):
    """The checkpoint file of the new directory names the replica when it is written next."""
    seen = m.HighWatermarkObserved(broker=0, topic="t", partition=0, high_watermark=1)
    world = m.World(left_alone([*pair("2.8.2"), write("a", 0, acks=-1), seen]))
    assert move(world, MOVED) == ""

    process.stop(world, 0, is_clean=False, checkpointed=checkpointed)

    assert world.notes == []
    assert world.checkpoint(0, T).known == checkpointed.get(T, 0)


def test_a_broker_without_the_replica_cannot_have_moved_it():
    world = led_in_epoch_3("3.9.1")
    elsewhere = m.ReplicaMoved(broker=2, partition=T)

    assert move(world, elsewhere) == "broker 2 moved a replica of t-0, and has none"

    seen = (m.Seen(what=elsewhere, time=1.0),)
    assert follow(Record(seen=seen, decided=())).emptied_by is not None


@pytest.mark.parametrize("zone_s", [0, 3600, -12600])
def test_a_move_is_read_of_the_brokers_log_whatever_its_zone(tmp_path: Path, zone_s: int):
    build = RunBuilder(tmp_path / "run", release="3.9.1")
    build.act(m.StartBroker(broker=0, release="3.9.1"), zxid=0)
    began = build.clock

    def stamp(after_s: float) -> str:
        local = datetime.fromtimestamp(began + after_s + zone_s, UTC)
        return f"[{local:%Y-%m-%d %H:%M:%S},{local.microsecond // 1000:03d}]"

    build.server_log(
        0,
        f"{stamp(-2)} INFO Kafka version: 3.9.1\n"
        f"{stamp(9)} INFO The current replica is successfully replaced with the future replica for "
        "t-0 (kafka.log.LogManager)\n",
    )

    ((time, moved),) = RunEvidence(build.seal()).moved_replicas

    assert moved == MOVED
    assert time == pytest.approx(began + 9, abs=0.01)


@pytest.mark.slow
def test_real_brokers_loop_as_the_model_says_once_a_leader_moved(monkeypatch: pytest.MonkeyPatch):
    """KAFKA-20961 on 3.9.1: without the move no state explains the answers."""
    record = recorded("moved-between-folders-3.9.1", runs=OTHERS)

    own = follow(record)
    monkeypatch.setattr(follower, "move", lambda *_: "")
    other = follow(record)

    assert (own.limit, own.emptied_by) == ("", None)
    assert other.limit == ""
    assert other.emptied_by is not None
