"""A Docker engine that answers what a test tells it to: no real one hangs when asked to."""

import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote

HANG = b""
TORN = b'{"status": "Pulling"}\n'
"""The engine goes away after this line."""


class Engine(socketserver.ThreadingUnixStreamServer):
    """Answers each method and path (without the version before it) as told; else it hangs."""

    daemon_threads = True

    def __init__(self, path: Path) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {
            "GET /version": (200, b'{"ApiVersion": "1.41"}'),
            "GET /_ping": (200, b"OK"),
        }
        self.asked: list[str] = []
        self.closing = threading.Event()
        super().__init__(str(path), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is what these tests are about."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: Engine
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        path = "/" + self.path.split("/", 2)[2] if self.path.startswith("/v1.") else self.path
        path = unquote(path)
        self.server.asked.append(path)
        status, body = self.server.answers.get(f"{self.command} {path.split('?')[0]}", (200, HANG))
        self.send_response(status)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("X-Docker-Container-Path-Stat", "e30=")
        self.end_headers()
        for line in body.splitlines(keepends=True):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        if body == TORN:
            self.close_connection = True
            return
        if body:
            self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        if not body:
            self.server.closing.wait()

    do_GET = do_POST = _answer

    def address_string(self) -> str:
        return "a unix socket"

    def log_message(self, *_: object) -> None:
        pass
