from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kchaos.checkers import acts
from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.evidence.about import BrokerAsked, ClusterAsked
from kchaos.checkers.evidence.dropped import OverdueFetch, fetch_wait_s, overdue_fetches
from kchaos.checkers.evidence.partition import (
    OBSERVED,
    PREDICTED,
    DroppedFollower,
    PartitionEvidence,
)
from kchaos.checkers.evidence.run import RunEvidence
from kchaos.checkers.formats.point_hit import PointHit
from kchaos.checkers.rules.dropped import dropped_while_waiting
from tests.support.rule_evidence import acknowledged, evidence, replica, shown
from tests.support.run_builder import RunBuilder, values

ABOUT = TopicPartition("t", 0)
OUT = DroppedFollower(broker=1, leader=0, kept_from=790.0, dropped_at=795.0, ended_at=810.0)
LEADERLESS = replace(OUT, leaderless_at=805.0)


def dropped(*followers: DroppedFollower, **fields: Any) -> PartitionEvidence:
    return evidence(replica(0), replica(1), dropped=followers, **fields)


def refused(**fields: Any) -> Any:
    failed: dict[str, Any] = {"outcome": "fail", "promised": False, "error_code": 19}
    return acknowledged("op", -1, "x", **{**failed, "isr_when_ended": (0,), **fields})


def test_a_partition_without_leader_is_offline_if_a_waiting_follower_was_dropped():
    planted = dropped(LEADERLESS)

    for side in (OBSERVED, PREDICTED):
        (finding,) = dropped_while_waiting(planted, side)
        assert shown([finding]) == [("offline-partition", (1,), -1, -1)]
        assert finding.evidence["dropped"] == [
            {"broker": 1, "leader": 0, "waited_s": 5.0, "leaderless_s": 5.0, "out_s": 15.0}
        ]
        assert (finding.evidence["offline_s"], finding.evidence["refused"]) == (5.0, [])


def test_writes_that_fail_while_nobody_leads_are_named():
    meanwhile, later = refused(error_code=6, ended_at=806.0), refused(ended_at=811.0)

    (finding,) = dropped_while_waiting(dropped(LEADERLESS, operations=(meanwhile, later)), OBSERVED)

    assert finding.evidence["refused"] == ["op"]
    assert "had no leader for 5.0 s" in finding.message
    assert "failed meanwhile: 1" in finding.message


def test_the_seconds_under_min_isr_begin_with_the_follower_whose_loss_counts():
    other = replace(OUT, broker=2, dropped_at=798.0, ended_at=805.0)
    planted = dropped(OUT, other, min_insync_replicas=2, operations=(refused(),))

    (finding,) = dropped_while_waiting(planted, OBSERVED)

    assert finding.evidence["under_min_isr_s"] == 7.0


def test_a_follower_that_is_back_before_the_leader_dies_makes_no_finding():
    assert shown(dropped_while_waiting(dropped(OUT), OBSERVED)) == []
    assert shown(dropped_while_waiting(dropped(), OBSERVED)) == []
    assert shown(dropped_while_waiting(dropped(LEADERLESS, is_final=False), OBSERVED)) == []


def test_a_write_that_is_refused_for_want_of_a_waiting_follower_is_found():
    planted = dropped(OUT, min_insync_replicas=2, operations=(refused(),))

    (finding,) = dropped_while_waiting(planted, OBSERVED)

    assert shown([finding]) == [("under-min-isr", (1,), -1, -1)]
    assert finding.evidence["refused"] == ["op"]


@pytest.mark.parametrize(
    ("operation", "required"),
    [
        (refused(ended_at=794.0), 2),
        (refused(ended_at=811.0), 2),
        (refused(acks=1), 2),
        (refused(error_code=6), 2),
        (refused(), 3),
    ],
    ids=["before", "after", "acks-1", "another-error", "too-few-with-it"],
)
def test_a_write_that_is_refused_for_another_reason_is_not(operation: Any, required: int):
    clean = dropped(OUT, min_insync_replicas=required, operations=(operation,))

    assert shown(dropped_while_waiting(clean, OBSERVED)) == []


def hit(time: float, fate: Any, *, reader: str = "1", number: int = 7) -> PointHit:
    return PointHit(
        time=time,
        number=number,
        broker=0,
        life=1,
        point="fetch-read",
        thread="handler-0",
        reader=reader,
        seen="",
        fate=fate,
        hold="slow",
    )


def test_a_kept_fetch_is_overdue_once_it_has_waited_for_longer_than_a_fetch_may():
    assert overdue_fetches([hit(1.0, "held"), hit(3.0, "released")], 0.5) == (
        OverdueFetch(follower=1, leader=0, kept_from=1.0, kept_until=3.0),
    )
    assert overdue_fetches([hit(1.0, "held"), hit(1.4, "released")], 0.5) == ()
    assert overdue_fetches([hit(1.0, "passed")], 0.5) == ()


def test_a_kept_fetch_is_its_follower_s_whether_named_by_id_or_by_client():
    hits = [
        hit(1.0, "delayed", reader="broker-2-fetcher-0"),
        hit(1.0, "held", number=8, reader="-1"),
        hit(1.0, "held", number=9, reader="FetchLogEnd"),
    ]

    assert [(fetch.follower, fetch.kept_until) for fetch in overdue_fetches(hits, 0.5)] == [
        (2, None)
    ]


