"""Refusals of clusters that their releases cannot be, whatever starts them."""

from typing import Any

import pytest

from kchaos.checkers.acts import Mode
from kchaos.clusters.errors import ReleaseError
from kchaos.clusters.releases import release_of
from kchaos.clusters.spec import BrokerSpec, ClusterSpec
from kchaos.clusters.start.configuration import broker_defaults
from kchaos.clusters.start.spec_checks import refuse_unknown

FORMAT, PROTOCOL = "log.message.format.version", "inter.broker.protocol.version"


def refuse(
    *kafkas: str, properties: dict[str, str] | None = None, points: tuple[str, ...] = ()
) -> None:
    brokers = tuple(
        BrokerSpec(id=number, kafka=kafka, points=points) for number, kafka in enumerate(kafkas)
    )
    spec = ClusterSpec(brokers=brokers, properties=properties or {})
    refuse_unknown(spec, {number: release_of(kafka) for number, kafka in enumerate(kafkas)})


def test_what_its_releases_have_is_started():
    refuse("1.1.1", "2.0.1", properties={PROTOCOL: "1.1", FORMAT: "0.10.2"})


@pytest.mark.parametrize(
    ("properties", "why"),
    [
        ({FORMAT: "2.0"}, r"broker 0: .*2\.0, which 1\.1\.1 does not know: it is older"),
        ({FORMAT: "0.11.0", PROTOCOL: "0.10.2"}, r"broker 0: .*version 0\.10\.2 forbids: raise"),
        ({PROTOCOL: "2.0"}, r"broker 0: inter\.broker\.protocol.*which 1\.1\.1 does not know"),
    ],
    ids=["a format newer than the binary", "a format that the protocol forbids", "a protocol"],
)
def test_a_format_or_protocol_that_a_broker_does_not_start_with_is_refused(
    properties: dict[str, str], why: str
):
    with pytest.raises(ReleaseError, match=why):
        refuse("1.1.1", properties=properties)


def test_of_two_releases_the_older_one_forbids_the_newer_ones_format():
    with pytest.raises(ReleaseError, match=r"broker 0: .* 2\.0, which 1\.1\.1 does not know"):
        refuse("1.1.1", "2.0.1", properties={FORMAT: "2.0"})


def test_a_point_that_no_release_has_is_refused():
    with pytest.raises(ReleaseError, match="broker 0: "):
        refuse("1.1.1", points=("no-such-point",))


def refuse_kraft(*kafkas: str, **named: Any) -> None:
    brokers = tuple(BrokerSpec(id=number, kafka=kafka) for number, kafka in enumerate(kafkas))
    spec = ClusterSpec(brokers=brokers, **named)
    refuse_unknown(spec, {number: release_of(kafka) for number, kafka in enumerate(kafkas)})


def test_a_cluster_has_kraft_where_it_is_said_and_where_there_is_nothing_else():
    def is_kraft(kafka: str, mode: Mode | None = None) -> bool:
        return ClusterSpec(brokers=(BrokerSpec(id=0, kafka=kafka),), mode=mode).is_kraft

    assert [is_kraft(kafka) for kafka in ("2.0.1", "3.9.1", "4.0.2", "4.4.0")] == [
        *(False, False, True, True)
    ]
    assert is_kraft("3.9.1", "kraft")
    assert not is_kraft("3.9.1", "zookeeper")
    refuse_kraft("3.9.1", mode="kraft", controllers=3, features={"metadata.version": 20})
    refuse_kraft("4.0.2", features={"eligible.leader.replicas.version": 1})
    refuse_kraft("3.9.1", "4.1.2", mode="kraft")


DYNAMIC = {"kraft.version": 1}


def test_controllers_have_ids_of_their_own_beyond_those_of_brokers():
    brokers = (BrokerSpec(id=0, kafka="4.1.2"),)
    assert ClusterSpec(brokers=brokers).controller_ids == (100,)
    assert ClusterSpec(brokers=brokers, controllers=3).controller_ids == (100, 101, 102)
    assert ClusterSpec(brokers=(BrokerSpec(id=0, kafka="3.9.1"),)).controller_ids == ()
    dynamic = ClusterSpec(brokers=brokers, controllers=3, observers=1, features=DYNAMIC)
    assert (dynamic.controller_ids, dynamic.first_voters) == ((100, 101, 102, 103), (100, 101, 102))
    assert ClusterSpec(brokers=brokers, combined=True).controller_ids == (0,)


