"""The engine: reaching it, and what its refusals mean for the user."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from clusters.errors import MachineError

if TYPE_CHECKING:
    from docker import APIClient

CALL_TIMEOUT_S = 60
_SOCKET = "unix:///var/run/docker.sock"
_HERE = ("127.0.0.1", "::1", "localhost")
# What the engine says, or the system below it, and what to do about it. The first that matches.
_REMEDIES = (
    ("filenotfounderror", "start the engine: systemctl start docker, or dockerd by hand"),
    ("permissionerror", "join the group docker, or run as root"),
    ("no space left", "the disk is full: free some space where the engine keeps its data"),
    ("quota exceeded", "the disk quota is used up: free some space"),
    ("already in use", "remove what has that name, or run kchaos gc"),
    ("already exists", "remove what has that name, or run kchaos gc"),
    ("port is already allocated", "stop what listens there, or start the cluster anew"),
    ("address already in use", "stop what listens there, or start the cluster anew"),
    ("no such image", "see kchaos doctor"),
    ("client version", "set DOCKER_API_VERSION to one that the engine speaks, or unset it"),
    ("api version", "use an engine that is newer (Docker 17.03 or later)"),
    ("timed out", "the engine hangs: look at its log, or restart it"),
    ("connection refused", "start the engine: systemctl start docker, or dockerd by hand"),
    ("connection aborted", "the engine went away: start it again, then run kchaos gc"),
)


def address() -> str:
    """Return where the engine is expected: DOCKER_HOST, else its usual socket."""
    return os.environ.get("DOCKER_HOST") or _SOCKET


def connect(timeout_s: float = CALL_TIMEOUT_S) -> APIClient:
    """Return a client of the engine; every call of it has a deadline.

    Honours DOCKER_HOST and DOCKER_API_VERSION. Raises MachineError, with what to do, when the SDK
    is missing, when no engine answers or lets us in, or when it runs on another machine: then
    folders cannot be shared with it, nor ports of 127.0.0.1.
    """
    try:
        import docker
    except ImportError as error:
        raise MachineError(
            "the Docker driver needs the Docker SDK: pip install 'kchaos[docker]'"
        ) from error
    where = address()
    host = urlsplit(where).hostname
    if not where.startswith("unix://") and host not in _HERE:
        raise MachineError(
            f"the Docker engine at {where} is on another machine, which can neither see this "
            "one's folders nor publish ports on its 127.0.0.1; unset DOCKER_HOST to use the "
            "engine here"
        )
    with speaking(f"the Docker engine at {where} cannot be used"):
        client = docker.APIClient(
            base_url=where,
            version=os.environ.get("DOCKER_API_VERSION") or "auto",
            timeout=timeout_s,
            **docker.utils.kwargs_from_env() if host else {},
        )
        client.ping()
    return client


@contextmanager
def speaking(what: str) -> Iterator[None]:
    """Turn whatever the engine refuses inside into one MachineError that starts with ``what``."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        said = " ".join(str(getattr(error, "explanation", None) or error).split())
        remedy = next(
            (remedy for sign, remedy in _REMEDIES if sign in said.lower()),
            "see the engine's log",
        )
        raise MachineError(f"{what}: {said}; {remedy}") from error


def may_be_here() -> bool:
    """Return whether there is an SDK, and a socket or an address, that an engine may be behind."""
    if importlib.util.find_spec("docker") is None:
        return False
    where = address()
    return not where.startswith("unix://") or Path(where.removeprefix("unix://")).exists()
