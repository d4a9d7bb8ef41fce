"""Replicas that move between the log directories of their broker (KIP-113)."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from kchaos.checkers.acts import CutLink, StartBroker, TopicPartition
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.model import follow
from kchaos.checkers.model.broker import exchange, follower
from kchaos.checkers.model.broker.follower import move
from kchaos.checkers.model.follow.observations import Record, Seen
from kchaos.checkers.model.state.world import World
from kchaos.checkers.model.values.events import ReplicaMoved
from kchaos.checkers.model.values.requests import FetchAnswer
from tests.golden.stored import OTHERS, recorded
from tests.support.model_timelines import left_alone, state, write
from tests.support.rule_timelines import pair
from tests.support.run_builder import RunBuilder

T = TopicPartition("t", 0)
MOVED = ReplicaMoved(broker=0, partition=T)


def led_in_epoch_3(release: str) -> World:
    """Broker 0 has a record of epoch 0, and leads in epoch 3, of which nobody has a record.

    Broker 1 led in epoch 2, and has not asked since.
    """
    events = [
        *pair(release),
        write("a", 0, acks=-1),
        state(1, 2, (0, 1)),
        CutLink(source=1, target=0),
        state(0, 3, (0, 1)),
    ]
    return World(left_alone(events))


def answer_to_broker_1(world: World) -> tuple[str, object]:
    world.put(("exchanges", 1, 0), None)
    asked = exchange.question(world, 1, 0, exchange.FETCH)
    assert asked is not None
    sent = exchange.send(world, 1, 0, asked)
    ((_, answer),) = exchange.look(world, 1, 0, sent).answers
    assert isinstance(answer, FetchAnswer)
    return answer.error or str(answer.diverging), [
        tuple(entry) for entry in world.known_replica(0, T).entries
    ]


@pytest.mark.parametrize("release", ["2.8.2", "3.9.1"])
def test_a_move_leaves_the_epochs_of_batches_alone_so_a_follower_is_out_of_range(
    release: str,
) -> None:
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


def test_a_broker_without_the_replica_cannot_have_moved_it() -> None:
    world = led_in_epoch_3("3.9.1")
    elsewhere = ReplicaMoved(broker=2, partition=T)

    assert move(world, elsewhere) == "broker 2 moved a replica of t-0, and has none"

    seen = (Seen(what=elsewhere, time=1.0),)
    assert follow(Record(seen=seen, decided=())).emptied_by is not None


@pytest.mark.parametrize("zone_s", [0, 3600, -12600])
def test_a_move_is_read_of_the_brokers_log_whatever_its_zone(tmp_path: Path, zone_s: int) -> None:
    build = RunBuilder(tmp_path / "run", release="3.9.1")
    build.act(StartBroker(broker=0, release="3.9.1"), zxid=0)
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
def test_real_brokers_loop_as_the_model_says_once_a_leader_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KAFKA-20961 on 3.9.1: without the move no state explains the answers."""
    record = recorded("moved-between-folders-3.9.1", runs=OTHERS)

    own = follow(record)
    monkeypatch.setattr(follower, "move", lambda *_: "")
    other = follow(record)

    assert (own.limit, own.emptied_by) == ("", None)
    assert other.limit == ""
    assert other.emptied_by is not None
