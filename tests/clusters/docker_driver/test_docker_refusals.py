"""Refusals where the engine cannot be used. Few of these need an engine."""

from __future__ import annotations

import errno
import os
import socket
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kchaos.checkers.model.releases.composition import generation_for
from kchaos.clusters.docker_driver import leftovers
from kchaos.clusters.docker_driver.cluster import DockerCluster
from kchaos.clusters.docker_driver.engine import connect, speaking
from kchaos.clusters.docker_driver.image import ensure_image
from kchaos.clusters.docker_driver.kafka_image import kafka_version
from kchaos.clusters.docker_driver.network import _candidates
from kchaos.clusters.docker_driver.options import DEFAULT_IMAGE, base_image, with_limits
from kchaos.clusters.docker_driver.owner import is_dead, labels_of
from kchaos.clusters.errors import MachineError
from kchaos.clusters.releases import release_of
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.clusters.start.local import LocalCluster
from kchaos.clusters.system.leftovers import work_directory
from kchaos.harness.commands.cli import run

if TYPE_CHECKING:
    from docker import APIClient

SPEC = ClusterSpec(brokers=brokers_of("2.0.1", (0,)))


def test_no_engine_is_named_with_what_starts_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(MachineError, match=r"cannot be used.*start the engine"):
        connect()


def test_a_socket_that_a_dead_engine_has_left_is_no_question_of_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "docker.sock"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    with pytest.raises(MachineError, match=r"Connection refused.*; start the engine"):
        connect()


@pytest.mark.parametrize(
    "host",
    [
        "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1:x",
        "tcp://[::1",
        "docker.sock",
        "fd://",
        "npipe://",
    ],
)
def test_an_address_of_no_engine_is_one_line_and_exit_code_69(
    host: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setenv("DOCKER_HOST", host)
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    assert run(["up", "--driver", "docker", "--kafka", "image:mine:1"]) == 69
    said = capsys.readouterr().err.splitlines()[-1]
    assert f"DOCKER_HOST is {host!r}, no address of an engine" in said


def test_an_engine_that_lets_nobody_in_is_one_line_and_exit_code_69(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    # As the kernel does for a user who may not write to the socket; root may.
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path))
    assert run(["up", "--driver", "docker", "--kafka", "image:mine:1"]) == 69
    said = capsys.readouterr().err.splitlines()
    assert "Permission denied" in said[-1]
    assert said[-1].endswith("join the group docker, or run as root")


def test_no_engine_is_exit_code_69_and_leaves_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "cache"))
    runs = tmp_path / "runs"
    named = ["reproduce", "KIP-101-2", "--kafka", "image:mine:1", "--runs-dir", str(runs)]
    assert run([*named, "--driver", "docker"]) == 69
    assert "start the engine" in capsys.readouterr().err.splitlines()[-1]
    assert not runs.exists()


def test_an_engine_on_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.7:2375")
    with pytest.raises(MachineError, match=r"on another machine.*Unset DOCKER_HOST"):
        connect()


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("write /var/lib/docker/tmp/x: no space left on device", "the disk is full: free some"),
        ("Bind for 127.0.0.1:2000 failed: port is already allocated", "stop the listener there"),
        ("Read timed out. (read timeout=60)", "the engine hangs"),
        ("something new", "see the engine's log"),
    ],
)
def test_a_refusal_is_one_line_with_the_remedy(said: str, remedy: str):
    from docker.errors import APIError

    with pytest.raises(MachineError) as caught, speaking("the container cannot be started"):
        raise APIError("500 Server Error", explanation=said + "\n")
    text = str(caught.value)
    assert text.startswith(f"the container cannot be started: {said}; {remedy}")
    assert "\n" not in text


@pytest.mark.parametrize("value", ["much", "-1", "0", "inf", "nan"])
@pytest.mark.parametrize("name", ["KCHAOS_DOCKER_MEMORY_MIB", "KCHAOS_DOCKER_CPUS"])
def test_a_limit_that_is_no_positive_number_is_refused(name: str, value: str):
    with pytest.raises(MachineError, match=f"{name} is .* positive (whole )?number"):
        with_limits(SPEC, {name: value})


def test_half_a_mebibyte_is_no_whole_number():
    with pytest.raises(MachineError, match="it must be a positive whole number"):
        with_limits(SPEC, {"KCHAOS_DOCKER_MEMORY_MIB": "700.5"})


def test_an_image_without_a_name_is_refused(capsys: pytest.CaptureFixture[str]):
    assert run(["up", "--driver", "docker", "--kafka", "image:"]) == 64
    assert "image: names no image: use image:NAME" in capsys.readouterr().err


def test_processes_have_no_limits(tmp_path: Path):
    limited = LocalCluster(replace(SPEC, broker_cpus=0.5), work_directory=tmp_path / "work")
    with pytest.raises(MachineError, match=r"limits each broker \(broker_cpus\).*--driver docker"):
        limited.start()


