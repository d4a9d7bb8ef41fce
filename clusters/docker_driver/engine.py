"""The engine: reaching it, and what its refusals mean for the user."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kchaos.clusters.docker_driver.options import CPUS_VARIABLE, IMAGE_VARIABLE, MEMORY_VARIABLE
from kchaos.clusters.errors import MachineError
from kchaos.clusters.spec import ClusterSpec
from kchaos.clusters.system.interrupts import interruptible

if TYPE_CHECKING:
    from docker import APIClient

CALL_TIMEOUT_S = 60
SOCKET = "unix:///var/run/docker.sock"
_HERE = ("127.0.0.1", "::1", "localhost")
_SCHEMES = ("unix", "tcp", "http", "https", "ssh")
# The SDK puts this before whatever keeps it from the engine.
_FIRST_CALL = "error while fetching server api version: "
HANGS = "the engine hangs: look at its log, or restart it"
_WENT_AWAY = "the engine went away: start it again, then run kchaos gc"
# What the engine says, or the system below it, and what to do about it. The first that matches.
_REMEDIES = (
    ("filenotfounderror", "start the engine: systemctl start docker, or dockerd by hand"),
    ("permissionerror", "join the group docker, or run as root"),
    ("no space left", "the disk is full: free some space where the engine keeps its data"),
    ("quota exceeded", "the disk quota is used up: free some space"),
    ("already in use", "remove what has that name, or run kchaos gc"),
    ("already exists", "remove what has that name, or run kchaos gc"),
    ("port is already allocated", "stop the listener there, or restart the cluster"),
    ("address already in use", "stop the listener there, or restart the cluster"),
    ("no such image", "see kchaos doctor"),
    ("/bin/sh", f"name an image with /bin/sh, glibc and zlib in {IMAGE_VARIABLE}, or unset it"),
    ("tls configurations", "set DOCKER_CERT_PATH, or unset DOCKER_TLS_VERIFY"),
    (
        "bind source path does not exist",
        "the engine sees other folders than this process: it is "
        "remote, or kchaos runs in a container; run kchaos where the engine runs",
    ),
    ("client version", "set DOCKER_API_VERSION to one that the engine speaks, or unset it"),
    (
        "api version",
        "unset DOCKER_API_VERSION, or use an engine that is newer (Docker 17.06 or later)",
    ),
    ("timed out", HANGS),
    ("connection refused", "start the engine: systemctl start docker, or dockerd by hand"),
    ("connection aborted", _WENT_AWAY),
    ("connection broken", _WENT_AWAY),
)


def address() -> str:
    """Return where the engine is expected: DOCKER_HOST, else its usual socket."""
    return os.environ.get("DOCKER_HOST") or SOCKET


def connect(timeout_s: float = CALL_TIMEOUT_S) -> APIClient:
    """Return a client of the engine; every call of it has a deadline.

    Honours DOCKER_HOST and DOCKER_API_VERSION. Raises MachineError, with what to do, when the SDK
    is missing, when no engine answers or lets us in, or when it runs on another machine: then
    folders cannot be shared with it, nor ports of 127.0.0.1. A remembered Ctrl-C is raised here.
    """
    try:
        from docker.utils import kwargs_from_env

        from kchaos.clusters.docker_driver.deadlines import DeadlineClient
    except ImportError as error:
        raise MachineError(
            "the Docker driver needs the Docker SDK: pip install 'kchaos[docker]'"
        ) from error
    where = address()
    host = _host(where)
    if not where.startswith("unix://") and host not in _HERE:
        raise MachineError(
            f"the Docker engine at {where} is on another machine, which can neither see this "
            "one's folders nor publish ports on its 127.0.0.1. Unset DOCKER_HOST to use the "
            "engine here"
        )

    def answering() -> APIClient:
        with speaking(f"the Docker engine at {where} cannot be used"):
            client = DeadlineClient(
                base_url=where,
                version=_api_version(),
                timeout=timeout_s,
                tls=kwargs_from_env().get("tls", False) if host else False,
            )
            client.ping()
        return client

    return interruptible(answering)


def _host(where: str) -> str | None:
    """Return the host in an engine's address, None for a socket of this machine."""
    try:
        parts = urlsplit(where)
        if parts.scheme in _SCHEMES and (parts.port is None or parts.port > 0):
            return parts.hostname
    except ValueError:
        # Brackets or a port that are none.
        pass
    raise MachineError(
        f"DOCKER_HOST is {where!r}, no address of an engine: use unix:///PATH or tcp://HOST:PORT, "
        "or unset it"
    )


