"""A real object store on loopback: S3Proxy, which speaks S3 and keeps objects in a folder."""

import hashlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from jgo.maven import MavenContext

from kchaos.checkers.children import dying_with_parent
from kchaos.clusters.kafka.downloads import CheckedResolver
from kchaos.clusters.kafka.java import java_home
from kchaos.clusters.kafka.maven import user_settings
from kchaos.clusters.start.configuration import FAST_JVM_FLAGS
from kchaos.clusters.system.cache import locked, staging
from kchaos.clusters.system.ports import reserve_port
from kchaos.clusters.system.waiting import await_until

_VERSION = "2.7.0"
_CLASSIFIER = "jar-with-dependencies"
_SHA256 = "f3ff95bd78a7afbbcd5da56f8f6180ef71ad00601392f7e2f5a220c97ad69eef"
_IDENTITY, _CREDENTIAL = "kchaos", "secret of a test"
_START_S = 60.0
BUCKET = "nights"


@dataclass(frozen=True)
class ObjectStore:
    """A running store, with one bucket.

    Attributes:
        folder: Where it keeps objects, as files.
    """

    port: int
    folder: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """What a client finds it by."""
        return environment_for(self.port)


def environment_for(port: int) -> Mapping[str, str]:
    """What a client needs for the store that answers at a port."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": _IDENTITY,
        "AWS_SECRET_ACCESS_KEY": _CREDENTIAL,
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        # S3Proxy does not know the checksums that AWS's clients send since 2025.
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
        "AWS_RESPONSE_CHECKSUM_VALIDATION": "when_required",
    }


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """A store that keeps its objects in a folder and lives as long as the block."""
    objects, log, settings = folder / "objects", folder / "s3proxy.log", folder / "s3proxy.conf"
    objects.mkdir()
    # The server shows everybody what everybody may read.
    (objects / BUCKET).mkdir(mode=0o700)
    port = reserve_port()
    settings.write_text(
        f"s3proxy.endpoint=http://127.0.0.1:{port.number}\n"
        "s3proxy.authorization=aws-v2-or-v4\n"
        f"s3proxy.identity={_IDENTITY}\ns3proxy.credential={_CREDENTIAL}\n"
        "jclouds.provider=filesystem-nio2\n"
        f"jclouds.identity={_IDENTITY}\njclouds.credential={_CREDENTIAL}\n"
        f"jclouds.filesystem.basedir={objects}\n"
    )
    java = java_home(17) / "bin" / "java"
    command = [str(java), *FAST_JVM_FLAGS, "-Xmx256m"]
    command += ["-jar", str(_server()), "--properties", str(settings)]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, preexec_fn=dying_with_parent()
        )
    try:
        await_until(
            lambda: process.poll() is not None or _answers(port.number),
            timeout_s=_START_S,
            waiting_for="an answer of the object store",
            last_seen=log.read_text,
        )
        assert process.poll() is None, log.read_text()
        yield ObjectStore(port.number, objects)
    finally:
        process.kill()
        process.wait()
        port.release()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _server() -> Path:
    """The jar of the server, fetched into kchaos's cache by name, with a pinned digest."""
    with locked("s3proxy") as cache:
        jar = cache / "tests" / f"s3proxy-{_VERSION}.jar"
        if not jar.exists():
            _fetch(jar)
    return jar


def _fetch(jar: Path) -> None:
    settings = user_settings()
    jar.parent.mkdir(exist_ok=True)
    with staging(jar.parent) as folder:
        context = MavenContext(
            resolver=CheckedResolver(),
            repo_cache=folder,
            local_repos=[*settings.local_repositories],
            remote_repos=dict(settings.remote_repositories) or None,
            timeout=60,
        )
        component = context.project("org.gaul", "s3proxy").at_version(_VERSION)
        content = Path(component.artifact(classifier=_CLASSIFIER).resolve()).read_bytes()
        assert hashlib.sha256(content).hexdigest() == _SHA256, "somebody changed S3Proxy's jar"
        unfinished = folder / jar.name
        unfinished.write_bytes(content)
        unfinished.rename(jar)


@contextmanager
def cutting_off(port: int, most_bytes: int) -> Iterator[int]:
    """A port by which a store is reached that cuts each connection after so many bytes of it."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=_relay_all, args=(listening, port, most_bytes), daemon=True).start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)


def _relay_all(listening: socket.socket, port: int, most_bytes: int) -> None:
    # It ends when nobody listens any more.
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            server = socket.create_connection(("127.0.0.1", port))
            _in_thread(lambda: _relay(client, server, None))  # noqa: B023
            _in_thread(lambda: _relay(server, client, most_bytes))  # noqa: B023


def _in_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, daemon=True).start()


def _relay(source: socket.socket, target: socket.socket, most_bytes: int | None) -> None:
    left = most_bytes
    with suppress(OSError):
        while content := source.recv(4096):
            target.sendall(content if left is None else content[:left])
            left = None if left is None else left - len(content)
            if left is not None and left <= 0:
                break
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
