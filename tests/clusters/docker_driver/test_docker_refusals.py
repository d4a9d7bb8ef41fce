"""What is said when the engine cannot be used. None of these needs an engine, but the last two."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusters.docker_driver.engine import connect, speaking
from clusters.docker_driver.image import ensure_image
from clusters.docker_driver.options import base_image, with_limits
from clusters.docker_driver.owner import is_dead, labels_of
from clusters.errors import MachineError
from clusters.spec import ClusterSpec, brokers_of

if TYPE_CHECKING:
    from docker import APIClient

SPEC = ClusterSpec(brokers=brokers_of("2.0.1", (0,)))


def test_no_engine_is_named_with_what_starts_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(MachineError, match=r"cannot be used.*start the engine"):
        connect()


def test_an_engine_that_lets_nobody_in_is_told_from_none() -> None:
    from requests.exceptions import ConnectionError as Refused

    error = Refused("('Connection aborted.', PermissionError(13, 'Permission denied'))")
    with pytest.raises(MachineError, match="join the group docker"), speaking("refused"):
        raise error


def test_an_engine_on_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.7:2375")
    with pytest.raises(MachineError, match=r"on another machine.*unset DOCKER_HOST"):
        connect()


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("write /var/lib/docker/tmp/x: no space left on device", "the disk is full: free some"),
        ("Bind for 127.0.0.1:2000 failed: port is already allocated", "stop what listens there"),
        ("Read timed out. (read timeout=60)", "the engine hangs"),
        ("something new", "see the engine's log"),
    ],
)
def test_a_refusal_is_one_line_with_the_remedy(said: str, remedy: str) -> None:
    from docker.errors import APIError

    with pytest.raises(MachineError) as caught, speaking("the container cannot be started"):
        raise APIError("500 Server Error", explanation=said + "\n")
    text = str(caught.value)
    assert text.startswith(f"the container cannot be started: {said}; {remedy}")
    assert "\n" not in text


@pytest.mark.parametrize("value", ["much", "-1", "0"])
def test_a_limit_that_is_no_positive_number_is_refused(value: str) -> None:
    with pytest.raises(MachineError, match=r"KCHAOS_DOCKER_MEMORY_MIB is .* positive number"):
        with_limits(SPEC, {"KCHAOS_DOCKER_MEMORY_MIB": value})


def test_the_environment_limits_what_the_spec_leaves_open() -> None:
    environment = {"KCHAOS_DOCKER_MEMORY_MIB": "900", "KCHAOS_DOCKER_CPUS": "0.5"}
    assert with_limits(SPEC, {}) == SPEC
    limited = with_limits(replace(SPEC, broker_memory_mib=700), environment)
    assert limited.limits == {"broker_memory_mib": 700, "broker_cpus": 0.5}


def test_the_base_image_comes_from_the_environment() -> None:
    assert base_image({"KCHAOS_DOCKER_IMAGE": "mine:1"}) == "mine:1"
    assert base_image({}) == "debian:bookworm-slim"


def test_the_living_and_the_unknown_are_not_dead() -> None:
    ours = labels_of("kchaos-1-x")
    assert not is_dead(ours)
    assert not is_dead({})
    assert not is_dead(ours | {"kchaos.owner-start-time": "1", "kchaos.owner-user": "-1"})
    assert not is_dead(ours | {"kchaos.owner-start-time": "1", "kchaos.owner-processes": "pid:[1]"})


def test_the_dead_are_recognised_by_start_time_and_boot() -> None:
    ours = labels_of("kchaos-1-x")
    assert ours["kchaos.owner-pid"] == str(os.getpid())
    assert is_dead(ours | {"kchaos.owner-start-time": "1"})
    assert is_dead(ours | {"kchaos.owner-boot": "another"})


@pytest.mark.docker
def test_an_api_version_that_the_engine_does_not_speak_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_API_VERSION", "1.99")
    with pytest.raises(MachineError, match=r"1\.99 is too new.*set DOCKER_API_VERSION"):
        connect()


@pytest.mark.docker
@pytest.mark.parametrize("offline", [False, True])
def test_an_image_that_cannot_be_had_is_named_with_what_makes_one(
    engine: APIClient, offline: bool
) -> None:
    image = "registry.invalid/kchaos-nobody-has-this:1"
    with pytest.raises(MachineError, match=f"{image} .*base_image {image}"):
        ensure_image(engine, image, offline=offline, say=lambda _text: None)
