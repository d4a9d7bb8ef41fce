"""KRaft clusters start, serve and stop, from 3.3 on."""

from pathlib import Path

import pytest

import kchaos as k
from kchaos.clusters.ask.client import produce
from kchaos.clusters.metadata.kraft import KraftMetadata
from kchaos.clusters.releases import release_of
from kchaos.clusters.start.jvm_cluster import JvmCluster
from tests.support.plays_of_ci import STARTED_WITH_KRAFT, started_by_tests

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("release", started_by_tests(STARTED_WITH_KRAFT, is_kraft=True))
def test_every_line_with_kraft_starts_and_serves(release: str, tmp_path: Path):
    spec = k.ClusterSpec(brokers=k.brokers_of(release, (1,)), mode="kraft")
    # No other test starts it with KRaft: an image, or a class archive, takes more than it saves.
    with k.LocalCluster(spec, work_directory=tmp_path / "work", share_classes=False) as cluster:
        metadata = cluster.metadata
        metadata.create_topic("t", [[1]], {})
        state = metadata.state("t", 0)
        assert state is not None
        assert (state.term, state.isr) == ((1, 0), (1,))
        await_acknowledged(cluster, 1)
        assert metadata.controller() == 100
        assert metadata.registered() == {1}
        levels = release_of(release).feature_levels.items()
        assert isinstance(metadata, KraftMetadata)
        assert metadata.features() == {name: level for name, level in levels if level}
        copies = cluster.metadata_folders()
        assert sorted(copies) == [1, 100]
        assert all([*folder.glob("*.log")] for folder in copies.values())
        with pytest.raises(k.ClusterError, match="it has no ZooKeeper"):
            cluster.zookeeper()
    assert all(node.exit_code is not None for node in cluster.controllers.values())


def await_acknowledged(cluster: JvmCluster, leader: int) -> None:
    """A broker takes writes once it has read of its topic, which the controller does not await."""
    answers = [-1]

    def acknowledges() -> bool:
        answers[0] = produce(
            cluster.brokers[leader].client_address,
            topic="t",
            partition=0,
            values=[b"a value"],
            acks=-1,
            timestamp_ms=1,
        ).error_code
        return answers[0] == 0

    k.await_until(
        acknowledges,
        timeout_s=60,
        waiting_for="a write with acks=all",
        last_seen=lambda: f"error {answers[0]}",
        remedy="see the log of the leader",
    )
