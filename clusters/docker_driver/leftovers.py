"""Removing containers and networks: those of one run, or those of dead owners."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from kchaos.clusters.docker_driver.engine import connect, may_be_here, speaking
from kchaos.clusters.docker_driver.owner import RUN, is_dead, owner_pid
from kchaos.clusters.errors import ClusterError, MachineError
from kchaos.clusters.system.waiting import await_until

if TYPE_CHECKING:
    from docker import APIClient

_AT_ONCE = 8
_COLLECT_TIMEOUT_S = 20
_REMOVE_TIMEOUT_S = 20


def remove_run(api: APIClient, run: str, *, side_by_side: bool = True) -> None:
    """Remove a run's containers and network, running or not; raise MachineError if it cannot.

    An interpreter that is shutting down starts no threads: then it goes one after another.
    """
    label = {"label": f"{RUN}={run}"}
    with speaking(f"the containers of {run} cannot be removed"):
        containers = [each["Id"] for each in api.containers(all=True, filters=label)]
        _all(containers, partial(api.remove_container, v=True, force=True), side_by_side)
        # Somebody else may be removing them as well, and a network goes last.
        await_until(
            lambda: not api.containers(all=True, filters=label),
            timeout_s=_REMOVE_TIMEOUT_S,
            waiting_for=f"the containers of {run} to be gone",
            last_seen=lambda: [
                container["Names"] for container in api.containers(all=True, filters=label)
            ],
            remedy="see the engine's log, then run kchaos gc",
        )
    with speaking(f"the network of {run} cannot be removed"):
        networks = [each["Id"] for each in api.networks(filters=label)]
        _all(networks, api.remove_network, side_by_side)


def dead_runs(api: APIClient) -> dict[str, int]:
    """Return the runs whose owners are dead, with the owners' pids."""
    with speaking("the engine was asked for what dead runs left"):
        labelled: list[dict[str, Any]] = [
            *api.containers(all=True, filters={"label": RUN}),
            *api.networks(filters={"label": RUN}),
        ]
    labels = [each.get("Labels") or {} for each in labelled]
    return {each[RUN]: owner_pid(each) for each in labels if is_dead(each)}


def remove_dead(api: APIClient) -> list[str]:
    """Remove what dead owners left and return a line for each run; the living keep theirs.

    What cannot be removed is named in its line, and the others are removed all the same.
    """
    lines = []
    for run, pid in dead_runs(api).items():
        try:
            remove_run(api, run)
            lines.append(f"removed the containers and the network {run} of process {pid}")
        except ClusterError as error:
            lines.append(str(error))
    return lines


def _all(ids: Iterable[str], remove: Callable[[str], object], side_by_side: bool) -> None:
    """Remove all of them; what has gone meanwhile needs no removing."""
    from docker.errors import APIError, NotFound

    def remove_if_there(each: str) -> None:
        try:
            remove(each)
        except NotFound:
            return
        except APIError as error:
            if "already in progress" not in str(error):
                raise

    if not side_by_side:
        for each in ids:
            remove_if_there(each)
        return
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        for _ in pool.map(remove_if_there, ids):
            pass


def collect() -> list[str]:
    """Remove what dead owners left on this machine's engine; return what was done, in words.

    Without an engine there is nothing to remove: an engine that is not there keeps no containers
    alive. One that does not let us in is named, since it may hold some.
    """
    try:
        api = connect(timeout_s=_COLLECT_TIMEOUT_S)
    except MachineError as error:
        return [f"containers were not looked for: {error}"] if may_be_here() else []
    try:
        return remove_dead(api)
    finally:
        api.close()