def test_the_environment_limits_what_the_spec_leaves_open():
    environment = {"KCHAOS_DOCKER_MEMORY_MIB": "900", "KCHAOS_DOCKER_CPUS": "0.5"}
    assert with_limits(SPEC, {}) == SPEC
    limited = with_limits(replace(SPEC, broker_memory_mib=700), environment)
    assert limited.limits == {"broker_memory_mib": 700, "broker_cpus": 0.5}


def test_the_base_image_comes_from_the_environment():
    assert base_image({"KCHAOS_DOCKER_IMAGE": "mine:1"}) == "mine:1"
    assert base_image({}) == "debian:bookworm-slim"


@pytest.mark.parametrize(
    ("named", "kafka"),
    [
        ("3.7.0", "3.7.0"),
        ("2.1.1-cp1", "2.1.1"),
        ("5.5.15-ccs", "2.5.1"),
        ("6.0.1-ccs", "2.6.3"),
        ("7.7.2-ccs", "3.7.0"),
        ("7.9.0-ccs", "3.9.1"),
        ("8.1.0-ccs", "4.1.2"),
    ],
)
def test_confluents_versions_are_read_as_kafkas(named: str, kafka: str):
    assert kafka_version(named) == kafka
    assert generation_for(release_of(kafka).text)


def test_what_another_engine_or_image_was_is_part_of_the_replay_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    assert DockerCluster(SPEC, work_directory=tmp_path, image=DEFAULT_IMAGE).environment == {}
    monkeypatch.setenv("DOCKER_HOST", "unix:///mine")
    assert DockerCluster(SPEC, work_directory=tmp_path, image="mine:1").environment == {
        "DOCKER_HOST": "unix:///mine",
        "KCHAOS_DOCKER_IMAGE": "mine:1",
    }


def test_a_run_that_cannot_be_removed_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch):
    def remove(_api: object, run: str) -> None:
        if run == "stuck":
            raise MachineError("stuck cannot be removed")

    monkeypatch.setattr(leftovers, "dead_runs", lambda _api: {"stuck": 1, "gone": 2})
    monkeypatch.setattr(leftovers, "remove_run", remove)
    assert leftovers.remove_dead(None) == [
        "stuck cannot be removed",
        "removed the containers and the network gone of process 2",
    ]


@pytest.mark.slow
def test_a_route_to_a_whole_pool_leaves_the_other_pools():
    everything = [IPv4Network("10.0.0.0/8"), IPv4Network("172.16.0.0/12")]
    assert {subnet[0].packed[:2] for subnet in _candidates(everything)} == {b"\xc0\xa8"}
    assert list(_candidates([*everything, IPv4Network("192.168.0.0/16")])) == []
    assert next(_candidates([])).subnet_of(IPv4Network("10.192.0.0/10"))


def test_the_living_and_the_unknown_are_not_dead():
    ours = labels_of("kchaos-1-x")
    assert not is_dead(ours)
    assert not is_dead({})
    assert not is_dead(ours | {"kchaos.owner-start-time": "1", "kchaos.owner-user": "-1"})
    assert not is_dead(ours | {"kchaos.owner-start-time": "1", "kchaos.owner-processes": "pid:[1]"})
    assert not is_dead(ours | {"kchaos.owner-boot": "another", "kchaos.owner-machine": "another"})


def test_the_dead_are_recognised_by_start_time_and_boot():
    ours = labels_of("kchaos-1-x")
    assert ours["kchaos.owner-pid"] == str(os.getpid())
    assert is_dead(ours | {"kchaos.owner-start-time": "1"})
    assert is_dead(ours | {"kchaos.owner-boot": "another"})


def test_whoever_shares_the_cache_asks_the_lock_and_not_the_pid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "cache"))
    with work_directory("x") as folder:
        ours = labels_of("kchaos-1-x", folder)
        # As another container sees it: our pid is nobody's there, or somebody else's.
        elsewhere = {"kchaos.owner-start-time": "1", "kchaos.owner-processes": "pid:[1]"}
        assert not is_dead(ours | elsewhere)
        assert not is_dead(ours | {"kchaos.owner-boot": "another"})
    assert is_dead(ours | elsewhere)
    monkeypatch.setenv("KCHAOS_CACHE", str(tmp_path / "another"))
    assert not is_dead(ours | elsewhere)


@pytest.mark.docker
@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("1.99", r"1\.99 is too new.*set DOCKER_API_VERSION"),
        ("1.10", "unset DOCKER_API_VERSION"),
        ("new", "'new', no version: set 1.41, or unset it"),
    ],
)
def test_an_api_version_that_cannot_be_spoken_is_named(
    version: str, why: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DOCKER_API_VERSION", version)
    with pytest.raises(MachineError, match=why):
        connect()


@pytest.mark.docker
@pytest.mark.parametrize("offline", [False, True])
def test_an_image_that_cannot_be_had_is_named_with_what_makes_one(engine: APIClient, offline: bool):
    image = "registry.invalid/kchaos-nobody-has-this:1"
    with pytest.raises(MachineError, match=f"{image} .*base_image {image}"):
        ensure_image(engine, image, offline=offline, say=lambda _text: None)