@pytest.mark.parametrize(
    ("kafka", "asked", "why"),
    [
        ("3.2.3", {"mode": "kraft"}, r"broker 0: 3\.2\.3 does not run with KRaft.*from 3\.3 on"),
        ("4.1.2", {"mode": "zookeeper"}, r"broker 0: 4\.1\.2 has no ZooKeeper any more"),
        ("4.1.2", {"controllers": 2}, "1 or 3 controllers, not 2"),
        ("3.9.1", {"controllers": 3}, "this one has ZooKeeper: say mode kraft"),
        ("3.9.1", {"features": {"metadata.version": 7}}, "this one has ZooKeeper"),
        ("4.1.2", {"mode": "raft"}, "kept by zookeeper or by kraft, not 'raft'"),
        ("4.1.2", {"features": {"metadata.version": 28}}, r"metadata\.version up to 27, not 28"),
        ("4.1.2", {"features": {"metadata.version": 6}}, "metadata.version begins with 7, not 6"),
        (
            "3.9.1",
            {"mode": "kraft", "features": {"group.version": 1}},
            "no feature 'group.version'",
        ),
        ("4.1.2", {"zookeepers": 3}, "a KRaft cluster has no ZooKeeper"),
        ("3.9.1", {"mode": "kraft", "zookeeper_kafka": "3.9.1"}, "leave zookeepers and"),
        ("3.8.1", {"mode": "kraft", "features": DYNAMIC}, r"dynamic quorums begin with 3\.9"),
        ("4.1.2", {"observers": 1}, r"this one is static: say features \{'kraft\.version': 1\}"),
        ("4.1.2", {"observers": 4, "features": DYNAMIC}, "observers are from 0 to 3, not 4"),
        ("3.9.1", {"combined": True}, "combined nodes are KRaft's, and this cluster has ZooKeeper"),
        ("4.1.2", {"combined": True, "controllers": 3}, "name neither controllers nor observers"),
        ("4.1.2", {"combined": True, "tiered": True}, "combined nodes keep no tiered logs here"),
    ],
)
def test_a_kraft_cluster_that_there_cannot_be_is_refused(
    kafka: str, asked: dict[str, Any], why: str
):
    with pytest.raises(ReleaseError, match=why):
        refuse_kraft(kafka, **asked)


def test_a_broker_with_the_id_of_a_controller_is_refused():
    with pytest.raises(ReleaseError, match="100 is a controller's id"):
        ClusterSpec(brokers=(BrokerSpec(id=100, kafka="4.1.2"),))


def test_a_mixed_cluster_has_the_features_of_its_oldest_release():
    with pytest.raises(ReleaseError, match=r"4\.0\.2 knows metadata\.version up to 25, not 27"):
        refuse_kraft("4.1.2", "4.0.2", features={"metadata.version": 27})


# -- What brokers are started with before anybody sets something --

FACTOR = ".replication.factor"


@pytest.mark.parametrize(
    ("release", "topics"),
    [
        ("0.10.2.2", {"offsets.topic"}),
        ("2.8.2", {"offsets.topic", "transaction.state.log"}),
        ("4.1.2", {"offsets.topic", "transaction.state.log", "share.coordinator.state.topic"}),
    ],
)
@pytest.mark.parametrize(("brokers", "replicas"), [(1, "1"), (2, "2"), (3, "3"), (5, "3")])
def test_internal_topics_have_three_replicas_or_as_many_as_there_are_brokers(
    release: str, topics: set[str], brokers: int, replicas: str
):
    given = broker_defaults(release_of(release), is_kraft=False, brokers=brokers)
    factors = {name.removesuffix(FACTOR): given[name] for name in given if name.endswith(FACTOR)}
    assert factors == {"default": "1", **dict.fromkeys(topics, replicas)}