def tells(time: float, point: str, *, number: int, reader: str = "", seen: str = "") -> PointHit:
    return replace(hit(time, "told", reader=reader, number=number), point=point, seen=seen, hold="")


def test_a_fetch_is_kept_from_where_its_leader_began_to_read_until_it_counted_it():
    begun = [
        tells(1.0, "fetch-begun", number=1, reader="1"),
        tells(1.1, "fetch-begun", number=2, reader="2"),
        tells(1.2, "fetch-counted", number=3, seen="now=1 Replica(replicaId=2, topic=t)"),
        tells(1.3, "fetch-begun", number=4, reader="-1"),
    ]
    counted = tells(3.0, "fetch-counted", number=5, seen="now=3 Replica(replicaId=1, topic=t)")
    again = tells(3.0, "fetch-begun", number=5, reader="1")
    slow = OverdueFetch(follower=1, leader=0, kept_from=1.0, kept_until=3.0)

    assert overdue_fetches([*begun, counted], 0.5) == (slow,)
    assert overdue_fetches([*begun, again], 0.5)[0] == slow
    assert overdue_fetches(begun, 0.5) == (replace(slow, kept_until=None),)


def test_the_longest_wait_of_a_fetch_is_the_cluster_s_or_a_broker_s_own():
    common, own = ({"replica.fetch.wait.max.ms": text} for text in ("200", "900"))
    brokers = (BrokerAsked(id=0, kafka="2.8.2", properties=own),)

    assert fetch_wait_s(ClusterAsked()) == 0.5
    assert fetch_wait_s(ClusterAsked(properties=common)) == 0.2
    assert fetch_wait_s(ClusterAsked(properties=common, brokers=brokers)) == 0.9


def keep(build: RunBuilder, fate: str) -> RunBuilder:
    rest = {"number": 1, "broker": 0, "life": 1, "point": "fetch-read", "thread": "handler-0"}
    more = {"reader": "1", "seen": "", "fate": fate, "hold": "slow"}
    build.run.append("hits.jsonl", {"time": build.tick(), **rest, **more})
    return build


def cluster(path: Path) -> RunBuilder:
    """Broker 0 leads t, 1 follows, both in sync; 2 is the controller."""
    build = RunBuilder(path, release="2.8.2").begin_with(3)
    build.topic("t", [0, 1]).state(0, 0, [0, 1])
    return build.produce("both", 0, values("both", 1), acks=-1, base_offset=0)


def told(build: RunBuilder) -> list[tuple[int, bool, bool]]:
    """Broker, whether the partition had no leader meanwhile, and whether it ended."""
    build.seal()
    return [
        (each.broker, each.leaderless_at is not None, each.ended_at is not None)
        for each in RunEvidence(build.run).dropped(ABOUT)
    ]


def test_a_follower_whose_fetch_is_kept_is_dropped_while_waiting(tmp_path: Path):
    build = keep(cluster(tmp_path / "run"), "held").state(0, 0, [0])
    keep(build, "gone").state(-1, 1, [0]).state(0, 2, [0])

    assert told(build) == [(1, True, True)]


def test_a_follower_that_is_dropped_after_its_fetch_was_read_is_not(tmp_path: Path):
    build = keep(keep(cluster(tmp_path / "run"), "held"), "released").state(0, 0, [0])

    assert told(build) == []


def looks(build: RunBuilder) -> RunBuilder:
    at = int(build.clock + 1)
    seen = f"now={at}000 partition=t-0 logEndOffset=1 Iterable()"
    rest = {"number": 9, "broker": 0, "life": 1, "point": "isr-check", "thread": "scheduler"}
    more = {"reader": "", "seen": seen, "fate": "told", "hold": ""}
    build.run.append("hits.jsonl", {"time": build.tick(), **rest, **more})
    return build


def test_a_follower_counts_as_waiting_when_its_leader_looked_not_when_that_was_written(
    tmp_path: Path,
):
    waited = looks(keep(cluster(tmp_path / "waited"), "held"))
    had_its_answer = looks(keep(keep(cluster(tmp_path / "answered"), "held"), "released"))

    assert told(keep(waited, "released").state(0, 0, [0])) == [(1, False, False)]
    assert told(had_its_answer.state(0, 0, [0])) == []


def test_a_follower_that_stands_still_or_is_gone_is_not(tmp_path: Path):
    paused = keep(cluster(tmp_path / "paused"), "held").act(acts.PauseBroker(broker=1))
    gone = keep(cluster(tmp_path / "gone"), "held").close_session(0x11)

    assert told(paused.state(0, 0, [0])) == []
    assert told(gone.state(0, 0, [0])) == []


def test_who_is_back_in_the_isr_is_dropped_no_longer(tmp_path: Path):
    build = keep(cluster(tmp_path / "run"), "held").state(0, 0, [0]).state(0, 0, [0, 1])

    assert told(build.state(-1, 1, [0])) == [(1, False, True)]


def test_a_controller_s_election_drops_nobody_who_waits(tmp_path: Path):
    build = keep(cluster(tmp_path / "run"), "held").state(-1, 1, [0])

    assert told(build) == []