def _api_version() -> str:
    version = os.environ.get("DOCKER_API_VERSION") or "auto"
    if version != "auto" and not re.fullmatch(r"\d+\.\d+", version):
        raise MachineError(f"DOCKER_API_VERSION is {version!r}, no version: set 1.41, or unset it")
    return version


@contextmanager
def speaking(what: str) -> Iterator[None]:
    """Turn whatever the engine refuses inside into one MachineError that starts with ``what``."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    try:
        yield
    # A streamed answer is read below the library that would translate its errors.
    except (DockerException, RequestException, HTTPError) as error:
        said = " ".join(str(getattr(error, "explanation", None) or error).split())
        signs = said.lower().removeprefix(_FIRST_CALL)
        remedy = next(
            (remedy for sign, remedy in _REMEDIES if sign in signs), "see the engine's log"
        )
        raise MachineError(f"{what}: {said}; {remedy}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineInfo:
    """An engine's description of itself.

    ``is_rootless``: it runs as an ordinary user, who is root in its containers.
    ``remaps_users``: its containers see shifted user ids, unless they ask not to.
    ``labels_files``: SELinux keeps containers from files that are not labelled as theirs.
    ``can_pause``, ``can_limit_memory``, ``can_limit_cpus``: what its control groups allow; it
    discards limits that it cannot hold. ``counts_swap``: swap is part of the memory's limit.
    """

    version: str
    is_rootless: bool
    remaps_users: bool
    labels_files: bool
    can_pause: bool
    can_limit_memory: bool
    can_limit_cpus: bool
    counts_swap: bool

    @property
    def user(self) -> str:
        """User and group inside a container, such that the files that brokers write are ours."""
        return "0:0" if self.is_rootless else f"{os.getuid()}:{os.getgid()}"

    @property
    def security_options(self) -> list[str]:
        """No new privileges; and files stay readable where they would have to be labelled."""
        return ["no-new-privileges", *(["label=disable"] if self.labels_files else [])]

    def check_limits(self, spec: ClusterSpec) -> None:
        """Raise MachineError for a limit that this engine would discard."""
        kinds = {"broker_memory_mib": self.can_limit_memory, "broker_cpus": self.can_limit_cpus}
        discarded = [name for name in spec.limits if not kinds[name]]
        if discarded:
            raise MachineError(
                f"this engine cannot hold {' and '.join(discarded)}, for want of control groups "
                "(rootless engines need cgroup v2 for them). Take them out of the scenario and the "
                f"environment ({MEMORY_VARIABLE}, {CPUS_VARIABLE}), or use an engine that runs as "
                "root"
            )


def engine_info(api: APIClient) -> EngineInfo:
    """Return what the engine says of itself; raise MachineError if it does not answer."""
    with speaking("the engine was asked what it is"):
        said = api.info()
    options = {option.split(",")[0] for option in said.get("SecurityOptions") or ()}
    return EngineInfo(
        version=str(said["ServerVersion"]),
        is_rootless="name=rootless" in options,
        remaps_users="name=userns" in options,
        labels_files="name=selinux" in options,
        can_pause=said.get("CgroupDriver") != "none",
        can_limit_memory=bool(said.get("MemoryLimit")),
        can_limit_cpus=bool(said.get("CpuCfsQuota")),
        counts_swap=bool(said.get("SwapLimit")),
    )


def may_be_here() -> bool:
    """Return whether there is an SDK, and a socket or an address, that an engine may be behind."""
    if importlib.util.find_spec("docker") is None:
        return False
    where = address()
    return not where.startswith("unix://") or Path(where.removeprefix("unix://")).exists()
