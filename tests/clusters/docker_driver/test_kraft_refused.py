"""What the Docker driver does not start is refused before the engine is asked."""

from pathlib import Path

import pytest

from kchaos.clusters.docker_driver.compose import write_environment
from kchaos.clusters.docker_driver.host import DockerHost
from kchaos.clusters.errors import MachineError, ReleaseError
from kchaos.clusters.spec import ClusterSpec, brokers_of


def test_a_cluster_of_kraft_is_refused_with_the_driver_that_starts_it(tmp_path: Path) -> None:
    host = DockerHost(tmp_path, java_of=lambda _: tmp_path, image="", offline=True, say=print)
    with pytest.raises(MachineError, match="say --driver local"):
        host.open(ClusterSpec(brokers=brokers_of("4.1.2")))


def test_compose_is_not_prepared_for_a_release_without_zookeeper(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"4\.4\.0 cannot use"):
        write_environment("4.4.0", tmp_path, say=print)
    assert not (tmp_path / ".env").exists()
