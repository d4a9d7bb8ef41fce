"""A cluster's run on the engine, and what the engine has of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kchaos.clusters.docker_driver.cluster import DockerCluster
from kchaos.clusters.docker_driver.owner import RUN

if TYPE_CHECKING:
    from docker import APIClient


def made_by(engine: APIClient, run: str) -> list[str]:
    """The names of the containers and networks with the run's label."""
    label = {"label": f"{RUN}={run}"}
    containers = [each["Names"][0] for each in engine.containers(all=True, filters=label)]
    return containers + [each["Name"] for each in engine.networks(filters=label)]


def run_of(cluster: DockerCluster) -> str:
    run: str = cluster._host.run  # type: ignore[attr-defined]
    return run
