"""Reason for which a container ended, as a stand-in for the engine tells it."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from kchaos.clusters.docker_driver.container import Container
from kchaos.clusters.docker_driver.engine import connect
from tests.support.engine_stand_in import Engine

if TYPE_CHECKING:
    from docker import APIClient


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        ({"ExitCode": 127}, "its image cannot run the JVM"),
        ({"ExitCode": 137, "Status": "removing"}, "another process removed its container"),
        ({"ExitCode": 137, "Status": "dead"}, "another process removed its container"),
    ],
    ids=["no JVM", "removing", "dead"],
)
def test_why_a_container_ended_is_said(state: dict[str, Any], cause: str, stand_in: Engine) -> None:
    said = {"State": {"Running": False, "Status": "exited"} | state}
    stand_in.answers["GET /containers/c/json"] = (200, json.dumps(said).encode())
    assert container(connect()).cause_of_death.startswith(cause)


@pytest.mark.slow
def test_a_container_that_is_removed_a_moment_after_it_ended_was_removed(stand_in: Engine) -> None:
    ended = {"State": {"Running": False, "Status": "exited", "ExitCode": 137}}
    stand_in.answers["GET /containers/c/json"] = (200, json.dumps(ended).encode())
    first = container(connect())
    removing = threading.Timer(
        0.3, stand_in.answers.update, [{"GET /containers/c/json": (404, b'{"message": "none"}')}]
    )
    removing.start()
    assert first.cause_of_death == "another process removed its container"
    removing.join()


def test_the_output_of_a_container_that_goes_away_is_not_asked_for_again(stand_in: Engine) -> None:
    state = {"Running": False, "Status": "exited", "ExitCode": 1}
    ended = {"State": state, "Config": {"Tty": False}}
    stand_in.answers["GET /containers/c/json"] = (200, json.dumps(ended).encode())
    stand_in.answers["GET /containers/c/logs"] = (409, b'{"message": "marked for removal"}')
    assert container(connect()).cause_of_death == ""


def container(api: APIClient) -> Container:
    """A container c that has been started."""
    started: Future[None] = Future()
    started.set_result(None)
    return Container(api, "c", name="broker 0", memory_mib=None, started=started)
