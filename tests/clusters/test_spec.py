import json
from dataclasses import replace
from typing import Any

import pytest

from kchaos.clusters.agent.points import disk_point
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.releases import release_of
from kchaos.clusters.spec import BrokerSpec, ClusterSpec, brokers_of
from kchaos.clusters.start.configuration import mixed_protocol
from kchaos.clusters.start.spec_checks import mode_refused, refuse_slow_disks, unread_at_start


def test_a_cluster_survives_the_way_through_json():
    spec = ClusterSpec(
        brokers=(
            BrokerSpec(id=0, kafka="2.0.1", properties={"a": "b"}, log_directories=2),
            BrokerSpec(id=7, kafka="/opt/kafka", judged_as="1.1.1"),
        ),
        zookeepers=3,
        tick_time_ms=200,
        properties={"replica.lag.time.max.ms": "1"},
        first_broker=7,
        linked=False,
    )
    assert ClusterSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_broker_of_an_older_run_tells_under_another_name_what_it_is_judged_as():
    older = {"id": 0, "kafka": "/opt/kafka", "properties": {}, "protocol": "1.1.1"}
    assert BrokerSpec.from_json(older).judged_as == "1.1.1"


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"brokers": [{}]},
        {"brokers": [1]},
        {"brokers": [{"id": 0, "kafka": "1.1.1", "extra": 1}]},
        {"brokers": [{"id": 0, "kafka": "1.1.1"}], "extra": 1},
    ],
)
def test_another_shape_is_refused(data: dict[str, object]):
    with pytest.raises(ReleaseError, match=r"not a (broker|cluster)'s description"):
        ClusterSpec.from_json(data)


def test_a_cluster_that_makes_no_sense_is_refused():
    with pytest.raises(ReleaseError, match="distinct ids"):
        ClusterSpec(brokers=brokers_of("1.1.1", (0, 0)))
    with pytest.raises(ReleaseError, match="odd number"):
        ClusterSpec(brokers=brokers_of("1.1.1"), zookeepers=2)
    with pytest.raises(ReleaseError, match="none of the brokers"):
        ClusterSpec(brokers=brokers_of("1.1.1"), first_broker=9)


def test_several_log_directories_are_counted_and_refused_where_they_are_not_followed():
    def cluster(kafka: str = "3.9.1", *, count: int = 2, **fields: Any) -> ClusterSpec:
        broker = BrokerSpec(id=0, kafka=kafka, log_directories=count)
        return ClusterSpec(brokers=(broker,), **fields)

    assert cluster("1.1.1").brokers[0].log_directories == 2
    for count in (0, 9):
        with pytest.raises(ReleaseError, match="broker 0: log_directories is from 1 to 8, not"):
            cluster(count=count)
    with pytest.raises(ReleaseError, match="broker 0 can have one log directory alone"):
        cluster(tiered=True)
    for release, why in (("3.6.2", "several act from 3.7 on"), ("3.7.2", "")):
        told = mode_refused(cluster(release, mode="kraft"), {0: release_of(release)})
        assert why in told
        assert bool(told) == bool(why)
    with pytest.raises(ReleaseError, match=r"log\.dirs is kchaos's to set.*say log_directories"):
        cluster(properties={"log.dirs": "/a,/b"})
    slow = BrokerSpec(
        id=0, kafka="3.9.1", log_directories=2, points=(disk_point("read", is_cached=True),)
    )
    with pytest.raises(ReleaseError, match="broker 0 can have one log directory alone"):
        refuse_slow_disks(ClusterSpec(brokers=(slow,)), lambda: "")


def test_a_broker_that_others_cannot_read_from_the_start_is_told():
    releases = {0: release_of("2.1.1"), 1: release_of("2.2.2")}
    brokers = (BrokerSpec(id=0, kafka="2.1.1"), BrokerSpec(id=1, kafka="2.2.2"))
    # Mixed releases are pinned to the oldest, unless somebody sets another protocol.
    assert unread_at_start(ClusterSpec(brokers=brokers), releases) == ""
    newer = replace(brokers[1], properties={"inter.broker.protocol.version": "2.2"})
    told = unread_at_start(ClusterSpec(brokers=(brokers[0], newer)), releases)
    assert "broker 1 (2.2.2) speaks inter.broker.protocol.version 2.2, which broker 0" in told
    both = {0: release_of("2.2.2"), 1: release_of("2.2.2")}
    assert unread_at_start(ClusterSpec(brokers=(brokers[0], newer)), both) == ""


def test_mixed_releases_speak_the_oldest_and_equal_ones_their_own_protocol():
    mixed = [release_of("2.1.1"), release_of("2.0.1")]
    assert mixed_protocol(mixed) == {
        "inter.broker.protocol.version": "2.0",
        "log.message.format.version": "2.0",
    }
    assert mixed_protocol([release_of("2.0.0"), release_of("2.0.1")]) == {}
