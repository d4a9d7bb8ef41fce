"""Calls of an engine that hangs, refuses in the middle of an answer, or is behind a TCP port.

All but two are stand-ins on a socket: no real engine hangs when asked to.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import socketserver
import subprocess
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kchaos.clusters.docker_driver import base_image, options
from kchaos.clusters.docker_driver.container import Container
from kchaos.clusters.docker_driver.engine import connect, engine_info, speaking
from kchaos.clusters.docker_driver.image import ensure_image
from kchaos.clusters.errors import MachineError
from kchaos.clusters.spec import ClusterSpec, brokers_of
from kchaos.clusters.system.interrupts import interrupts_at_gates
from kchaos.clusters.system.waiting import await_until
from tests.support.engine_stand_in import HANG, TORN, Engine

if TYPE_CHECKING:
    from docker import APIClient

SPEC = ClusterSpec(brokers=brokers_of("2.0.1", (0,)))


@pytest.mark.slow
def test_an_engine_that_hangs_is_called_so(stand_in: Engine, monkeypatch: pytest.MonkeyPatch):
    stand_in.answers["GET /version"] = (200, HANG)
    with pytest.raises(MachineError, match=r"cannot be used.*the engine hangs"):
        connect(timeout_s=0.3)


def test_an_engine_that_answers_nonsense_is_not_called_too_old(stand_in: Engine):
    stand_in.answers["GET /version"] = (500, b"<html>no</html>")
    with pytest.raises(MachineError, match=r"cannot be used.*; see the engine's log"):
        connect()


def test_ctrl_c_is_taken_while_an_engine_hangs(stand_in: Engine, monkeypatch: pytest.MonkeyPatch):
    stand_in.answers["GET /version"] = (200, HANG)

    def interrupt_once_asked() -> None:
        await_until(
            lambda: bool(stand_in.asked),
            timeout_s=30,
            waiting_for="a question",
            last_seen=lambda: "",
        )
        os.kill(os.getpid(), signal.SIGINT)

    asking = threading.Thread(target=interrupt_once_asked)
    asking.start()
    with pytest.raises(KeyboardInterrupt), interrupts_at_gates():
        connect()
    asking.join()


def pull(api: APIClient) -> None:
    api.pull("a:1")


def import_tar(api: APIClient) -> None:
    api.import_image_from_data(b"tar", repository="a")


def read_archive(api: APIClient) -> None:
    chunks, _ = api.get_archive("a", "/opt")
    b"".join(chunks)


@pytest.mark.slow
@pytest.mark.parametrize("call", [pull, import_tar, read_archive])
def test_a_call_that_the_sdk_gives_no_deadline_has_one(
    call: Callable[[APIClient], None], stand_in: Engine
):
    api = connect()
    api.timeout = 0.2
    with pytest.raises(MachineError, match="the engine hangs"), speaking("refused"):
        call(api)
    api.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "timeout_s", "why"),
    [(HANG, 0.5, "the engine hangs"), (TORN, 20, "the engine went away")],
)
def test_a_pull_that_hangs_or_breaks_is_one_line_with_the_remedy(
    answer: bytes, timeout_s: float, why: str, stand_in: Engine
):
    stand_in.answers["GET /images/a:1/json"] = (404, b'{"message": "no such image"}')
    stand_in.answers["POST /images/create"] = (200, answer)
    api = connect()
    api.timeout = timeout_s
    with pytest.raises(MachineError, match=f"cannot be pulled.*{why}.*or make a base image"):
        ensure_image(api, "a:1", say=lambda _text: None)


def test_a_refusal_in_the_middle_of_a_pull_is_raised_with_its_remedy(stand_in: Engine):
    stand_in.answers["GET /images/a:1/json"] = (404, b'{"message": "no such image"}')
    lines = [{"status": "Pulling"}, {"error": "write /x: no space left on device"}]
    stand_in.answers["POST /images/create"] = (
        200,
        b"\n".join(json.dumps(line).encode() for line in lines),
    )
    with pytest.raises(MachineError, match=r"no space left on device; the disk is full.*or make"):
        ensure_image(connect(), "a:1", say=lambda _text: None)


@pytest.mark.parametrize(
    ("image", "asked"),
    [
        ("debian", "fromImage=debian&"),
        ("127.0.0.1:5000/debian:12", "tag=12&fromImage=127.0.0.1:5000/debian"),
        ("debian@sha256:aaaa", "tag=sha256:aaaa&fromImage=debian"),
    ],
)
def test_an_image_is_pulled_under_the_name_that_was_given(image: str, asked: str, stand_in: Engine):
    stand_in.answers[f"GET /images/{image}/json"] = (404, b'{"message": "no such image"}')
    stand_in.answers["POST /images/create"] = (200, b'{"status": "done"}')
    ensure_image(connect(), image, say=lambda _text: None)
    pulled = next(each for each in stand_in.asked if each.startswith("/images/create"))
    assert all(part in pulled for part in asked.split("&"))


def test_an_import_that_is_refused_is_not_taken_for_an_image(
    stand_in: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    maker(tmp_path, monkeypatch, 'echo tar > "$5"')
    stand_in.answers["POST /images/create"] = (200, b'{"error": "no space left on device"}')
    with pytest.raises(MachineError, match=r"cannot be imported: no space left.*the disk is full"):
        base_image.make_base_image("a:1")


def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Puts a mmdebstrap on the PATH that does what the script says."""
    program = tmp_path / "bin" / "mmdebstrap"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo E: no keyring >&2; exit 25", "E: no keyring. Check the free space"),
        ("exec sleep 60", "it was not done after 0.2 s"),
    ],
)
def test_an_image_that_cannot_be_made_is_one_line_and_exit_code_69(
    script: str,
    why: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stand_in: Engine,
    capsys: pytest.CaptureFixture[str],
):
    maker(tmp_path, monkeypatch, script)
    if "sleep" in script:
        monkeypatch.setattr(base_image, "_MAKE_TIMEOUT_S", 0.2)
    stand_in.answers["GET /images/a:1/json"] = (404, b'{"message": "no such image"}')
    stand_in.answers["POST /images/create"] = (404, b'{"message": "no registry"}')
    assert base_image.main(["a:1"]) == 69
    making, said = capsys.readouterr().err.splitlines()
    assert making == "making a:1 with mmdebstrap, which takes up to a minute"
    assert why in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_making_an_image_that_is_interrupted_lets_the_maker_clean_up(
    number: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stand_in: Engine,
    capfd: pytest.CaptureFixture[str],
):
    left = tmp_path / "half-made"
    waits = "for _ in $(seq 600); do sleep 0.1; done"
    maker(tmp_path, monkeypatch, f"trap 'rm {left}; exit 1' TERM; touch {left}; {waits}")
    communicate = subprocess.Popen.communicate

    def interrupted(making: Any, *arguments: Any, **options: Any) -> Any:
        await_until(
            left.exists, timeout_s=30, waiting_for="the maker to begin", last_seen=lambda: "nothing"
        )
        os.kill(os.getpid(), number)
        return communicate(making, *arguments, **options)

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    stand_in.answers["GET /images/a:1/json"] = (404, b'{"message": "no such image"}')
    stand_in.answers["POST /images/create"] = (404, b'{"message": "no registry"}')
    before = signal.getsignal(signal.SIGTERM)
    assert base_image.main(["a:1"]) == 130
    assert "interrupted; nothing was left behind" in capfd.readouterr().err
    assert not left.exists()
    assert signal.getsignal(signal.SIGTERM) is before


