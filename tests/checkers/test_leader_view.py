from typing import Any

import pytest

from kchaos.checkers.acts import TopicPartition
from kchaos.checkers.errors import ScenarioDataError
from kchaos.checkers.evidence.leader_view import FollowerSeen, LeaderView, leader_views
from kchaos.checkers.formats.point_hit import PointHit

ABOUT = TopicPartition("t", 0)
# As 3.9.1, 2.8.2 and 2.0.1 said it.
COUNTED = (
    "now=9000 Replica(replicaId=2, topic=t, partition=0, lastCaughtUpTimeMs=8100, logStartOffset=0,"
    " logEndOffset=4, logEndOffsetMetadata=(offset=4 segment=[0:240]), "
    "lastFetchLeaderLogEndOffset=5, brokerEpoch=61, lastFetchTimeMs=8900)"
)
LOOKED = (
    "now=9500 partition=t-0 logEndOffset=6 Iterable(Replica(replicaId=2, topic=t, partition=0, "
    "lastCaughtUpTimeMs=8100, logStartOffset=0, logEndOffset=4, logEndOffsetMetadata=(offset=4 "
    "segment=[0:240]), lastFetchLeaderLogEndOffset=5, lastFetchTimeMs=8900), Replica(replicaId=0, "
    "topic=t, partition=0, lastCaughtUpTimeMs=0, logStartOffset=-1, logEndOffset=-1, "
    "logEndOffsetMetadata=(offset=-1 segment=[0:0]), lastFetchLeaderLogEndOffset=-1, "
    "lastFetchTimeMs=0))"
)
LOOKED_BEFORE_2_4 = (
    "now=9500 partition=t-0 logEndOffset=6 Set(ReplicaId: 1; Topic: t; Partition: 0; isLocal: true;"
    " lastCaughtUpTimeMs: 0; Highwatermark: (offset=4 segment=[0:225]); LastStableOffset: (offset=4"
    " segment=[0:225]), ReplicaId: 2; Topic: t; Partition: 0; isLocal: false; lastCaughtUpTimeMs: "
    "8100)"
)
BEHIND = FollowerSeen(
    follower=2, last_fetch_at=8.9, last_caught_up_at=8.1, log_end_offset=4, leader_log_end_offset=5
)


def told(seen: str, point: str, **more: Any) -> PointHit:
    rest: dict[str, Any] = {"number": 1, "life": 1, "thread": "handler-0", "reader": "", "hold": ""}
    fields = rest | {"time": 9.6, "broker": 1, "fate": "told", "read_at": "hits.jsonl:1"} | more
    return PointHit(point=point, seen=seen, **fields)


def test_what_a_leader_counted_is_read():
    assert list(leader_views([told(COUNTED, "fetch-counted")])) == [
        LeaderView(
            time=9.0,
            leader=1,
            partition=ABOUT,
            is_check=False,
            followers=(BEHIND,),
            read_at="hits.jsonl:1",
        )
    ]


def test_a_look_names_every_follower_and_one_that_never_fetched():
    (view,) = leader_views([told(LOOKED, "isr-check")])

    assert (view.is_check, view.time, view.log_end_offset) == (True, 9.5, 6)
    never = FollowerSeen(
        follower=0, last_fetch_at=None, last_caught_up_at=0.0, leader_log_end_offset=-1
    )
    assert view.followers == (never, BEHIND)


def test_a_look_of_before_2_4_has_from_the_last_fetch_what_it_does_not_say_itself():
    looked = told(LOOKED_BEFORE_2_4, "isr-check")

    (alone,) = leader_views([looked])
    _, after = leader_views([told(COUNTED, "fetch-counted"), looked])

    assert [(follower.follower, follower.last_fetch_at) for follower in alone.followers] == [
        (2, None)
    ]
    assert after.followers == (BEHIND,)


def test_a_new_leader_s_reset_of_a_follower_is_no_fetch():
    reset = COUNTED.replace("lastFetchTimeMs=8900", "lastFetchTimeMs=0")

    assert list(leader_views([told(reset, "fetch-counted")])) == []
    (view,) = leader_views([told(reset, "fetch-counted")], with_resets=True)
    assert view.followers[0].last_fetch_at is None


def test_what_other_points_see_is_not_a_leader_s_view():
    assert list(leader_views([told("(t-0,offset=1)", "fetch-read")])) == []
    assert list(leader_views([told(COUNTED, "fetch-counted", fate="passed")])) == []


@pytest.mark.parametrize(
    ("seen", "point"),
    [
        ("", "isr-check"),
        ("nothing", "fetch-counted"),
        ("now=1 Replica(replicaId=2, topic=t)", "fetch-counted"),
        (COUNTED.replace("8900", "x"), "fetch-counted"),
        (COUNTED.replace("replicaId=2", "replica 2"), "fetch-counted"),
        (LOOKED.replace("lastCaughtUpTimeMs=0,", ""), "isr-check"),
    ],
)
def test_what_has_another_shape_is_damage_that_names_the_line(seen: str, point: str):
    with pytest.raises(ScenarioDataError, match=r"hits\.jsonl:1: what was seen at .* shape"):
        list(leader_views([told(seen, point)]))
