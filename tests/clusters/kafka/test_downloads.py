"""A download that a network breaks off is tried again."""

import socket
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from jgo.maven import MavenContext
from urllib3.util import Retry

from kchaos.clusters.kafka.downloads import CheckedResolver

_JAR = b"the bytes of a jar"


class Failing(BaseHTTPRequestHandler):
    """Answers as `failures` says, the first one first, and then with the jar."""

    failures: list[str]

    def do_GET(self) -> None:
        failure = self.failures.pop(0) if self.failures else ""
        if self.path.endswith(".sha1"):
            self.send_error(404)
        elif failure == "reset":
            lingering = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingering)
            self.close_connection = True
        elif failure == "busy":
            self.send_error(503)
        else:
            self.send_response(200)
            self.send_header("Content-Length", str(len(_JAR)))
            self.end_headers()
            self.wfile.write(_JAR[:5] if failure in ("short", "silent") else _JAR)
            if failure == "silent":
                self.connection.recv(1)
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def repository() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Failing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def download(repository: str, folder: Path, timeout_s: Any = 60) -> bytes | None:
    context = MavenContext(
        resolver=CheckedResolver(),
        repo_cache=folder,
        local_repos=[],
        remote_repos={"here": repository},
        timeout=timeout_s,
    )
    artifact = context.create_dependency("org.apache.kafka:kafka-clients:0.0.1").artifact
    place = context.resolver.download(artifact)
    return place.read_bytes() if place else None


@pytest.mark.parametrize("failure", ["reset", "busy", "short"])
def test_a_download_that_breaks_off_twice_is_tried_a_third_time(
    failure: str, repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Retry, "sleep", lambda *_: None)
    Failing.failures = [failure, failure]
    assert download(repository, tmp_path) == _JAR
    assert Failing.failures == []


def test_a_download_that_stands_still_twice_is_tried_a_third_time(repository: str, tmp_path: Path):
    Failing.failures = ["silent", "silent"]
    assert download(repository, tmp_path, timeout_s=0.2) == _JAR
    assert Failing.failures == []


def test_a_download_that_goes_on_standing_still_is_an_error_of_the_network(
    repository: str, tmp_path: Path
):
    Failing.failures = ["silent"] * 3
    with pytest.raises(OSError, match="Read timed out"):
        download(repository, tmp_path, timeout_s=0.2)
    assert Failing.failures == []


@pytest.mark.parametrize("failure", ["reset", "busy", "short"])
def test_a_repository_that_goes_on_failing_is_an_error_of_the_network(
    failure: str, repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Retry, "sleep", lambda *_: None)
    Failing.failures = [failure] * 99
    with pytest.raises(OSError, match=r"Connection|reset|too many 503"):
        download(repository, tmp_path)
