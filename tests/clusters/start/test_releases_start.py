import time
from collections.abc import Callable

import pytest

from kchaos.clusters.ask.client import ConsumerRecord, Fetched, fetch
from kchaos.clusters.releases import KNOWN_RELEASES
from kchaos.clusters.start.local import LocalCluster
from tests.support.plays_of_ci import started_by_tests

pytestmark = pytest.mark.cluster

NOT_LEADER = 6


@pytest.mark.parametrize("release", started_by_tests(KNOWN_RELEASES))
def test_every_known_release_starts_and_serves(
    release: str,
    release_cluster: Callable[[str], LocalCluster],
    round_trip: Callable[..., list[bytes]],
    capsys: pytest.CaptureFixture[str],
):
    cluster = release_cluster(release)
    topic = f"started-{time.monotonic_ns()}"

    assert [broker.release for broker in cluster.brokers.values()] == [release, release]
    assert round_trip(cluster, [b"first", b"second"], topic=topic) == [b"first", b"second"]
    magic = 1 if release.startswith("0.10.") else 2
    answers = [
        fetch(broker.client_address, topic=topic, partition=0, offset=1, magic=magic)
        for broker in cluster.brokers.values()
    ]
    # Only the leader gives records to consumers.
    assert sorted(answers, key=lambda answer: answer.error_code) == [
        Fetched(
            error_code=0,
            high_watermark=2,
            records=(ConsumerRecord(offset=1, key=None, value=b"second"),),
        ),
        Fetched(error_code=NOT_LEADER, high_watermark=-1),
    ]
    czxids = {
        broker_id: cluster.zookeeper().exists(f"/brokers/ids/{broker_id}").czxid
        for broker_id in cluster.brokers
    }
    with capsys.disabled():
        print(f" {release}: czxid of each broker {czxids}", end=" ")
    # Every registration is a transaction of its own, and broker 0 was started first.
    assert 0 < czxids[0] < czxids[1]