ROOTLESS = {
    "ServerVersion": "20.10.24",
    "SecurityOptions": ["name=seccomp,profile=default", "name=rootless"],
    "CgroupDriver": "none",
    "MemoryLimit": False,
    "CpuCfsQuota": False,
}
AS_ROOT = ROOTLESS | {
    "SecurityOptions": ["name=selinux", "name=userns"],
    "CgroupDriver": "systemd",
    "MemoryLimit": True,
    "CpuCfsQuota": True,
}


def test_limits_that_an_engine_would_discard_are_refused(stand_in: Engine):
    limited = ClusterSpec(brokers=SPEC.brokers, broker_memory_mib=700)
    stand_in.answers["GET /info"] = (200, json.dumps(ROOTLESS).encode())
    rootless = engine_info(connect())
    rootless.check_limits(SPEC)
    with pytest.raises(MachineError, match="cannot hold broker_memory_mib"):
        rootless.check_limits(limited)
    stand_in.answers["GET /info"] = (200, json.dumps(AS_ROOT).encode())
    engine_info(connect()).check_limits(limited)


def test_what_an_engine_says_of_itself_is_read(stand_in: Engine):
    stand_in.answers["GET /info"] = (200, json.dumps(ROOTLESS).encode())
    rootless = engine_info(connect())
    assert (rootless.is_rootless, rootless.remaps_users, rootless.can_pause) == (True, False, False)
    stand_in.answers["GET /info"] = (200, json.dumps(AS_ROOT).encode())
    other = engine_info(connect())
    assert (other.is_rootless, other.remaps_users, other.can_pause) == (False, True, True)
    assert (rootless.labels_files, other.labels_files) == (False, True)


