from __future__ import annotations

from collections.abc import Callable

import pytest

from clusters.local import LocalCluster
from clusters.releases import KNOWN_RELEASES

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("release", KNOWN_RELEASES)
def test_every_known_release_starts_and_serves(
    release: str,
    release_cluster: Callable[[str], LocalCluster],
    round_trip: Callable[..., list[bytes]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = release_cluster(release)

    assert [broker.release for broker in cluster.brokers.values()] == [release, release]
    assert round_trip(cluster, [b"first", b"second"]) == [b"first", b"second"]
    czxids = {
        broker_id: cluster.zookeeper().exists(f"/brokers/ids/{broker_id}").czxid
        for broker_id in cluster.brokers
    }
    with capsys.disabled():
        print(f" {release}: czxid of each broker {czxids}", end=" ")
    # Every registration is a transaction of its own, and broker 0 was started first.
    assert 0 < czxids[0] < czxids[1]
