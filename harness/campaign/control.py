"""The control address: HTTP on 127.0.0.1, by which a test in any language injects, heals and asks.

`docs/control.md` describes the requests. A request waits until the thread that performs steps
answers it, so that one step is over before the next begins, whoever asks for it.
"""

import json
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from kchaos.clusters.errors import MetadataUnavailable
from kchaos.harness.campaign.live import Chaos
from kchaos.harness.errors import HarnessError
from kchaos.harness.run.scenario import step_from_json
from kchaos.harness.steps.scenario_steps import Heal, Inject

VARIABLE = "KCHAOS_CONTROL"
"""The variable in which a command finds the control address."""
_MOST_BYTES = 1 << 16


class _Refused(Exception):
    """A request that is answered with an error, and changes nothing."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    route: str
    body: Mapping[str, Any]
    answer: "Future[tuple[HTTPStatus, Any]]" = field(default_factory=Future)


class Control:
    """The control address of one live run, as a context manager.

    Attributes:
        address: Its URL, without a path.
    """

    def __init__(self, chaos: Chaos) -> None:
        self._chaos = chaos
        self._requests: queue.SimpleQueue[_Request] = queue.SimpleQueue()
        self._is_closed = False
        self._lock = threading.Lock()
        self._routes: dict[str, Callable[[Mapping[str, Any]], Any]] = {
            "POST /inject": self._inject,
            "POST /heal": self._heal,
            "GET /leaders": self._leaders,
            "GET /faults": self._faults,
        }
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.ask = self._ask
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="control", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_closed = True
        while self.has_requests():
            self._requests.get().answer.set_result(_OVER)
        self._server.shutdown()
        self._server.server_close()

    def has_requests(self) -> bool:
        """Return whether a request waits for `answer_next`."""
        return not self._requests.empty()

    def answer_next(self) -> None:
        """Do as the oldest request that waits asks, and answer it.

        Raises:
            Exception: A step failed so that the run is unknown; the request is answered with it.
        """
        request = self._requests.get()
        try:
            request.answer.set_result((HTTPStatus.OK, self._routes[request.route](request.body)))
        except _Refused as refused:
            request.answer.set_result((refused.status, {"error": str(refused)}))
        except MetadataUnavailable as error:
            request.answer.set_result((HTTPStatus.SERVICE_UNAVAILABLE, {"error": str(error)}))
        except BaseException as error:
            why = {"error": f"the run is unknown from now on: {error}"}
            request.answer.set_result((HTTPStatus.INTERNAL_SERVER_ERROR, why))
            raise

    def _ask(self, route: str, body: Mapping[str, Any]) -> tuple[HTTPStatus, Any]:
        """Return the answer to a request, in a thread of the server."""
        if route not in self._routes:
            known = ", ".join(self._routes)
            raise _Refused(HTTPStatus.NOT_FOUND, f"there is no {route}; there are {known}")
        request = _Request(route=route, body=body)
        with self._lock:
            if self._is_closed:
                return _OVER
            self._requests.put(request)
        return request.answer.result()

    def _inject(self, body: Mapping[str, Any]) -> Any:
        _require_fields(body, needed={"fault": dict}, optional={"name": str})
        kind = str(body["fault"].get("fault"))
        name = body.get("name") or self._chaos.new_name(kind)
        if name in self._chaos.acting:
            why = f"a fault named {name!r} acts already: heal it first, or give another name"
            raise _Refused(HTTPStatus.CONFLICT, why)
        try:
            step = step_from_json({"step": "Inject", "name": name, "fault": body["fault"]})
        except HarnessError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
        assert isinstance(step, Inject)
        self._attempt(step)
        injection = self._chaos.injection(name)
        return {"name": name, "acts": self._chaos.is_acting(name), "effect": injection.effect}

    def _heal(self, body: Mapping[str, Any]) -> Any:
        _require_fields(body, needed={"name": str})
        name = body["name"]
        if name not in self._chaos.acting:
            acting = ", ".join(self._chaos.acting) or "none"
            why = f"no fault named {name!r} acts; those that do: {acting}"
            raise _Refused(HTTPStatus.NOT_FOUND, why)
        self._attempt(Heal(name=name))
        return {"name": name}

    def _attempt(self, step: Inject | Heal) -> None:
        """Perform a step, or refuse the request because the step is not possible."""
        try:
            why = self._chaos.attempt(step)
        except HarnessError as error:
            if self._chaos.has_failed:
                raise
            raise _Refused(HTTPStatus.BAD_REQUEST, str(error)) from error
        if why:
            raise _Refused(HTTPStatus.CONFLICT, why)

    def _leaders(self, body: Mapping[str, Any]) -> Any:
        _require_fields(body, optional={"topic": str})
        topics = self._chaos.topics()
        only = body.get("topic")
        if only is not None and only not in topics:
            there = ", ".join(topics) or "none"
            raise _Refused(HTTPStatus.NOT_FOUND, f"there is no topic {only!r}; topics: {there}")
        return [
            {
                "topic": topic,
                "partition": partition,
                "leader": None if state.leader < 0 else state.leader,
                "leader_epoch": state.leader_epoch,
                "isr": sorted(state.isr),
            }
            for topic, partitions in topics.items()
            for partition in partitions
            if only in (None, topic) and (state := self._chaos.state(topic, partition)) is not None
        ]

    def _faults(self, body: Mapping[str, Any]) -> Any:
        _require_fields(body)
        return [
            {"name": name, "fault": self._chaos.injection(name).fault}
            for name in self._chaos.acting
        ]


_OVER = (
    HTTPStatus.SERVICE_UNAVAILABLE,
    {"error": "the command has ended, and the run with it: nothing is injected or healed any more"},
)


def _require_fields(
    body: Mapping[str, Any],
    *,
    needed: Mapping[str, type] | None = None,
    optional: Mapping[str, type] | None = None,
) -> None:
    """Refuse a body or query with other fields, or with a field of another type."""
    known = {**(needed or {}), **(optional or {})}
    if more := sorted(body.keys() - known.keys()):
        has = ", ".join(known) or "none"
        raise _Refused(HTTPStatus.BAD_REQUEST, f"no field {', '.join(more)}; fields: {has}")
    for name, kind in known.items():
        if name not in body and name in (needed or {}):
            raise _Refused(HTTPStatus.BAD_REQUEST, f"the field {name} is missing")
        if name in body and (not isinstance(body[name], kind) or not body[name]):
            form = "an object" if kind is dict else "a text"
            why = f"the field {name} is {body[name]!r}: it must be {form} that is not empty"
            raise _Refused(HTTPStatus.BAD_REQUEST, why)


class _Server(ThreadingHTTPServer):
    """The server; `ask` answers a route with its body, or raises `_Refused`."""

    daemon_threads = True
    ask: Callable[[str, Mapping[str, Any]], tuple[HTTPStatus, Any]]


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 30

    def do_GET(self) -> None:
        """Answer with JSON; the fields are those of the query."""
        self._answer(self._query)

    def do_POST(self) -> None:
        """Answer with JSON; the fields are those of the body."""
        self._answer(self._body)

    def _answer(self, fields: Callable[[], Mapping[str, Any]]) -> None:
        try:
            self._refuse_web_pages()
            route = f"{self.command} {urlsplit(self.path).path}"
            status, said = self.server.ask(route, fields())
        except _Refused as refused:
            status, said = refused.status, {"error": str(refused)}
        content = json.dumps(said).encode() + b"\n"
        # Whoever asked may have gone away.
        with suppress(ConnectionError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    def _refuse_web_pages(self) -> None:
        """Refuse what a browser sends for a page's script, whose requests name their origin."""
        if self.headers.get("Origin") is not None:
            raise _Refused(HTTPStatus.FORBIDDEN, "requests of web pages are refused")

    def _query(self) -> Mapping[str, Any]:
        asked = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        return {name: values[-1] for name, values in asked.items()}

    def _body(self) -> Mapping[str, Any]:
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit() or int(length) > _MOST_BYTES:
            why = f"a body has a Content-Length of at most {_MOST_BYTES} bytes"
            raise _Refused(HTTPStatus.BAD_REQUEST, why)
        try:
            body = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError) as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, f"the body is no JSON: {error}") from error
        if not isinstance(body, dict):
            raise _Refused(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
        return body

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing: the steps are told."""