@pytest.mark.docker
def test_an_engine_at_a_port_of_this_machine_is_used(
    engine: APIClient, monkeypatch: pytest.MonkeyPatch
):
    version = engine.version()["Version"]
    path = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    with forwarding_to(path) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        api = connect()
        assert api.version()["Version"] == version
        api.close()


@contextlib.contextmanager
def forwarding_to(path: str) -> Iterator[int]:
    """A port of 127.0.0.1 that leads to a unix socket."""

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as behind:
                behind.connect(path)
                back = threading.Thread(target=copy, args=(behind, self.request))
                back.start()
                copy(self.request, behind)
                back.join()

    def copy(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Forward) as server:
        serving = threading.Thread(target=server.serve_forever, args=[0.05])
        serving.start()
        yield server.server_address[1]
        server.shutdown()
        serving.join()


@pytest.mark.docker
def test_a_folder_that_the_engine_does_not_see_is_named_with_the_remedy(
    engine: APIClient, tmp_path: Path
):
    from docker.types import Mount

    gone = tmp_path / "gone"
    settings = engine.create_host_config(mounts=[Mount("/x", str(gone), type="bind")])
    with pytest.raises(MachineError, match=f"{gone}.*sees other folders"), speaking("refused"):
        engine.create_container(options.base_image(), ["true"], host_config=settings)


def test_mmdebstrap_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    with pytest.raises(MachineError, match="apt-get install mmdebstrap"):
        base_image.make_base_image("a:1")


# -- Reason for which a container ended, as a stand-in for the engine tells it --

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
def test_why_a_container_ended_is_said(state: dict[str, Any], cause: str, stand_in: Engine):
    said = {"State": {"Running": False, "Status": "exited"} | state}
    stand_in.answers["GET /containers/c/json"] = (200, json.dumps(said).encode())
    assert container(connect()).cause_of_death.startswith(cause)


@pytest.mark.slow
def test_a_container_that_is_removed_a_moment_after_it_ended_was_removed(stand_in: Engine):
    ended = {"State": {"Running": False, "Status": "exited", "ExitCode": 137}}
    stand_in.answers["GET /containers/c/json"] = (200, json.dumps(ended).encode())
    first = container(connect())
    removing = threading.Timer(
        0.3, stand_in.answers.update, [{"GET /containers/c/json": (404, b'{"message": "none"}')}]
    )
    removing.start()
    assert first.cause_of_death == "another process removed its container"
    removing.join()


def test_the_output_of_a_container_that_goes_away_is_not_asked_for_again(stand_in: Engine):
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
